"""`--events-only`: a heartbeat while nothing happens, pictures while something does, and before."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

import gsvc
from squares import square_pictures

QUIET, EVENT = 70, 24
FORM = gsvc.VideoFormat(320, 192, Fraction(1, 25), Fraction(25))
SETTINGS = gsvc.EncoderSettings(level=3, preset="fast", events_only=True, pre_roll=0.4)
PLAIN = gsvc.DecoderSettings(steps=0)


def scene() -> list[gsvc.Picture]:
    """Nothing but noise, a square that crosses, and nothing again."""
    rng = np.random.default_rng(8)
    crossing = square_pictures(60)
    empty = crossing[0].copy()
    empty[60:120, 20:80] = empty[60:120, 200:260]
    pictures = [empty] * QUIET + crossing[:: 60 // EVENT][:EVENT] + [empty] * (2 * QUIET)
    noise = rng.integers(-3, 4, (8, *empty.shape))
    return [np.clip(p + noise[n % 8], 0, 255).astype(np.uint8) for n, p in enumerate(pictures)]


def packets_of(encoder: gsvc.Encoder, pictures: list[gsvc.Picture]) -> list[gsvc.Packet]:
    with encoder:
        packets = [p for picture in pictures for p in encoder.encode(picture)]
        return packets + encoder.flush()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="look-ahead", marks=pytest.mark.slow),
        pytest.param(True, id="low delay"),
    ],
)
def coded(request: pytest.FixtureRequest) -> tuple[gsvc.Header, list[gsvc.Packet]]:
    encoder = gsvc.Encoder(FORM, replace(SETTINGS, low_delay=request.param))
    return encoder.header, packets_of(encoder, scene())


def test_every_frame_is_there_and_only_the_event_moves(
    coded: tuple[gsvc.Header, list[gsvc.Packet]],
) -> None:
    header, packets = coded
    with gsvc.Decoder(header, PLAIN) as decoder:
        frames = [frame for packet in packets for frame in decoder.decode(packet)]
    source = scene()
    assert [frame.pts for frame in frames] == list(range(len(source)))
    changes = [float(np.abs(b.pixels.astype(int) - a.pixels).mean()) for a, b in pairwise(frames)]
    assert max(changes[1 : QUIET - 12]) == 0  # held, up to the pre-roll
    assert max(changes[-QUIET // 2 :]) == 0
    for number in range(QUIET + 4, QUIET + EVENT - 4, 4):
        is_square = source[number].mean(axis=2) > 140
        shown = frames[number].pixels.mean(axis=2)
        assert shown[is_square].mean() > shown[~is_square].mean() + 40


def test_nothing_takes_next_to_nothing(coded: tuple[gsvc.Header, list[gsvc.Packet]]) -> None:
    _, packets = coded
    pictures = [packet for packet in packets if packet.is_picture]
    still, *_ = pictures
    assert still.is_intra and still.frames == 1
    beats = [packet for packet in pictures if not packet.is_intra and packet.frames > 40]
    assert len(beats) >= 2 and {len(packet.to_bytes()) for packet in beats} <= set(range(24))
    intra = [n for n, packet in enumerate(pictures) if packet.is_intra]
    before = sum(packet.frames for packet in pictures[: intra[1]])
    assert QUIET - 12 <= before <= QUIET  # the pre-roll has pictures


def test_half_of_it_plays_and_analyses(
    coded: tuple[gsvc.Header, list[gsvc.Packet]], tmp_path: Path
) -> None:
    header, packets = coded
    data = header.to_bytes() + b"".join(packet.to_bytes() for packet in packets)
    half, video = tmp_path / "half.gsv", tmp_path / "half.y4m"
    half.write_bytes(data[: len(data) * 2 // 3])
    found = gsvc.analyse(half, settings=gsvc.AnalysisSettings(detector="moving"), partial=True)
    assert isinstance(found.damage, gsvc.TruncatedStreamError) and len(found.frames) > QUIET // 2
    with pytest.raises(gsvc.TruncatedStreamError, match=f"has the {len(found.frames)} frames"):
        gsvc.decode(half, video, settings=PLAIN)
    assert video.stat().st_size > len(found.frames) * 320 * 192


def test_a_receiver_that_joins_gets_a_picture_while_nothing_happens() -> None:
    empty = scene()[0]
    with gsvc.Encoder(FORM, replace(SETTINGS, low_delay=True)) as encoder:
        packets = [p for _ in range(30) for p in encoder.encode(empty)]
        encoder.force_keyframe()
        joined = encoder.encode(empty)
        rest = [p for _ in range(30) for p in encoder.encode(empty)] + encoder.flush()
    assert [packet.frames for packet in packets] == [1]
    assert joined[-1].is_intra and sum(packet.frames for packet in joined) == 30
    with gsvc.Decoder(encoder.header, PLAIN) as decoder:
        assert len([f for p in [joined[-1], *rest] for f in decoder.decode(p)]) == 31


def test_a_file_of_events_has_its_sound(write_video: Callable[..., Path], tmp_path: Path) -> None:
    pictures, shown = scene(), tmp_path / "shown.mkv"
    seconds = len(pictures) / 25
    clip = write_video(tmp_path / "it.mp4", pictures, sound=seconds)
    report = gsvc.encode(clip, tmp_path / "it.gsv", settings=replace(SETTINGS, low_delay=True))
    assert report.frames == len(pictures) and report.audio_size > 1000 * seconds / 8
    gsvc.decode(tmp_path / "it.gsv", shown, settings=PLAIN)
    with av.open(shown) as container:
        heard = sum(frame.samples for frame in container.decode(audio=0)) / 48_000
    assert heard == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"pre_roll": -1.0}, "0 to 30"), ({"task": "detect"}, "leave out events-only")],
)
def test_settings_that_make_no_sense(settings: dict[str, float], told: str) -> None:
    with pytest.raises(gsvc.ConfigError, match=told):
        replace(SETTINGS, **settings)  # type: ignore[arg-type]
