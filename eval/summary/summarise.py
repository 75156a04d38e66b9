"""Everything that is computed from a run's cells, in one value for JSON, tables and plots."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.eval.bench.store import BenchRun, CellRecord, DecodeRecord, MetricScores, load_run
from gsvc.eval.late_loading import CodecFacts
from gsvc.eval.summary import bd_comparisons, bd_rate, curves as run
from gsvc.eval.summary.bd_comparisons import BdComparison, PooledBdComparison
from gsvc.eval.summary.curves import ABLATION, Curve, by_curve, clip_label, settings_label

LAYERS_SETTING = "tools"
"""The setting that says which layers are on; the other settings distinguish series."""


@dataclass(frozen=True)
class AblationRow:
    """One set of layers, decoded one way."""

    clip: str
    series: str
    layers: str
    way: str
    bits: int
    bpp: float
    ledger: dict[str, int]
    scores: dict[str, float | None]
    added_bits: int | None
    """Bits less those of the whole stream decoded the first way; None in that row itself."""
    gained: dict[str, float | None]
    """Scores less those of the whole stream decoded the first way; None in that row itself."""


def ablation_rows(cells: Sequence[CellRecord], metrics: Sequence[str]) -> list[AblationRow]:
    """Rows by clip and series, in the order of the cells; the last cell is the whole stream."""
    mine = [cell for cell in cells if cell.codec == ABLATION and not cell.error]
    seen = [{(key, str(value)) for key, value in cell.settings.items()} for cell in mine]
    constant = {key for key, _ in set.intersection(*seen)} if seen else set()
    series: dict[tuple[str, str], list[CellRecord]] = defaultdict(list)
    for cell in mine:
        hidden = constant | {LAYERS_SETTING}
        name = settings_label({k: v for k, v in cell.settings.items() if k not in hidden})
        series[clip_label(cell), name].append(cell)
    return [
        row for (clip, name), group in series.items() for row in _rows(clip, name, group, metrics)
    ]


def _rows(
    clip: str, series: str, group: Sequence[CellRecord], metrics: Sequence[str]
) -> Iterator[AblationRow]:
    """Every cell decoded the first way, then the last cell, the whole stream, the other ways."""
    first = [(cell, way) for cell in group for way in [*by_curve(cell)][:1]]
    others = [*by_curve(group[-1])][1:]
    whole = _scores(*first[-1], metrics)
    for cell, way in [*first, *((group[-1], way) for way in others)]:
        scores = _scores(cell, way, metrics)
        is_whole = (cell, way) == first[-1]
        gained: dict[str, float | None] = {}
        for name, score in scores.items():
            other = None if is_whole else whole[name]
            gained[name] = None if score is None or other is None else score - other
        yield AblationRow(
            clip=clip,
            series=series,
            layers=str(cell.settings.get(LAYERS_SETTING, "")),
            way=way.removeprefix(cell.codec).removeprefix(", "),
            bits=cell.bits,
            bpp=cell.bpp,
            ledger=cell.ledger,
            scores=scores,
            added_bits=None if is_whole else cell.bits - group[-1].bits,
            gained=gained,
        )


def _scores(cell: CellRecord, way: str, metrics: Sequence[str]) -> dict[str, float | None]:
    return {metric: run.mean_score(by_curve(cell)[way], metric) for metric in metrics}


@dataclass(frozen=True)
class SeedSpread:
    """One stream decoded with `seeds` seeds: mean and standard deviation (n - 1) of one metric."""

    clip: str
    curve: str
    settings: str
    metric: str
    seeds: int
    mean: float
    deviation: float


def seed_spreads(cells: Sequence[CellRecord], metrics: Sequence[str]) -> list[SeedSpread]:
    """For every stream that was decoded with more than one seed, each metric's spread."""
    spreads = []
    for cell in cells:
        for name, decodes in by_curve(cell).items():
            for metric in metrics if len(decodes) > 1 else ():
                scores = [d.scores[metric].mean for d in decodes if metric in d.scores]
                means = [mean for mean in scores if mean is not None]
                if len(means) > 1:
                    stream = clip_label(cell), name, settings_label(cell.settings), metric
                    spreads.append(SeedSpread(*stream, len(means), fmean(means), stdev(means)))
    return spreads


@dataclass(frozen=True)
class Duration:
    """The time of one metric or codec, as long as a single worker would take."""

    kind: str
    """"metric", "codec" (encoding and decoding) or "cell"."""
    name: str
    seconds: float
    each: float
    """Seconds for one decoded clip, of a codec for one encode with its decodes."""
    share: float
    """Of the time of all metrics and codecs."""


def durations(cells: Sequence[CellRecord]) -> list[Duration]:
    """Metrics whose time was kept and codecs, the slowest first, then the slowest cell."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    longest, label = -1.0, ""
    for cell in cells:
        coding, scoring = cell.encode_seconds + sum(one.seconds for one in cell.decodes), 0.0
        times["codec", cell.codec].append(coding)
        for name, scores in (pair for one in cell.decodes for pair in one.scores.items()):
            times["metric", name].append(scores.seconds)
            scoring += scores.seconds
        if coding + scoring > longest:
            longest = coding + scoring
            label = f"{clip_label(cell)}, {cell.codec}, {settings_label(cell.settings)}"
    whole = sum(map(sum, times.values())) or 1.0
    found = [
        Duration(kind, name, sum(each), sum(each) / len(each), sum(each) / whole)
        for (kind, name), each in times.items()
        if sum(each)
    ]
    found.sort(key=lambda one: -one.seconds)
    return [*found, Duration("cell", label, longest, longest, longest / whole)] if found else []


def slowest(found: Sequence[Duration]) -> list[str]:
    """The slowest metric, codec and cell: "metric cvvdp (2400 s, 5.1 s each)"."""
    first: dict[str, str] = {}
    for one in found:
        text = f"{one.kind} {one.name} ({one.seconds:.0f} s, {one.each:.1f} s each)"
        first.setdefault(one.kind, text)
    return list(first.values())


SCHEMA = 1


@dataclass(frozen=True)
class Summary:
    """A run's numbers."""

    schema: int
    """Version of the JSON's shape."""
    stride: int
    """Quality was measured on one frame in so many."""
    frames: dict[str, int]
    """Frames coded, by clip label."""
    versions: dict[str, str]
    codecs: dict[str, CodecFacts]
    metrics: list[run.MetricInfo]
    headline: bd_comparisons.Headline
    slideshow: list[bd_comparisons.SlideshowTest]
    points: list[run.PointRow]
    beside: list[bd_comparisons.BesideRow]
    fixed_rates: list[bd_comparisons.FixedRateRow]
    comparisons: list[BdComparison]
    pooled: list[PooledBdComparison]
    frontier: list[bd_comparisons.FrontierRow]
    exchange: list[bd_comparisons.ExchangeRow]
    ablation: list[AblationRow]
    seeds: list[SeedSpread]
    durations: list[Duration]
    failed: list[run.Failure]
    gaps: list[run.Unmeasured]
    without_bits: list[str]
    missing: list[str]
    """What the same run could still have: "x265 on city", "vmaf of x265, gsvc"."""
    not_run: dict[str, str]
    """Codecs, metrics and clips that could not run at all, and why."""
    commit: str | None = None
    """Of gsvc, where it ran from a checkout and that is known."""

    def metric(self, name: str) -> run.MetricInfo:
        """The metric of that name."""
        return next(metric for metric in self.metrics if metric.name == name)


def curves_by_metric(
    cells: Sequence[CellRecord], metrics: Sequence[run.MetricInfo], codecs: Mapping[str, CodecFacts]
) -> dict[str, list[Curve]]:
    """Every curve of the run, by metric."""
    anchors = {name for name, facts in codecs.items() if facts.is_anchor}
    return {one.name: run.curves(cells, one.name, one.higher_is_better, anchors) for one in metrics}


def summarise(settings: Mapping[str, Any], cells: Sequence[CellRecord]) -> Summary:
    """Compute it all. `settings` are the values of run.json."""
    metrics, codecs = run.metrics_of(settings, cells), run.codecs_of(settings, cells)
    names = [metric.name for metric in metrics]
    rows = run.point_rows(cells, settings.get("ratios"))
    found = curves_by_metric(cells, metrics, codecs)
    compared = [
        one
        for mine in found.values()
        for one in bd_comparisons.bd_comparisons([*mine, *run.family_curves(mine, codecs)])
    ]
    pooled, unmeasured = bd_comparisons.pooled_bd_comparisons(compared), run.gaps(cells)
    not_run = {str(name): str(reason) for name, reason in settings.get("gaps", {}).items()}
    frontiers = [row for name in names for row in bd_comparisons.frontier_rows(found[name], rows)]
    return Summary(
        schema=SCHEMA,
        stride=int(settings.get("stride", 1)),
        frames={clip_label(cell): cell.frames for cell in cells},
        versions=_versions(cells),
        codecs=codecs,
        metrics=metrics,
        headline=bd_comparisons.headline(pooled, metrics, unmeasured, not_run),
        slideshow=bd_comparisons.slideshow_tests(compared, found, settings.get("moving", {})),
        points=rows,
        beside=[row for name in names for row in bd_comparisons.beside_rows(found[name])],
        fixed_rates=[row for name in names for row in bd_comparisons.fixed_rate_rows(found[name])],
        comparisons=compared,
        pooled=pooled,
        frontier=frontiers,
        exchange=bd_comparisons.exchange_rows(frontiers),
        ablation=ablation_rows(cells, names),
        seeds=seed_spreads(cells, names),
        durations=durations(cells),
        failed=run.failures(cells),
        gaps=unmeasured,
        without_bits=run.without_bits(cells),
        missing=[*missing(settings, cells)],
        not_run=not_run,
        commit=settings.get("commit"),
    )


def _versions(cells: Sequence[CellRecord]) -> dict[str, str]:
    """Of each codec; several where its cells stem from several."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        found.setdefault(cell.codec, {})[cell.codec_version] = None
    return {codec: run.SEVERAL.join(several) for codec, several in found.items()}


def check_codecs(names: Iterable[str], cells: Iterable[CellRecord]) -> None:
    """Raise ConfigError for a codec of which there is no cell."""
    known = list(dict.fromkeys(cell.codec for cell in cells))
    if unknown := set(names) - set(known):
        raise ConfigError(f"no codec {min(unknown)!r}: the run has {', '.join(known)}")


def missing(settings: Mapping[str, Any], cells: Sequence[CellRecord]) -> Iterator[str]:
    """What the run could still have: "x265 on city" has it on other clips, "vmaf of x265, gsvc"."""
    made, done = settings.get("cells", ()), {cell.key for cell in cells}
    gaps = settings.get("gaps", {})
    metrics = [m for m in settings.get("metrics", ()) if f"metric {m}" not in gaps]
    clips = dict.fromkeys((one["clip"], one["size"]) for one in made)
    point = {one["key"]: (one["codec"], settings_label(one["settings"])) for one in made}
    there = {(one["clip"], one["size"], *point[one["key"]]) for one in made if one["key"] in done}
    lacks: dict[str, dict[str, None]] = defaultdict(dict)
    for codec, label in dict.fromkeys(point.values()):
        for clip, size in clips:
            if (clip, size, codec, label) not in there:
                lacks[f"{codec} on"][clip if size == "288" else f"{clip} at {size}"] = None
    for cell in cells:
        for decode in () if cell.error else cell.decodes:
            for metric in (one for one in metrics if one not in decode.scores):
                lacks[f"{metric} of"][cell.codec] = None
    return (f"{what} {', '.join(where)}" for what, where in lacks.items())


ADDING = "gsvc bench run --out {} adds it, into another folder where settings are of an older gsvc"
"""How a run gets what it lacks."""


def _load_named(folder: str | Path) -> BenchRun:
    """`load_run`, with a user's metrics (module:Class) by their own names."""
    found = load_run(folder)
    metrics = found.settings.get("metrics", {})
    own = {one: n for one, facts in metrics.items() if (n := facts.get("name", one)) not in metrics}
    found.settings["metrics"] = {own.get(one, one): facts for one, facts in metrics.items()}
    for decode in (decode for cell in found.cells for decode in cell.decodes):
        for one in own.keys() & decode.scores:
            decode.scores[own[one]] = decode.scores.pop(one)
    return found


def load_summary(folder: str | Path) -> tuple[BenchRun, Summary]:
    """A run's folder and its summary. Raises InputError when the folder holds no run."""
    found = _load_named(folder)
    return found, summarise(found.settings, found.cells)


_RATIOS = "reference_crf", "encode_ratio", "decode_ratio"


def load_kept(place: str | Path) -> BenchRun:
    """A run's folder; where its tables alone are kept, what summary.csv says, or that file.

    Such a run lacks values of single frames, layers, versions, and what failed or could not run.
    Raises InputError for what is neither.
    """
    path = Path(place)
    file = path if path.suffix == ".csv" else path / "summary.csv"
    if (path / "run.json").exists() or not file.exists():
        return _load_named(path)
    from gsvc.eval.metrics import metrics

    cells: dict[str, CellRecord] = {}
    ratios: dict[str, dict[str, Any]] = {}
    try:
        with file.open(encoding="utf-8", newline="") as text:
            for row in csv.DictReader(text):
                if row["frames"]:  # else it is one that failed
                    cell = cells.setdefault(row["key"], _kept_cell(row))
                    cell.decodes.append(_kept_decode(row, metrics()))
                    ratios[row["key"] + row["frames_sha256"]] = {
                        name: _value(row[name]) for name in _RATIOS
                    }
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{file} is no summary.csv of gsvc bench run ({error})") from error
    facts = {one.name for one in fields(run.MetricInfo)} - {"name"}
    known = {
        name: {fact: "" if fact == "version" else getattr(one, fact) for fact in facts}
        for name, one in metrics().items()
        if any(name in decode.scores for cell in cells.values() for decode in cell.decodes)
    }
    return BenchRun({"metrics": known, "ratios": ratios}, [*cells.values()])


def _kept_cell(row: Mapping[str, str]) -> CellRecord:
    return CellRecord(
        **_kept(CellRecord, row),
        size="288",  # another one is in the clip's label
        source_sha256="",
        codec_version="",
        settings=_choices(row["settings"]),
    )


def _kept_decode(row: Mapping[str, str], metrics: Iterable[str]) -> DecodeRecord:
    own = {name: _value(row.get(f"decode_{name}")) for name in ("seconds", "joules", "cpu_seconds")}
    scores = {name: MetricScores(_value(row[name])) for name in metrics if name in row}
    return DecodeRecord(**_kept(DecodeRecord, row), **own, way=_choices(row["way"]), scores=scores)


def _kept(record: type[CellRecord | DecodeRecord], row: Mapping[str, str]) -> dict[str, Any]:
    """What a record has of its own in the table."""
    own = [one for one in fields(record) if one.name in row.keys() - {"settings", "way", "size"}]
    return {one.name: row[one.name] if one.type is str else _value(row[one.name]) for one in own}


def _choices(label: str) -> dict[str, Any]:
    """The inverse of `settings_label`."""
    pairs = (part.partition(" ") for part in label.split(", ") if part)
    return {name: _value(value) for name, _, value in pairs}


def _value(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


_SAID = {
    bd_rate.NO_OVERLAP: "the two have hardly any quality in common, so add rates between them "
    "(how far apart they are: gsvc bench table RUN --title 'Where there is no BD-rate')",
    bd_rate.SINGLE_POINT: "one has a single rate, so add another",
    bd_rate.NO_POINTS: "one has no number",
    bd_rate.NO_BITS: "one has streams of no bits",
}


def reasons_without_rate(summary: Summary) -> Iterator[str]:
    """A sentence for each reason, with the pairs that have no BD-rate on any clip for it."""
    found: dict[str, dict[str, list[str]]] = {}
    for pair in summary.pooled:
        if pair.pchip is None:
            notes = dict.fromkeys(entry.rpartition(": ")[2] for entry in pair.left_out)
            reason = " or ".join(_SAID.get(note, note) for note in notes) or "no clip has one"
            pairs = found.setdefault(reason, {})
            pairs.setdefault(f"{pair.test} against {pair.anchor}", []).append(pair.metric)
    for reason, pairs in found.items():
        listed = "; ".join(f"{names} by {', '.join(by)}" for names, by in pairs.items())
        yield f"No BD-rate, {reason}: {listed}."
