"""What an analysis found, drawn on pictures: boxes and trails, key points, lines and zones."""

import logging
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import cv2
import numpy as np

from gsvc.codec.bitstream import container, errors
from gsvc.codec.bitstream.frames import Frame, Picture
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers.pose import LIMBS
from gsvc.decoders.detection.findings import FrameAnalysis, KeyPoints, TrackedObject
from gsvc.decoders.detection.rules import Line, Zone
from gsvc.decoders.detection.sent_objects import SentObjects

_TRAIL = 30  # frames of an object's way that are shown
_FORGET = 300  # objects whose ways are kept, at most
_BLACK, _WHITE, _YELLOW = (0, 0, 0), (255, 255, 255), (255, 220, 0)
_Color = tuple[int, int, int]
_LINE = 18  # pixels from a line of text to the next


class Overlay:
    """Draws frame after frame; objects leave a trail."""

    def __init__(self, lines: tuple[Line, ...] = (), zones: tuple[Zone, ...] = ()) -> None:
        self._lines, self._zones = lines, zones
        self._ways: defaultdict[int, deque[tuple[int, int]]] = defaultdict(
            lambda: deque(maxlen=_TRAIL)
        )

    def on(self, picture: Picture, found: FrameAnalysis, note: str = "") -> None:
        """Draw what was found on a picture, RGB uint8 (H, W, 3), and a note."""
        self._regions(picture)
        for one in found.objects:
            self._object(picture, one)
        for person in found.people:
            _key_points(picture, person)
        text = f"frame {found.frame}  {found.seconds:.1f} s  {len(found.objects)} objects"
        _text(picture, text, (4, picture.shape[0] - 6), _WHITE)
        if note:
            _text(picture, note, (4, picture.shape[0] - 6 - _LINE), _WHITE)

    def _regions(self, picture: Picture) -> None:
        for line in self._lines:
            start, end = (tuple(map(round, point)) for point in (line.start, line.end))
            cv2.line(picture, start, end, _YELLOW, 2)
            _text(picture, line.name, start, _YELLOW)
        for zone in self._zones:
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
    points = np.round(person.points).astype(int).tolist()
    for start, end in LIMBS:
        if person.visible[start] and person.visible[end]:
            color = _color(person.person + 1)
            cv2.line(picture, points[start], points[end], color, 1, cv2.LINE_AA)
    for (x, y), is_visible in zip(person.points.tolist(), person.visible, strict=True):
        if is_visible:
            cv2.circle(picture, (round(x), round(y)), 3, _color(person.person + 1), -1)


def _text(picture: Picture, text: str, at: tuple[int, ...], color: _Color) -> None:
    font, size = cv2.FONT_HERSHEY_SIMPLEX, max(0.35, picture.shape[0] / 1200)
    (width, height), below = cv2.getTextSize(text, font, size, 1)
    x, y = at[:2]
    cv2.rectangle(picture, (x, y - height), (x + width, y + below), _BLACK, -1)
    cv2.putText(picture, text, (x, y), font, size, color, 1, cv2.LINE_AA)


def _color(number: int) -> _Color:
    hue = np.array([[[(number * 67) % 180, 200, 255]]], np.uint8)
    red, green, blue = cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0].tolist()
    return red, green, blue


_GRAY = 40
_NOTE = "schematic: no picture sent"

_log = logging.getLogger(__name__)


class Schematic:
    """Draws the frames of OBJECTS packets, where the stream has no pictures; `reset` to seek."""

    def __init__(self, header: Header, limits: errors.Limits, *, conceal: bool) -> None:
        """`conceal`: damaged packets have no frames, and raise nothing."""
        self._header, self._limits, self._conceal = header, limits, conceal
        self._has_told = False
        self.reset()

    def reset(self) -> None:
        """Forget everything: go on at a packet that can be read alone."""
        self._objects, self._drawing = SentObjects(self._header, self._limits), Overlay()
        self._people: tuple[KeyPoints, ...] = ()

    def frames(self, packet: container.Packet) -> Iterator[Frame]:
        """The frames of a packet: none where the stream has pictures.

        Raises BitstreamError for a damaged one, unless it conceals.
        """
        if not container.is_alone(packet):
            return
        with suppress(*[errors.BitstreamError] if self._conceal else ()):
            for sent in self._objects.frames(packet):
                yield self._drawn(sent.frame, sent.ticks)

    def _drawn(self, found: FrameAnalysis, pts: int) -> Frame:
        if not self._has_told:
            self._has_told = True
            _log.warning("the stream has no pictures: shown is a schematic of its objects")
        form = self._header.format
        picture = np.full((form.height, form.width, 3), _GRAY, np.uint8)
        for one in found.objects:
            left, top, right, bottom = np.round(one.box).astype(int).tolist()
            picture[top:bottom, left:right] = 2 * _GRAY
        # Key points come with anchors: between them the last ones stay.
        self._people = found.people or (self._people if found.objects else ())
        self._drawing.on(picture, replace(found, people=self._people), _NOTE)
        return Frame(picture, pts)
