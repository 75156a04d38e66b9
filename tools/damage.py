"""What a destroyed packet costs: `python tools/damage.py STREAM.gsv...`.

One picture packet of each stream is destroyed, 200 times, chosen at random with a fixed seed. What
is lost are the frames that a concealing decoder flags or cannot show. One row a stream: its bytes,
its packets, and median and worst seconds lost.
"""

import sys
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path
from random import Random
from statistics import median

import gsvc
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.stream_info import IndexedPacket
from gsvc.decoders.interpolation.rendering import IntervalRenderer
from gsvc.decoders.streams.concealment import Concealer
from gsvc.decoders.streams.reconstruction import Reconstruction
from gsvc.eval.layout import markdown

_TIMES = 200


class _Undrawn(IntervalRenderer):
    """Whether a frame is sound does not depend on its pixels."""

    def picture(self, _: int) -> gsvc.Picture:
        return self._left


def frames_lost(index: gsvc.StreamIndex, destroyed: IndexedPacket) -> int:
    """Frames that are lost with a packet."""
    groups = sorted({entry.group for entry in index.entries})
    after = groups[groups.index(destroyed.group) + 1 :][:1]
    # The next group's first packet may go on from this group.
    end = after[0] + 1 if after else len(index.entries)
    entries = index.entries[destroyed.group : end]
    lead = 0 if destroyed is entries[0] else entries[0].lead
    packets = index.packets(entries[0].first + entries[0].lead, index.frames)
    chain = Reconstruction(index.header, GroupReader(index.header), attrgetter("picture"), _Undrawn)
    decoder = Concealer(index.header, chain, DEFAULT_LIMITS)
    sound = 0
    for entry, (packet, _) in zip(entries, packets, strict=False):
        if entry is not destroyed:
            sound += sum(not drawn.frame.concealed for drawn in decoder.frames(packet))
    return sum(entry.frames for entry in entries) - lead - sound


def rows(paths: list[str]) -> Iterator[tuple[str, ...]]:
    """One for each stream."""
    for path in paths:
        with open(path, "rb") as file:
            index = gsvc.StreamIndex(file)
            lost = cache(lambda number, of=index: frames_lost(of, of.entries[number]))
            chance, tick = Random(0), index.header.frame_ticks * index.header.format.time_base
            seconds = [
                float(lost(chance.randrange(len(index.entries))) * tick) for _ in range(_TIMES)
            ]
        size, packets = Path(path).stat().st_size, len(index.entries)
        yield (
            Path(path).stem,
            f"{float(index.frames * tick):.1f} s",
            str(size),
            str(packets),
            f"{median(seconds):.1f} s",
            f"{max(seconds):.1f} s",
        )


if __name__ == "__main__":
    head = ("stream", "length", "bytes", "packets", "lost, median", "worst")
    print(markdown(head, list(rows(sys.argv[1:]))))
