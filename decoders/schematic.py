"""Frames of a stream without pictures: a schematic of its objects, which says that it is one."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Frame
from gsvc.codec.limits import Limits
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.objects import is_alone
from gsvc.codec.stream.packet import Packet
from gsvc.decoders.analysis.drawing import Drawing
from gsvc.decoders.analysis.sent_objects import SentObjects
from gsvc.decoders.analysis.types import FrameAnalysis, KeyPoints

_GRAY = 40
_NOTE = "schematic: no picture sent"

_log = logging.getLogger(__name__)


class Schematic:
    """Draws the frames of OBJECTS packets, where the stream has no pictures; `reset` to seek."""

    def __init__(self, header: Header, limits: Limits, *, conceal: bool) -> None:
        """`conceal`: damaged packets have no frames, and raise nothing."""
        self._header, self._limits, self._conceal = header, limits, conceal
        self._has_told = False
        self.reset()

    def reset(self) -> None:
        """Forget everything: go on at a packet that can be read alone."""
        self._objects, self._drawing = SentObjects(self._header, self._limits), Drawing()
        self._people: tuple[KeyPoints, ...] = ()

    def frames(self, packet: Packet) -> Iterator[Frame]:
        """The frames of a packet: none where the stream has pictures.

        Raises BitstreamError for a damaged one, unless it conceals.
        """
        if not is_alone(packet):
            return
        with suppress(*[BitstreamError] if self._conceal else ()):
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
        self._drawing.on(picture, self._with_people(found), _NOTE)
        return Frame(picture, pts)

    def _with_people(self, found: FrameAnalysis) -> FrameAnalysis:
        """Key points come with anchors: between them the last ones stay."""
        self._people = found.people or (self._people if found.objects else ())
        return replace(found, people=self._people)
