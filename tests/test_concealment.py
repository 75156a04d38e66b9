"""Concealment: a lost packet's frames are shown, flagged; the next intra picture ends it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gsvc
from gsvc import (
    BitstreamError,
    ConfigError,
    Decoder,
    DecoderSettings,
    Encoder,
    EncoderSettings,
    Frame,
    Header,
    Limits,
    Packet,
    PacketType,
    Picture,
    StreamWriter,
    VideoFormat,
)
from gsvc.decoders.streams.concealment import Extrapolator
from gsvc.decoders.streams.reconstruction import DecodedInterval
from needs import need_package

Pictures = Callable[..., list[Picture]]
Stream = tuple[Header, list[Packet]]
PLAIN, CONCEAL = DecoderSettings(steps=0), DecoderSettings(steps=0, conceal=True)
RATE = Fraction(25)


@pytest.fixture(scope="module", params=[True, False], ids=["low delay", "look-ahead"])
def stream(request: pytest.FixtureRequest, moving_pictures: Pictures) -> Stream:
    """45 frames, a group every 15; several packets in each, with look-ahead of several pictures."""
    limit = None if request.param else 80
    settings = EncoderSettings(
        level=3, preset="fast", low_delay=request.param, max_packet_bytes=limit
    )
    packets: list[Packet] = []
    with Encoder(VideoFormat(64, 48, 1 / RATE, RATE), settings) as encoder:
        for number, picture in enumerate(moving_pictures(45)):
            if number in (15, 30):
                encoder.force_keyframe()
            packets += encoder.encode(picture)
        packets += encoder.flush()
    assert sum(packet.is_intra for packet in packets) == 3 and len(packets) > 8
    return encoder.header, packets


def decode(header: Header, packets: Iterable[Packet], settings: DecoderSettings) -> list[Frame]:
    with Decoder(header, settings) as decoder:
        return [frame for packet in packets for frame in decoder.decode(packet)]


def same(a: Frame, b: Frame) -> bool:
    return a.pts == b.pts and not b.concealed and np.array_equal(a.pixels, b.pixels)


def heals_at(packets: Sequence[Packet], lost: Packet) -> int:
    """The pts of the next intra picture after a packet, the end where there is none."""
    later = (p.pts for p in packets if p.is_intra and (p.number or 0) > (lost.number or 0))
    return next((pts for pts in later if pts is not None), 45)


def check(whole: Sequence[Frame], shown: Sequence[Frame], first: int, healed: int) -> None:
    """All frames are there; a wrong one is flagged and lies from `first` up to `healed`."""
    assert [frame.pts for frame in shown] == [frame.pts for frame in whole]
    for a, b in zip(whole, shown, strict=True):
        assert b.concealed or same(a, b)
        assert not b.concealed or first <= b.pts < healed
    assert shown[first].concealed


def test_nothing_is_concealed_where_nothing_is_missing(stream: Stream) -> None:
    header, packets = stream
    whole, shown = (decode(header, packets, settings) for settings in (PLAIN, CONCEAL))
    assert len(whole) == 45
    assert all(same(a, b) for a, b in zip(whole, shown, strict=True))


@pytest.mark.parametrize("is_damaged", [False, True], ids=["lost", "damaged"])
def test_every_single_packet_can_go(stream: Stream, is_damaged: bool) -> None:
    header, packets = stream
    whole = decode(header, packets, PLAIN)
    for lost in packets[1:-1]:
        if is_damaged:
            kept = [replace(p, payload=b"\xff" * 9) if p is lost else p for p in packets]
        else:
            kept = [packet for packet in packets if packet is not lost]
        first = (lost.pts or 0) - (lost.duration or 0) + 1
        check(whole, decode(header, kept, CONCEAL), first, heals_at(packets, lost))


def test_bursts_can_go_too(stream: Stream) -> None:
    header, packets = stream
    whole = decode(header, packets, PLAIN)
    keys = [k for k, packet in enumerate(packets) if packet.is_intra]
    for start, end in (
        (keys[0] + 1, keys[1]),
        (keys[0] + 1, keys[1] + 1),
        (keys[1], len(packets) - 1),
    ):
        lost = packets[start:end]
        first = (lost[0].pts or 0) - (lost[0].duration or 0) + 1
        shown = decode(header, packets[:start] + packets[end:], CONCEAL)
        check(whole, shown, first, heals_at(packets, lost[-1]))


def test_what_begins_without_an_intra_picture_waits_for_one(stream: Stream) -> None:
    header, packets = stream
    whole = decode(header, packets, PLAIN)
    keys = [k for k, packet in enumerate(packets) if packet.is_intra]
    for settings in (PLAIN, CONCEAL):
        for key in keys:
            shown = decode(header, packets[key:], settings)
            assert packets[key].pts in {frame.pts for frame in shown[:15]}
            assert all(same(a, b) for a, b in zip(whole[-len(shown) :], shown, strict=True))
    waited = decode(header, packets[1:], CONCEAL)
    assert waited[0].pts <= (packets[keys[1]].pts or 0) and not waited[0].concealed


def test_without_times_they_are_guessed(stream: Stream) -> None:
    header, packets = stream
    bare = [replace(packet, pts=None, duration=None) for packet in packets]
    whole = decode(header, bare, CONCEAL)
    assert [frame.pts for frame in whole] == list(range(45))
    for lost in range(1, len(bare) - 2):
        shown = decode(header, bare[:lost] + bare[lost + 1 :], CONCEAL)
        times = [frame.pts for frame in shown]
        assert times == sorted(set(times)) and abs(len(times) - 45) <= 15


def test_a_packet_that_comes_late_mends_its_group(stream: Stream) -> None:
    header, packets = stream
    whole = decode(header, packets, PLAIN)
    keys = [k for k, packet in enumerate(packets) if packet.is_intra]
    for late in (keys[0] + 1, keys[1]):
        order = [*packets]
        order.insert(late + 1, order.pop(late))
        shown = decode(header, order, CONCEAL)
        first = (packets[late].pts or 0) - (packets[late].duration or 0) + 1
        check(whole, shown, first, 45)
        mended = (packets[late + 1].pts or 0) + 1
        assert all(same(a, b) for a, b in zip(whole[mended:], shown[mended:], strict=True))
    twice = decode(header, (p for packet in packets for p in (packet, packet)), CONCEAL)
    assert all(same(a, b) for a, b in zip(whole, twice, strict=True))


@pytest.mark.parametrize("first", [0, 1], ids=["whole", "its intra picture lost"])
def test_an_encoder_that_begins_anew_is_shown(
    stream: Stream, moving_pictures: Pictures, first: int
) -> None:
    header, packets = stream
    settings = EncoderSettings(level=3, preset="fast", low_delay=True)
    with Encoder(header.format, settings) as encoder:
        again = [p for rgb in moving_pictures(100)[::-1] for p in encoder.encode(rgb)]
        encoder.force_keyframe()
        again += encoder.encode(moving_pictures(1)[0])
    whole = decode(encoder.header, again, PLAIN)
    with Decoder(header, CONCEAL) as decoder:
        for packet in packets[:-1]:
            decoder.decode(packet)
        shown = [frame for packet in again[first:-1] for frame in decoder.decode(packet)]
        assert decoder.needs_key is bool(first)
        shown += decoder.decode(again[-1])
    last = whole if not first else whole[-1:]
    assert len(shown) >= len(last)
    assert all(same(a, b) for a, b in zip(last, shown[-len(last) :], strict=True))


def test_a_stream_that_is_sent_again_is_shown_again(stream: Stream) -> None:
    header, packets = stream
    whole = decode(header, packets, PLAIN)
    shown = decode(header, packets * 2, CONCEAL)
    assert all(same(a, b) for a, b in zip(whole * 2, shown, strict=True))


@pytest.mark.parametrize("is_late", [False, True], ids=["lost", "late"])
def test_a_decoder_tells_when_it_needs_a_keyframe(stream: Stream, *, is_late: bool) -> None:
    header, packets = stream
    key = next(k for k, packet in enumerate(packets) if k and packet.is_intra)
    first, lost, after = packets[:3]
    with Decoder(header, CONCEAL) as decoder:
        assert decoder.needs_key
        assert decoder.decode(first) and not decoder.needs_key
        assert all(frame.concealed for frame in decoder.decode(after)) and decoder.needs_key
        decoder.decode(lost if is_late else packets[key])
        assert not decoder.needs_key
        decoder.decode(replace(packets[key + 1], payload=b"\xff" * 9))
        assert decoder.needs_key
    with Decoder(header, PLAIN) as strict:
        strict.decode(first)
        with pytest.raises(BitstreamError, match="packets were lost"):
            strict.decode(after)
        assert strict.needs_key


def test_a_clock_that_runs_on(stream: Stream) -> None:
    header, packets = stream
    whole = decode(header, packets, PLAIN)
    with Decoder(header, CONCEAL) as decoder:
        assert decoder.conceal_until(100) == []
        shown = decoder.decode(packets[0])
        end = (packets[0].pts or 0) + 3
        waiting = decoder.conceal_until(end)
        assert [frame.pts for frame in waiting] == [end - 2, end - 1, end]
        assert all(frame.concealed for frame in waiting)
        assert len({id(frame.pixels) for frame in waiting}) < len(waiting)  # stills take no memory
        assert decoder.conceal_until(end) == []
        shown += waiting
        for packet in packets[1:]:
            shown += decoder.decode(packet)
    assert [frame.pts for frame in shown] == [frame.pts for frame in whole]
    assert all(same(a, b) for a, b in zip(whole[end + 1 :], shown[end + 1 :], strict=True))
    with Decoder(header, PLAIN) as strict, pytest.raises(ConfigError, match="conceal=True"):
        strict.conceal_until(3)


def test_unwanted_frames_are_not_drawn(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    header, packets = stream
    drawn, draw = list[int](), DecodedInterval.picture

    def count(self: DecodedInterval, number: int) -> Picture:
        drawn.extend([] if self.is_key(number) else [number])
        return draw(self, number)

    monkeypatch.setattr(DecodedInterval, "picture", count)
    work = [0, 0, 0]
    for lost in (None, *packets[1:-1:3]):
        kept = [packet for packet in packets if packet is not lost]
        whole = decode(header, kept, CONCEAL)
        work[0], drawn[:] = work[0] + len(drawn), []
        with Decoder(header, CONCEAL) as decoder:
            shown = [one for packet in kept for one in decoder.frames(packet, range(0, 45, 2))]
            assert shown == whole[::2]
        work[1], drawn[:] = work[1] + len(drawn), []
        with Decoder(header, CONCEAL) as decoder:
            for packet in kept[:-3]:
                decoder.skip(packet)
            work[2], drawn[:] = work[2] + len(drawn), []
            shown = [one for packet in kept[-3:] for one in decoder.decode(packet)]
            assert shown == whole[len(whole) - len(shown) :]
        drawn.clear()
    assert work[1] < 0.7 * work[0] and work[2] < 0.2 * work[0], work


def test_times_rise_where_a_frame_takes_less_than_a_tick(moving_pictures: Pictures) -> None:
    settings = EncoderSettings(level=3, preset="fast", low_delay=True)
    with Encoder(VideoFormat(64, 48, Fraction(1, 10), RATE), settings) as encoder:
        packets = [packet for rgb in moving_pictures(30) for packet in encoder.encode(rgb)]
        packets += encoder.flush()
    with Decoder(encoder.header, CONCEAL) as decoder:
        shown = [frame for p in packets if p.number != 3 for frame in decoder.decode(p)]
        shown += decoder.conceal_until(33)
    assert [frame.pts for frame in shown] == list(range(34))


def test_no_time_orders_more_frames_than_the_limit(stream: Stream) -> None:
    header, packets = stream
    limits = Limits(interval=100)
    for pts in (10**15, -(10**15)):
        with Decoder(header, CONCEAL, limits) as decoder:
            decoder.decode(packets[0])
            strange = replace(packets[2], pts=pts, frames=10**9)
            assert len(decoder.decode(strange)) <= 200
            assert len(decoder.conceal_until(10**16)) <= 100
            end = Packet(PacketType.END, 0, b"", pts=10**17)
            assert len(decoder.decode(end)) <= 100


def test_what_arrived_over_a_lossy_link_can_be_written(stream: Stream, tmp_path: Path) -> None:
    header, packets = stream
    key = next(k for k, packet in enumerate(packets) if k and packet.is_intra)
    with open(tmp_path / "it.gsv", "wb") as file:
        writer = StreamWriter(file, header)
        writer.write(packets[0])
        with pytest.raises(ConfigError, match="from an INTRA packet on"):
            writer.write(packets[2])
        for packet in packets[key:]:
            writer.write(packet)
    whole = sum(packet.frames for packet in packets[:-1])
    lost = sum(packet.frames for packet in packets[1:key])
    with pytest.raises(BitstreamError, match="packets were lost"):
        gsvc.decode(tmp_path / "it.gsv", tmp_path / "it.mp4", settings=PLAIN)
    report = gsvc.decode(tmp_path / "it.gsv", tmp_path / "it.mkv", settings=CONCEAL)
    assert report.frames == whole - lost


def test_who_does_not_conceal_is_told(stream: Stream) -> None:
    header, packets = stream
    key = next(k for k, packet in enumerate(packets) if k and packet.is_intra)
    with Decoder(header, PLAIN) as decoder:
        decoder.decode(packets[0])
        with pytest.raises(BitstreamError, match="packets were lost"):
            decoder.decode(packets[2])
        with pytest.raises(BitstreamError, match="intra"):
            decoder.decode(packets[2])
        decoder.reset()
        (*_, frame) = decoder.decode(packets[key])
        assert frame.pts == packets[key].pts
        with pytest.raises(BitstreamError, match="pass this one, which is intra, again"):
            decoder.decode(packets[0])
        assert decoder.decode(packets[0])
        with pytest.raises(BitstreamError, match="it is late, or came twice; pass this one"):
            decoder.decode(packets[0])


@pytest.mark.parametrize("has_numbers", [True, False])
def test_lost_last_packets_are_told(stream: Stream, *, has_numbers: bool) -> None:
    header, packets = stream
    given = packets if has_numbers else [replace(p, number=None, group=None) for p in packets]
    for kept in (given[:-2], []):
        with Decoder(header, PLAIN) as decoder:
            for packet in kept:
                decoder.decode(packet)
            with pytest.raises(BitstreamError, match="were lost: the stream's end"):
                decoder.decode(given[-1])
    joined = given[next(k for k, packet in enumerate(given) if k and packet.is_intra) :]
    with Decoder(header, PLAIN) as decoder:
        decoder.reset()
        assert [frame for packet in joined for frame in decoder.decode(packet)]


def test_the_refiner_draws_what_is_concealed_too(stream: Stream) -> None:
    need_package("torch")
    header, packets = stream
    settings = DecoderSettings(steps=1, conceal=True)
    whole = decode(header, packets[:4], replace(settings, conceal=False))
    shown = decode(header, [packets[0], *packets[2:4]], settings)
    assert [frame.pts for frame in shown] == [frame.pts for frame in whole]
    assert any(frame.concealed for frame in shown)


def test_motion_is_carried_on() -> None:
    rng = np.random.default_rng(4)
    wide = np.kron(rng.integers(0, 255, (16, 40, 3)), np.ones((8, 8, 1))).astype(np.uint8)
    before, last, after = (wide[:, k : k + 192] for k in (0, 6, 12))
    moved = Extrapolator(before, last, last).picture(1.0)
    inside = slice(16, -16), slice(24, -24)
    error = [
        np.abs(picture[inside].astype(float) - after[inside]).mean() for picture in (moved, last)
    ]
    assert error[0] < 0.3 * error[1]
    assert np.array_equal(Extrapolator(before, last, last).picture(0.0), last)


@pytest.mark.parametrize("hours", [-10, 10])
def test_one_wrong_time_does_not_make_the_rest_late(hours: int, stream: Stream) -> None:
    header, packets = stream
    pictures = [packet for packet in packets if packet.is_picture]
    at = len(pictures) // 2
    for lost in (0, 1):
        wrong = list(pictures)
        wrong[at] = replace(wrong[at], pts=(wrong[at].pts or 0) + hours * 3600 * 25)
        with Decoder(header, CONCEAL) as decoder:
            for packet in wrong[: at - lost] + wrong[at:-1]:
                decoder.decode(packet)
            last = decoder.decode(wrong[-1])
        assert len(last) == pictures[-1].frames
        assert [frame.pts for frame in last] == sorted({frame.pts for frame in last})


@pytest.mark.parametrize("far", [600, 2**40, -(2**40)])
def test_a_wrong_number_costs_no_more_than_a_group(stream: Stream, far: int) -> None:
    header, packets = stream
    for wrong in [packet for packet in packets if packet.is_picture][:7]:
        sent = [replace(one, number=far) if one is wrong else one for one in packets]
        with Decoder(header, CONCEAL) as decoder:
            shown = [decoder.decode(packet) for packet in sent]
        assert [frame.pts for frames in shown for frame in frames] == list(range(45))
        assert max(map(len, shown)) <= 15
        assert sum(frame.concealed for frames in shown for frame in frames) <= 30


def changed(packet: Packet, place: str, value: object) -> Packet:
    own: dict[str, Any] = {place: value}
    return replace(packet, **own)


@pytest.mark.parametrize("place", ["frames", "pts", "duration", "number", "group"])
def test_what_is_sent_beside_a_packet_breaks_no_decoder(stream: Stream, place: str) -> None:
    header, packets = stream
    for wrong in ("1", 1.5, True):
        with pytest.raises(TypeError, match=rf"^{place} is .*: give a whole number"):
            changed(packets[1], place, wrong)
    with pytest.raises(ConfigError, match=f"^{place} .* is out of range"):
        changed(packets[1], place, 2**70)
    for value in (-5, 2**61):
        wrong_one = changed(packets[3], place, value)
        decode(header, [*packets[:3], wrong_one, *packets[4:]], CONCEAL)
