"""The live encoder: every kind of frame, key frames on demand, a changing rate, small packets."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, cast

import av
import cv2
import numpy as np
import pytest

import gsvc
from gsvc import Encoder, EncoderSettings, Frame, Packet, Picture, VideoFormat
from gsvc.codec.api.asyncio import Timed
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.command.main import as_options
from gsvc.datasets.clips.clip_reader import load_clip
from needs import need_clip, need_package

Pictures = Callable[..., list[Picture]]
RATE = Fraction(25)
LOW = EncoderSettings(level=3, preset="fast", low_delay=True)
AHEAD = EncoderSettings(level=3, preset="fast")
MODES = pytest.mark.parametrize("settings", [LOW, AHEAD], ids=["low delay", "look-ahead"])


def form(pictures: Sequence[Picture], rate: Fraction = RATE) -> VideoFormat:
    height, width = pictures[0].shape[:2]
    return VideoFormat(width, height, 1 / rate, rate)


def packets_of(
    video: VideoFormat, settings: EncoderSettings, given: Iterable[object]
) -> list[Packet]:
    with Encoder(video, settings) as encoder:
        packets = [packet for one in given for packet in encoder.encode(one)]  # type: ignore[arg-type]
        return packets + encoder.flush()


def busy(count: int, size: tuple[int, int] = (128, 96)) -> list[Picture]:
    """A detailed picture that drifts under noise: hard to code, at every time and rate."""
    rng = np.random.default_rng(1)
    width, height = size
    still = cv2.GaussianBlur(rng.normal(0, 300, (height, width, 3)), (0, 0), 1.5)
    pictures = []
    for number in range(count):
        moved = np.roll(still, 2 * number, axis=1) + rng.normal(0, 8, still.shape)
        pictures.append(np.clip(128 + moved, 0, 255).astype(np.uint8))
    return pictures


@MODES
def test_every_kind_of_frame_gives_the_same_packets(
    moving_pictures: Pictures, settings: EncoderSettings
) -> None:
    torch = need_package("torch")
    pictures = moving_pictures(8)
    video = form(pictures)
    expected = packets_of(video, settings, (Frame(p, n) for n, p in enumerate(pictures)))
    tensors = [torch.from_numpy(picture) for picture in pictures]
    assert packets_of(video, settings, pictures) == expected
    assert packets_of(video, settings, tensors) == expected
    assert packets_of(video, settings, (t.permute(2, 0, 1) for t in tensors)) == expected
    assert packets_of(video, settings, map(av_frame, pictures, range(8))) == expected


def av_frame(picture: Picture, number: int) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(picture, "rgb24")
    frame.pts, frame.time_base = 40 * number, Fraction(1, 1000)
    return frame


def test_a_buffer_may_be_written_over(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(10)

    def one_buffer() -> Iterable[Picture]:
        buffer = np.empty_like(pictures[0])
        for picture in pictures:
            buffer[:] = picture
            yield buffer

    assert packets_of(form(pictures), AHEAD, one_buffer()) == packets_of(
        form(pictures), AHEAD, pictures
    )


def test_yuv_frames_are_converted_by_their_own_colour(moving_pictures: Pictures) -> None:
    (picture,) = moving_pictures(1)
    yuv = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="yuv444p")
    packets = packets_of(form([picture]), AHEAD, [yuv])
    header = Encoder(form([picture]), AHEAD).header
    with gsvc.Decoder(header, gsvc.DecoderSettings(steps=0)) as decoder:
        (frame,) = decoder.decode(packets[0])
    assert np.abs(frame.pixels.astype(int) - picture).mean() < 12
    seen_through = np.dstack([picture, np.full(picture.shape[:2], 100, np.uint8)])
    with pytest.raises(gsvc.UnsupportedInputError, match="alpha"):
        packets_of(form([picture]), AHEAD, [av.VideoFrame.from_ndarray(seen_through, "rgba")])


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((48, 64), np.uint8),
        np.zeros((64, 48, 3), np.uint8),
        np.zeros((48, 64, 3), np.float32),
        Frame(np.zeros((48, 64, 4), np.uint8), 0),
        av.VideoFrame(32, 32, "rgb24"),
    ],
)
def test_other_shapes_and_types_are_refused(wrong: object) -> None:
    with pytest.raises(gsvc.ConfigError, match=r"uint8 \(48, 64, 3\) is needed"):
        packets_of(VideoFormat(64, 48, 1 / RATE, RATE), AHEAD, [wrong])


def test_a_missing_frame_and_a_first_time_below_0_are_refused(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(1)
    with Encoder(form(pictures), LOW) as encoder:
        with pytest.raises(TypeError, match="a frame is None"):
            encoder.encode(cast(Picture, None))
        for _ in range(2):
            with pytest.raises(ValueError, match="first frame's time is -5"):
                encoder.encode(pictures[0], pts=-5)


def test_times_are_given_or_nominal(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(5)
    video = replace(form(pictures, Fraction(30_000, 1001)), time_base=Fraction(1, 1000))
    with Encoder(video, LOW) as encoder:
        packets = encoder.encode(pictures[0], pts=100)
        for picture in pictures[1:4]:
            packets += encoder.encode(picture)
        with pytest.raises(gsvc.ConfigError, match="must rise.* or take a finer time_base"):
            encoder.encode(pictures[4], pts=200)
        packets += encoder.encode(pictures[4], pts=900) + encoder.flush()
        header = encoder.header
    with gsvc.Decoder(header, gsvc.DecoderSettings(steps=0)) as decoder:
        times = [frame.pts for packet in packets for frame in decoder.decode(packet)]
    assert times == [100, 133, 167, 200, 900]
    shown = [packet for packet in packets if packet.is_picture]
    assert [packet.pts for packet in packets] == [*(p.pts for p in shown), 900]
    assert all(b.pts == (a.pts or 0) + (b.duration or 0) for a, b in pairwise(shown))


def test_a_clock_that_ran_for_hours_counts_from_its_first_time(moving_pictures: Pictures) -> None:
    pictures, begin = moving_pictures(4), 3_000_000_000
    video = replace(form(pictures, Fraction(25)), time_base=Fraction(1, 90_000))
    with Encoder(video, LOW) as encoder:
        packets = encoder.encode(pictures[0], pts=begin)
        with pytest.raises(gsvc.ConfigError, match="no gap above"):
            encoder.encode(pictures[1], pts=2 * begin)
        for number in (1, 2, 3):
            packets += encoder.encode(pictures[number], pts=begin + 3600 * number)
        packets += encoder.flush()
    with gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0)) as decoder:
        times = [frame.pts for packet in packets for frame in decoder.decode(packet)]
    assert times == [0, 3600, 7200, 10_800]


@MODES
def test_packets_say_what_they_build_on(
    moving_pictures: Pictures, settings: EncoderSettings
) -> None:
    pictures = moving_pictures(45)
    packets = packets_of(form(pictures, Fraction(5)), replace(settings, gop=4.0), pictures)
    shown = [packet for packet in packets if packet.is_picture]
    assert [packet.number for packet in shown] == list(range(len(shown)))
    assert sum(packet.is_intra for packet in shown) > 1
    group = 0
    for packet in shown:
        group = packet.number or 0 if packet.is_intra else group
        assert packet.group == group


@MODES
def test_a_forced_key_frame_begins_a_group(
    moving_pictures: Pictures, settings: EncoderSettings
) -> None:
    pictures = moving_pictures(30)
    with Encoder(form(pictures), settings) as encoder:
        packets: list[Packet] = []
        for number, picture in enumerate(pictures):
            if number in (13, 14):
                encoder.force_keyframe()
            packets += encoder.encode(picture)
            if number == 13 and settings.low_delay:
                assert packets[-1].is_intra and packets[-1].pts == 13
        packets += encoder.flush()
    reader, intra, end = GroupReader(encoder.header), set(), -1
    for packet in (packet for packet in packets if packet.is_picture):
        if packet.is_intra:
            intra.add(end + reader.read(packet).intervals[0].length)
        end += packet.frames
    assert {13, 14} <= intra


@MODES
def test_no_frame_waits_longer_than_the_delay(
    moving_pictures: Pictures, settings: EncoderSettings
) -> None:
    pictures = moving_pictures(1) * 70
    with Encoder(form(pictures, Fraction(5)), replace(settings, level=0)) as encoder:
        longest = sent = 0
        for number, picture in enumerate(pictures):
            sent += sum(packet.frames for packet in encoder.encode(picture))
            longest = max(longest, number + 1 - sent)
        assert 0 < longest <= encoder.delay
        assert not settings.low_delay or longest == encoder.delay


@pytest.mark.parametrize(
    "settings", [LOW, pytest.param(AHEAD, marks=pytest.mark.slow)], ids=["low delay", "look-ahead"]
)
def test_the_rate_changes_while_it_runs(settings: EncoderSettings) -> None:
    part, slow = 60, Fraction(5)  # three groups
    pictures = busy(part)
    settings = replace(settings, level=None, bitrate=8_000, gop=4.0)
    with Encoder(form(pictures, slow), settings) as encoder:
        assert encoder.target_bitrate == 8_000
        packets: list[Packet] = []
        for bitrate in (8_000, 3_000, 8_000):
            encoder.target_bitrate = bitrate
            for picture in pictures:
                packets += encoder.encode(picture)
        packets += encoder.flush()
    shown = [packet for packet in packets if packet.is_picture]

    def rate(start: int) -> float:
        """Bits a second of the second group after a change: look-ahead may have coded the first."""
        size = sum(len(p.to_bytes()) for p in shown if start + 20 <= (p.pts or 0) < start + 40)
        return 8 * size / 20 * 5

    high, low, again = (rate(start) for start in (0, part, 2 * part))
    assert low < 0.7 * high and low < 0.7 * again
    assert 0.6 < low / 3_000 < 1.6


def test_rates_that_make_no_sense_are_refused() -> None:
    video = VideoFormat(64, 48, 1 / RATE, RATE)
    with pytest.raises(gsvc.ConfigError, match="100 or more"):
        Encoder(video, LOW).target_bitrate = -1.0
    with pytest.raises(gsvc.ConfigError, match="did you mean 12000"):
        EncoderSettings(bitrate=12)
    with pytest.raises(gsvc.ConfigError, match="only one"):
        Encoder(video, EncoderSettings(quality=0.1)).target_bitrate = 9000.0
    with pytest.raises(gsvc.ConfigError, match="64 or more"):
        EncoderSettings(max_packet_bytes=20)


@MODES
def test_no_packet_is_larger_than_allowed(settings: EncoderSettings) -> None:
    pictures = busy(12)
    free = packets_of(form(pictures), settings, pictures)
    most = max(len(packet.to_bytes()) for packet in free) // 2
    packets = packets_of(form(pictures), replace(settings, max_packet_bytes=most), pictures)
    assert max(len(packet.to_bytes()) for packet in packets) <= most
    assert sum(packet.frames for packet in packets) == 12


def test_small_packets_make_intra_pictures_coarse_and_no_others() -> None:
    pictures, rate = load_clip(need_clip("carphone"), 60, 144)
    video = VideoFormat(176, 144, 1 / rate, rate)
    settings = replace(LOW, bitrate=12_000, max_packet_bytes=500)
    packets = packets_of(video, settings, pictures)
    assert max(len(packet.to_bytes()) for packet in packets) <= 500
    bits = sum(8 * len(packet.to_bytes()) for packet in packets)
    assert bits * rate / len(pictures) > 5000


@MODES
def test_after_a_picture_that_fits_no_packet_the_stream_goes_on(settings: EncoderSettings) -> None:
    rng = np.random.default_rng(2)
    calm = [np.full((144, 256, 3), level, np.uint8) for level in (60, 180)]
    tiles = [rng.integers(0, 256, (18, 32, 3)).astype(np.uint8) for _ in range(2)]
    noise = [picture.repeat(8, 0).repeat(8, 1) for picture in tiles]
    pictures = [*8 * calm[:1], *noise, *8 * calm[1:]]
    packets, refused = list[Packet](), 0
    with Encoder(form(pictures), replace(settings, max_packet_bytes=140)) as encoder:
        for picture in [*pictures, *noise]:
            try:
                packets += encoder.encode(picture)
            except gsvc.ConfigError as error:
                assert "--max-packet-bytes 140: raise" in as_options(str(error))
                refused += 1
        try:
            packets += encoder.flush()
        except gsvc.ConfigError:
            refused += 1
            packets += encoder.flush()
    assert refused >= 2
    assert max(len(packet.to_bytes()) for packet in packets) <= 200
    assert [packet.number for packet in packets[:-1]] == [*range(len(packets) - 1)]
    with gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0)) as decoder:
        frames = [frame for packet in packets for frame in decoder.decode(packet)]
    # Frames are where they were, those that were dropped left out.
    times = [frame.pts for frame in frames]
    assert times == sorted(set(times)) and {*range(6), *range(11, 16)} <= {*times}
    assert not {8, 9, 18, 19} & {*times}
    for frame in frames:
        assert abs(frame.pixels.mean() - pictures[frame.pts].mean()) < 3


@MODES
def test_closing(moving_pictures: Pictures, settings: EncoderSettings) -> None:
    pictures = moving_pictures(5)
    before = threading.active_count()
    with Encoder(form(pictures), settings) as encoder:
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        packets += encoder.flush()
    decoder = gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0))
    assert sum(len(decoder.decode(packet)) for packet in packets) == 5
    unfinished = Encoder(form(pictures), settings)
    unfinished.encode(pictures[0])
    for thing in (encoder, unfinished, decoder):
        thing.close()
        thing.close()
    assert threading.active_count() == before
    for use in (lambda: encoder.encode(pictures[0]), unfinished.flush, decoder.flush):
        with pytest.raises(gsvc.ConfigError, match="make another"):
            use()


@MODES
def test_threads_do_not_change_a_packet(
    moving_pictures: Pictures, settings: EncoderSettings
) -> None:
    pictures = moving_pictures(16)
    before, results = cv2.getNumThreads(), []
    try:
        for threads in (1, 2):
            cv2.setNumThreads(threads)
            results.append(packets_of(form(pictures), settings, pictures))
    finally:
        cv2.setNumThreads(before)
    assert results[0] == results[1]


def test_async_iterators_give_what_calls_give(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(12)
    expected = packets_of(form(pictures), LOW, pictures)

    async def camera() -> AsyncIterator[Picture]:
        for picture in pictures:
            yield picture
            while len(queue):
                await asyncio.sleep(0.001)

    async def run() -> tuple[list[Packet], list[Frame]]:
        encoder = Encoder(form(pictures), LOW)
        decoder = gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0))
        packets: list[Packet] = []

        async def kept() -> AsyncIterator[Packet]:
            async for packet in gsvc.encode_stream(encoder, camera(), queue=queue):
                packets.append(packet)
                yield packet

        return packets, [frame async for frame in gsvc.decode_stream(decoder, kept())]

    queue: gsvc.LatestQueue[Timed] = gsvc.LatestQueue(1)
    packets, frames = asyncio.run(run())
    assert packets == expected and queue.dropped == 0
    assert [frame.pts for frame in frames] == list(range(12))


def test_a_list_of_frames_is_no_source(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(1)

    async def run() -> None:
        wrong = cast(AsyncIterator[Picture], pictures)
        async for _ in gsvc.encode_stream(Encoder(form(pictures), LOW), wrong):
            pass

    with pytest.raises(TypeError, match=r"frames is .* give an asynchronous iterable"):
        asyncio.run(run())


def test_a_slow_encoder_drops_frames_and_keeps_the_loop_free(
    moving_pictures: Pictures, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pictures = moving_pictures(20)
    gate = threading.Event()
    encode = Encoder.encode

    def slow(self: Encoder, frame: Picture, pts: int | None = None) -> list[Packet]:
        assert gate.wait(20)
        return encode(self, frame, pts)

    monkeypatch.setattr(Encoder, "encode", slow)

    async def camera() -> AsyncIterator[Picture]:
        for picture in pictures:
            yield picture
            await asyncio.sleep(0.001)  # The loop goes on although the encoder waits.
        gate.set()

    async def run() -> list[Packet]:
        encoder = Encoder(form(pictures), LOW)
        return [packet async for packet in gsvc.encode_stream(encoder, camera(), queue=queue)]

    queue: gsvc.LatestQueue[Timed] = gsvc.LatestQueue(2)
    packets = asyncio.run(run())
    assert queue.dropped == 17  # One was taken at once, the last two waited.
    first, last = (record.getMessage() for record in caplog.records)
    assert "some are dropped; preset='fast'" in first and last == "17 of 20 frames were dropped"
    assert sum(packet.frames for packet in packets) == 3
    assert packets[-1].pts == 19


def test_a_stream_that_is_closed_has_closed_its_encoder(
    moving_pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures, encode = moving_pictures(3), Encoder.encode
    begun = threading.Event()

    def slow(self: Encoder, frame: Picture, pts: int | None = None) -> list[Packet]:
        begun.set()
        time.sleep(0.05)
        return encode(self, frame, pts)

    monkeypatch.setattr(Encoder, "encode", slow)

    async def camera() -> AsyncIterator[Picture]:
        for picture in pictures:
            yield picture
        await asyncio.sleep(60)

    async def run(is_cancelled: bool) -> None:
        encoder = Encoder(form(pictures), LOW)
        packets = gsvc.encode_stream(encoder, camera())
        if is_cancelled:
            reading = asyncio.ensure_future(anext(packets))
            await asyncio.to_thread(begun.wait)
            reading.cancel()
            await asyncio.wait((reading,))
            assert reading.cancelled()
        else:
            await anext(packets)
            await packets.aclose()
        with pytest.raises(gsvc.ConfigError, match="closed|ended|over"):
            encode(encoder, pictures[1])

    for is_cancelled in (False, True):
        begun.clear()
        asyncio.run(run(is_cancelled))


def test_a_source_that_fails_ends_the_stream_first_and_a_file_waits(
    moving_pictures: Pictures,
) -> None:
    pictures, packets = moving_pictures(12), list[Packet]()

    async def camera() -> AsyncIterator[Picture]:
        for picture in pictures:
            yield picture
        raise OSError("unplugged")

    async def run() -> None:
        encoder, queue = Encoder(form(pictures), LOW), gsvc.LatestQueue[Timed](1)
        async for packet in gsvc.encode_stream(encoder, camera(), queue=queue, drop=False):
            packets.append(packet)

    with pytest.raises(OSError, match="unplugged"):
        asyncio.run(run())
    assert packets == packets_of(form(pictures), LOW, pictures)
    with pytest.raises(gsvc.ConfigError, match="at least 1"):
        gsvc.LatestQueue(0)
    queue = gsvc.LatestQueue[Timed](1)
    queue.close()
    with pytest.raises(gsvc.ConfigError, match="this queue is closed"):
        queue.put((pictures[0], None))


def test_what_an_encoder_cannot_use_is_told(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(2)
    with Encoder(form(pictures), LOW) as encoder:
        encoder.encode(pictures[0])

        async def camera() -> AsyncIterator[Picture]:
            yield pictures[1]

        async def run() -> None:
            await anext(gsvc.encode_stream(encoder, camera()))

        with pytest.raises(gsvc.ConfigError, match="already taken frames: make another"):
            asyncio.run(run())
        with pytest.raises(gsvc.ConfigError, match="keyframes_on_request is 'yes'"):
            encoder.keyframes_on_request = cast(Any, "yes")
        wrongs: Any = (
            (pictures[0] / np.float32(255), "multiply by 255"),
            (pictures[0][..., 0], "stack it three times"),
            (pictures[0][2:], "resize it"),
            (pictures[0].transpose(2, 0, 1), "transpose"),
            (pictures[0].swapaxes(0, 1), "swap its sides"),
            (np.dstack([pictures[0], pictures[0][..., :1]]), "drop alpha"),
            (pictures[0].astype(np.uint16) * 257, "divide by 257"),
        )
        for wrong, told in wrongs:
            with pytest.raises(gsvc.ConfigError, match=told):
                encoder.encode(wrong)
