"""Refiners that see windows of frames: they get all frames once, late by their delay at most."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

import gsvc
from gsvc import decode_stream
from gsvc.codec.bitstream.container import decoded_frames
from plain_refiners import PlainWindows, Window

Pictures = Callable[..., list[gsvc.Picture]]
PLAIN = gsvc.DecoderSettings(steps=0)
KEYS = gsvc.DecoderSettings(steps=1, backend="plain_refiners:PlainKeys")
WINDOWS = gsvc.DecoderSettings(steps=1, backend="plain_refiners:PlainWindows")
RATE = Fraction(10)
CUT = 50


@pytest.fixture(scope="module", params=["look-ahead", "low delay"])
def data(request: pytest.FixtureRequest, moving_pictures: Pictures) -> bytes:
    """70 frames, with a scene cut."""
    pictures = moving_pictures(70)
    pictures[CUT:] = [255 - picture for picture in pictures[CUT:]]
    low_delay = request.param == "low delay"
    settings = gsvc.EncoderSettings(level=1, preset="fast", low_delay=low_delay)
    file = io.BytesIO()
    with gsvc.Encoder(gsvc.VideoFormat(64, 48, 1 / RATE, RATE), settings) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        for packet in (p for picture in pictures for p in encoder.encode(picture)):
            writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    return file.getvalue()


@pytest.fixture(autouse=True)
def seen() -> list[Window]:
    """What the refiner was given."""
    PlainWindows.seen.clear()
    return PlainWindows.seen


def packets_of(data: bytes) -> tuple[gsvc.Header, list[gsvc.Packet]]:
    reader = gsvc.StreamReader(io.BytesIO(data))
    return reader.header, list(reader)


def decode(
    header: gsvc.Header, packets: Sequence[gsvc.Packet], settings: gsvc.DecoderSettings
) -> list[gsvc.Frame]:
    with gsvc.Decoder(header, settings) as decoder:
        return list(decoded_frames(decoder, ((packet, True) for packet in packets)))


def test_a_refiner_that_changes_nothing_shows_what_none_shows(data: bytes) -> None:
    header, packets = packets_of(data)
    whole = decode(header, packets, PLAIN)
    assert len(whole) == 70
    assert decode(header, packets, KEYS) == whole
    assert decode(header, packets, WINDOWS) == whole


def test_windows_are_what_is_promised(data: bytes, seen: list[Window]) -> None:
    header, packets = packets_of(data)
    whole = decode(header, packets, WINDOWS)
    for rendering, keys, confidence in seen:
        assert len(rendering) % 8 == 1 and len(rendering) <= PlainWindows.delay + 1
        assert rendering.dtype == np.uint8 and confidence.dtype == np.float32
        assert confidence.shape == rendering.shape[:3]
        assert confidence.min() >= 0 and confidence.max() <= 1
        for n, picture in keys.items():
            assert np.array_equal(rendering[n], picture) and (confidence[n] == 1).all()
    assert any((window.confidence < 1).any() for window in seen)
    assert sum(len(window.keys) for window in seen) >= sum(p.is_picture for p in packets) - 1
    begins = [window.rendering[0] for window in seen[1:]]
    ends = [window.rendering[-1] for window in seen[:-1]]
    fresh = [not np.array_equal(a, b) for a, b in zip(begins, ends, strict=True)]
    assert sum(fresh) == 1  # at the cut
    assert np.array_equal(begins[fresh.index(True)], whole[CUT].pixels)


def test_frames_are_late_by_the_delay_at_most(data: bytes) -> None:
    header, packets = packets_of(data)
    with gsvc.Decoder(header, WINDOWS) as decoder:
        complete = shown = 0
        for packet in packets:
            complete += packet.frames
            shown += len(decoder.decode(packet))
            assert complete - PlainWindows.delay <= shown <= complete
        rest = decoder.flush()
        assert rest and shown + len(rest) == 70
        assert decoder.flush() == []


def test_what_was_reset_does_not_come(data: bytes) -> None:
    header, packets = packets_of(data)
    whole = decode(header, packets, PLAIN)
    with gsvc.Decoder(header, WINDOWS) as decoder:
        for packet in packets[:3]:
            decoder.decode(packet)
        decoder.reset()
        assert decoder.flush() == []
        assert list(decoded_frames(decoder, ((packet, True) for packet in packets))) == whole


def test_any_range_comes_whole(data: bytes) -> None:
    whole = decode(*packets_of(data), PLAIN)
    index = gsvc.StreamIndex(io.BytesIO(data))
    with gsvc.Decoder(index.header, WINDOWS) as decoder:
        for first, count in ((0, 1), (7, 30), (CUT - 1, 3), (60, 10)):
            shown = list(index.decode(decoder, first, count))
            assert shown == whole[first : first + count]


@pytest.mark.parametrize("lost", [1, 2])
def test_made_up_frames_are_shown_as_they_are(data: bytes, lost: int) -> None:
    header, packets = packets_of(data)
    kept = packets[:lost] + packets[lost + 1 :]
    both = [
        decode(header, kept, gsvc.DecoderSettings(one.steps, one.backend, conceal=True))
        for one in (PLAIN, WINDOWS)
    ]
    assert both[0] == both[1]
    assert any(frame.concealed for frame in both[0])


def test_frames_that_wait_come_before_one_that_is_made_up(data: bytes) -> None:
    header, packets = packets_of(data)
    settings = gsvc.DecoderSettings(1, WINDOWS.backend, conceal=True)
    with gsvc.Decoder(header, settings) as decoder:
        shown = decoder.decode(packets[0]) + decoder.decode(packets[1])
        last = sum(packet.frames for packet in packets[:2]) - 1
        shown += decoder.conceal_until(last) + decoder.conceal_until(last + 2)
        assert [frame.pts for frame in shown] == list(range(last + 3))
        assert [frame.pts for frame in shown if frame.concealed] == [last + 1, last + 2]


def test_asyncio_waits_for_the_last_frames(data: bytes) -> None:
    header, packets = packets_of(data)

    async def source() -> AsyncIterator[gsvc.Packet]:
        for packet in packets:
            yield packet

    async def shown() -> list[gsvc.Frame]:
        return [frame async for frame in decode_stream(gsvc.Decoder(header, WINDOWS), source())]

    assert asyncio.run(shown()) == decode(header, packets, PLAIN)
