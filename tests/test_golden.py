"""Golden streams decode for ever: scaffold, times and packets exactly, pictures nearly.

Never skip these and never write an existing stream again; `tests/golden/make.py` adds new ones.
"""

import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from golden.make import STREAMS as MAKERS
from gsvc import BitstreamError, Decoder, DecoderSettings, PacketType, StreamReader
from gsvc.codec.bitstream.audio_and_text import unpack_audio
from gsvc.codec.bitstream.group import GroupReader
from scaffolds import scaffold_hash

STREAMS = sorted(Path(__file__).parent.glob("golden/*.gsv"))
FROZEN = {
    "appearing": "62664cc6c8b0a851",
    "cut_and_odd_times": "0657b8149d085b6a",
    "dissolving": "93d60e34b2062b34",
    "every_tool": "2d1b6ed3eecc232d",
    "guided": "fb1de888d07f6963",
    "held_and_moved": "c3fe26e41bb2aaee",
    "leaping": "30b3117221e96692",
    "many_windows": "c2b0c8aab6de994a",
    "one_small_frame": "6fc27f6599002310",
    "returning_shots": "91b1b20b8efc87f9",
    "raised_texture": "19848dd676c3851d",
    "several_a_packet": "a0283b84773cd814",
    "sound_and_the_unknown": "19945ba2b646ebc1",
    "speaking": "50bd93624d2cfeb9",
    "with_objects": "f051a893a92ab820",
}
"""The first 16 digits of the SHA-256 of every stream since version 1 was frozen."""
NEARLY = 3.0
"""Mean absolute difference of pictures, 0-255: OpenCV is not bit-exact on every machine."""


def read(path: Path) -> StreamReader:
    return StreamReader(io.BytesIO(path.read_bytes()))


def test_none_is_lost_or_written_again() -> None:
    for name, digest in FROZEN.items():
        data = (Path(__file__).parent / f"golden/{name}.gsv").read_bytes()
        assert hashlib.sha256(data).hexdigest().startswith(digest), name


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_golden_stream_decodes_as_ever(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    reader = read(path)
    packets = list(reader)
    parser, decoder = GroupReader(reader.header), Decoder(reader.header, DecoderSettings(steps=0))
    pictures = [p for p in packets if p.is_picture]
    frames = [frame for packet in packets for frame in decoder.decode(packet)]

    assert [packet.type for packet in packets] == expected["packets"]
    intervals = (interval for p in pictures for interval in parser.read(p).intervals)
    assert scaffold_hash(intervals) == expected["scaffold"]
    assert [frame.pts for frame in frames] == expected["times"]
    strip = cv2.cvtColor(cv2.imread(str(path.with_suffix(".png"))), cv2.COLOR_BGR2RGB)
    stored = np.split(strip, strip.shape[1] // reader.header.format.width, axis=1)
    for frame, picture in zip(frames[::3], stored, strict=True):
        assert np.abs(frame.pixels.astype(float) - picture).mean() <= NEARLY


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_golden_stream_is_what_its_function_says(path: Path) -> None:
    """All but the bytes of its key pictures, which depend on the AV1 encoder."""
    made, kept = StreamReader(io.BytesIO(MAKERS[path.stem]())), read(path)
    assert made.header == kept.header
    parsers = GroupReader(made.header), GroupReader(kept.header)
    for packets in zip(made, kept, strict=True):
        assert len({(packet.type, packet.frames) for packet in packets}) == 1
        if packets[0].is_picture:
            ours, theirs = (p.read(q) for p, q in zip(parsers, packets, strict=True))
            assert ours.coding == theirs.coding
            assert scaffold_hash(ours.intervals) == scaffold_hash(theirs.intervals)
        elif packets[0].type != PacketType.AUDIO:  # whose bytes are the Opus encoder's
            assert packets[0].payload == packets[1].payload


def test_golden_sound_comes_back() -> None:
    path = next(path for path in STREAMS if path.stem == "sound_and_the_unknown")
    (chunk,) = (unpack_audio(p.payload) for p in read(path) if p.type == PacketType.AUDIO)
    assert (chunk.pts, chunk.channels, chunk.packet_samples, chunk.pre_skip) == (-312, 1, 960, 312)
    assert len(chunk.packets) == 10 and all(len(packet) > 2 for packet in chunk.packets)


@pytest.mark.parametrize("seed", range(40))
def test_damage_behind_a_right_checksum_is_decoded_or_refused(seed: int) -> None:
    """The parsers and the renderer alone must hold: nothing but a BitstreamError may come out."""
    rng = np.random.default_rng(seed)
    reader = read(STREAMS[seed % len(STREAMS)])
    decoder = Decoder(reader.header, DecoderSettings(steps=0))
    for packet in reader:
        payload = bytearray(packet.payload)
        for _ in range(int(rng.integers(0, 3))):
            payload[int(len(payload) * rng.random() ** 3)] = int(rng.integers(256))
        try:
            for frame in decoder.decode(replace(packet, payload=bytes(payload))):
                assert frame.pixels.dtype == np.uint8
        except BitstreamError:
            return
