"""Analysis of whole files: `analyse`, one call from a stream to what is in it.

`open_ground` analyses several streams whose cameras see one piece of ground: it has tracks in
metres. `open_drawing` writes a video: the stream decoded at steps 0, with what was found on it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.container import StreamReader
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, BitstreamError, ConfigError, Limits, typed
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.header import Header
from gsvc.codec.media.places import STANDARD_INPUT, PathOrFile, open_any
from gsvc.codec.media.video_writer import open_writer
from gsvc.decoders.detection import findings, overlay, rules, sent_objects, tracker
from gsvc.decoders.detection.analyser import Analyser, AnalysisSettings


@dataclass(frozen=True)
class Analysis:
    """What is in a stream."""

    header: Header
    """The stream's."""
    frames: tuple[findings.FrameAnalysis, ...] = field(repr=False)
    """What each frame shows."""
    totals: findings.Totals
    """Sums over all frames."""
    cost: findings.AnalysisCost
    """What it took."""
    damage: BitstreamError | None = None
    """What is wrong with the stream after these frames; None: nothing."""

    @property
    def events(self) -> list[findings.Event]:
        """All events, in order."""
        return [event for frame in self.frames for event in frame.events]


class AnalysisReader:
    """What the `with` block of `open_analysis` gets."""

    def __init__(self, file: BinaryIO, settings: AnalysisSettings | None, limits: Limits) -> None:
        self._reader = StreamReader(file, limits)
        self.header = self._reader.header
        content, self._packets = sent_objects.find_content(self.header, self._reader, limits)
        self._analyser = Analyser(self.header, settings, limits, content)

    def frames(self) -> Iterator[findings.FrameAnalysis]:
        """Every frame; see `Analyser.frames`."""
        yield from self._analyser.frames(self._packets)

    @property
    def cost(self) -> findings.AnalysisCost:
        """What it took so far."""
        self._analyser.cost.bytes_read = self._reader.position
        return self._analyser.cost

    @property
    def totals(self) -> findings.Totals:
        """Sums over the frames so far."""
        return self._analyser.totals


@contextmanager
def open_analysis(
    source: PathOrFile, settings: AnalysisSettings | None = None, limits: Limits = DEFAULT_LIMITS
) -> Iterator[AnalysisReader]:
    """Analyse a stream frame by frame, in the memory of some intervals; see `analyse`."""
    with open_any(source) as file:
        yield AnalysisReader(file, settings, limits)


@typed
def analyse(
    source: PathOrFile,
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
        frames: list[findings.FrameAnalysis] = []
        damage = None
        try:
            frames.extend(reader.frames())
        except BitstreamError as error:
            if not partial:
                raise
            damage = error
        return Analysis(reader.header, tuple(frames), reader.totals, reader.cost, damage)


Homography = NDArray[np.float64]
"""Map from (x, y, 1) in metres on the ground to pixels, float64 (3, 3), or (frames, 3, 3)."""
_SCALE = 10.0
"""Metres; who crosses a line or a border must go a hundredth of it beyond: a decimetre."""


@dataclass(frozen=True, eq=False)
class GroundFrame:
    """What stands on the ground at one time."""

    frame: int
    """Its number, from 0, at the highest frame rate of the streams."""
    seconds: float
    """Its time from frame 0 on, which all streams share."""
    objects: tuple[tracker.GroundObject, ...]
    """Objects by track."""
    events: tuple[findings.Event, ...] = ()
    """What happens at lines and zones, in metres, and by the rules."""


class GroundReader:
    """What the `with` block of `open_ground` gets."""

    def __init__(
        self,
        readers: Sequence[AnalysisReader],
        homographies: Sequence[Homography],
        settings: AnalysisSettings,
    ) -> None:
        rules.check_names(settings.lines, settings.zones)
        rules.check_rules(settings.rules, [zone.name for zone in settings.zones])
        self._readers, self._homographies = readers, [_checked(one) for one in homographies]
        self.lines, self.zones = settings.lines, settings.zones
        self.frame_rate = max(float(one.header.format.frame_rate) for one in readers)
        self._tracker = tracker.GroundTracker()
        self._watcher = rules.Watcher(settings.lines, settings.zones, _SCALE)
        self._rules = rules.RuleWatcher(settings.rules)

    @property
    def views(self) -> list[tuple[Homography, tuple[int, int]]]:
        """Each camera's homography in its first frame, and width and height of its picture."""
        forms = [one.header.format for one in self._readers]
        maps = [one[0] for one in self._homographies]
        return [(one, (form.width, form.height)) for one, form in zip(maps, forms, strict=True)]

    @property
    def totals(self) -> findings.Totals:
        """Sums over the times so far; cuts are not counted."""
        return self._watcher.totals

    @property
    def cost(self) -> findings.AnalysisCost:
        """What all streams took so far; times add up."""
        costs = [one.cost for one in self._readers]
        names = "bytes_read", "milliseconds", "frames", "pictures", "detector_runs"
        return findings.AnalysisCost(
            **{name: sum(getattr(one, name) for one in costs) for name in names}
        )

    def frames(self) -> Iterator[GroundFrame]:
        """Every time, in order, until the last stream ends. Raises BitstreamError."""
        feeds = [_Feed(one) for one in self._readers]
        last: GroundFrame | None = None
        number = 0
        while any(shown := [one.at(number / self.frame_rate) for one in feeds]):
            if last is not None:
                yield last
            last = self._frame(number, shown)
            number += 1
        if last is not None:
            ends = *self._watcher.finish(), *self._rules.finish()
            yield replace(last, events=(*last.events, *ends))

    def _frame(self, number: int, shown: Sequence[findings.FrameAnalysis | None]) -> GroundFrame:
        seconds = number / self.frame_rate
        objects = self._tracker.step(seconds, [self._places(n, f) for n, f in enumerate(shown)])
        points = (  # as regions see them: boxes without size, in metres
            findings.TrackedObject(one.kind, one.track, np.tile(one.place, 2), one.score)
            for one in objects
        )
        frame = findings.FrameAnalysis(number, seconds, tuple(points))
        events = self._watcher.events(frame)
        events += self._rules.events(frame, self._watcher.visits())
        return GroundFrame(number, seconds, tuple(objects), tuple(events))

    def _places(
        self, camera: int, frame: findings.FrameAnalysis | None
    ) -> list[tuple[findings.TrackedObject, NDArray[np.float64]]]:
        if frame is None:
            return []
        maps = self._homographies[camera]
        height = self._readers[camera].header.format.height
        places = (
            (one, tracker.standing(one, maps[min(frame.frame, len(maps) - 1)], height))
            for one in frame.objects
        )
        return [(one, place) for one, place in places if place is not None]


class _Feed:
    """The frame that a stream shows at a time; times must not go back."""

    def __init__(self, reader: AnalysisReader) -> None:
        self._frames = reader.frames()
        self._length = 1 / float(reader.header.format.frame_rate)
        self._next = next(self._frames, None)
        self._now: findings.FrameAnalysis | None = None

    def at(self, seconds: float) -> findings.FrameAnalysis | None:
        """None after the last one."""
        while self._next is not None and self._next.seconds <= seconds + self._length / 2:
            self._now, self._next = self._next, next(self._frames, None)
        now = self._now
        is_over = now is None or (self._next is None and seconds >= now.seconds + self._length)
        return None if is_over else now


@contextmanager
def open_ground(
    sources: Sequence[str | Path],
    homographies: Sequence[Homography],
    settings: AnalysisSettings | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[GroundReader]:
    """Analyse streams together, time by time, in the memory of some intervals of each.

    Args:
        sources: Paths of streams that begin at the same time.
        homographies: One a stream, in their order; see `Homography`.
        settings: As of `analyse`, with lines and zones in metres on the ground.
        limits: What each stream may ask for.

    Raises:
        ConfigError: A homography is no such matrix, or is missing; a name is used twice.
        InputError, BitstreamError and others: As `analyse`.
    """
    if len(sources) != len(homographies):
        raise ConfigError(
            f"{len(sources)} streams and {len(homographies)} homographies: give one for each stream"
        )
    settings = settings or AnalysisSettings()
    alone = replace(settings, lines=(), zones=(), rules=())
    with ExitStack() as stack:
        readers = [stack.enter_context(open_analysis(one, alone, limits)) for one in sources]
        yield GroundReader(readers, homographies, settings)


def _checked(homography: Homography) -> Homography:
    """The homography as (frames, 3, 3). Raises ConfigError for a wrong shape or no inverse."""
    maps = np.asarray(homography, np.float64)
    maps = maps[None] if maps.ndim == 2 else maps
    if maps.ndim != 3 or maps.shape[1:] != (3, 3) or not len(maps):
        raise ConfigError(f"a homography has 3 rows of 3 numbers, not {maps.shape}: check it")
    if not np.isfinite(maps).all() or (np.abs(np.linalg.det(maps)) < 1e-12).any():
        raise ConfigError("a homography cannot be inverted: check its numbers")
    return maps


@contextmanager
def open_drawing(
    source: str | Path,
    target: str | Path,
    settings: AnalysisSettings,
    limits: Limits = DEFAULT_LIMITS,
    *,
    overwrite: bool = False,
) -> Iterator[Callable[[findings.FrameAnalysis], None]]:
    """A function that takes every frame's analysis, in order, and writes the frame to `target`.

    The target is as of `gsvc.decode` and appears at the end of the block. Raises ConfigError for
    standard input, which cannot be read twice, and what decoding raises.
    """
    if str(source) == STANDARD_INPUT:
        raise ConfigError("drawing reads the stream twice: save standard input to a file first")
    with open_any(source) as file:
        packets = StreamReader(file, limits)
        with (
            open_writer(target, packets.header.format, overwrite=overwrite) as writer,
            Decoder(packets.header, DecoderSettings(steps=0), limits) as decoder,
        ):
            frames = (frame for packet in packets for frame in decoder.frames(packet))
            drawing = overlay.Overlay(settings.lines, settings.zones)
            yield lambda found: writer.write(_drawn(drawing, next(frames), found))


def _drawn(drawing: overlay.Overlay, frame: Frame, found: findings.FrameAnalysis) -> Frame:
    drawing.on(frame.pixels, found)
    return Frame(frame.pixels, max(found.frame, frame.pts))  # a stream may begin before 0
