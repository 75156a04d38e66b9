"""Texture: by how much the decoder raises the detail of a coded picture."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.entropy_coding import FLAG, UNSIGNED, Coder, Element
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.scaffold import Layer, Scope, Site, digest

MAX_GAIN = 7
"""Largest texture gain."""

_PRESENT = Element("texture.present", "texture", FLAG)
_BLOCK = Element("texture.block", "texture", UNSIGNED, 3)
_GAIN = Element("texture.gain", "texture", UNSIGNED, MAX_GAIN, contexts=6)

_CONTEXTS = (0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5)
"""Context of a gain, by the sum of the gains to the left, above and, twice, of the block before."""


@dataclass(frozen=True, eq=False)
class Texture:
    """The gain of each block of a picture."""

    block_log2: int
    """0 to 3: the side of a block is 2^block_log2 cells."""
    gains: NDArray[np.uint8]
    """`Geometry.block_shape(block_log2)`, 0 to `MAX_GAIN`: quarters of the detail to add."""


def _code(
    coder: Coder, site: Site, before: Texture | None, value: Texture | None
) -> Texture | None:
    if not coder.code(_PRESENT, None if coder.reading else int(value is not None)):
        return None
    block_log2 = coder.code(_BLOCK, None if value is None else value.block_log2)
    shape = site.geometry.block_shape(block_log2)
    if value is not None and value.gains.shape != shape:
        raise ConfigError(f"texture gains of {value.gains.shape}: {shape} are needed")
    if before is None or before.block_log2 != block_log2:
        past = np.zeros(shape, np.uint8)
    else:
        past = before.gains
    return Texture(block_log2, _code_gains(coder, past, None if value is None else value.gains))


def _code_gains(
    coder: Coder, past: NDArray[np.uint8], value: NDArray[np.uint8] | None
) -> NDArray[np.uint8]:
    rows, columns = past.shape
    before = past.tolist()
    wanted = None if value is None else value.tolist()
    gains = np.zeros((rows + 1, columns + 1), int).tolist()  # a border of 0 above and to the left
    for row in range(rows):
        for column in range(columns):
            around = gains[row][column + 1] + gains[row + 1][column] + 2 * before[row][column]
            context = _CONTEXTS[min(around, len(_CONTEXTS) - 1)]
            target = None if wanted is None else wanted[row][column]
            gains[row + 1][column + 1] = coder.code(_GAIN, target, context)
    return np.asarray(gains, np.uint8)[1:, 1:]


TEXTURE: Layer[Texture] = Layer(
    name="texture",
    scope=Scope.PICTURE,
    header_bit=4,
    default=True,
    code=_code,
    digest=lambda value: digest(value.block_log2, value.gains),
)
