"""Guide: how the decoder mixes what its restorer draws for a coded picture.

The encoder knows the source, so it can tell which mixture restores a picture best (Kong et al.,
"Guided CNN Restoration with Explicitly Signaled Linear Combination", ICIP 2020). A decoder without
a restorer ignores it.
"""

from gsvc.codec.bitstream.entropy_coding import UNSIGNED, Coder, Element
from gsvc.codec.bitstream.scaffold import Layer, Scope, Site, digest

_STRENGTHS, _SHARES = (0.5, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0)
MIXTURES = (
    (0.0, 0.0),
    *((strength * (1 - share), strength * share) for strength in _STRENGTHS for share in _SHARES),
)
"""Weights of fidelity and texture, a restorer's first outputs, by value; value 0 does nothing."""

LOOKS = {"faithful": -2, "balanced": 0, "sharp": 2}
"""Steps of the share by which a viewer may move a mixture."""


def moved(value: int, look: str) -> int:
    """The mixture of the same strength with more or less texture; `look`: of `LOOKS`."""
    if not value:
        return value
    row, share = divmod(value - 1, len(_SHARES))
    share = min(max(share + LOOKS[look], 0), len(_SHARES) - 1)
    return 1 + row * len(_SHARES) + share


_MIXTURE = Element("guide.mixture", "guide", UNSIGNED, len(MIXTURES), contexts=len(MIXTURES) + 1)
"""0 for the restorer's usual mixture, else the value + 1; in the context of the one before."""


def _code(coder: Coder, site: Site, before: int | None, value: int | None) -> int | None:
    context = 0 if before is None else before + 1
    wanted = None if coder.reading else 0 if value is None else value + 1
    coded = coder.code(_MIXTURE, wanted, context)
    return coded - 1 if coded else None


GUIDE: Layer[int] = Layer(
    name="guide", scope=Scope.PICTURE, header_bit=7, default=True, code=_code, digest=digest
)
