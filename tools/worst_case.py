"""Cost of the dearest packets that `Limits.restrictive()` permits: `python tools/worst_case.py`.

They are 1080p with coded pictures of noise; each interval has 15 samples with eight labels, 16
moving people and corrections. Then comes the longest scaffold. Prints seconds for each frame, and
memory.
"""

import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from time import perf_counter

import numpy as np

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.container import Packet, PacketType
from gsvc.codec.bitstream.entropy_coding import Reader
from gsvc.codec.bitstream.errors import LimitError, Limits
from gsvc.codec.bitstream.frames import Color, VideoFormat
from gsvc.codec.bitstream.group import Coding, GroupWriter
from gsvc.codec.bitstream.header import Header, Tools
from gsvc.codec.bitstream.layers import flow
from gsvc.codec.bitstream.layers.camera import Camera
from gsvc.codec.bitstream.layers.pose import Person
from gsvc.codec.bitstream.layers.texture import Texture
from gsvc.codec.bitstream.scaffold import Geometry, Interval
from gsvc.encoders.svt_av1 import encode_pictures

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from scaffolds import make_interval, make_sample

SIZE = 1920, 1088
FRAMES = 16
"""Of an interval: all but one with a sample of their own."""


def dear_interval(geometry: Geometry, frames: int, rng: np.random.Generator) -> Interval:
    """An interval with everything; a sample on every frame but the first."""
    labels = np.indices(geometry.label_shape).sum(0) % 8
    shape = geometry.block_shape(2)
    people = tuple(
        Person(number, np.full((17, 2), 99, np.int16), np.ones(17, np.bool_), moves_picture=True)
        for number in range(16)
    )
    for person in people:
        person.points[:] += rng.integers(-90, 90, (17, 2), np.int16)
    samples = [
        make_sample(
            offset,
            labels.astype(np.uint8),
            np.full((8, 2), 3, np.int16),
            people,
            flow.Correction(2, np.ones(shape, np.uint8), np.full((*shape, 2), 5, np.int16)),
        )
        for offset in range(2, frames + 1)
    ]
    texture = Texture(0, np.full(geometry.block_shape(0), 7, np.uint8))
    camera = Camera(0, np.full((frames - 1, 3, 2), 9, np.int16)) if frames > 1 else None
    return make_interval((1,) * frames, tuple(samples), texture, camera)


def dear_packets(header: Header, count: int) -> Iterator[Packet]:
    """An INTRA packet of one frame, then `count` INTER packets with everything."""
    rng = np.random.default_rng(1)
    size = header.format.width, header.format.height
    noise = [rng.integers(0, 256, (*size[::-1], 3), np.uint8) for _ in range(count + 1)]
    units = encode_pictures(noise, size=size, crf=30, color=Color(), preset=10)
    writer = GroupWriter(header, Coding(crf=30, scale=8))
    for number, unit in enumerate(units):
        interval = dear_interval(header.geometry, FRAMES if number else 1, rng)
        kind = PacketType.INTER if number else PacketType.INTRA
        yield Packet(kind, interval.length, writer.write([interval], [unit]), number=number)


def endless_scaffold(limits: Limits) -> float:
    """Seconds until the longest scaffold is refused."""
    reader = Reader(most_bits=limits.scaffold_bits)
    reader.start(b"")
    began = perf_counter()
    try:
        while True:
            reader.code(flow._VECTOR)
    except LimitError:
        return perf_counter() - began


def memory_peak() -> int:
    """Most bytes that were resident since the last call."""
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    Path("/proc/self/clear_refs").write_text("5")
    assert peak is not None
    return 1024 * int(peak[1])


def main() -> None:
    """Run it."""
    limits = Limits.restrictive()
    video = VideoFormat(*SIZE, Fraction(1, 25), Fraction(25))
    header = Header(video, level=3, tools=Tools())
    packets = list(dear_packets(header, 3))
    memory_peak()
    before = memory_peak()
    with Decoder(header, DecoderSettings(steps=0), limits) as decoder:
        slowest = 0.0
        for packet in packets:
            began = last = perf_counter()
            for _ in decoder.frames(packet):
                now = perf_counter()
                slowest, last = max(slowest, now - last), now
            print(
                f"packet of {len(packet.payload)} bytes, {packet.frames} frames:"
                f" {last - began:.1f} s, slowest frame {slowest:.2f} s"
            )
    taken = memory_peak() - before
    print(f"memory: {taken / 1e6:.0f} MB, {taken / (SIZE[0] * SIZE[1]):.0f} bytes a pixel")
    for name, given in (("restrictive", limits), ("default", Limits())):
        print(
            f"longest scaffold under {name} limits: {endless_scaffold(given):.2f} s until refused"
        )


if __name__ == "__main__":
    main()
