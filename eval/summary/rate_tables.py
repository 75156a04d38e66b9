"""Tables of text: the headline, BD-rates, quality at equal rate, and what is left of people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from gsvc.codec.weights.hub import RANDOM
from gsvc.eval.layout import markdown
from gsvc.eval.summary import bd_comparisons
from gsvc.eval.summary.bd_rate import LEAST_CLIPS, NARROW, TWO_POINTS, Pooled, below, doubts
from gsvc.eval.summary.curves import OURS, PRIMARY, SEVERAL, MetricInfo, PointRow, short_labels
from gsvc.eval.summary.summarise import Summary

NONE = "-"


@dataclass(frozen=True)
class Table:
    """A titled table of text."""

    title: str
    note: str
    """What the numbers are, in full sentences."""
    header: Sequence[str]
    rows: Sequence[Sequence[str]] = field(repr=False)

    @property
    def section(self) -> str:
        """As Markdown under its title."""
        body = [self.note, markdown(self.header, self.rows)] if self.rows else ["None."]
        return "\n\n".join(filter(None, [f"## {self.title}", *body]))


def protocol(summary: Summary) -> str:
    """One sentence on what every number of the run stands on."""
    counts = sorted(set(summary.frames.values()) or {0})
    frames = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    whole = " (CVVDP: all)" * any(one.name.startswith("cvvdp") for one in summary.metrics)
    some = f"one frame in {summary.stride} from the first{whole}"
    measured = some if summary.stride > 1 else "every frame"
    warning = f" {RANDOM.upper()}: what is restored here says nothing about the model."
    return (
        f"{len(summary.frames)} clip{'s' * (len(summary.frames) != 1)}, {frames} frames coded of "
        f"each, quality measured on {measured}; rates are those of the elementary stream "
        "without delimiters of frames, or of the whole .gsv file without audio."
        f"{warning if has_random_weights(summary) else ''}"
    )


def has_random_weights(summary: Summary) -> bool:
    """Whether a codec ran with a pretrained model's form, and not with its weights."""
    return any(RANDOM in version for version in summary.versions.values())


def primary(summary: Summary) -> list[MetricInfo]:
    """The primary metrics of the run; without them, the first that compares curves."""
    found = [metric for metric in summary.metrics if metric.name in PRIMARY]
    compared = {one.metric for one in summary.pooled}
    counted = [metric for metric in summary.metrics if metric.name in compared]
    return found or counted[:1] or summary.metrics[:1]


def basis(summary: Summary, metric: MetricInfo) -> str:
    """What a metric's numbers stand on, for a table's note."""
    return f"{metric.title} ({metric.version or 'never measured'}). {protocol(summary)}"


def pooled_text(pooled: Pooled | None) -> str:
    """ "-12.3 [-20.0, -4.1] (5)": mean, interval where there is one, number of clips."""
    if pooled is None:
        return "none (0)"
    bounds = f" [{percent(pooled.low)}, {percent(pooled.high)}]" if pooled.low is not None else ""
    return f"{percent(pooled.mean)}{bounds} ({pooled.clips})"


def shown(value: float | None, form: str) -> str:
    """The value in a format such as ".2f"; a dash for None."""
    return NONE if value is None else format(value, form)


def percent(value: float | None) -> str:
    """ "+12.3"."""
    return shown(value, "+.1f")


def number(value: float | None) -> str:
    """A metric's value: four decimals, two from 10 on."""
    return shown(value, ".4f" if value is None or abs(value) < 10 else ".2f")


HEADLINE_TITLE = "Headline: the worse of two BD-rates against SVT-AV1"
SLIDESHOW_TITLE = "Slideshow test: BD-rate of holding key pictures against SVT-AV1"


def headline_table(summary: Summary) -> Table:
    """Every curve's BD-rates by the judges, and the worse one, with the least share if small."""
    rows = [
        [
            row.curve,
            NONE if row.worse is None else f"{percent(row.worse)} ({row.judge}{doubt})",
            *(pooled_text(row.rates[j]) if j in row.rates else NONE for j in PRIMARY),
        ]
        for row in summary.headline.rows
        for doubt in [row.doubts.get(row.judge, "").removesuffix(TWO_POINTS)]
    ]
    note = (
        "BD-rate in per cent (negative: fewer bits at equal quality) against SVT-AV1's lower hull, "
        "pooled over clips by each judge, with its 95 % bootstrap interval (too narrow with few "
        f"clips) and, in brackets, how many of {len(summary.frames)} clips have one; the worse of "
        f"them counts. {' '.join([*headline_gaps(summary), protocol(summary)])}"
    )
    return Table(HEADLINE_TITLE, note, ["curve", "headline", *PRIMARY], rows)


def headline_gaps(summary: Summary) -> Iterator[str]:
    """A sentence for each judge or anchor that is missing, and for each doubt about the rest."""
    missing = summary.headline.missing
    if all(missing.get(judge, "").startswith("not asked for") for judge in PRIMARY):
        return
    for judge, why in missing.items():
        yield f"No headline without {judge}: {why}."
    if not summary.headline.rows and len(missing) < len(PRIMARY):
        yield f"No headline without points of {summary.headline.anchor} and of another codec."
    if summary.headline.rows:
        ran = ((row.codec, row.settings) for row in summary.points)
        yield from (f"OTHER OPPONENT, {one}." for one in bd_comparisons.other_anchor(ran))
    for codec, several in summary.versions.items():  # Ours differ by their options, too.
        if SEVERAL in several and codec not in {OURS, *bd_comparisons.FLOORS}:
            yield f"MIXED VERSIONS of {codec} ({several}): run each into an --out of its own."
    if summary.headline.rows and len(summary.frames) < LEAST_CLIPS:
        yield f"No interval with fewer than {LEAST_CLIPS} clips."
    yield from _doubts(summary)


def _doubts(summary: Summary) -> Iterator[str]:
    """Sentences on rows of different clips, little overlap, few points, judges that fail."""
    counted: dict[str, set[str]] = {}
    shares: dict[str, list[float]] = {}
    add: dict[str, dict[str, None]] = {"below": {}, "above": {}}
    for one in summary.comparisons:
        is_told = one.metric in PRIMARY and one.anchor == summary.headline.anchor
        if is_told and one.result.pchip is not None:
            counted.setdefault(one.test, set()).add(f"{one.clip} by {one.metric}")
            if one.result.share < NARROW:
                shares.setdefault(one.test, []).append(one.result.share)
                side, whose = one.result.lacks
                add[side][_end(summary, one.clip, getattr(one, whose), side)] = None
    every = set[str]().union(*counted.values())
    lacks = {test: ", ".join(sorted(every - own)) for test, own in counted.items()}
    if told := "; ".join(f"{test} lacks {without}" for test, without in lacks.items() if without):
        yield f"DIFFERENT CLIPS, do not compare these rows with the others: {told}."
    if shares:
        told = "; ".join(
            f"{test} ({len(mine)} of {len(counted[test])}, least {below(min(mine))} %)"
            for test, mine in shares.items()
        )
        more = "; ".join(f"{side} those of {', '.join(of)}" for side, of in add.items() if of)
        yield f"LITTLE OVERLAP, hulls share under {100 * NARROW:.0f} %: {told}. Add rates {more}."
    pairs = (p for p in summary.pooled if p.metric in PRIMARY and p.test in counted)
    if few := dict.fromkeys(p.test for p in pairs if p.doubts.endswith(TWO_POINTS)):
        yield f"TWO POINTS on a hull of some clip, add rates: {', '.join(few)}."
    for test in summary.slideshow:  # a judge that a slideshow satisfies
        if test.metric in PRIMARY and test.passes is False:
            bits = f" ({percent(test.pooled.mean)} % bits)" if test.pooled else ""
            yield f"WARNING: by {test.metric} a slideshow wins{bits}: it must not stand alone."


def _end(summary: Summary, clip: str, curve: str, side: str) -> str:
    """The codec and settings of a curve's least or highest rate on a clip: "x265 (crf 50)"."""
    mine = [row for row in summary.points if (row.clip, row.curve) == (clip, curve) and row.bits]
    end = (max if side == "above" else min)(mine, key=lambda row: row.bpp, default=None)
    if end is None:
        return curve
    # Each crf has an end, below which only smaller pictures take fewer bits.
    is_large = side == "below" and "crf" in end.settings and end.settings.get("scale") != _SMALL
    hint = f"; scale={_SMALL} takes fewer" * is_large
    return f"{end.codec} ({short_labels(summary.points)[end.key]}{hint})"


_SMALL = "1/3"


def slideshow_table(summary: Summary) -> Table:
    """A row for each metric, a column for each clip."""
    tests = summary.slideshow
    clips = list(dict.fromkeys(one.clip for test in tests for one in test.clips))
    cells = [{one.clip: _cell(one) for one in test.clips} for test in tests]
    rows = [
        [
            test.metric,
            {True: "passes", False: "fails", None: "not known"}[test.passes],
            pooled_text(test.pooled),
            ", ".join(one.clip for one in test.clips if one.wins) or "none",
            *(mine.get(clip, NONE) for clip in clips),
        ]
        for test, mine in zip(tests, cells, strict=True)
    ]
    note = (
        "Frames that hold the last key picture, against SVT-AV1's lower hull: BD-rate in per cent, "
        "negative where the slideshow wins. Where they share no quality, the better one at equal "
        "bits wins. A metric passes if the slideshow loses on the clips that move, pooled, "
        "or without any BD-rate on each; a clip moves if from one frame to the next at least 1 % "
        "of its pixels move by half a pixel at 288 lines, and is marked (still) if it does not. "
        f"{protocol(summary)}"
    )
    header = ["metric", "verdict", "moving clips, pooled", "slideshow wins on", *clips]
    return Table(SLIDESHOW_TITLE, note, header, rows)


def _cell(one: bd_comparisons.SlideshowClip) -> str:
    outcome = {True: ", wins", False: ", loses", None: ""}[one.wins]
    text = f"{one.note}{outcome}" if one.rate is None else percent(one.rate)
    return text if one.moves else f"{text} (still)"


def pooled_table(summary: Summary, metric: MetricInfo) -> Table:
    """BD-rates of every curve against every anchor, pooled over clips."""
    mine = [one for one in summary.pooled if one.metric == metric.name]
    anchors = list(dict.fromkeys(one.anchor for one in mine))
    tests = list(dict.fromkeys(one.test for one in mine))
    cell = {(one.test, one.anchor): pooled_text(one.pchip) + one.doubts for one in mine}
    rows = [[test, *(cell.get((test, anchor), NONE) for anchor in anchors)] for test in tests]
    others = ' (others: "Where there is no BD-rate")' * bool(without_bd_rate_table(summary).rows)
    note = (
        "BD-rate in per cent (negative: fewer bits at equal quality) of the row's lower hull "
        "against the column's, by PCHIP over the shared range: mean of log ratios over clips, 95 % "
        f"bootstrap interval (too narrow with few clips), in brackets the clips{others}; then "
        f"what is shared, if under {100 * NARROW:.0f} %, and whether a hull has but 2 points. "
        f"{basis(summary, metric)}"
    )
    title = f"BD-rate pooled over clips, {metric.name}"
    return Table(title, note, ["curve", *(f"against {a}" for a in anchors)], rows)


def pooled_others_table(summary: Summary) -> Table:
    """Every pair in the metrics that have no table of their own."""
    shown = {metric.name for metric in primary(summary)}
    others = [metric.name for metric in summary.metrics if metric.name not in shown]
    value = {(one.metric, one.test, one.anchor): one for one in summary.pooled}
    rows = []
    for test, anchor in dict.fromkeys((one.test, one.anchor) for one in summary.pooled):
        found = [value.get((name, test, anchor)) for name in others]
        cells = [pooled_text(one.pchip) + one.doubts if one else NONE for one in found]
        rows.append([f"{test} against {anchor}", *cells])
    note = f"As above, for the other metrics. {protocol(summary)}"
    return Table(
        "BD-rate pooled over clips, other metrics", note, ["pair", *others], rows if others else []
    )


def per_clip_table(summary: Summary, metric: MetricInfo) -> Table:
    """BD-rates clip by clip."""
    rows = [
        [
            f"{d.clip}: {d.test} against {d.anchor}",
            percent(d.result.pchip),
            percent(d.result.akima),
            " to ".join(map(number, d.shared_values or ())),
            f"{100 * d.result.share:.0f} %",
            ", ".join(filter(None, (doubts([d.result])[2:], d.note))),
        ]
        for d in summary.comparisons
        if d.metric == metric.name and d.result.pchip is not None
    ]
    note = (
        "The shared range is the quality that both hulls reach, its share that of what either "
        f"reaches; nothing is extrapolated. {basis(summary, metric)}"
    )
    header = ["pair", "PCHIP", "Akima", "shared range", "share", "note"]
    return Table(f"BD-rate per clip, {metric.name}", note, header, rows)


def fixed_rate_table(summary: Summary, metric: MetricInfo) -> Table:
    """Every curve at fixed rates, then ours against each anchor, over the clips of both."""
    mine = [row for row in summary.fixed_rates if row.metric == metric.name]
    rows = [[f"{row.clip}, {row.curve}", *map(number, row.values)] for row in mine]
    anchors = dict.fromkeys(row.curve for row in mine if row.is_anchor)
    for name in dict.fromkeys(row.curve for row in mine if row.curve.split(",")[0] == OURS):
        for anchor in anchors:
            rows.append([f"{name} against {anchor}", *_at_fixed_rates(mine, name, anchor, metric)])
    unit = metric.unit or "points" if metric.higher_is_better else "% of the anchor's value"
    note = (
        f"By the lower hull, linear between its points; {NONE}: the codec does not get there. "
        f"Against an anchor: by how much it is higher or lower ({unit}), the mean over the clips "
        f"where both get there, their number in brackets. {basis(summary, metric)}"
    )
    header = ["curve", *(f"{bpp:g} bpp" for bpp in bd_comparisons.FIXED_RATES)]
    return Table(f"At fixed rates, {metric.name}", note, header, rows)


def _at_fixed_rates(
    rows: Sequence[bd_comparisons.FixedRateRow], name: str, anchor: str, metric: MetricInfo
) -> Iterator[str]:
    """A cell for each rate: a difference, or per cent where lower is better and 0 the source."""
    ours, theirs = (
        {row.clip: row.values for row in rows if row.curve == one} for one in (name, anchor)
    )
    for at in range(len(bd_comparisons.FIXED_RATES)):
        pairs = [(ours[clip][at], theirs[clip][at]) for clip in ours if clip in theirs]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        if not both:
            yield NONE
        elif metric.higher_is_better:
            yield f"{fmean(a - b for a, b in both):+.2f} ({len(both)})"
        else:
            yield f"{percent(100 * fmean(a / b - 1 for a, b in both))} ({len(both)})"


def without_bd_rate_table(summary: Summary) -> Table:
    """Pairs whose hulls share no range of quality."""
    names = {metric.name for metric in primary(summary)}
    names |= {one.metric for one in summary.pooled if one.pchip is None}
    found = [one for one in summary.comparisons if one.metric in names and one.result.note]
    pairs = [f"{one.clip}: {one.test} against {one.anchor}" for one in found]
    rows = [
        [pair, one.metric, one.result.note, *_ratio(summary, one), one.note]
        for pair, one in zip(pairs, found, strict=True)
    ]
    note = (
        "Two hulls that share no range of quality have no BD-rate. The rate ratio (row over "
        f"anchor) is at the nearest qualities they have, which differ. {protocol(summary)}"
    )
    header = ["pair", "metric", "why", "rate ratio", "its quality", "anchor's quality", "note"]
    return Table("Where there is no BD-rate", note, header, rows)


def _ratio(summary: Summary, pair: bd_comparisons.BdComparison) -> list[str]:
    ratio = pair.result.ratio
    if ratio is None:
        return [NONE, NONE, NONE]
    sign = -1 if summary.metric(pair.metric).higher_is_better else 1
    ends = ratio.test_distance, ratio.anchor_distance
    return [f"{ratio.ratio:.2f}x", *(number(sign * end) for end in ends)]


TITLE = "People"
_COLUMNS = {
    "NME": ("face_nme", 4),
    "mouth": ("mouth_opening", 2),
    "CVVDP, face": ("face_cvvdp", 2),
    "VGG, face": ("face_st_lpips_vgg", 3),
    "OKS": ("pose_oks", 3),
    "motion on people": ("person_motion_error", 3),
}
"""Metrics with their digits, by heading."""
ANCHOR, LAYER = "svtav1", "faces"
METRICS = tuple(name for name, _ in _COLUMNS.values())

_Point = tuple[str, float]  # a clip, and bits per pixel asked for
_Rows = dict[bool, bd_comparisons.BesideRow]
"""Ours of one metric at a point: by whether faces are sent."""


def people_table(summary: Summary) -> Table:
    """Clip by clip and rate by rate; no rows for a run without these metrics or such rates."""
    found: dict[_Point, dict[str, _Rows]] = {}
    for row in summary.beside:
        if row.metric in METRICS and "bpp" in row.settings:
            here = found.setdefault(_point(row), {}).setdefault(row.metric, {})
            here[bool(row.settings.get("faces", 1))] = row
    layer = {
        _point(row): f"{row.ledger.get(LAYER, 0) / row.frames:.1f}"
        for row in summary.points
        if row.codec == OURS and row.settings.get("faces", 1) and "bpp" in row.settings
    }
    rows = [
        [
            f"{point[0]} {point[1]:g}",
            *(_people_cell(mine.get(name, {}), digits) for name, digits in _COLUMNS.values()),
            layer.get(point, NONE),
        ]
        for point, mine in found.items()
    ]
    note = (
        f"In each cell: {ANCHOR} at our bits / gsvc without the layer of faces / with it; {NONE}: "
        "it does not reach these bits, or there is no value. NME: landmarks' normalised mean "
        "error, lower is better. Mouth: correlation of its opening. OKS: of bodies' key points. "
        "Motion on people: its error in the person mask, lower is better. Layer: its bits a frame. "
        f"{protocol(summary)}"
    )
    return Table(TITLE, note, ["clip, bpp", *_COLUMNS, "layer"], rows)


def _point(row: bd_comparisons.BesideRow | PointRow) -> _Point:
    return row.clip, float(row.settings["bpp"])


def _people_cell(rows: _Rows, digits: int) -> str:
    there = [row.hulls.get(ANCHOR) for row in rows.values()]
    ours = [rows[sent].value if sent in rows else None for sent in (False, True)]
    values = [there[0] if there else None, *ours]
    if all(value is None for value in values):
        return NONE
    return " / ".join(NONE if one is None else f"{one:.{digits}f}" for one in values)
