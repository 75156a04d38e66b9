"""How long a group may be: as asked for, as receivers need it, and as memory allows."""

import io
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

import gsvc
from gsvc.encoders.frame_buffer import FrameBuffer
from gsvc.encoders.search import candidates
from gsvc.encoders.tuning import MOST_GROUP_PIXELS

Pictures = Callable[..., list[gsvc.Picture]]
SLOW = Fraction(5, 2)
FRAMES = 30
"""12 s at that rate."""


def form(rate: Fraction = SLOW, width: int = 64, height: int = 48) -> gsvc.VideoFormat:
    return gsvc.VideoFormat(width, height, 1 / rate, rate)


def coded(
    pictures: Sequence[gsvc.Picture], *, asks: bool = False, level: int = 1, **settings: object
) -> list[gsvc.Packet]:
    chosen = gsvc.EncoderSettings(level=level, preset="fast", **settings)  # type: ignore[arg-type]
    with gsvc.Encoder(form(), chosen) as encoder:
        encoder.keyframes_on_request = asks
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        return packets + encoder.flush()


def intra(packets: Sequence[gsvc.Packet], frames: int = FRAMES) -> int:
    assert sum(packet.frames for packet in packets) == frames
    return sum(packet.is_intra for packet in packets)


@pytest.mark.parametrize("gop, groups", [(None, 1), (4.0, 3), (0.0, 1), (1e9, 1)])
def test_a_group_with_look_ahead_is_as_long_as_asked_for(
    moving_pictures: Pictures, gop: float | None, groups: int
) -> None:
    assert intra(coded(moving_pictures(FRAMES), gop=gop)) == groups


@pytest.mark.parametrize("length", [1, 5])
def test_short_groups_in_which_nothing_moves_have_a_picture_each(
    moving_pictures: Pictures, length: int
) -> None:
    packets = coded(moving_pictures(1) * 10, gop=length / float(SLOW))
    assert intra(packets, 10) == 10 / length


def test_who_answers_gets_intra_pictures_on_request_alone(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(1) * FRAMES
    assert intra(coded(pictures, level=3, low_delay=True)) == 3
    assert intra(coded(pictures, level=3, low_delay=True, asks=True)) == 1
    assert intra(coded(pictures, level=3, low_delay=True, asks=True, gop=2.0)) == 6
    assert intra(coded(pictures, level=3, low_delay=True, gop=0.0)) == 1
    # Where nobody asked for a rate, none is missed: these take twice what the level usually does.
    there = moving_pictures(FRAMES)
    assert intra(coded(there, level=0, low_delay=True, asks=True)) == 1


def test_a_rate_that_is_missed_ends_a_group_without_a_limit(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(FRAMES) * 2
    settings = gsvc.EncoderSettings(low_delay=True, preset="fast", bitrate=200_000, gop=0.0)
    with gsvc.Encoder(form(), settings) as encoder:
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
    assert sum(packet.is_intra for packet in packets) > 1


def test_over_a_link_an_interval_that_is_asked_for_holds(moving_pictures: Pictures) -> None:
    counts = []
    for gop in (None, 20.0):
        settings = gsvc.EncoderSettings(low_delay=True, preset="fast", bitrate=30_000.0, gop=gop)
        with gsvc.Encoder(form(), settings) as encoder:
            packets = list[gsvc.Packet]()
            for picture in moving_pictures(FRAMES):
                encoder.hold(is_held=False, intra_bits=9000.0, fills=True)
                packets += encoder.encode(picture)
        counts.append(sum(packet.is_intra for packet in packets))
    assert counts[0] > 1 == counts[1]


def test_a_scene_that_is_over_before_the_link_has_room_is_not_sent(
    moving_pictures: Pictures,
) -> None:
    settings = gsvc.EncoderSettings(low_delay=True, preset="fast", bitrate=12_000)
    pictures = moving_pictures(8)
    with gsvc.Encoder(form(), settings) as encoder:
        packets = encoder.encode(pictures[0])
        encoder.hold(is_held=True)
        for n, picture in enumerate(pictures[1:]):  # each begins a scene
            packets += encoder.encode(picture if n % 2 else 255 - picture)
        assert len(packets) == 1
        encoder.hold(is_held=False)
        packets += encoder.encode(pictures[-1])
        decoder = gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0))
    assert [packet.frames for packet in packets] == [1, 8] and packets[1].is_intra
    shown = [frame.pixels for packet in packets for frame in decoder.decode(packet)]
    assert all((picture == shown[-1]).all() for picture in shown[1:])


def test_values_that_make_no_sense_are_refused() -> None:
    for gop in (-1.0, float("nan"), float("inf")):
        with pytest.raises(gsvc.ConfigError, match="0 for no limit"):
            gsvc.EncoderSettings(gop=gop)
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(gsvc.ConfigError, match="above 0"):
            gsvc.EncoderSettings(lookahead=seconds)
    with pytest.raises(gsvc.ConfigError, match="leave one of them out"):
        gsvc.EncoderSettings(lookahead=1.0, low_delay=True)


def test_look_ahead_and_memory_bound_what_waits() -> None:
    with gsvc.Encoder(form(), gsvc.EncoderSettings(gop=0.0, lookahead=6.0)) as encoder:
        assert encoder.delay <= 6 * SLOW
    large = form(Fraction(25), 1920, 1080)
    with gsvc.Encoder(large, gsvc.EncoderSettings(gop=0.0)) as encoder:
        assert encoder.delay < 2 * MOST_GROUP_PIXELS / (1920 * 1080)


def test_frames_that_wait_packed_are_as_they_came(
    monkeypatch: pytest.MonkeyPatch, moving_pictures: Pictures
) -> None:
    monkeypatch.setattr("gsvc.encoders.frame_buffer._IN_MEMORY", 30_000)
    buffer, pictures = FrameBuffer(), moving_pictures(8)
    for picture in pictures:
        buffer.append(picture)
    assert any(one is picture for one, picture in zip(buffer, pictures, strict=True))
    assert not all(one is picture for one, picture in zip(buffer, pictures, strict=True))
    assert all(map(np.array_equal, buffer, pictures))


@pytest.mark.slow
def test_a_long_group_that_probes_see_in_parts_is_drawn_as_well(moving_pictures: Pictures) -> None:
    there = moving_pictures(70)
    pictures = [*there, *there[::-1]]
    errors = {}
    for gop in (4.0, 0.0):
        settings = gsvc.EncoderSettings(level=2, preset="fast", gop=gop)
        file = io.BytesIO()
        with gsvc.Encoder(form(Fraction(25)), settings) as encoder:
            writer = gsvc.StreamWriter(file, encoder.header)
            for picture in pictures:
                for packet in encoder.encode(picture):
                    writer.write(packet)
            for packet in encoder.flush():
                writer.write(packet)
        data = file.getvalue()
        reader = gsvc.StreamReader(io.BytesIO(data))
        with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=0)) as decoder:
            frames = [frame.pixels for packet in reader for frame in decoder.decode(packet)]
        off = [np.abs(a.astype(int) - b).mean() for a, b in zip(pictures, frames, strict=True)]
        errors[gop] = len(data), float(np.mean(off))
    assert errors[0.0][0] < errors[4.0][0] and errors[0.0][1] < 1.25 * errors[4.0][1]


def test_keyframes_lie_where_they_leave_least_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small group all ways are tried by hand."""
    from concurrent.futures import ThreadPoolExecutor
    from itertools import combinations, pairwise

    rng = np.random.default_rng(1)
    thumbnails = [
        np.clip(100 + rng.normal(0, 30, (72, 96)), 0, 255).astype(np.uint8) for _ in range(7)
    ]
    with ThreadPoolExecutor(1) as pool:
        placement = candidates.Placement(
            thumbnails, [None] * 7, pool, begins=False, open_ended=False, longest=8
        )
        edges = placement._edges
        errors = {
            (int(a), int(b)): float(error)
            for a, b, error in zip(edges.starts, edges.ends, edges.errors, strict=True)
        }
        after = placement._held()[1]
        for count in placement.counts:
            ways = [(0, *rest) for rest in combinations(range(1, 7), count - 1)]
            least = min(
                sum(errors.get(pair, np.inf) for pair in pairwise(way)) + after[way[-1]]
                for way in ways
            )
            assert placement.error(count) == pytest.approx(least / 7)
