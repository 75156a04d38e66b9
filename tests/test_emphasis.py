"""Pre-emphasis raises the detail that a trial lost of a picture, and nothing else."""

import cv2
import numpy as np
import pytest

from gsvc import Picture
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.encoders.distortion import Reference
from gsvc.encoders.search.probes import emphasised
from needs import need_clip

CRF = 50.0


@pytest.fixture(scope="module")
def picture() -> Picture:
    """A frame of a film, 144 lines."""
    return load_clip(need_clip("bigbuckbunny"), 1, 144)[0][0]


def detail(luma: Picture) -> float:
    """Mean square of what a Gaussian takes away."""
    values = luma.astype(np.float32)
    return float(np.square(values - cv2.GaussianBlur(values, (0, 0), 2)).mean())


def test_a_picture_that_lost_nothing_stays_as_it_is(picture: Picture) -> None:
    same = emphasised(picture, Reference(picture), gray(picture), CRF)
    np.testing.assert_array_equal(same, picture)


def test_detail_is_raised_where_it_was_lost(picture: Picture) -> None:
    half = picture.shape[1] // 2
    decoded = gray(picture).copy()
    decoded[:, :half] = cv2.GaussianBlur(decoded, (0, 0), 2)[:, :half]
    raised = emphasised(picture, Reference(picture), decoded, CRF)
    edge = 24  # windows of the distance reach over the border between the halves
    np.testing.assert_array_equal(raised[:, half + edge :], picture[:, half + edge :])
    before, after = (gray(p)[:, : half - edge] for p in (picture, raised))
    assert 1.1 * detail(before) < detail(after) < 4 * detail(before)


def test_the_coarsest_quantiser_raises_nothing(picture: Picture) -> None:
    lost = cv2.GaussianBlur(gray(picture), (0, 0), 2)
    reference = Reference(picture)
    assert (emphasised(picture, reference, lost, 70.0) == picture).all()
    assert (emphasised(picture, reference, lost, 60.0) != picture).any()
