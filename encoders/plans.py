"""Plans: which pictures of a group are coded, and how the frames between them are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.brightness import Brightness
from gsvc.codec.bitstream.layers.camera import Camera
from gsvc.codec.bitstream.scaffold import Interval, Place, Sample
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.interpolation.rendering import IntervalRenderer, held_picture


@dataclass(frozen=True)
class GroupPlan:
    """The coded pictures of a group."""

    keys: tuple[int, ...]
    """Their indices in the group, rising."""
    crf: float
    """Their quantiser, 1-70 in quarters."""
    scale: int
    """The size at which they are coded, in eighths of the side."""
    companded: bool = False
    """Whether their chroma is companded before coding."""


@dataclass(frozen=True)
class PlannedInterval:
    """Frames of a group that are not sent as pictures, by their indices in it.

    BETWEEN two coded pictures `start` and `end`; BEFORE the scene's first coded picture `end`, from
    `start` on; or AFTER its last one `start`, up to `end`.
    """

    start: int
    end: int
    place: Place = Place.BETWEEN

    @property
    def length(self) -> int:
        """Frames of the packet that carries them."""
        return self.end - self.start + (self.place is Place.BEFORE)

    @property
    def frames(self) -> range:
        """Their indices."""
        first = self.start + (self.place is not Place.BEFORE)
        return range(first, self.end + (self.place is Place.AFTER))

    def time(self, index: int) -> int:
        """Time of a frame, as `camera_nodes` counts."""
        return self.end - index if self.place is Place.BEFORE else index - self.start


def planned_intervals(keys: Sequence[int], last: int) -> list[PlannedInterval]:
    """The intervals around the coded pictures of a group whose last frame is `last`."""
    found = [PlannedInterval(0, keys[0], Place.BEFORE)] if keys[0] else []
    found += [PlannedInterval(start, end) for start, end in pairwise(keys)]
    return found + ([PlannedInterval(keys[-1], last, Place.AFTER)] if keys[-1] < last else [])


@dataclass(frozen=True)
class DrawingMode:
    """How the frames of an interval are drawn, beside the decoder's own motion."""

    camera: Camera | None = None
    """Moved along this path of the camera."""
    dissolves: bool = False
    """Whether one coded picture fades into the next, without motion."""
    brightness: Brightness | None = None
    """Brightness of each of its frames, if it flickers."""


PLAIN = DrawingMode()
"""Drawing by the decoder's own motion alone."""


class DrawnInterval:
    """Draws an interval's frames in luma: enough to judge by, and motion found in it is the same.

    Times are those of `camera_nodes`.
    """

    def __init__(
        self,
        interval: Interval,
        key: Picture,
        previous_key: Picture | None,
        closing: Sample | None = None,
        *,
        quick: bool = False,
    ) -> None:
        """`key`: its coded picture, at its end or held; `previous_key`: the one before it; both
        RGB uint8 (H, W, 3) or luma (H, W). `closing`: the sample on that one. `quick`: as of
        `IntervalRenderer`.
        """
        self.interval, self._shown, self._previous_key = interval, key, previous_key
        self._closing, self._quick = closing, quick

    def picture(self, interval: Interval, time: int) -> Picture:
        """The frame under `interval`, which may have another scaffold: luma uint8 (H, W)."""
        if interval.place is not Place.BETWEEN:
            return held_picture(self._key, interval, time)
        self._renderer.set_interval(self._closing, interval)
        return self._renderer.picture(time)

    @cached_property
    def _key(self) -> Picture:
        return gray(self._shown)

    @cached_property
    def _renderer(self) -> IntervalRenderer:
        assert self._previous_key is not None  # of an interval BETWEEN that is not a picture alone
        ends = gray(self._previous_key), self._key
        return IntervalRenderer(*ends, self.interval, self._closing, quick=self._quick)


@dataclass(frozen=True)
class Probe:
    """A plan, its bits and its distortion."""

    plan: GroupPlan
    units: Sequence[bytes]
    """Temporal units of its coded pictures."""
    bits: float
    """Estimated bits of its packets; of the scaffold only the camera path is counted."""
    texture: float
    """Distortion in texture, weighted mean over all pixels and frames of the group."""
    distortion: float
    """All distortion, summed over them."""
    drawings: Mapping[PlannedInterval, DrawingMode]
    """How each of its intervals is drawn, in order."""

    def cost(self, lmbda: float) -> float:
        """D + lambda R."""
        return self.distortion + lmbda * self.bits
