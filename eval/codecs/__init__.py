"""The codecs of the benchmark by name, all in one shape: see `base`.

To add one, write a class with the members of `gsvc.eval.codecs.base.Codec` and name it in `CODECS`, or give
the benchmark `module:Class`.
"""

from collections.abc import Callable
from inspect import signature

from gsvc.codec.errors import ConfigError
from gsvc.eval.codecs.base import Codec
from gsvc.eval.codecs.floors import Hold, Motion
from gsvc.eval.codecs.learned import Cheng2020, Hyperprior, MeanHyperprior, Ssf2020
from gsvc.eval.codecs.options import Option
from gsvc.eval.codecs.ours import Gsvc, GsvcLayers
from gsvc.eval.codecs.svtav1 import SvtAv1
from gsvc.eval.codecs.vp9 import Vp9
from gsvc.eval.codecs.vvenc import VVenC
from gsvc.eval.codecs.x264 import X264
from gsvc.eval.codecs.x265 import X265

_CONVENTIONAL = (X264, X265, SvtAv1, Vp9, VVenC)
_OURS = (Hold, Motion, Gsvc, GsvcLayers)
_LEARNED = (Ssf2020, Hyperprior, MeanHyperprior, Cheng2020)

CODECS: dict[str, Callable[..., Codec]] = {
    **{kind.name: kind for kind in _CONVENTIONAL},
    **{kind.name: kind for kind in _OURS},
    **{kind.name: kind for kind in _LEARNED},
}

DEFAULT_CODECS = ("x264", "x265", "svtav1", "vp9", "hold", "motion", "gsvc")
"""What needs nothing beyond gsvc itself."""


def find_codec(name: str, **options: Option) -> Codec:
    """The codec, with options of its constructor. Raises ConfigError for an unknown name or option."""
    if name not in CODECS:
        raise ConfigError(f"unknown codec {name!r}; there are: {', '.join(CODECS)}")
    try:
        signature(CODECS[name]).bind(**options)
    except TypeError as error:
        raise ConfigError(f"codec {name}: {error}; see its class for what it takes") from error
    return CODECS[name](**options)
