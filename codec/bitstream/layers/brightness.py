"""Brightness: how much brighter each frame is than its keyframes would have it.

Flicker and flashes take one factor a frame, like weighted prediction (ITU-T H.264, 8.4.2.3).
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.entropy_coding import FLAG, SIGNED, Coder, Element
from gsvc.codec.bitstream.errors import ConfigError, LimitError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.scaffold import Layer, Scope, Site, digest

STEPS = 32
"""Steps in a doubling: one is 2.2 %."""
MAX_BRIGHTNESS = 2 * STEPS
_ONE = 1 << 16

_PRESENT = Element("brightness.present", "brightness", FLAG)
_CHANGE = Element("brightness.change", "brightness", SIGNED, 2 * MAX_BRIGHTNESS, contexts=2)

Brightness = tuple[int, ...]
"""Brightness of each frame of an interval, in steps: 0 as in its keyframes, 32 twice as bright."""


def brightened(picture: Picture, steps: int) -> Picture:
    """The picture, RGB or luma uint8, that many steps brighter."""
    return _table(steps)[picture] if steps else picture


@cache
def _table(steps: int) -> NDArray[np.uint8]:
    values = (np.arange(256) * round(_ONE * 2 ** (steps / STEPS)) + _ONE // 2) >> 16
    return np.asarray(np.minimum(values, 255), np.uint8)


def _code(
    coder: Coder, site: Site, _before: Brightness | None, value: Brightness | None
) -> Brightness | None:
    if value is not None and len(value) != site.length:
        raise ConfigError(f"brightness of {len(value)} frames: {site.length} are needed")
    if not coder.code(_PRESENT, None if coder.reading else int(value is not None)):
        return None
    steps, last = list[int](), 0
    for frame in range(site.length):
        change = coder.code(_CHANGE, None if value is None else value[frame] - last, int(last != 0))
        last += change
        if abs(last) > MAX_BRIGHTNESS:
            raise LimitError(f"a frame's brightness differs by more than {MAX_BRIGHTNESS} steps")
        steps.append(last)
    return tuple(steps)


BRIGHTNESS: Layer[Brightness] = Layer(
    name="brightness",
    scope=Scope.INTERVAL,
    header_bit=None,
    default=True,
    code=_code,
    digest=lambda value: digest(*value),
)
