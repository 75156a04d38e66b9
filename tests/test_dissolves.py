"""Fades and dissolves are seen, sent as such, and drawn as such."""

from fractions import Fraction

import cv2
import numpy as np
import pytest

from gsvc import Decoder, DecoderSettings, Encoder, EncoderSettings, Frame, Picture, VideoFormat
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.scaffold import Interval
from gsvc.encoders.coding.cuts import CutDetector

SIZE = 96, 64
WAIT, FADE = 12, 24


def still(seed: int) -> Picture:
    """Coarse texture of one hue."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (8, 12, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, SIZE, interpolation=cv2.INTER_CUBIC), np.uint8)


def faded(first: Picture, second: Picture) -> list[Picture]:
    """One picture, a dissolve, the other one."""
    shares = [(k + 1) / (FADE + 1) for k in range(FADE)]
    mixed = [cv2.addWeighted(first, 1 - s, second, s, 0) for s in shares]
    return [first] * WAIT + [np.asarray(m, np.uint8) for m in mixed] + [second] * WAIT


def test_a_flicker_of_brightness_is_no_cut() -> None:
    scene, other, is_cut = still(1), still(2), CutDetector()
    dark = np.asarray(0.8 * scene, np.uint8)
    light = np.asarray(np.minimum(scene.astype(int) + 30, 255), np.uint8)
    shown = [scene] * 4 + [dark, scene, light, scene, dark, dark, other, other, light]
    assert [n for n, picture in enumerate(shown) if is_cut(picture)] == [10, 12]


def through(
    pictures: list[Picture], level: int, gop: float | None = None
) -> tuple[list[Interval], list[Picture]]:
    video = VideoFormat(*SIZE, Fraction(1, 25), Fraction(25))
    encoder = Encoder(video, EncoderSettings(level=level, preset="fast", gop=gop))
    packets = [p for k, one in enumerate(pictures) for p in encoder.encode(Frame(one, k))]
    packets += encoder.flush()
    parser = GroupReader(encoder.header)
    decoder = Decoder(encoder.header, DecoderSettings(steps=0))
    intervals = [one for p in packets if p.is_picture for one in parser.read(p).intervals]
    return intervals, [frame.pixels for p in packets for frame in decoder.decode(p)]


def test_a_dissolve_is_sent_as_such() -> None:
    pictures = faded(still(1), still(2))
    intervals, shown = through(pictures, 3)
    assert any(i.dissolves and i.length >= FADE // 2 for i in intervals)
    errors = [np.abs(a.astype(float) - b).mean() for a, b in zip(pictures, shown, strict=True)]
    assert max(errors) < 16


def test_motion_is_no_fade() -> None:
    wide = np.hstack([still(3), still(4)])
    pictures = [np.ascontiguousarray(wide[:, k : k + SIZE[0]]) for k in range(40)]
    intervals, _ = through(pictures, 2)
    assert not any(interval.dissolves for interval in intervals)


def test_flicker_is_sent_and_costs_little() -> None:
    scene = still(1)
    dark, light = (np.asarray(np.minimum(share * scene, 255), np.uint8) for share in (0.8, 1.15))
    calm = [scene] * 40
    flashes = [dark, *calm[:3], light, light, scene, dark]
    flickering = [*calm[:9], *flashes, *calm[:13], light, *calm[:9]]
    (still_ones, shown), plain = through(flickering, 1), through(calm, 1)
    assert len(still_ones) == len(plain[0]), "a flicker takes a picture"
    for source, drawn, usual in zip(flickering, shown, plain[1], strict=True):
        assert abs(source.mean() - drawn.mean()) < 3 + abs(scene.mean() - usual.mean())


@pytest.mark.parametrize("gop", [None, 1.2], ids=["one group", "groups"])
def test_a_lamp_goes_off_and_on(gop: float | None) -> None:
    """The other brightness is sent as a factor, but for a group that goes on in the next one."""
    scene = still(1)
    dark = np.asarray(0.7 * scene, np.uint8)
    lamp = [scene] * 20 + [dark] * 20 + [scene] * 10
    (sent, shown), (calm_ones, usual) = through(lamp, 1, gop), through([scene] * 50, 1, gop)
    assert gop or len(sent) == len(calm_ones), "a change of brightness takes a picture"
    for source, drawn, calm in zip(lamp, shown, usual, strict=True):
        assert abs(source.mean() - drawn.mean()) < 3 + abs(scene.mean() - calm.mean())
