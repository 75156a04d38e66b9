"""Options of commands, declared as `gsvc COMMAND --help` shows them: a line each.

    source IN               the video
    target [OUT]            of one or none; [CLIP...] of any number, CLIP... of one or more
    --jobs -j N             videos at a time (=1)
    --audio {opus,none}     one of these
    --metric +NAME          may be repeated
    --out RUN!              must be given
    --timeout S -> silence  read as `options.silence`; `-> not feedback` is a flag that sets False
    --[no-]faces            a switch
    | --bpp BPP             excludes the other lines with a bar; with ! instead, one must be given
    -y --quiet              only named: as `SHARED` declares them

A line that begins with a space goes on; one in brackets, [pretrained models], begins a group. A
value is of the type of its name in `_TYPES`, or of the command's own `TYPES`. "(=1)" is the default
and shows as "(1)"; other defaults come from the command's `DEFAULTS`.
"""

import re
from argparse import SUPPRESS, Action, ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gsvc.codec.command import arguments

SHARED = """
others [OTHER...]       SUPPRESS
-o OUT -> output        OUT as an option
-y -> overwrite         overwrite an existing output
--quiet -q              show only errors
--json                  one JSON object a line
--untrusted             restrictive limits, for streams from strangers: at most 1080p, small packets
--conceal               continue after damage, and conceal missing frames
--start TIME            start at this time of the input: 90 or 1:30 (=0)
--level 0..3            quality level; higher is better and larger (1, or chosen by the rate)
--preset fast|medium|slow  encoding effort: slower saves bits (%(default)s)
--tune balanced|texture|motion  what to favour (%(default)s)
--bitrate RATE          target rate of the pictures in bit/s: 8000, 8k, 0.5M
--gop S                 longest time between intra pictures; 0: one for each shot (files 32, live 4)
--fps N                 at most N frames a second
--size LINES|WxH|auto   scale down to this shorter side or into WxH; auto: choose size and frame
                        rate by the rate; source: never scale (source, or auto if the rate is far
                        too low)
--deinterlace           deinterlace the video
--events-only           send pictures only while something moves
--steps 0|1|2|4|8       steps of the refiner: restorer 0 or 1, compact to 8, pretrained to 100
                        (%(default)s)
--backend NAME|FILE|CLASS  refiner: restorer (default); compact:nano, compact:small or compact:base,
                        each slower; a .safetensors file of gsvc train; a pretrained model for a GPU
                        (gsvc models list); or your own module:Class
--look faithful|balanced|sharp  how much texture the restorer adds (%(default)s)
--motion dis|rife       motion estimator; rife is a network, better and slower (%(default)s)
--device DEVICE         cpu, cuda or cuda:N (=cpu)
--seed 0..65535         seed of the refiner (the stream's)
"""
"""Options that several commands have."""

_TYPES: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("N", "0..3", "0..65535", "0|1|2|4|8", "8k+1", "PORT"), int),
    **dict.fromkeys(("BPP", "D", "S", "SECONDS", "MS", "M", "L", "MB", "W", "T", "FACTOR"), float),
    **dict.fromkeys(("0..1", "1..8", "GB"), float),
    "RATE": arguments.bitrate,
    "SIZE": arguments.size,
    "N,N": arguments.integers,
    "LINES|WxH|auto": arguments.picture_size,
    "--start": arguments.time,
    "--fps": arguments.frame_rate,
}
"""Of a value, by its name or by the option's; of others it is text."""
_LINE = re.compile(
    r"(?P<mark>[|!] )?(?P<names>-[^\s>]\S*(?: -[^\s>]\S*)*|\w+)(?: (?P<value>[^\s-]\S*))?"
    r"(?: -> (?P<no>not )?(?P<dest>\w+))?(?: {2,}(?P<help>.+))?"
)
_DEFAULT = re.compile(r"\(=(.*)\)$")


def add_options(
    parser: ArgumentParser,
    table: str,
    defaults: Sequence[object] = (),
    types: Mapping[str, Callable[[str], object]] | None = None,
) -> None:
    """Give a parser the options of a table.

    `defaults`: values whose attributes are the defaults of options of the same name; `types`: how
    text is read, by the value's name or by the option's, before `_TYPES`.
    """
    into: Any = parser
    groups: dict[str, Any] = {}
    for line in _lines(table):
        if line.startswith("["):
            into = parser.add_argument_group(line.strip("[]"))
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        mark = match["mark"]
        if mark and mark not in groups:
            groups[mark] = parser.add_mutually_exclusive_group(required=mark == "! ")
        group = groups[mark] if mark else into
        _add(group.add_argument, match, defaults, {**_TYPES, **(types or {})})


def _whole(table: str) -> list[str]:
    """The options of a table, each in a line."""
    return [line for line in re.sub(r"\n +", " ", table).splitlines() if line]


_SHARED = {line.split()[0]: line for line in _whole(SHARED)}


def _lines(table: str) -> Iterator[str]:
    """The options of a table, those that are only named as they are shared."""
    for line in _whole(table):
        names = line.split()
        yield from [_SHARED[name] for name in names] if _SHARED.keys() >= {*names} else [line]


def _add(
    add: Callable[..., Action],
    match: re.Match[str],
    defaults: Sequence[object],
    types: Mapping[str, Callable[[str], object]],
) -> None:
    names, value, text = match["names"].split(), match["value"], match["help"]
    dest = match["dest"] or names[0].strip("-").replace("[no-]", "").replace("-", "_")
    own = next((getattr(one, dest) for one in defaults if hasattr(one, dest)), None)
    more: dict[str, Any] = {"help": SUPPRESS if text == "SUPPRESS" else text}
    if is_option := names[0].startswith("-"):
        more["dest"] = dest
    if "[no-]" in names[0]:
        names = [names[0].replace("[no-]", "")]
        more |= {"action": BooleanOptionalAction, "default": own}
    elif value is None:
        more["action"] = "store_false" if match["no"] else "store_true"
    else:
        more |= _of_value(value)
        more["type"] = types.get(names[0]) or types.get(str(more.get("metavar"))) or str
        several = more.get("nargs") in ("*", "+") or "action" in more
        if own is not None or (several and is_option):
            more["default"] = [] if own is None else own
        if given := _DEFAULT.search(text or ""):
            shown, read = given[1], more["type"]
            more["default"] = [*map(read, shown.split())] if several else read(shown)
            more["help"] = _DEFAULT.sub(f"({shown})", text)
    add(*names, **more)


def _of_value(value: str) -> dict[str, Any]:
    """What a value's form says: how many there are, and which."""
    found: dict[str, Any] = {}
    if value.endswith("!"):
        value, found["required"] = value[:-1], True
    if value.startswith("+"):
        value, found["action"] = value[1:], "append"
    elif value.startswith("[") and value.endswith("]"):
        value, found["nargs"] = value[1:-1], "?"
        if value.endswith("..."):
            value, found["nargs"] = value[:-3], "*"
    elif value.endswith("..."):
        value, found["nargs"] = value[:-3], "+"
    if value.startswith("{"):
        found["choices"] = tuple(value.strip("{}").split(","))
    else:
        found["metavar"] = value
    return found
