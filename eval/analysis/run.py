"""The benchmark of analysis: clips one by one, results in a folder after each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from gsvc.codec.errors import ConfigError, GsvcError, InputError
from gsvc.codec.plugins import find_class
from gsvc.decoders.analysis.rules_text import Regions
from gsvc.eval.analysis.bd import curves
from gsvc.eval.analysis.detectors import DETECTORS, find_detector
from gsvc.eval.analysis.measure import Analyser, Failed, Point, Subject, measure
from gsvc.eval.analysis.measure_ground import measure_ground
from gsvc.eval.analysis.object_codecs import OBJECT_CODECS
from gsvc.eval.analysis.results import TABLES, tables, write_plots, write_points
from gsvc.eval.analysis.rule_events import check_events
from gsvc.eval.analysis.sources import Source, find_sources, load_ground
from gsvc.eval.analysis.streams import read_objects, stream_analyser
from gsvc.eval.bench.named import codec_spec, make_codec
from gsvc.eval.codecs.base import Codec
from gsvc.eval.files import write_text

DEFAULT_CODECS = "jpeg", "webp", "x264", "x265", "svtav1", "gsvc:steps=0", *OBJECT_CODECS
OURS = "gsvc"


@dataclass(frozen=True)
class AnalysisSettings:
    """What to measure."""

    clips: tuple[str, ...]
    """As `find_sources` takes them."""
    codecs: tuple[str, ...] = DEFAULT_CODECS
    """As NAME[:key=value,...]."""
    detector: str = "motion"
    """As `find_detector` takes it."""
    analyser: str | Analyser | None = None
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

    points: Sequence[Point]
    report: str
    """The tables, Markdown."""
    failed: int
    """Clips that could not be read, and codecs that failed on one."""


def run_analysis(
    settings: AnalysisSettings,
    folder: str | Path,
    note: Callable[[str], None] = lambda line: None,
) -> AnalysisRun:
    """Measure every codec on every clip; write points, tables and plots into `folder`.

    `note` gets a line for each clip begun and each thing that failed. Raises ConfigError for
    unknown names, InputError when no clip can be read, MissingDependencyError, OutputError.
    """
    folder, subject = Path(folder), _subject(settings)
    points: list[Point] = []
    failures: list[str] = []

    def failed(what: str, error: GsvcError) -> None:
        failures.append(what)
        note(str(error) if str(error).startswith(what) else f"{what}: {error}")

    for name, measured in _clips(settings, subject, failed):
        note(f"{name} ...")
        try:
            points += measured()
        except InputError as error:
            failed(name, error)
            continue
        write_points(folder, points)
    if not points:
        raise InputError("no clip could be read: see above")
    return AnalysisRun(points, _report(folder, points, subject), len(failures))


def _clips(
    settings: AnalysisSettings, subject: Subject, failed: Failed
) -> Iterator[tuple[str, Callable[[], list[Point]]]]:
    """Names of what is measured, and what measures it."""
    if settings.ground:
        for name in settings.clips:
            yield name, partial(_on_ground, name, settings, subject, failed)
        return
    for source in find_sources(list(settings.clips)):
        yield source.name, partial(_in_pictures, source, settings, subject, failed)


def _in_pictures(
    source: Source, settings: AnalysisSettings, subject: Subject, failed: Failed
) -> list[Point]:
    clip, truth = source.load(settings.size, settings.frames)
    return list(measure(replace(clip, name=source.name), truth, subject, failed))


def _on_ground(
    name: str, settings: AnalysisSettings, subject: Subject, failed: Failed
) -> list[Point]:
    ground = load_ground(name, settings.frames, subject.detector.labels)
    return list(measure_ground(ground, subject, failed))


def _subject(settings: AnalysisSettings) -> Subject:
    analyser = settings.analyser
    if isinstance(analyser, str):
        analyser = cast(Analyser, find_class(analyser))
    if analyser is not None and not callable(analyser):
        raise ConfigError(f"{settings.analyser} is no function: give one from bytes to boxes")
    analyser = analyser or stream_analyser(settings.detector)
    analysers: dict[str, Analyser] = dict.fromkeys(OBJECT_CODECS, read_objects)
    if analyser is not None:
        analysers[OURS] = analyser
    codecs = [_codec(text, settings.detector) for text in _names(settings)]
    detector = find_detector(settings.detector)
    if settings.rules is not None:
        check_events(settings.rules, detector.labels)
    return Subject(codecs, detector, analysers, settings.rules)


def _names(settings: AnalysisSettings) -> list[str]:
    """The codecs, each once; of the default those that can send what the detector finds."""
    names = list(dict.fromkeys(settings.codecs))
    is_own = settings.detector not in DETECTORS
    if is_own and settings.codecs == DEFAULT_CODECS:
        return [name for name in names if name not in OBJECT_CODECS]
    return names


def _codec(text: str, detector: str) -> Codec:
    return OBJECT_CODECS[text](detector) if text in OBJECT_CODECS else make_codec(codec_spec(text))


def _report(folder: Path, points: Sequence[Point], subject: Subject) -> str:
    facts = {codec.name: codec.facts for codec in subject.codecs}
    anchors = [name for name in curves(points) if name in facts and facts[name].is_anchor]
    report = tables(points, subject.detector.name, anchors)
    write_text(folder / TABLES, report)
    write_plots(folder, points, facts)
    return report
