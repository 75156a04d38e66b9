"""Spending time on a stream that is there: which way to decode it, and on which groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from operator import mul
from typing import Any

from gsvc.codec.errors import ConfigError
from gsvc.codec.planning.model import decoding_parts, kind_of
from gsvc.codec.planning.profile import Profile, Usage
from gsvc.codec.planning.quality import Range
from gsvc.codec.planning.ways import WAYS, Way
from gsvc.codec.scaffold.place import Place
from gsvc.codec.stream.info import StreamInfo

_LEAST_GAIN = 0.1
"""Of a group, in proportion to the mean: restoring never gains nothing."""


@dataclass(frozen=True)
class Group:
    """What a group has to draw, and what restoring it gains."""

    frames: int
    keys: int
    """Coded pictures among the frames."""
    gain: float
    """Of restoring them, for each frame, where 1 is usual."""

    @property
    def worth(self) -> float:
        """What restoring one of its coded pictures gains, in frames of usual gain."""
        return self.gain * self.frames / max(1, self.keys)


@dataclass(frozen=True)
class Spending:
    """One way to decode a stream."""

    way: Way
    seconds: Range
    """It takes, the process from start to end."""
    raw: float
    """The same before it was corrected by earlier jobs."""
    memory: Range
    """Bytes at the peak."""
    raw_memory: float


def groups_of(info: StreamInfo, fitted: Mapping[str, Any]) -> list[Group]:
    """The groups of a stream. Detail that few bits left out is what restoring brings back most."""
    form, found = info.header.format, list[Group]()
    packets = [packet for packet in info.packets if packet.is_picture]
    starts = [number for number, one in enumerate(packets) if one.name == "intra"]
    for first, end in zip(starts, [*starts[1:], len(packets)], strict=True):
        group = packets[first:end]
        frames = sum(one.frames for packet in group for one in packet.intervals)
        bits = 8 * sum(packet.size for packet in group)
        bpp = bits / max(1, frames * form.width * form.height)
        keys = sum(len(packet.key_frames) for packet in group)
        found.append(Group(frames, keys, _gain(bpp, fitted)))
    return found


def spendings(info: StreamInfo, profile: Profile, fitted: Mapping[str, Any]) -> list[Spending]:
    """Every way to decode a stream that this machine has.

    Learned motion is none of them where no frame lies between two coded pictures, moving: it would
    not be loaded.
    """
    draws = any(
        one.place is Place.BETWEEN and one.frames > 1 and not one.dissolves
        for packet in info.packets
        for one in packet.intervals
    )
    return [
        _spending(info, WAYS[name], usage, fitted)
        for name, usage in profile.decode.items()
        if name in WAYS and name in fitted["ways"] and (draws or WAYS[name].motion == Way().motion)
    ]


def within(
    found: Sequence[Spending], seconds: float, judge: str, fitted: Mapping[str, Any]
) -> Spending:
    """The way of best quality that surely takes no more; of equals the cheaper.

    Raises ConfigError where none does: it names the least that can be kept.
    """
    able = [one for one in found if one.seconds.high <= seconds]
    if not able:
        least = min(one.seconds.high for one in found)
        raise ConfigError(
            f"no way to decode keeps {seconds:.3g} s here: the least that can be met is "
            f"{1.01 * least:.3g}s"
        )
    sign = 1 if judge == "jod" else -1
    return max(able, key=lambda one: (sign * _change(one.way, judge, fitted), -one.seconds.mean))


def picture_costs(info: StreamInfo, usage: Usage) -> tuple[float, float]:
    """Seconds of a frame drawn plainly, on average, and of restoring a coded picture."""
    pixels, share = _pixels(info), _keys(info) / info.frames
    return pixels * (usage.frame + (1 - share) * usage.drawn), pixels * usage.key


def gain_of(way: Way, fitted: Mapping[str, Any]) -> float:
    """By how much a way lowers the logarithm of ST-LPIPS VGG, on average."""
    return -_change(way, "texture", fitted)


def _change(way: Way, judge: str, fitted: Mapping[str, Any]) -> float:
    return float(fitted["ways"][way.name][judge])


def _spending(info: StreamInfo, way: Way, usage: Usage, fitted: Mapping[str, Any]) -> Spending:
    parts = decoding_parts(
        usage, way, _pixels(info) * info.frames, _keys(info) / max(1, info.frames)
    )
    seconds = sum(map(mul, fitted["decoding"][kind_of(way)], parts))
    memory = usage.memory + usage.memory_per_pixel * _pixels(info)
    spread, held = fitted["spread"]["decode_seconds"], fitted["spread"]["decode_memory"]
    return Spending(
        way,
        Range(*(share * seconds for share in spread)),
        seconds,
        Range(*(share * memory for share in held)),
        memory,
    )


def _gain(bpp: float, fitted: Mapping[str, Any]) -> float:
    line = fitted["gain"]
    return max(_LEAST_GAIN, 1 + float(line["slope"]) * (log(max(1e-6, bpp)) - float(line["at"])))


def _keys(info: StreamInfo) -> int:
    return sum(len(packet.key_frames) for packet in info.packets)


def _pixels(info: StreamInfo) -> int:
    return info.header.format.width * info.header.format.height
