"""What a run has to do: which codecs, metrics and clips there are, and which cells are done."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gsvc.codec.errors import ConfigError, MissingDependencyError, MissingModelError
from gsvc.datasets.sets import ClipSource, find_clips
from gsvc.eval.bench.cells import Cell, ClipFacts, Job
from gsvc.eval.bench.named import CodecSpec, codec_spec, make_codec, make_metric
from gsvc.eval.bench.pool import Crash, Workers
from gsvc.eval.bench.settings import RunSettings
from gsvc.eval.bench.show import Reporter
from gsvc.eval.bench.store import Damaged, RunFolder
from gsvc.eval.bench.work import Reading
from gsvc.eval.codecs.base import Codec
from gsvc.eval.metrics.base import Metric


@dataclass(frozen=True)
class Gap:
    """What this run cannot have, and why."""

    kind: str
    """"codec", "metric" or "clip"."""
    name: str
    reason: str
    size: str = ""
    """Of a clip."""

    @property
    def label(self) -> str:
        """For tables: "codec vvenc", "clip city at size 480"."""
        return f"{self.kind} {self.name}" + (f" at size {self.size}" if self.size else "")


@dataclass(frozen=True)
class RunPlan:
    """All that a run needs."""

    settings: RunSettings
    cells: Sequence[Cell]
    gaps: Sequence[Gap]
    jobs: Sequence[Job]
    """What is left to do."""
    readings: Mapping[tuple[str, str], Reading]
    """By the clip's name and size."""
    codecs: Mapping[str, str]
    """Versions by name."""
    codec_facts: Mapping[str, Mapping[str, Any]]
    """The `CodecFacts` by name."""
    metrics: Mapping[str, Mapping[str, Any]]
    """Version, unit, direction and whether there is a value per frame, by name."""

    @property
    def decodes(self) -> int:
        """How many clips are to be decoded."""
        return sum(job.decodes for job in self.jobs)


def make_plan(
    settings: RunSettings, folder: RunFolder, workers: Workers, reporter: Reporter
) -> RunPlan:
    """Look at codecs, metrics, clips and the folder. Raises ConfigError for unknown names."""
    gaps: list[Gap] = []
    kept = folder.settings()
    if kept is not None:
        _check_same_protocol(settings, kept, folder.path)
    # Names first: a wrong one is told before versions are asked, which loads networks.
    readings = _readings(settings)
    made = [(spec, make_codec(spec)) for spec in settings.codecs]
    named = {name: make_metric(name) for name in settings.metrics}
    _check_anchors(settings, [codec.name for _, codec in made], kept)
    codecs, metrics = _codecs(made, gaps), _metrics(named, gaps)
    clips = _clips(readings, workers, reporter, gaps)
    for gap in gaps:
        reporter.note(
            "gap", f"{gap.label}: {gap.reason}", what=gap.kind, name=gap.name, size=gap.size
        )
    absent = {gap.name: gap.reason for gap in gaps if gap.kind == "metric"}
    versions = {name: one["version"] for name, one in metrics.items() if name not in absent}
    cells = _cells(clips, codecs, versions, absent)
    return RunPlan(
        settings,
        cells,
        gaps,
        list(_jobs(cells, folder, reporter)),
        {(reading.source.name, reading.size): reading for reading in readings},
        {codec.name: version for _, codec, version in codecs},
        {codec.name: asdict(codec.facts) for _, codec, _ in codecs},
        metrics,
    )


def _check_same_protocol(settings: RunSettings, kept: Mapping[str, Any], path: Path) -> None:
    """Means over different frames must not be in one table."""
    for name in ("frames", "stride"):
        if kept[name] != getattr(settings, name):
            raise ConfigError(
                f"{path} was made with --{name} {kept[name] or 0}: "
                "give the same, or choose another folder"
            )


def _check_anchors(
    settings: RunSettings, names: Sequence[str], kept: Mapping[str, Any] | None
) -> None:
    known = [*names, *(kept or {}).get("codecs", ())]
    for anchor in settings.anchors:
        if anchor not in known:
            make_codec(codec_spec(anchor))  # an unknown name is told as such
            raise ConfigError(f"the anchor {anchor!r} is not in the run: add --codec {anchor}")


def _codecs(
    made: Sequence[tuple[CodecSpec, Codec]], gaps: list[Gap]
) -> list[tuple[CodecSpec, Codec, str]]:
    found = []
    for spec, codec in made:
        try:
            found.append((spec, codec, codec.version()))
        except (MissingDependencyError, MissingModelError) as error:
            gaps.append(Gap("codec", str(spec), str(error)))
    return found


def _metrics(made: Mapping[str, Metric], gaps: list[Gap]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, metric in made.items():
        version = ""
        try:
            version = metric.version()
        except (MissingDependencyError, MissingModelError) as error:
            gaps.append(Gap("metric", name, str(error)))
        found[name] = {
            "version": version,
            "unit": metric.unit,
            "higher_is_better": metric.higher_is_better,
            "per_frame": metric.per_frame,
        }
    return found


def _readings(settings: RunSettings) -> list[Reading]:
    sources: dict[str, ClipSource] = {}
    for source in find_clips(settings.clips):
        if sources.setdefault(source.name, source) != source:
            raise ConfigError(f"two clips are called {source.name}: rename one, or run them apart")
    return [
        Reading(source, size, settings.frames)
        for source in sources.values()
        for size in settings.sizes
    ]


def _clips(
    readings: Sequence[Reading], workers: Workers, reporter: Reporter, gaps: list[Gap]
) -> list[ClipFacts]:
    found: dict[int, ClipFacts] = {}
    for index, result in workers.run(readings, reporter):
        if isinstance(result, ClipFacts):
            found[index] = result
            continue
        reading = readings[index]
        why = result.reason if isinstance(result, Crash) else result
        gaps.append(Gap("clip", reading.source.name, why, reading.size))
    return [found[index] for index in sorted(found)]


def _cells(
    clips: Iterable[ClipFacts],
    codecs: Sequence[tuple[CodecSpec, Codec, str]],
    metrics: Mapping[str, str],
    absent: Mapping[str, str],
) -> list[Cell]:
    """One per clip, codec and setting; a codec named twice adds its ways to decode."""
    cells: dict[str, Cell] = {}
    for clip in clips:
        for spec, codec, version in codecs:
            for point in codec.rate_points():
                ways = tuple(dict(way) for way in codec.ways_to_decode(point))
                cell = Cell(
                    clip=clip,
                    codec=spec,
                    codec_name=codec.name,
                    codec_version=version,
                    suffix=codec.suffix,
                    settings=dict(point),
                    ways=ways,
                    metrics=metrics,
                    gaps=absent,
                )
                other = cells.get(cell.key)
                if other is not None:
                    more = tuple(way for way in ways if way not in other.ways)
                    cell = replace(other, ways=other.ways + more)
                cells[cell.key] = cell
    return list(cells.values())


def _jobs(cells: Iterable[Cell], folder: RunFolder, reporter: Reporter) -> Iterator[Job]:
    for cell in cells:
        try:
            record = folder.read(cell.key)
            if record is None or not record.bits:
                yield Job(cell)
            elif cell.lacks(record):
                yield Job(cell, record, folder.stream(record))
        except Damaged as error:
            reporter.note(
                "damaged", f"{cell.label}: {error}: it is made again", key=cell.key, cell=cell.label
            )
            yield Job(cell)
