"""The codecs of the benchmark by name, all with the members of `base.Codec`.

To add one, write a module here with such a class and list it in the module's `CODECS`, or give the
benchmark a class of your own as `module:Class`.
"""

from collections.abc import Callable
from functools import cache
from inspect import signature

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.eval.baselines.base import Codec, Option
from gsvc.eval.late_loading import declared

DEFAULT_CODECS = (
    *("x264", "x265", "x265+dis", "x265+rife", "vp9", "vvenc", "libaom"),
    *("svtav1", "svtav1+offsets", "svtav1+sr", "svtav1+dis", "svtav1+rife"),
    *("hold", "motion", "gsvc"),
)
"""What a benchmark runs unless asked otherwise; what a codec lacks on this machine is a gap."""

SHORT_SPECS = {"svtav1-best": "svtav1:preset=2-qsc+2-vq-qsc,crf=70+63+55,scale=1+1/2"}
"""Of codecs as the results page has them, by name."""


@cache
def codecs() -> dict[str, Callable[..., Codec]]:
    """The class of every codec, by name."""
    return {kind.name: kind for kind in declared(__name__, "CODECS")}


def find_codec(name: str, **options: Option) -> Codec:
    """The codec, made with these options. Raises ConfigError for an unknown name or option."""
    if name not in codecs():
        raise ConfigError(
            f"unknown codec {name!r}; there are: {', '.join([*codecs(), *SHORT_SPECS])}"
        )
    kind = codecs()[name]
    try:
        signature(kind).bind(**options)
    except TypeError as error:
        takes = ", ".join(signature(kind).parameters)
        raise ConfigError(f"codec {name}: {error}; it takes {takes}") from error
    return kind(**options)
