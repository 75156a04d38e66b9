"""The video of an analysis: the stream decoded at steps 0, with what was found drawn on it."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Frame, Picture
from gsvc.codec.input import STANDARD_INPUT
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.media.video_writer import open_writer
from gsvc.codec.stream.container import StreamReader
from gsvc.codec.stream.file import open_stream
from gsvc.decoders.analysis.analyser import AnalysisSettings
from gsvc.decoders.analysis.types import FrameAnalysis, KeyPoints, TrackedObject

_TRAIL = 30
"""Frames of an object's way that are shown."""
_FORGET = 300
"""Objects whose ways are kept, at most."""
_BLACK, _WHITE, _YELLOW = (0, 0, 0), (255, 255, 255), (255, 220, 0)
_Color = tuple[int, int, int]


@contextmanager
def open_drawing(
    source: str | Path,
    target: str | Path,
    settings: AnalysisSettings,
    limits: Limits = DEFAULT_LIMITS,
    *,
    overwrite: bool = False,
) -> Iterator[Callable[[FrameAnalysis], None]]:
    """What takes every frame's analysis, in order, and writes the frame to `target`.

    The target is as of `gsvc.decode` and appears at the end of the block. Raises ConfigError for
    standard input, which cannot be read twice, and what decoding raises.
    """
    if str(source) == STANDARD_INPUT:
        raise ConfigError("drawing reads the stream twice: save standard input to a file first")
    with open_stream(source) as file:
        packets = StreamReader(file, limits)
        with (
            open_writer(target, packets.header.format, overwrite=overwrite) as writer,
            Decoder(packets.header, DecoderSettings(steps=0), limits) as decoder,
        ):
            frames = (frame for packet in packets for frame in decoder.frames(packet))
            drawing = _Drawing(settings)
            yield lambda found: writer.write(drawing.on(next(frames), found))


class _Drawing:
    def __init__(self, settings: AnalysisSettings) -> None:
        self._settings = settings
        self._ways: defaultdict[int, deque[tuple[int, int]]] = defaultdict(
            lambda: deque(maxlen=_TRAIL)
        )

    def on(self, frame: Frame, found: FrameAnalysis) -> Frame:
        """A frame with what was found in it."""
        picture = frame.pixels
        self._regions(picture)
        for one in found.objects:
            self._object(picture, one)
        for person in found.people:
            _key_points(picture, person)
        text = f"frame {found.frame}  {found.seconds:.1f} s  {len(found.objects)} objects"
        _text(picture, text, (4, picture.shape[0] - 6), _WHITE)
        return Frame(picture, frame.pts)

    def _regions(self, picture: Picture) -> None:
        for line in self._settings.lines:
            start, end = (tuple(map(round, point)) for point in (line.start, line.end))
            cv2.line(picture, start, end, _YELLOW, 2)
            _text(picture, line.name, start, _YELLOW)
        for zone in self._settings.zones:
            corners = np.round(zone.corners).astype(np.int32)
            cv2.polylines(picture, [corners], True, _YELLOW, 2)
            _text(picture, zone.name, tuple(corners[0].tolist()), _YELLOW)

    def _object(self, picture: Picture, one: TrackedObject) -> None:
        left, top, right, bottom = np.round(one.box).astype(int).tolist()
        color = _color(one.track)
        way = self._ways[one.track]
        way.append(((left + right) // 2, (top + bottom) // 2))
        if len(self._ways) > _FORGET:
            del self._ways[next(iter(self._ways))]
        cv2.polylines(picture, [np.array(way, np.int32)], False, color, 1, cv2.LINE_AA)
        cv2.rectangle(picture, (left, top), (right, bottom), color, 2)
        _text(picture, f"{one.kind} {one.track}", (left, max(top - 4, 10)), color)


def _key_points(picture: Picture, person: KeyPoints) -> None:
    for (x, y), is_visible in zip(person.points.tolist(), person.visible, strict=True):
        if is_visible:
            cv2.circle(picture, (round(x), round(y)), 3, _color(person.person + 1), -1)


def _text(picture: Picture, text: str, at: tuple[int, ...], color: _Color) -> None:
    """Text on black, so that it can be read everywhere."""
    font, size = cv2.FONT_HERSHEY_SIMPLEX, max(0.35, picture.shape[0] / 1200)
    (width, height), below = cv2.getTextSize(text, font, size, 1)
    x, y = at[:2]
    cv2.rectangle(picture, (x, y - height), (x + width, y + below), _BLACK, -1)
    cv2.putText(picture, text, (x, y), font, size, color, 1, cv2.LINE_AA)


def _color(number: int) -> _Color:
    """A bright colour, another for each number."""
    hue = np.array([[[(number * 67) % 180, 200, 255]]], np.uint8)
    red, green, blue = cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0].tolist()
    return red, green, blue
