"""Analysis of whole files: `analyse`, one call from a stream to what is in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from gsvc.codec.errors import BitstreamError
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.media.mapped_reader import open_any
from gsvc.codec.open_files import Place
from gsvc.codec.stream.container import StreamReader
from gsvc.codec.stream.file import CountingFile
from gsvc.codec.stream.header import Header
from gsvc.codec.typed import typed
from gsvc.decoders.analysis.analyser import Analyser, AnalysisSettings
from gsvc.decoders.analysis.sent_objects import find_content
from gsvc.decoders.analysis.types import Cost, Event, FrameAnalysis, Totals


@dataclass(frozen=True)
class Analysis:
    """What is in a stream."""

    header: Header
    """The stream's."""
    frames: tuple[FrameAnalysis, ...] = field(repr=False)
    """What each frame shows."""
    totals: Totals
    """Sums over all frames."""
    cost: Cost
    """What it took."""
    damage: BitstreamError | None = None
    """What is wrong with the stream after these frames; None: nothing."""

    @property
    def events(self) -> list[Event]:
        """All events, in order."""
        return [event for frame in self.frames for event in frame.events]


class AnalysisReader:
    """What the `with` block of `open_analysis` gets."""

    def __init__(self, file: BinaryIO, settings: AnalysisSettings | None, limits: Limits) -> None:
        self._file = CountingFile(file)
        packets = StreamReader(cast(BinaryIO, self._file), limits)
        self.header = packets.header
        content, self._packets = find_content(self.header, packets, limits)
        self._analyser = Analyser(self.header, settings, limits, content)

    def frames(self) -> Iterator[FrameAnalysis]:
        """Every frame; see `Analyser.frames`."""
        yield from self._analyser.frames(self._packets)

    @property
    def cost(self) -> Cost:
        """What it took so far."""
        self._analyser.cost.bytes_read = self._file.position
        return self._analyser.cost

    @property
    def totals(self) -> Totals:
        """Sums over the frames so far."""
        return self._analyser.totals


@contextmanager
def open_analysis(
    source: Place,
    settings: AnalysisSettings | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[AnalysisReader]:
    """Analyse a stream frame by frame, in the memory of some intervals; see `analyse`."""
    with open_any(source) as file:
        yield AnalysisReader(file, settings, limits)


@typed
def analyse(
    source: Place,
    *,
    settings: AnalysisSettings | None = None,
    limits: Limits = DEFAULT_LIMITS,
    partial: bool = False,
) -> Analysis:
    """Tell what is in a stream from its scaffold and coded pictures; no frame is drawn.

    Args:
        source: A path, of a stream or of what `mux` wrote, "-" for standard input, or an open
            binary file, of which all that is left is read.
        settings: What to look for; people and what moves by default.
        limits: What the stream may ask for.
        partial: Analyse what comes before damage, which `Analysis.damage` tells, instead of raising
            BitstreamError. A damaged header raises it all the same.

    Raises:
        InputError: The source cannot be read.
        BitstreamError: The stream is damaged or beyond `limits`.
        ConfigError: A setting is out of range; a line or a zone lies outside of the picture.
        MissingModelError: The detector's model is not installed.
        MissingDependencyError: The detector's package is not installed.
    """
    with open_analysis(source, settings, limits) as reader:
        frames: list[FrameAnalysis] = []
        damage = None
        try:
            frames.extend(reader.frames())
        except BitstreamError as error:
            if not partial:
                raise
            damage = error
        return Analysis(reader.header, tuple(frames), reader.totals, reader.cost, damage)
