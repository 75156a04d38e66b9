"""Forged pictures, streams and packets, tried on what decodes them."""

import io
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np

from fuzz_bytes import bend, golden_units
from gsvc import (
    AnalysisSettings,
    BitstreamError,
    Color,
    Decoder,
    DecoderSettings,
    Frame,
    GsvcError,
    Header,
    Packet,
    StreamIndex,
    StreamReader,
    VersionError,
)
from gsvc.codec.bitstream.container import read_packet
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS
from gsvc.codec.bitstream.header import HEADER_BYTES
from gsvc.decoders.detection.analyser import Analyser
from gsvc.decoders.detection.sent_objects import find_content
from gsvc.decoders.keyframes.keyframe import KeyframeDecoder


def check_picture(data: bytes) -> None:
    """Units of one group through the AV1 decoder: each gives a picture, or is refused.

    A byte says which golden group gives the size; each unit is led by its length in two bytes.
    """
    size, _ = golden_units()[data[0] % len(golden_units())] if data else ((16, 16), ())
    decoder = KeyframeDecoder(size, Color())
    data = data[1:]
    while data:
        length = int.from_bytes(data[:2], "big")
        picture = decoder.decode(data[2 : 2 + length], size)
        assert picture.shape == (size[1], size[0], 3) and picture.dtype == np.uint8
        data = data[2 + length :]


def make_picture(rng: random.Random) -> bytes:
    """A golden group with one unit bent, lost, repeated, or from elsewhere."""
    index = rng.randrange(len(golden_units()))
    units = list(golden_units()[index][1])
    at = rng.randrange(len(units))
    match rng.randrange(6):
        case 0:
            del units[at]
        case 1:
            units.insert(at, units[at])
        case 2:
            units[at] = rng.choice(rng.choice(golden_units())[1])
        case _:
            units[at] = bend(rng, units[at])
    return bytes([index]) + b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)


def check_decoder(data: bytes) -> None:
    """A stream through the decoder, every frame drawn."""
    reader = StreamReader(io.BytesIO(data))
    with Decoder(_small(reader.header), DecoderSettings(steps=0)) as decoder:
        last = None
        for packet in reader:
            for frame in decoder.frames(packet):
                _check_frame(frame, reader.header)
                assert last is None or frame.pts > last
                last = frame.pts


def check_analysis(data: bytes) -> None:
    """A stream analysed, with its pictures and without: every frame is told, boxes lie inside."""
    for detector in ("moving", "none", "objects"):
        reader = StreamReader(io.BytesIO(data))
        form = _small(reader.header).format
        content, packets = find_content(reader.header, reader, DEFAULT_LIMITS)
        if not (content.objects if detector == "objects" else content.pictures):
            continue
        analyser = Analyser(reader.header, AnalysisSettings(detector), DEFAULT_LIMITS, content)
        for number, frame in enumerate(analyser.frames(packets)):
            assert frame.frame == number
            for one in frame.objects:
                left, top, right, bottom = one.box.tolist()
                assert 0 <= left < right <= form.width and 0 <= top < bottom <= form.height


def check_index(data: bytes) -> None:
    """A stream sought: three frames of its middle are what decoding all gives there."""
    index = StreamIndex(io.BytesIO(data))
    middle = index.frames // 2
    with Decoder(_small(index.header), DecoderSettings(steps=0)) as decoder:
        sought = list(index.decode(decoder, middle, 3))
    with Decoder(index.header, DecoderSettings(steps=0)) as decoder:
        packets = StreamReader(io.BytesIO(data))
        frames = [frame for packet in packets for frame in decoder.frames(packet)]
    assert len(frames) == index.frames
    for one, other in zip(sought, frames[middle : middle + 3], strict=True):
        assert one.pts == other.pts and np.array_equal(one.pixels, other.pixels)


def check_concealment(data: bytes) -> None:
    """Packets as the network brings them, numbers and times forged too: nothing may be raised."""
    header = _small(Header.from_bytes(data[:HEADER_BYTES]))
    rng = random.Random(data)
    with Decoder(header, DecoderSettings(steps=0, conceal=True)) as decoder:
        for number, packet in enumerate(_packets_in(data[HEADER_BYTES:])):
            known = rng.random() < 0.9
            pts = rng.choice((None, number * 5, rng.randrange(-(1 << 40), 1 << 40)))
            sent = replace(
                packet,
                number=rng.choice((number, number, number + 1, 3, 1 << 30)) if known else None,
                group=rng.choice((0, 0, number, 99, None)),
                pts=pts,
                duration=rng.choice((None, 1, 5, 0, 1 << 40)),
            )
            for frame in _conceals(decoder, sent):
                _check_frame(frame, header)
        for frame in decoder.conceal_until(rng.choice((0, 99, 1 << 62))):
            _check_frame(frame, header)


def _conceals(decoder: Decoder, packet: Packet) -> Iterator[Frame]:
    try:
        yield from islice(decoder.frames(packet), 400)
    except GsvcError as error:
        raise AssertionError(f"concealment raised {error!r}") from error


def _packets_in(data: bytes) -> Iterator[Packet]:
    """The packets up to the first one that does not read."""
    read = io.BytesIO(data).read
    with suppress(BitstreamError):
        while True:
            yield read_packet(read)


def _small(header: Header) -> Header:
    video = header.format
    if video.width * video.height > 1 << 16:
        raise VersionError("too large to try many of: left out")
    return header


def _check_frame(frame: Frame, header: Header) -> None:
    assert frame.pixels.shape == (header.format.height, header.format.width, 3)
    assert frame.pixels.dtype == np.uint8
