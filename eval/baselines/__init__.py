"""The codecs of the benchmark by name, all with the members of `base.Codec`.

To add one, write a module here with such a class and list it in the module's `CODECS`, or give the
benchmark a class of your own as `module:Class`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature

from gsvc.codec.bitstream.errors import ConfigError, nearest
from gsvc.eval.baselines.base import Codec, Option
from gsvc.eval.late_loading import declared

DEFAULT_CODECS = (
    *("x264", "x265", "x265+dis", "x265+rife", "vp9", "vvenc", "libaom"),
    *("svtav1-best", "svtav1+sr", "svtav1+dis", "svtav1+rife"),
    *("hold", "motion", "gsvc"),
)
"""What a benchmark runs unless asked otherwise; what a codec lacks on this machine is a gap."""

BEST_PRESETS, BEST_SCALES = "2-qsc+2-vq-qsc", "1+1/2"
SHORT_SPECS = {"svtav1-best": f"svtav1:preset={BEST_PRESETS},crf=70+63+55,scale={BEST_SCALES}"}
"""Of codecs as the results page has them, by name. Smaller pictures only lower its least rate."""

_STANDARDS = {"h264": "x264", "avc": "x264", "h265": "x265", "hevc": "x265", "av1": "svtav1"}


@cache
def codecs() -> dict[str, Callable[..., Codec]]:
    """The class of every codec, by name."""
    return {kind.name: kind for kind in declared(__name__, "CODECS")}


def find_codec(name: str, **options: Option) -> Codec:
    """The codec, made with these options. Raises ConfigError for an unknown name or option."""
    if name not in codecs():
        known = [*codecs(), *SHORT_SPECS]
        meant = nearest(_STANDARDS.get(name.lower(), name), known)
        raise ConfigError(f"unknown codec {name!r}{meant or '; there are: ' + ', '.join(known)}")
    check_options(codecs()[name], f"codec {name}", options)
    return codecs()[name](**options)


def check_options(kind: Callable[..., object], name: str, options: Mapping[str, Option]) -> None:
    """Raise ConfigError for an option that the class does not take."""
    takes = signature(kind).parameters
    for option in options:
        if option not in takes and all(one.kind is not one.VAR_KEYWORD for one in takes.values()):
            meant = nearest(option, takes) or f"; it takes {', '.join(takes) or 'none'}"
            raise ConfigError(f"{name} has no option {option}{meant}")
