"""The benchmark of analysis: finds clips with their truth, measures them one by one."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.codec.weights.extras import find_class
from gsvc.datasets.annotated import annotation_formats, synthetic
from gsvc.datasets.annotated.truth import AnnotatedClip, AnnotatedVideo, Boxes
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.datasets.clips.sets import ClipSource, find_clips
from gsvc.decoders.detection.rules import Regions
from gsvc.eval.baselines.base import Codec
from gsvc.eval.bench.analysis import box_detectors, rate_accuracy
from gsvc.eval.bench.analysis.accuracy import ACCURACIES
from gsvc.eval.bench.analysis.rate_accuracy import SOURCE, AccuracyPoint, GroundClip
from gsvc.eval.bench.cells import codec_spec, make_codec
from gsvc.eval.late_loading import CodecFacts
from gsvc.eval.layout import csv_text, markdown, write_bytes, write_text
from gsvc.eval.report import exhibits
from gsvc.eval.summary.bd_rate import RatePoint, bd_rate, doubts, lower_hull, pooled_rate
from gsvc.eval.summary.rate_tables import NONE, number, pooled_text


def curves(points: Iterable[AccuracyPoint]) -> list[str]:
    """The curves, each once, in the order of their first point; the source has none."""
    return list(dict.fromkeys(point.curve for point in points if point.curve != SOURCE))


def hull(points: Iterable[AccuracyPoint], clip: str, curve: str, accuracy: str) -> list[RatePoint]:
    """The curve's best: bits per second and 1 - accuracy, as `lower_hull`."""
    return lower_hull(
        [
            (point.bits_per_second, 1 - value)
            for point in points
            if (point.clip, point.curve) == (clip, curve)
            and (value := point.accuracies[accuracy]) is not None
        ]
    )


def rate_for(line: Sequence[RatePoint], score: float) -> tuple[float, str]:
    """Bits per second at which a hull comes to an accuracy, and "" where it does.

    Between two points the logarithm of the rate is linear in the accuracy. Where even its lowest
    rate is better, that one and "<"; where its highest is still worse, that one and ">".
    """
    points = [(rate, 1 - far) for rate, far in sorted(line)]
    if points[0][1] > score:
        return points[0][0], "<"
    if points[-1][1] < score:
        return points[-1][0], ">"
    rates, scores = zip(*points, strict=True)
    return float(np.exp(np.interp(score, scores, np.log(rates)))), ""


POINTS, TABLES = "points.csv", "analysis.md"
_COLUMNS = ["clip", "curve", "settings", "bytes", "bits_per_second", "seconds", "truth"]
_LOWEST = -0.25  # shown in plots: MODA and MOTA may fall far below
_PSEUDO_NOTE = (
    "pseudo-truth: what the detector finds in the source, each frame for itself; the source's own "
    "point is what following makes of that"
)


def write_points(folder: Path, points: Sequence[AccuracyPoint]) -> None:
    """Replace `points.csv`. Raises OutputError."""
    rows = [[*_COLUMNS, *ACCURACIES]]
    for point in points:
        numbers = str(point.bytes), f"{point.bits_per_second:.1f}", f"{point.seconds:.3f}"
        row = [point.clip, point.curve, point.settings, *numbers, _truth(point)]
        scores = (point.accuracies[name] for name in ACCURACIES)
        rows.append([*row, *("" if score is None else f"{score:.6f}" for score in scores)])
    write_text(folder / POINTS, csv_text(rows))


def tables(points: Sequence[AccuracyPoint], detector: str, anchors: Sequence[str]) -> str:
    """All points, and BD-rates of every curve against each anchor, as Markdown."""
    parts = [f"Detector: {detector}. Rates are those of whole streams."]
    if any(point.pseudo for point in points):
        parts.append(f"*{_PSEUDO_NOTE}.*")
    parts += ["## Points", markdown(*_point_table(points))]
    for accuracy, title in ACCURACIES.items():
        if any(point.accuracies[accuracy] is not None for point in points):
            parts += [f"## BD-rate over {title}, per cent of bits (clips)"]
            rows = [
                [name, *(_difference(points, name, anchor, accuracy) for anchor in anchors)]
                for name in curves(points)
            ]
            parts.append(markdown(["curve", *(f"against {anchor}" for anchor in anchors)], rows))
            parts += [f"## Read from the stream: bits in per cent of others' at equal {title}"]
            parts.append(markdown(*_share_table(points, anchors, accuracy)))
    return "\n\n".join(parts) + "\n"


def write_plots(
    folder: Path, points: Sequence[AccuracyPoint], facts: Mapping[str, CodecFacts]
) -> None:
    """Draw `analysis-ACCURACY.svg` and .png. Raises OutputError, MissingDependencyError."""
    style = exhibits.CurveStyle(facts)
    for accuracy, title in ACCURACIES.items():
        if all(point.accuracies[accuracy] is None for point in points):
            continue
        figure = _drawn(points, accuracy, title, style)
        for kind in ("svg", "png"):
            write_bytes(folder / f"analysis-{accuracy}.{kind}", exhibits.image(figure, kind))


def _drawn(
    points: Sequence[AccuracyPoint], accuracy: str, title: str, style: exhibits.CurveStyle
) -> exhibits.Figure:
    names = curves(points)
    colours = style.colours(names)
    figure, places = exhibits.panels((point.clip for point in points), f"{title} over rate")
    for clip, axis in places:
        for name in style.in_order(names):
            line = hull(points, clip, name, accuracy)
            xs, ys = [rate / 1000 for rate, _ in line], [1 - far for _, far in line]
            axis.plot(xs, ys, label=name, color=colours[name], marker=style.marker(name), ms=4)
        for point in points:
            score = point.accuracies[accuracy]
            if (point.clip, point.curve) == (clip, SOURCE) and score is not None:
                axis.axhline(score, color=exhibits.INK, lw=0.8, ls="--", label=SOURCE)
        axis.set_ylim(bottom=max(_LOWEST, axis.get_ylim()[0]))
        exhibits.label(axis, clip, "kbit/s", title)
        exhibits.log_scale(axis.xaxis)
    exhibits.legend(figure)
    return figure


def _truth(point: AccuracyPoint) -> str:
    return "pseudo-truth" if point.pseudo else "truth"


def _point_table(points: Sequence[AccuracyPoint]) -> tuple[list[str], list[list[str]]]:
    measured = [name for name in ACCURACIES if any(p.accuracies[name] is not None for p in points)]
    titles = (ACCURACIES[name] for name in measured)
    header = ["clip", "curve", "settings", "kbit/s", "seconds", "against", *titles]
    rows = []
    for point in points:
        rate = NONE if point.curve == SOURCE else f"{point.bits_per_second / 1000:.2f}"
        row = [point.clip, point.curve, point.settings, rate, f"{point.seconds:.2f}", _truth(point)]
        rows.append([*row, *(number(point.accuracies[name]) for name in measured)])
    return header, rows


def _difference(points: Sequence[AccuracyPoint], name: str, anchor: str, accuracy: str) -> str:
    """A curve's BD-rate against an anchor, pooled over clips, or why there is none."""
    if name == anchor:
        return NONE
    found = [
        bd_rate(*(hull(points, clip, one, accuracy) for one in (anchor, name)))
        for clip in dict.fromkeys(point.clip for point in points)
    ]
    pooled = pooled_rate(one.pchip for one in found)
    notes = (one.note for one in found)
    return pooled_text(pooled) + doubts(found) if pooled else min(notes, default=NONE)


def _share_table(
    points: Sequence[AccuracyPoint], anchors: Sequence[str], accuracy: str
) -> tuple[list[str], list[list[str]]]:
    """Each point that was read from a stream, beside what others take to be as accurate."""
    rows = []
    for point in points:
        score = point.accuracies[accuracy]
        if not point.curve.endswith(rate_accuracy.FROM_STREAM) or score is None:
            continue
        lines = (hull(points, point.clip, anchor, accuracy) for anchor in anchors)
        shares = [_share(point.bits_per_second, line, score) if line else NONE for line in lines]
        rate = f"{point.bits_per_second / 1000:.2f}"
        rows.append([point.clip, point.curve, point.settings, rate, number(score), *shares])
    title = ACCURACIES[accuracy]
    head = ["clip", "curve", "settings", "kbit/s", title, *(f"of {anchor}" for anchor in anchors)]
    return head, rows


def _share(rate: float, line: Sequence[RatePoint], score: float) -> str:
    """In per cent; "over": the other is better at its least rate; "below": worse at its highest."""
    other, side = rate_for(line, score)
    return {"": "", "<": "over ", ">": "below "}[side] + f"{100 * rate / other:.3g}"


@dataclass(frozen=True)
class AnalysisSource:
    """A clip to load."""

    name: str
    """Unique among those found together."""
    load: Callable[[str, int | None], tuple[TestClip, Boxes | None]] = field(repr=False)
    """From a size of the protocol and a number of frames (None: all) to clip and truth, if any."""


def find_sources(names: list[str]) -> list[AnalysisSource]:
    """Clips of names: a sequence of MOT or VisDrone, a synthetic set, Wildtrack, a COCO file,
    VATIC's boxes beside videos (EPFL), or as `find_clips`.

    Raises ConfigError for a name of nothing, InputError for annotations that cannot be read.
    """
    found: list[AnalysisSource] = []
    for source in (source for name in names for source in _of_name(name)):
        taken = sum(one.name.partition("#")[0] == source.name for one in found)
        found.append(replace(source, name=f"{source.name}#{taken + 1}") if taken else source)
    return found


def load_ground(name: str, frames: int | None, labels: frozenset[str] | None) -> GroundClip:
    """The first `frames` frames (None: all) of a set whose cameras see one piece of ground, and the
    places of things of some classes (None: of all). Raises InputError without homographies."""
    path = Path(os.path.expanduser(name))
    if any(path.glob("gt_*.txt")):
        raise InputError(
            f"{name}: EPFL tells where people stand in cells of a grid, and nowhere how wide these "
            "are in what its homographies map to: leave out --ground to judge boxes"
        )
    if not any(path.glob("C*/seqinfo.ini")):
        raise InputError(f"{name}: no set with homographies: give one of the synthetic set")
    scene = synthetic.read_synthetic(path)
    loaded = [view.load("native", frames) for view in scene.views]
    places = scene.places.chosen(scene.places.frame < loaded[0][0].format.frame_count)
    if labels is not None:
        wanted = [truth.id[np.isin(truth.label, list(labels))] for _, truth in loaded]
        places = places.chosen(np.isin(places.id, np.concatenate(wanted)))
    views = [clip for clip, _ in loaded]
    return GroundClip(Path(name).resolve().name, views, scene.homographies, places)


def _of_name(name: str) -> Iterator[AnalysisSource]:
    path = Path(os.path.expanduser(name))
    if (path / "seqinfo.ini").is_file():
        yield _annotated(annotation_formats.read_mot(path))
    elif annotation_formats.is_visdrone(path):
        yield _annotated(annotation_formats.read_visdrone(path))
    elif (path / "annotations_positions").is_dir():
        yield from (
            _annotated(view, path) for view in annotation_formats.read_wildtrack(path).views
        )
    elif any(path.glob("C[0-9]*/seqinfo.ini")):
        yield from (_annotated(view, path) for view in synthetic.read_synthetic(path).views)
    elif path.suffix.lower() == ".json":
        yield _annotated(annotation_formats.read_coco(path))
    elif boxes := annotation_formats.vatic_files(path):
        yield from (_annotated(annotation_formats.read_vatic(one)) for one in boxes)
    else:
        yield from (AnalysisSource(one.name, partial(_plain, one)) for one in find_clips([name]))


def _annotated(clip: AnnotatedClip | AnnotatedVideo, of_set: Path | None = None) -> AnalysisSource:
    name = clip.name if of_set is None else f"{of_set.resolve().name}-{clip.name}"
    return AnalysisSource(name, replace(clip, name=name).load)


def _plain(source: ClipSource, size: str, frames: int | None) -> tuple[TestClip, None]:
    return source.load(size, frames), None


DEFAULT_CODECS = (
    "jpeg",
    "webp",
    "x264",
    "x265",
    "svtav1",
    "gsvc:steps=0",
    *rate_accuracy.OBJECT_CODECS,
)
OURS = "gsvc"


@dataclass(frozen=True)
class AnalysisRunSettings:
    """What to measure."""

    clips: tuple[str, ...]
    """As `find_sources` takes them."""
    codecs: tuple[str, ...] = DEFAULT_CODECS
    """As NAME[:key=value,...]."""
    detector: str = "motion"
    """As `find_detector` takes it."""
    analyser: str | rate_accuracy.Analyser | None = None
    """Reads gsvc's streams without decoding them: a function, or `module:function`; None: as
    `gsvc.analyse`, where it has the detector."""
    size: str = "native"
    """Of the evaluation protocol."""
    frames: int | None = 97
    """From the start of each clip; None for all."""
    ground: bool = False
    """Take each clip for cameras that see one piece of ground; measure there, at its own size."""
    rules: Regions | None = None
    """Lines, zones and rules whose events are judged too, in pixels of each clip."""

    def __post_init__(self) -> None:
        if self.ground and self.rules is not None:
            raise ConfigError("events are judged in pictures, not on the ground: leave out one")


class AnalysisRun(NamedTuple):
    """What came of it."""

    points: Sequence[AccuracyPoint]
    report: str
    """The tables, Markdown."""
    failed: int
    """Clips that could not be read, and codecs that failed on one."""


def run_analysis(
    settings: AnalysisRunSettings,
    folder: str | Path,
    note: Callable[[str], None] = lambda line: None,
) -> AnalysisRun:
    """Measure every codec on every clip; write points, tables and plots into `folder`.

    `note` gets a line for each clip begun and each thing that failed. Raises ConfigError for
    unknown names, InputError when no clip can be read, MissingDependencyError, OutputError.
    """
    folder, subject = Path(folder), _subject(settings)
    points: list[AccuracyPoint] = []
    failures: list[str] = []

    def failed(what: str, error: GsvcError) -> None:
        failures.append(what)
        note(str(error) if str(error).startswith(what) else f"{what}: {error}")

    for name, measured in _clips(settings, subject, failed):
        note(f"{name} ...")
        try:
            points += list(measured())  # all of a clip or nothing
        except InputError as error:
            failed(name, error)
            continue
        write_points(folder, points)
    if not points:
        raise InputError("no clip could be read: see above")
    facts = {codec.name: codec.facts for codec in subject.codecs}
    anchors = [name for name in curves(points) if name in facts and facts[name].is_anchor]
    report = tables(points, subject.detector.name, anchors)
    write_text(folder / TABLES, report)
    write_plots(folder, points, facts)
    return AnalysisRun(points, report, len(failures))


def _clips(
    settings: AnalysisRunSettings, subject: rate_accuracy.Subject, failed: rate_accuracy.Failed
) -> Iterator[tuple[str, Callable[[], Iterator[AccuracyPoint]]]]:
    """Names of what is measured, and what loads and measures it."""

    def in_pictures(source: AnalysisSource) -> Iterator[AccuracyPoint]:
        clip, truth = source.load(settings.size, settings.frames)
        return rate_accuracy.measure(replace(clip, name=source.name), truth, subject, failed)

    def on_ground(name: str) -> Iterator[AccuracyPoint]:
        ground = load_ground(name, settings.frames, subject.detector.labels)
        return rate_accuracy.measure_ground(ground, subject, failed)

    if settings.ground:
        yield from ((name, partial(on_ground, name)) for name in settings.clips)
    else:
        sources = find_sources(list(settings.clips))
        yield from ((source.name, partial(in_pictures, source)) for source in sources)


def _subject(settings: AnalysisRunSettings) -> rate_accuracy.Subject:
    analyser = settings.analyser
    if isinstance(analyser, str):
        analyser = cast(rate_accuracy.Analyser, find_class(analyser))
    if analyser is not None and not callable(analyser):
        raise ConfigError(f"{settings.analyser} is no function: give one from bytes to boxes")
    analyser = analyser or rate_accuracy.stream_analyser(settings.detector)
    analysers: dict[str, rate_accuracy.Analyser] = dict.fromkeys(
        rate_accuracy.OBJECT_CODECS, rate_accuracy.read_objects
    )
    if analyser is not None:
        analysers[OURS] = analyser
    names = list(dict.fromkeys(settings.codecs))
    if settings.detector not in box_detectors.DETECTORS and settings.codecs == DEFAULT_CODECS:
        # No stream can carry what a user's own detector finds.
        names = [name for name in names if name not in rate_accuracy.OBJECT_CODECS]
    codecs: list[Codec] = [
        rate_accuracy.OBJECT_CODECS[name](settings.detector)
        if name in rate_accuracy.OBJECT_CODECS
        else make_codec(codec_spec(name))
        for name in names
    ]
    detector = box_detectors.find_detector(settings.detector)
    if settings.rules is not None:
        rate_accuracy.check_events(settings.rules, detector.labels)
    return rate_accuracy.Subject(codecs, detector, analysers, settings.rules)
