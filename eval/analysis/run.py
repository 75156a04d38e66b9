"""The benchmark of analysis: clips one by one, results in a folder after each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gsvc.codec.errors import GsvcError, InputError
from gsvc.codec.plugins import find_class
from gsvc.eval.analysis.bd import curves
from gsvc.eval.analysis.detectors import find_detector
from gsvc.eval.analysis.measure import Analyser, Point, Subject, measure
from gsvc.eval.analysis.results import TABLES, tables, write_plots, write_points
from gsvc.eval.analysis.sources import find_sources
from gsvc.eval.bench.named import codec_spec, make_codec
from gsvc.eval.files import write_text

DEFAULT_CODECS = "jpeg", "webp", "x264", "x265", "svtav1", "gsvc:steps=0"
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
    """Reads gsvc's streams without decoding them: a function, or `module:function`."""
    size: str = "native"
    """Of the evaluation protocol."""
    frames: int | None = 97
    """From the start of each clip; None for all."""


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
    folder = Path(folder)
    sources, subject = find_sources(list(settings.clips)), _subject(settings)
    points: list[Point] = []
    failures: list[str] = []

    def failed(what: str, error: GsvcError) -> None:
        failures.append(what)
        note(f"{what}: {error}")

    for source in sources:
        note(f"{source.name} ...")
        try:
            clip, truth = source.load(settings.size, settings.frames)
        except InputError as error:
            failed(source.name, error)
            continue
        points += measure(replace(clip, name=source.name), truth, subject, failed)
        write_points(folder, points)
    if not points:
        raise InputError("no clip could be read: see above")
    return AnalysisRun(points, _report(folder, points, subject), len(failures))


def _subject(settings: AnalysisSettings) -> Subject:
    analyser = settings.analyser
    if isinstance(analyser, str):
        analyser = find_class(analyser)
    analysers: Mapping[str, Analyser] = {} if analyser is None else {OURS: analyser}
    codecs = [make_codec(codec_spec(text)) for text in dict.fromkeys(settings.codecs)]
    return Subject(codecs, find_detector(settings.detector), analysers)


def _report(folder: Path, points: Sequence[Point], subject: Subject) -> str:
    facts = {codec.name: codec.facts for codec in subject.codecs}
    anchors = [name for name in curves(points) if name in facts and facts[name].is_anchor]
    report = tables(points, subject.detector.name, anchors)
    write_text(folder / TABLES, report)
    write_plots(folder, points, facts)
    return report
