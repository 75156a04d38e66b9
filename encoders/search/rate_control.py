"""Rate control: what a group may spend, and what any second may."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gsvc.codec.bitstream.header import HEADER_BYTES
from gsvc.encoders.config import CodingConfig

_log = logging.getLogger(__name__)
_LONG_GROUP = 30.0  # seconds of a group from which its intra picture is hardly felt
_MEMORY = 8.0
"""Seconds in which what was spent fades from memory, where a link's rate is followed. By hand."""
_MADE_UP = 0.1, 0.5
"""Shares of that time's bits made up for at once where less or more was spent: a link does not save
what it did not carry. By hand."""
FIXED_BITS = 8 * (HEADER_BYTES + 7)
"""Header and END packet."""


@dataclass
class _Spent:
    """Sums over packets of one kind."""

    packets: int = 0
    frames: int = 0
    bits: int = 0


class RateControl:
    """Hands out budgets; what a group over- or underspends, later ones make up for."""

    def __init__(self, config: CodingConfig) -> None:
        video = config.header.format
        self.bpp, self._pixels = config.bpp, video.width * video.height
        self._rate = self.bpp * self._pixels
        self.exact = config.exact
        """Whether budgets are to be taken whole, or are limits."""
        self._least = float(video.frame_rate)
        self.debt = float(FIXED_BITS)  # bits spent beyond the rate
        self.frames = 0
        """Coded since the rate was set."""
        self._intra, self._inter = _Spent(), _Spent()
        self._is_short = not math.isinf(config.lookahead)
        self._group = min(config.gop, _LONG_GROUP) * float(video.frame_rate)
        self._usual: float | None = None
        self._memory = _MEMORY * float(video.frame_rate)
        self._recent = self._recent_frames = 0.0

    def retarget(self, bpp: float, *, exact: bool) -> None:
        """Another rate from here on; what the old one over- or underspent is forgotten."""
        if self.frames >= self._least or self._usual is None:
            self._usual = self._of_whole_groups()
        self.bpp, self._rate, self.exact = bpp, bpp * self._pixels, exact
        self.debt, self.frames = 0.0, 0
        self._recent = self._recent_frames = 0.0
        self._intra, self._inter = _Spent(), _Spent()

    def _of_whole_groups(self) -> float | None:
        """Bits a frame of groups as long as they may be: a group that has begun is mostly its
        intra picture. None where nothing was coded."""
        intra, inter = self._intra, self._inter
        if not intra.packets or not inter.frames:
            frames, bits = intra.frames + inter.frames, intra.bits + inter.bits
            return bits / (frames if inter.frames else self._group) if frames else None
        return intra.bits / intra.packets / self._group + inter.bits / inter.frames

    def foreseen(self) -> float | None:
        """Bits of groups of full length in proportion to those that are due; None if that is
        unknown or not aimed at."""
        usual = self._of_whole_groups() if self.exact else None
        return usual and usual / self._rate

    def budget(self, frames: int) -> float:
        """Bits that `frames` frames may take, framing included."""
        # A short group may take what a second of video may: its intra picture costs the same.
        share = self._rate * (frames if self.exact else max(frames, self._least))
        # A level's limit is no target: what an easy group leaves is not for later ones to waste.
        debt = self.debt if self.exact else max(self.debt, -0.5 * share)
        return max(0.3 * share, share - debt)

    def spent(self, bits: int, frames: int, *, is_intra: bool = False) -> None:
        """Tell what a group took in all, or a packet of one, which may be an intra picture's."""
        self.debt += bits - self._rate * frames
        self.frames += frames
        spent = self._intra if is_intra else self._inter
        spent.bits, spent.frames = spent.bits + bits, spent.frames + frames
        spent.packets += 1
        over = self.debt / (self._rate * self.frames)
        if self._is_short and self.exact and self.frames >= 2 * self._least and over > 0.1:
            self._is_short = False
            told = "look-ahead is too short: groups take %.1f times the rate, allow more of either"
            _log.warning(told, 1 + over)
        kept = math.exp(-frames / self._memory)
        self._recent = kept * self._recent + bits
        self._recent_frames = kept * self._recent_frames + frames

    def requantized(self, factor: float) -> None:
        """Tell that from here on pictures take `factor` times the bits that they took."""
        self._recent *= factor

    def take_excess(self) -> float | None:
        """Bits spent lately in proportion to those that are due; at a new rate, once, those of the
        old one. None if that is unknown or not aimed at."""
        if not self.frames and self._usual is not None:
            # A new rate: what the old one took is known.
            usual, self._usual = self._usual, self._rate
            return usual / self._rate
        if not self.frames or math.isinf(self._rate) or (self.debt <= 0 and not self.exact):
            return None
        saved, owed = _MADE_UP
        due = min(owed, max(-saved, self.debt / (self._rate * self._memory)))
        return max(0.1, self._recent / (self._rate * self._recent_frames) * (1 + due))


class WindowCap:
    """A hard limit over any second of the stream: a packet counts when its last frame is shown."""

    def __init__(self, bitrate: float, header_bits: int) -> None:
        """`bitrate`: bits that any second may take; `header_bits` are sent at time 0."""
        self._most = bitrate
        self._sent: list[tuple[float, int]] = [(0.0, header_bits)]

    def fits(self, packets: Sequence[tuple[float, int]]) -> bool:
        """Whether these packets, (seconds, bits) in order, may follow those added before."""
        return self.busiest(packets) <= self._most

    def busiest(self, packets: Sequence[tuple[float, int]]) -> int:
        """Most bits in any second if these packets, as of `fits`, follow those added before."""
        every = [*self._sent, *packets]
        busiest = window = start = 0
        for time, bits in every:
            window += bits
            while every[start][0] <= time - 1:
                window -= every[start][1]
                start += 1
            busiest = max(busiest, window)
        return busiest

    def add(self, packets: Sequence[tuple[float, int]]) -> None:
        """Send them."""
        self._sent = [p for p in (*self._sent, *packets) if p[0] > packets[-1][0] - 1]
