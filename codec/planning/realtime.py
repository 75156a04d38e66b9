"""Decoding within a time: which way to decode a stream, and which groups to restore.

`within` takes the best way that surely keeps a time. `decoding_by_deadline` uses all of the time:
what plain decoding leaves goes to the groups that gain most from it. Before each group, what is
left of the time is spent anew by what was measured so far, the group of the greatest gain for a
second first. A picture that would end behind the deadline is not restored.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log
from typing import Any

from gsvc.codec.bitstream import errors, scaffold
from gsvc.codec.bitstream.stream_info import StreamInfo
from gsvc.codec.planning.machine_profile import WAYS, Profile, ResourceUsage, Way
from gsvc.codec.planning.prediction import Range, decoding_seconds, spread_of
from gsvc.decoders.streams.reconstruction import REFINING

_LEAST_GAIN = 0.1  # of a group, in proportion to the mean: restoring never gains nothing


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
        bpp = 8 * sum(one.size for one in group) / max(1, frames * form.width * form.height)
        keys = sum(len(packet.key_frames) for packet in group)
        line = fitted["gain"]
        gain = 1 + float(line["slope"]) * (log(max(1e-6, bpp)) - float(line["at"]))
        found.append(Group(frames, keys, max(_LEAST_GAIN, gain)))
    return found


def spendings(info: StreamInfo, profile: Profile, fitted: Mapping[str, Any]) -> list[Spending]:
    """Every way to decode a stream that this machine has.

    Learned motion is none of them where no moving frame lies between two coded pictures.
    """
    draws = any(
        one.place is scaffold.Place.BETWEEN and one.frames > 1 and not one.dissolves
        for packet in info.packets
        for one in packet.intervals
    )
    pixels, keys, found = _pixels(info), _keys(info) / max(1, info.frames), list[Spending]()
    for name, usage in profile.decode.items():
        way = WAYS.get(name)
        if way is None or name not in fitted["ways"] or (way.motion != Way().motion and not draws):
            continue
        seconds = decoding_seconds(usage, way, pixels * info.frames, keys, fitted)
        memory = usage.held(pixels)
        held = spread_of(fitted, "decode_memory", memory)
        taken = spread_of(fitted, "decode_seconds", seconds)
        found.append(Spending(way, taken, seconds, held, memory))
    return found


def within(
    found: Sequence[Spending], seconds: float, judge: str, fitted: Mapping[str, Any]
) -> Spending:
    """The way of best quality that surely takes no more; of equals the cheaper. Raises ConfigError
    where none does, with the least that can be kept."""
    able = [one for one in found if one.seconds.high <= seconds]
    if not able:
        least = min(one.seconds.high for one in found)
        raise errors.ConfigError(
            f"no way to decode keeps {seconds:.3g} s here: the least that can be met is "
            f"{1.01 * least:.3g}s"
        )
    sign = 1 if judge == "jod" else -1
    return max(able, key=lambda one: (sign * _change(one.way, judge, fitted), -one.seconds.mean))


def picture_costs(info: StreamInfo, usage: ResourceUsage) -> tuple[float, float]:
    """Seconds of a frame drawn plainly, on average, and of restoring a coded picture."""
    pixels, share = _pixels(info), _keys(info) / info.frames
    return pixels * (usage.frame + (1 - share) * usage.drawn), pixels * usage.key


def _change(way: Way, judge: str, fitted: Mapping[str, Any]) -> float:
    """By how much a way changes JOD, or the logarithm of ST-LPIPS VGG, on average."""
    return float(fitted["ways"][way.name][judge])


def _keys(info: StreamInfo) -> int:
    return sum(len(packet.key_frames) for packet in info.packets)


def _pixels(info: StreamInfo) -> int:
    return info.header.format.width * info.header.format.height


_RESERVE = 1.1  # what plain decoding is taken to need, in proportion to what it took so far
_ENDING = 0.02  # share of all time that is kept for the end: the file is written out
_SURE = 10  # frames after which what plain decoding took is believed
_USUAL = 0.3  # how far each measurement moves what restoring is taken to need


class DeadlinePace:
    """The pace of a file to decode within `seconds` from now; `restored`: pictures so far."""

    def __init__(
        self,
        groups: Sequence[Group],
        frame: float,
        key: float,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`frame`, `key`: seconds of a frame drawn plainly, and of restoring a coded picture, as
        foretold: they are measured on the way."""
        self.restored = 0
        self._groups, self._frame, self._key, self._clock = groups, frame, key, clock
        self._began = clock()
        self._ends_at = self._began + (1 - _ENDING) * seconds
        self._firsts = [0, *accumulate(group.keys for group in groups)]
        self._seen = self._quota = 0
        self._spent = 0.0

    def may(self, work: str) -> bool:
        """See `Pace`. Coded pictures are asked for in order, each once."""
        if work != REFINING:
            return False
        last = len(self._groups) - 1
        number = next((n for n in range(last) if self._seen < self._firsts[n + 1]), last)
        if self._seen == self._firsts[number]:
            self._quota = self._share(number)
        left = self._left(number, self._seen - self._firsts[number])
        self._seen += 1
        if not self._quota or left < self._key:
            return False
        self._quota -= 1
        return True

    def took(self, work: str, seconds: float) -> None:
        assert work == REFINING
        self.restored += 1
        self._spent += seconds
        if self.restored > 1:  # the first one loads the network; slower: believed at once
            self._key += (1.0 if seconds > self._key else _USUAL) * (seconds - self._key)

    def _left(self, number: int, within: int) -> float:
        """Seconds beside those of plain decoding, `within` pictures into a group."""
        now, group = self._clock(), self._groups[number]
        done = sum(one.frames for one in self._groups[:number])
        done += group.frames * within // max(1, group.keys)
        if done:
            plain = (now - self._began - self._spent) / done
            self._frame = plain if done > _SURE else max(plain, self._frame)
        frames = sum(one.frames for one in self._groups) - done
        return self._ends_at - now - _RESERVE * self._frame * frames

    def _share(self, now: int) -> int:
        """How many pictures of the group `now` may be restored; those behind it compete."""
        left = self._left(now, 0)
        order = sorted(range(now, len(self._groups)), key=lambda n: -self._groups[n].worth)
        for number in order:
            able = _able(self._groups[number], self._key, left)
            if number == now:
                return able
            left -= able * self._key
        return 0


def restored_worth(groups: Sequence[Group], key: float, seconds: float) -> float:
    """What can be gained within `seconds`, in frames of usual gain; `key`: as of `DeadlinePace`."""
    gained = 0.0
    for group in sorted(groups, key=lambda group: -group.worth):
        able = _able(group, key, seconds)
        gained += group.worth * able
        seconds -= able * key
    return gained


def _able(group: Group, key: float, seconds: float) -> int:
    """How many of its pictures there is time for."""
    return min(group.keys, max(0, int(seconds / max(1e-9, key))))


def decoding_by_deadline(
    info: StreamInfo,
    profile: Profile,
    fitted: Mapping[str, Any],
    seconds: float,
    passed: float = 0.0,
) -> tuple[Way, DeadlinePace]:
    """The way to decode, and its pace, within `seconds`, of which `passed` are over.

    The refiner is the one that gains most texture in the time that plain decoding leaves, by the
    machine's profile. Raises ConfigError where plain decoding alone takes longer.
    """
    plain, groups = profile.decode[Way().name], groups_of(info, fitted)
    frame, _ = picture_costs(info, plain)
    least = plain.start + info.frames * frame
    if least > seconds:
        raise errors.ConfigError(
            f"a deadline of {seconds:.3g} s cannot be met: plain decoding alone takes about "
            f"{least:.3g} s here, so give {1.2 * least:.3g}s or more"
        )
    gains = {Way(): 0.0}
    for name, usage in profile.decode.items():
        way = WAYS.get(name, Way())
        if way.backend and way.motion == Way().motion:
            spare = max(0.0, 0.9 * (seconds - least) - (usage.start - plain.start))
            able = restored_worth(groups, picture_costs(info, usage)[1], spare)
            gains[way] = -_change(way, "texture", fitted) * able
    best = max(gains, key=lambda way: gains[way])
    usage = profile.decode[best.name]
    key = picture_costs(info, usage)[1]
    left = seconds - max(passed, 0.0) - (usage.start - plain.start)
    return best, DeadlinePace(groups, frame, key, left)
