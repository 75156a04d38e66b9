"""The interface of group coders."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from gsvc.codec.bitstream.frames import Picture
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
        """See `Encoder.estimated_quality`; None where there are no probes to measure it in."""
        return None

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
        """Where nothing is chosen by probe: let frames wait, see `Encoder.hold`."""
        return

    def hurry(self) -> bool:
        """Leave out what takes most time for least, the motion of faces; whether it was sent."""
        return False

    def close(self) -> None:
        """Forget what waits and let the threads go. May be called again."""
        return


class NoPictures(GroupCoder):
    """See `GroupCoder`."""

    delay = 0

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        return []

    def flush(self) -> list[CodedPacket]:
        return []
