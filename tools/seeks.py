"""How long a seek takes: `python tools/seeks.py STREAM.gsv...`.

The streams, all of one size and rate, are repeated in turn until they last ten minutes. Then 50
frames are sought, chosen at random with a fixed seed; steps 0. Prints time on the clock and
processor time: of the index, and of a seek in median and worst.
"""

import io
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from random import Random
from statistics import median
from time import perf_counter, process_time

import gsvc
from gsvc.codec.bitstream.container import varint

_SECONDS, _SEEKS = 600, 50


def long_stream(paths: Sequence[str]) -> io.BytesIO:
    """The streams one after the other, over and over."""
    out = io.BytesIO()
    with ExitStack() as opened:
        readers = [gsvc.StreamReader(opened.enter_context(open(path, "rb"))) for path in paths]
        header = readers[0].header
        packets = [packet for packet in chain(*readers) if packet.is_picture]
    writer, frames, number = gsvc.StreamWriter(out, header), 0, 0
    while frames < _SECONDS * header.format.frame_rate:
        for packet in packets:
            writer.write(packet)
            frames, number = frames + packet.frames, number + 1
    writer.write(gsvc.Packet(gsvc.PacketType.END, 0, varint(number)))
    return out


class Clock:
    """Seconds on the clock, and of the processor."""

    def __init__(self) -> None:
        self._began = perf_counter(), process_time()

    def read(self) -> tuple[float, float]:
        """Since it was made."""
        return perf_counter() - self._began[0], process_time() - self._began[1]


def main(paths: Sequence[str]) -> None:
    """Print what is found."""
    file = long_stream(paths)
    clock = Clock()
    index = gsvc.StreamIndex(file)
    indexing, chance, taken = clock.read(), Random(0), []
    with gsvc.Decoder(index.header, gsvc.DecoderSettings(steps=0)) as decoder:
        list(index.decode(decoder, 1, 1))  # imports
        for _ in range(_SEEKS):
            number, clock = chance.randrange(index.frames), Clock()
            (frame,) = index.decode(decoder, number, 1)
            taken.append(clock.read())
            assert frame.pts == index.times[number]
    groups = sorted({entry.group for entry in index.entries})
    print(f"{index.frames} frames in {len(groups)} groups and {len(index.entries)} packets")
    for what, index_time, times in zip(
        ("on the clock", "processor"), indexing, zip(*taken, strict=True), strict=True
    ):
        print(
            f"{what}: index {index_time:.2f} s, "
            f"seek {median(times):.3f} s in median, {max(times):.3f} s at worst"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
