"""Flips every byte of the golden streams and cuts them at every point: is any damage silent?

    python tools/corruption_matrix.py              # all golden streams, minutes of a core
    python tools/corruption_matrix.py every_tool   # one of them

Each damaged copy is decoded in three ways, without refinement:

- file: as `gsvc decode` does;
- pipe: packet by packet;
- wire: with concealment; a packet that cannot be read counts as lost.

For each stream, way and kind of damage, one row counts the outcomes: refused (by which error),
flagged (some frames are concealed), the same video, the same video from a later coded picture on,
nothing shown, SILENT (a frame differs or is missing, without error or flag), and CRASH.
"""

import argparse
import io
import os
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import monotonic

from gsvc.codec.api.decode_file import decode
from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.container import Packet, StreamReader, read_packet
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.header import HEADER_BYTES, Header

GOLDEN = Path(__file__).parents[1] / "tests/golden"
SAME, FLAGGED, BEGINS_LATER, NOTHING, SILENT, CRASH = (
    "the same", "flagged", "begins later", "nothing shown", "SILENT", "CRASH",
)  # fmt: skip
Shown = tuple[tuple[int, bytes, bool], ...]
"""Of each frame: its time, its pixels, and whether it is flagged."""


def flipped_byte(data: bytes) -> Iterator[bytes]:
    """All bits of one byte changed, for each byte."""
    return (data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] for at in range(len(data)))


def flipped_bit(data: bytes) -> Iterator[bytes]:
    """One bit of one byte changed, for each byte; which one changes from byte to byte."""
    return (data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data)))


def broken_off(data: bytes) -> Iterator[bytes]:
    """Each shorter beginning, the empty one first."""
    return (data[:at] for at in range(len(data)))


DAMAGES = {"byte flipped": flipped_byte, "bit flipped": flipped_bit, "broken off": broken_off}


@cache
def shown(header: Header, packets: tuple[Packet, ...], due: int | None = None) -> Shown:
    """The frames of these packets; `due`: with concealment, up to that time."""
    settings = DecoderSettings(steps=0, conceal=due is not None)
    frames: list[Frame] = []
    with Decoder(header, settings) as decoder:
        for packet in packets:
            frames += decoder.decode(packet)
        if due is not None:
            frames += decoder.conceal_until(due)
    return tuple((frame.pts, frame.pixels.tobytes(), frame.concealed) for frame in frames)


class Original:
    """A whole stream, and what becomes of damaged copies of it."""

    def __init__(self, data: bytes, folder: Path) -> None:
        self._folder = folder
        reader = StreamReader(io.BytesIO(data))
        self.header = reader.header
        self.packets = tuple(reader)
        self.frames = shown(self.header, self.packets)
        self.video = self._file(data)
        self._sent = tuple(self._timed())

    def file(self, damaged: bytes) -> str:
        """As a file: read to its end before the first frame is decoded."""
        return SAME if self._file(damaged) == self.video else SILENT

    def pipe(self, damaged: bytes) -> str:
        """Packet by packet: what was shown before an error must be right."""
        packets: list[Packet] = []
        try:
            reader = StreamReader(io.BytesIO(damaged))
            packets.extend(reader)
        except BitstreamError:
            frames = shown(self.header, tuple(packets)) if packets else ()
            if frames != self.frames[: len(frames)]:
                return SILENT
            raise
        return SAME if shown(reader.header, tuple(packets)) == self.frames else SILENT

    def wire(self, damaged: bytes) -> str:
        """With concealment; each packet's number and times are known from what carried it."""
        header = Header.from_bytes(damaged[:HEADER_BYTES])
        arrived, at = [], HEADER_BYTES
        for packet in self._sent:
            size = len(packet.to_bytes())
            read, at = io.BytesIO(damaged[at : at + size]).read, at + size
            try:
                found = read_packet(read)
                arrived.append(replace(packet, type=found.type, payload=found.payload))
            except BitstreamError:
                continue
        last = self.frames[-1][0]
        frames = shown(header, tuple(arrived), last)
        right = {(pts, pixels) for pts, pixels, _ in self.frames}
        if any(not flag and (pts, pixels) not in right for pts, pixels, flag in frames):
            return SILENT
        if any(flag for *_, flag in frames):
            return FLAGGED
        if not frames:
            return NOTHING
        # Without its first coded picture a stream begins at the next one, as for who joins late.
        if frames == self.frames[len(self.frames) - len(frames) :]:
            return SAME if len(frames) == len(self.frames) else BEGINS_LATER
        return SILENT

    def _file(self, data: bytes) -> bytes:
        source, target = self._folder / "damaged.gsv", self._folder / "back.y4m"
        source.write_bytes(data)
        decode(source, target, settings=DecoderSettings(steps=0), overwrite=True)
        return target.read_bytes()

    def _timed(self) -> Iterator[Packet]:
        """The packets with the times that an encoder gives them."""
        pts = self.frames[0][0] - 1
        with Decoder(self.header, DecoderSettings(steps=0)) as decoder:
            for packet in self.packets:
                before = pts
                for frame in decoder.frames(packet):
                    pts = frame.pts
                yield replace(packet, pts=pts, duration=pts - before)


WAYS: dict[str, Callable[[Original, bytes], str]] = {
    "file": Original.file,
    "pipe": Original.pipe,
    "wire": Original.wire,
}


def outcome(way: Callable[[Original, bytes], str], original: Original, damaged: bytes) -> str:
    """What becomes of a damaged copy: the name of an error, or one of the words above."""
    try:
        return way(original, damaged)
    except BitstreamError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - any at all is a find
        return f"{CRASH} {error!r}"


def main() -> int:
    """Run it; 1 if anything was silent or crashed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="golden streams (all)")
    paths = [GOLDEN / f"{n}.gsv" for n in parser.parse_args().names] or sorted(GOLDEN.glob("*.gsv"))
    began, total = monotonic(), Counter[str]()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        for path in paths:
            data = path.read_bytes()
            original = Original(data, Path(folder))
            for name, way in WAYS.items():
                for damage, copies in DAMAGES.items():
                    found = Counter(outcome(way, original, copy) for copy in copies(data))
                    told = ", ".join(f"{what} {count}" for what, count in found.most_common())
                    print(
                        f"{path.stem:<22} {name:<5} {damage:<13} {found.total():>5}: {told}",
                        flush=True,
                    )
                    total += found
            shown.cache_clear()
    told = ", ".join(f"{what} {count}" for what, count in total.most_common())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{total.total()} damaged streams in {monotonic() - began:.0f} s: {told}")
    print(f"memory at most {peak / 1000:.0f} MB, libraries included")
    return int(any(what.startswith((SILENT, CRASH)) for what in total))


if __name__ == "__main__":
    sys.exit(main())
