"""The interface of group coders, and where a scene cut begins a group."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.encoders import tuning
from gsvc.encoders.config import CodedPacket


class Target(NamedTuple):
    """What a group coder is to meet from now on; fields as in `CodingConfig`."""

    bpp: float
    exact: bool
    level: tuning.Level | None = None
    """Ignored with look-ahead; None keeps the current one. So with `effort`."""
    effort: tuning.Effort | None = None


class GroupCoder(Protocol):
    """Codes frames in order, group by group.

    Made from a `CodingConfig`; raises MissingModelError if the model of a scaffold tool is missing.
    """

    def watch(self, report: Callable[[float], None]) -> None:
        """Tell `report`, while a group is being coded, how many frames' worth of it is done.

        A coder that takes no time to speak of tells nothing.
        """
        return

    @property
    def delay(self) -> int:
        """Frames that must be given after a frame before its packet comes, at most."""

    @property
    def quality(self) -> float | None:
        """See `Encoder.estimated_quality`."""

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        """Take a frame, RGB uint8 (H, W, 3), and give the packets that are ready.

        `ticks`: from the frame before, sent or waiting, to this one; `is_cut`: it begins a scene;
        `opens_group`: it must be an intra picture. Raises ConfigError where a limit cannot be kept:
        then `drop` what waits.
        """

    def flush(self) -> list[CodedPacket]:
        """Code what waits. Errors as of `push`."""

    def drop(self) -> None:
        """Forget what waits: the next frame begins a scene."""
        return

    def retarget(self, target: Target) -> None:
        """Set the rate from the next group on."""
        return

    def regroup(self, gop: float) -> None:
        """Set the limit on groups from here on: seconds, infinite for none."""
        return

    def hold(self, *, is_held: bool, intra_bits: float | None = None, fills: bool = False) -> None:
        """Where nothing is chosen by probe: let frames wait, see `LowDelay.hold`."""
        return

    def close(self) -> None:
        """Forget what waits and let the threads go. May be called again."""
        return


class NoPictures(GroupCoder):
    """See `GroupCoder`."""

    delay = 0
    quality = None

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        return []

    def flush(self) -> list[CodedPacket]:
        return []


_THUMBNAIL = (32, 18)
_FLICKER = 64
"""Levels by which brightness may change within a shot: from black to white is a cut."""


def thumbnail(picture: Picture) -> NDArray[np.float32]:
    """Luma of RGB uint8 (H, W, 3), float32 (18, 32)."""
    small = cv2.resize(gray(picture), _THUMBNAIL, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32)


class CutDetector:
    """Tells, frame by frame, whether a new scene begins.

    Both structure and histogram must change: a pan changes only the first, a flash or a flicker of
    brightness only the second. A very large change of structure is a cut whatever the histogram.
    """

    def __init__(self) -> None:
        self._last: NDArray[np.float32] | None = None
        self._usual = 0.0

    def __call__(self, picture: Picture) -> bool:
        """True when `picture` (RGB uint8) does not continue the one before."""
        now = thumbnail(picture)
        last, self._last = self._last, now
        if last is None:
            return False
        brighter = np.clip(now.mean() - last.mean(), -_FLICKER, _FLICKER)
        change = float(np.abs(now - last - brighter).mean())
        spread = float(np.abs(np.sort(now, axis=None) - np.sort(last, axis=None)).mean())
        is_cut = change > max(tuning.LEAST_CUT, tuning.CUT_RATIO * self._usual) and (
            change > tuning.SURE_CUT or spread > tuning.LEAST_SPREAD
        )
        self._usual = 0.0 if is_cut else 0.8 * self._usual + 0.2 * change
        return is_cut
