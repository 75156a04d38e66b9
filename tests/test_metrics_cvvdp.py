"""ColorVideoVDP computed faster: the package's own scores, on real pairs and on odd sizes."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import pytest

from gsvc import InputError, Picture
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.eval.baselines import find_codec
from gsvc.eval.metrics import find_metric
from gsvc.eval.metrics.cvvdp import DISPLAY, differences_over_time
from needs import need_clip, need_package

JOD = 1e-4


def package_scores(source: TestClip, tests: Sequence[Sequence[Picture]]) -> list[float]:
    need_package("pycvvdp")
    import pycvvdp
    import torch

    judge: Any = pycvvdp.cvvdp(display_name=DISPLAY, device=torch.device("cpu"), quiet=True)
    rate = float(source.frame_rate)
    with torch.inference_mode():
        return [
            float(
                judge.predict(
                    np.stack(test),
                    np.stack(source.frames),
                    dim_order="FHWC",
                    frames_per_second=rate,
                )[0]
            )
            for test in tests
        ]


def textures(height: int, width: int, frames: int) -> list[Picture]:
    noise = np.random.default_rng(0).integers(0, 256, (frames, height, width, 3), np.uint8)
    return [cv2.GaussianBlur(one, (0, 0), 1) for one in noise]


@pytest.mark.parametrize(
    ("name", "count"), [pytest.param("carphone", 11, marks=pytest.mark.slow), ("bikes", 4)]
)
def test_real_pairs_score_as_the_package_scores_them(name: str, count: int) -> None:
    frames, rate = load_clip(need_clip(name), count, 144)
    clip = TestClip(name, frames, rate)
    codec = find_codec("svtav1")
    settings = codec.rate_points()[0]
    data = codec.encode(clip, settings).data
    coded = codec.decode(data, clip.format, settings, {}).frames
    tests = [[frames[0]] * count, coded]
    scores = find_metric("cvvdp").measure(clip, [*tests, frames], [0])[:, 0]
    assert scores[:2] == pytest.approx(package_scores(clip, tests), abs=JOD)
    assert scores[2] == 10


@pytest.mark.parametrize(
    ("height", "width", "frames", "rate"),
    [(17, 33, 2, 25), (64, 63, 3, 60), (131, 90, 4, 10), (49, 96, 20, 60), (40, 56, 1, 25)],
)
def test_odd_sizes_and_short_clips_score_as_the_package_scores_them(
    height: int, width: int, frames: int, rate: int
) -> None:
    clip = TestClip("odd", textures(height, width, frames), Fraction(rate))
    blurred = [cv2.GaussianBlur(frame, (0, 0), 2) for frame in clip.frames]
    scores = find_metric("cvvdp").measure(clip, [blurred], [0])[:, 0]
    assert scores == pytest.approx(package_scores(clip, [blurred]), abs=JOD)


def test_enlarged_clips_score_as_those_that_fill_the_screen() -> None:
    clip = TestClip("small", textures(72, 120, 2), Fraction(25))
    blurred = [cv2.GaussianBlur(frame, (0, 0), 1) for frame in clip.frames]
    before = replace(clip, frames=[on_screen(frame) for frame in clip.frames])
    screen = find_metric("cvvdp").measure(before, [[on_screen(one) for one in blurred]], [0])
    assert find_metric("cvvdp_enlarged").measure(clip, [blurred], [0]) == pytest.approx(screen)


def on_screen(frame: Picture) -> Picture:
    return np.asarray(cv2.resize(frame, (1800, 1080), interpolation=cv2.INTER_CUBIC), np.uint8)


def test_a_picture_with_nothing_to_look_at_is_refused() -> None:
    clip = TestClip("tiny", textures(8, 64, 3), Fraction(25))
    with pytest.raises(InputError, match="16 pixels"):
        find_metric("cvvdp").measure(clip, [clip.frames], [0])


def test_differences_over_time_show_when_and_how_fine_the_damage_is() -> None:
    need_package("pycvvdp")
    clip = TestClip("damaged", textures(96, 128, 1) * 12, Fraction(10))
    test = list(clip.frames)
    test[6] = cv2.GaussianBlur(test[6], (0, 0), 1)
    found = differences_over_time(clip, test)
    assert found.frames.shape == (12,)
    assert found.bands.shape == (4, 12, len(found.frequencies))
    assert found.frames[:6] == pytest.approx(0, abs=1e-4)
    assert found.frames.argmax() == 8  # the model's eye is an eighth of a second late
    light = found.bands[0].max(axis=0)
    assert light[:2].max() > 2 * light[-2:].max()
    assert found.frequencies[0] > found.frequencies[1]
