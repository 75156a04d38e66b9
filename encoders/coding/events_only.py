"""Events only: frames in which nothing happens hold the last picture.

A stretch of such frames takes a packet now and then, its heartbeat: a few bytes of the format's own
held frames, which any decoder shows.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import container, scaffold
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import GroupReader, GroupWriter
from gsvc.codec.bitstream.header import Header
from gsvc.decoders.interpolation.optical_flow import gray, shrunk
from gsvc.encoders.coding.group_coder import GroupCoder, Target
from gsvc.encoders.config import CodedPacket

HEARTBEAT_SECONDS = 10.0
"""Seconds between packets while nothing happens."""
_POST_ROLL_SECONDS = 2.0
"""Seconds without anything happening, after which an event has ended."""
_MEMORY_SECONDS = 10.0  # seconds in which whatever stays becomes the background
_WIDTH = 160
_DIFFERS = 20.0  # levels of 0-255 by which a place is not background
_LEAST_SHARE = 0.0015  # share of the picture that differs if something happens

_Gray = NDArray[np.float32]


class _Waiting(NamedTuple):
    picture: Picture
    ticks: int


class EventsOnly(GroupCoder):
    """Hands the frames of events to another coder, with those just before them."""

    def __init__(self, inner: GroupCoder, header: Header, longest: int, pre_roll: float) -> None:
        """`longest`: frames that a packet may complete; `pre_roll`: seconds before an event."""
        rate = float(header.format.frame_rate)
        self._inner, self._header = inner, header
        self._beat = max(1, min(longest, round(HEARTBEAT_SECONDS * rate)))
        self._pre_roll, self._post_roll = round(pre_roll * rate), round(_POST_ROLL_SECONDS * rate)
        self._watch = _Watch(_MEMORY_SECONDS * rate)
        self._roll: deque[_Waiting] = deque()
        self._held: list[int] = []
        self._group: list[CodedPacket] = []
        self._writer: GroupWriter | None = None
        self._calm = 0
        self._has_begun = self._is_event = False

    def watch(self, report: Callable[[float], None]) -> None:
        self._inner.watch(report)

    @property
    def delay(self) -> int:
        return max(self._inner.delay, self._beat) + self._pre_roll

    @property
    def quality(self) -> float | None:
        return self._inner.quality

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        happens = self._watch(picture) or is_cut
        if self._is_event:
            return self._go_on(picture, ticks, happens, is_cut=is_cut, opens_group=opens_group)
        if opens_group or not self._has_begun:
            return [*self._quiet(), *self._still(picture, ticks)]
        self._roll.append(_Waiting(picture, ticks))
        if happens:
            return self._begin()
        if len(self._roll) > self._pre_roll:
            self._held.append(self._roll.popleft().ticks)
        return self._heartbeat() if len(self._held) >= self._beat else []

    def flush(self) -> list[CodedPacket]:
        return self._end() if self._is_event else self._quiet()

    def drop(self) -> None:
        self._inner.drop()
        self._roll.clear()
        self._held, self._group, self._writer = [], [], None
        self._has_begun = self._is_event = False

    def retarget(self, target: Target) -> None:
        self._inner.retarget(target)

    def regroup(self, gop: float) -> None:
        self._inner.regroup(gop)

    def close(self) -> None:
        self._roll.clear()
        self._inner.close()

    def _still(self, picture: Picture, ticks: int) -> list[CodedPacket]:
        """A picture by itself, for the frames after it to hold."""
        self._has_begun = True
        coded = self._inner.push(picture, ticks, is_cut=True, opens_group=True)
        return self._noted([*coded, *self._end()])

    def _begin(self) -> list[CodedPacket]:
        """An event: what was kept of the time before it, and everything from here on."""
        coded = self._heartbeat()
        self._is_event, self._calm = True, 0
        opens = True
        while self._roll:
            one = self._roll.popleft()
            coded += self._noted(
                self._inner.push(one.picture, one.ticks, is_cut=opens, opens_group=opens)
            )
            opens = False
        return coded

    def _go_on(
        self, picture: Picture, ticks: int, happens: bool, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        coded = self._noted(
            self._inner.push(picture, ticks, is_cut=is_cut, opens_group=opens_group)
        )
        self._calm = 0 if happens else self._calm + 1
        return coded + self._end() if self._calm >= self._post_roll else coded

    def _end(self) -> list[CodedPacket]:
        coded = self._noted(self._inner.flush())
        self._inner.drop()
        self._is_event = False
        return coded

    def _quiet(self) -> list[CodedPacket]:
        self._held += [one.ticks for one in self._roll]
        self._roll.clear()
        return self._heartbeat()

    def _heartbeat(self) -> list[CodedPacket]:
        held, self._held = self._held, []
        if not held:
            return []
        if self._writer is None:
            self._writer = _resumed(self._header, self._group)
        coded = []
        for start in range(0, len(held), self._beat):
            ticks = tuple(held[start : start + self._beat])
            payload = self._writer.write([scaffold.Interval(ticks, place=scaffold.Place.AFTER)], [])
            coded.append(CodedPacket(len(ticks), sum(ticks), payload))
        return coded

    def _noted(self, coded: list[CodedPacket]) -> list[CodedPacket]:
        """Keep the packets of the last group: a heartbeat builds on them."""
        for one in coded:
            self._group = [one] if one.is_intra else [*self._group, one]
            self._writer = None
        return coded


def _resumed(header: Header, group: list[CodedPacket]) -> GroupWriter:
    """A writer that goes on after the packets of a group: it has written them again."""
    reader = GroupReader(header)
    writer: GroupWriter | None = None
    for one in group:
        parsed = reader.read(container.Packet(one.type, one.frames, one.payload))
        writer = writer or GroupWriter(header, parsed.coding)
        writer.write(parsed.intervals, parsed.units)
    assert writer is not None
    return writer


class _Watch:
    """Whether something differs from what was there before; one call a frame."""

    def __init__(self, memory: float) -> None:
        """`memory`: frames in which what stays becomes the background."""
        self._share = 1 / max(memory, 1)
        self._background: _Gray | None = None

    def __call__(self, picture: Picture) -> bool:
        now = _small(picture)
        before = self._background
        if before is None:
            self._background = now
            return False
        self._background = before + self._share * (now - before)
        # Light that changes everywhere is no event.
        off = now - before
        differs = (np.abs(off - np.median(off)) > _DIFFERS).astype(np.uint8)
        solid = cv2.morphologyEx(differs, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
        return float(solid.mean()) > _LEAST_SHARE


def _small(picture: Picture) -> _Gray:
    height, width = picture.shape[:2]
    size = _WIDTH, max(1, round(_WIDTH * height / width))
    return shrunk(gray(picture), size).astype(np.float32)
