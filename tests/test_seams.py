"""Windows that follow one another: no step in light, no detail of two at once."""

import io
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import gsvc
from gsvc.codec.bitstream.container import decoded_frames
from gsvc.decoders.streams.windows import FADE, joined
from plain_refiners import PlainWindows, UnevenWindows

Pictures = Callable[..., list[gsvc.Picture]]
COUNT, CUT = 80, 60


def texture(seed: int, size: tuple[int, int] = (72, 128)) -> NDArray[np.uint8]:
    """Noise, around gray."""
    return np.random.default_rng(seed).integers(40, 160, (*size, 3), np.uint8)


@pytest.mark.parametrize("size", [(72, 128), (1, 1), (17, 33), (2160, 3841)])
@pytest.mark.parametrize("step", [-40, 1, 80])
def test_a_step_goes_in_equal_parts(step: int, size: tuple[int, int]) -> None:
    window = [np.full((*size, 3), 100, np.uint8)] * (2 if size[0] > 1000 else FADE + 3)
    shown = np.full((*size, 3), 100 + step, np.uint8)
    after = list(joined(shown, window))
    assert len(after) == len(window) and np.array_equal(after[0], shown)
    for at, picture in enumerate(after):
        left = step * (1 - at / FADE) if at < FADE else 0
        assert (np.abs(picture - (100 + left)) <= 0.5).all()


def test_equal_frames_change_nothing() -> None:
    window = [texture(seed) for seed in range(FADE)]
    after = list(joined(window[0].copy(), window))
    assert all(a is b for a, b in zip(after, window, strict=True))


def test_detail_is_that_of_the_window() -> None:
    """What is added is smooth, however unlike the details are: no ghost of the other one."""
    window = [texture(seed) for seed in range(2)]
    brighter = texture(9).astype(int) + 60
    after = list(joined(brighter.astype(np.uint8), window))
    for picture, own in zip(after, window, strict=True):
        added = picture.astype(int) - own
        assert np.abs(np.diff(added, axis=0)).max() <= 5
        assert np.abs(np.diff(added, axis=1)).max() <= 5
        assert 40 < added.mean() < 70


@pytest.fixture(scope="module")
def stream(moving_pictures: Pictures) -> bytes:
    """80 frames with a cut, in several windows."""
    pictures = moving_pictures(COUNT)
    pictures[CUT:] = [255 - picture for picture in pictures[CUT:]]
    file = io.BytesIO()
    form = gsvc.VideoFormat(64, 48, Fraction(1, 10), Fraction(10))
    with gsvc.Encoder(form, gsvc.EncoderSettings(level=1, preset="fast")) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        for packet in (*packets, *encoder.flush()):
            writer.write(packet)
    return file.getvalue()


def decode(
    stream: bytes, refiner: PlainWindows | None, paste: bool = False
) -> Iterator[gsvc.Picture]:
    """The frames, plain without a refiner."""
    UnevenWindows.seen.clear()
    reader = gsvc.StreamReader(io.BytesIO(stream))
    settings = gsvc.DecoderSettings(steps=1 if refiner else 0, paste_keys=paste)
    with gsvc.Decoder(reader.header, settings, refiner=refiner) as decoder:
        for frame in decoded_frames(decoder, ((packet, True) for packet in reader)):
            yield frame.pixels


def test_light_changes_slowly_but_at_a_cut(stream: bytes) -> None:
    plain = np.stack(list(decode(stream, None)))
    assert len(plain) == COUNT
    shown = np.stack(list(decode(stream, UnevenWindows("uneven"))))
    windows = len(UnevenWindows.seen)
    added = (shown.astype(int) - plain // 2).reshape(COUNT, -1)
    assert windows > 3 and np.ptp(added, axis=1).max() <= 1  # all pixels of a frame alike
    light = added.mean(1)
    jumps = np.abs(np.diff(light))
    assert light[CUT] in (0, UnevenWindows.STEP)  # at once
    assert np.delete(jumps, CUT - 1).max() <= UnevenWindows.STEP / FADE + 1
    assert {0, UnevenWindows.STEP} <= set(light)  # each window comes to its own
    assert np.array_equal(shown, np.stack(list(decode(stream, UnevenWindows("uneven")))))


def test_pasted_keys_are_exact_behind_a_seam(stream: bytes) -> None:
    plain = list(decode(stream, None))
    unpasted = list(decode(stream, UnevenWindows("uneven")))
    shown = list(decode(stream, UnevenWindows("uneven"), paste=True))
    changed = 0
    for own, without, pasted in zip(plain, unpasted, shown, strict=True):
        if not np.array_equal(without, pasted):
            assert np.array_equal(own, pasted)
            changed += 1
    starts = sum(len(window.keys) for window in UnevenWindows.seen) - len(UnevenWindows.seen) + 1
    assert changed >= starts > 4
