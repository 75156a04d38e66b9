"""How the gains of a key picture's detail are laid out in elements.

Context of a gain: the gains left, above, and in the same place of the key picture before.
"""

import numpy as np

from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.coder import Coder
from gsvc.codec.scaffold.types import Geometry, Texture

_GAIN_CONTEXTS = (0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5)
"""Context of a gain by the sum of its neighbours, the one before counted twice."""


def code_texture(
    coder: Coder,
    geometry: Geometry,
    before: Texture | None,
    value: Texture | None,
    *,
    reading: bool,
) -> Texture | None:
    """Code the texture of a key picture; None, as `value` too, when nothing is raised.

    `before`: the texture of the key picture before, None if it had none. When `reading`, `value` is
    None. Raises ConfigError for a `value` whose grid does not fit the picture.
    """
    if not coder.code("texture.present", None if reading else int(value is not None)):
        return None
    block_log2 = coder.code("texture.block", None if value is None else value.block_log2)
    rows, columns = geometry.block_shape(block_log2)
    if value is not None and value.gains.shape != (rows, columns):
        raise ConfigError(f"texture gains of {value.gains.shape}: {(rows, columns)} are needed")
    if before is None or before.block_log2 != block_log2:
        past = np.zeros((rows, columns), int).tolist()
    else:
        past = before.gains.tolist()
    wanted = None if value is None else value.gains.tolist()
    gains = np.zeros((rows + 1, columns + 1), int).tolist()
    for row in range(rows):
        for column in range(columns):
            around = gains[row][column + 1] + gains[row + 1][column] + 2 * past[row][column]
            target = None if wanted is None else wanted[row][column]
            context = _GAIN_CONTEXTS[min(around, len(_GAIN_CONTEXTS) - 1)]
            gains[row + 1][column + 1] = coder.code("texture.gain", target, context)
    return Texture(block_log2, np.asarray(gains, np.uint8)[1:, 1:])
