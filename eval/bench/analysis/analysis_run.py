"""The benchmark of analysis: finds clips with their truth, measures them one by one.

The folder's results are written anew after each clip.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.codec.weights.extras import find_class
from gsvc.datasets.annotated.annotated_clips import AnnotatedClip, AnnotatedVideo, MultiViewClip
from gsvc.datasets.annotated.boxes import Boxes
from gsvc.datasets.annotated.coco import read_coco
from gsvc.datasets.annotated.mot import read_mot
from gsvc.datasets.annotated.synthetic.scene import read_synthetic
from gsvc.datasets.annotated.vatic import read_vatic, vatic_files
from gsvc.datasets.annotated.visdrone import is_visdrone, read_visdrone
from gsvc.datasets.annotated.wildtrack import read_wildtrack
from gsvc.datasets.clips.clip import TestClip
from gsvc.datasets.clips.sets import ClipSource, find_clips
from gsvc.decoders.detection.rules import Regions
from gsvc.eval.baselines.base import Codec
from gsvc.eval.bench.analysis import rate_accuracy
from gsvc.eval.bench.analysis.analysis_results import (
    TABLES,
    curves,
    tables,
    write_plots,
    write_points,
)
from gsvc.eval.bench.analysis.box_detectors import DETECTORS, find_detector
from gsvc.eval.bench.analysis.object_streams import OBJECT_CODECS, read_objects, stream_analyser
from gsvc.eval.bench.named import codec_spec, make_codec
from gsvc.eval.layout import write_text


@dataclass(frozen=True)
class AnalysisSource:
    """A clip to load."""

    name: str
    """Unique among those found together."""
    load: Callable[[str, int | None], tuple[TestClip, Boxes | None]] = field(repr=False)
    """From a size of the evaluation protocol and a number of frames (None: all) to the clip and its
    truth, None where it has none."""


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


def find_ground(name: str) -> MultiViewClip:
    """A set whose cameras see one piece of ground. Raises InputError without their homographies."""
    path = Path(name).expanduser()
    if any(path.glob("gt_*.txt")):
        raise InputError(
            f"{name}: EPFL tells where people stand in cells of a grid, and nowhere how wide these "
            "are in what its homographies map to: leave out --ground to judge boxes"
        )
    if not any(path.glob("C*/seqinfo.ini")):
        raise InputError(f"{name}: no set with homographies: give one of the synthetic set")
    return read_synthetic(path)


def load_ground(
    name: str, frames: int | None, labels: frozenset[str] | None
) -> rate_accuracy.GroundClip:
    """The first `frames` frames (None: all) of such a set, and the places of things of some classes
    (None: of all). Raises InputError.
    """
    scene = find_ground(name)
    loaded = [view.load("native", frames) for view in scene.views]
    places = scene.places.chosen(scene.places.frame < loaded[0][0].format.frames)
    if labels is not None:
        wanted = [truth.id[np.isin(truth.label, list(labels))] for _, truth in loaded]
        places = places.chosen(np.isin(places.id, np.concatenate(wanted)))
    views = [clip for clip, _ in loaded]
    return rate_accuracy.GroundClip(Path(name).resolve().name, views, scene.homographies, places)


def _of_name(name: str) -> Iterator[AnalysisSource]:
    path = Path(name).expanduser()
    if (path / "seqinfo.ini").is_file():
        yield _annotated(read_mot(path))
    elif is_visdrone(path):
        yield _annotated(read_visdrone(path))
    elif (path / "annotations_positions").is_dir():
        yield from (_annotated(view, path) for view in read_wildtrack(path).views)
    elif any(path.glob("C[0-9]*/seqinfo.ini")):
        yield from (_annotated(view, path) for view in read_synthetic(path).views)
    elif path.suffix.lower() == ".json":
        yield _annotated(read_coco(path))
    elif boxes := vatic_files(path):
        yield from (_annotated(read_vatic(one)) for one in boxes)
    else:
        yield from (AnalysisSource(one.name, partial(_plain, one)) for one in find_clips([name]))


def _annotated(clip: AnnotatedClip | AnnotatedVideo, of_set: Path | None = None) -> AnalysisSource:
    name = clip.name if of_set is None else f"{of_set.resolve().name}-{clip.name}"
    return AnalysisSource(name, replace(clip, name=name).load)


def _plain(source: ClipSource, size: str, frames: int | None) -> tuple[TestClip, None]:
    return source.load(size, frames), None


DEFAULT_CODECS = "jpeg", "webp", "x264", "x265", "svtav1", "gsvc:steps=0", *OBJECT_CODECS
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
    """Take each clip for a set of cameras that see one piece of ground, and measure places there,
    at its own size."""
    rules: Regions | None = None
    """Lines, zones and rules whose events are judged too, in pixels of each clip."""

    def __post_init__(self) -> None:
        if self.ground and self.rules is not None:
            raise ConfigError("events are judged in pictures, not on the ground: leave out one")


@dataclass(frozen=True)
class AnalysisRun:
    """What came of it."""

    points: Sequence[rate_accuracy.AccuracyPoint]
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
    points: list[rate_accuracy.AccuracyPoint] = []
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
    return AnalysisRun(points, _report(folder, points, subject), len(failures))


def _clips(
    settings: AnalysisRunSettings, subject: rate_accuracy.Subject, failed: rate_accuracy.Failed
) -> Iterator[tuple[str, Callable[[], Iterator[rate_accuracy.AccuracyPoint]]]]:
    """Names of what is measured, and what loads and measures it."""

    def in_pictures(source: AnalysisSource) -> Iterator[rate_accuracy.AccuracyPoint]:
        clip, truth = source.load(settings.size, settings.frames)
        return rate_accuracy.measure(replace(clip, name=source.name), truth, subject, failed)

    def on_ground(name: str) -> Iterator[rate_accuracy.AccuracyPoint]:
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
    analyser = analyser or stream_analyser(settings.detector)
    analysers: dict[str, rate_accuracy.Analyser] = dict.fromkeys(OBJECT_CODECS, read_objects)
    if analyser is not None:
        analysers[OURS] = analyser
    codecs: list[Codec] = [
        OBJECT_CODECS[name](settings.detector)
        if name in OBJECT_CODECS
        else make_codec(codec_spec(name))
        for name in _names(settings)
    ]
    detector = find_detector(settings.detector)
    if settings.rules is not None:
        rate_accuracy.check_events(settings.rules, detector.labels)
    return rate_accuracy.Subject(codecs, detector, analysers, settings.rules)


def _names(settings: AnalysisRunSettings) -> list[str]:
    """The codecs, each once; of the default those that can send what the detector finds."""
    names = list(dict.fromkeys(settings.codecs))
    is_own = settings.detector not in DETECTORS
    if is_own and settings.codecs == DEFAULT_CODECS:
        return [name for name in names if name not in OBJECT_CODECS]
    return names


def _report(
    folder: Path, points: Sequence[rate_accuracy.AccuracyPoint], subject: rate_accuracy.Subject
) -> str:
    facts = {codec.name: codec.facts for codec in subject.codecs}
    anchors = [name for name in curves(points) if name in facts and facts[name].is_anchor]
    report = tables(points, subject.detector.name, anchors)
    write_text(folder / TABLES, report)
    write_plots(folder, points, facts)
    return report
