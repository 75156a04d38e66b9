"""A square that crosses the picture, for tests of analyses; who sees it, and where it was found."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

import gsvc
from gsvc.decoders.detection.findings import overlap

FRAMES, SIZE, SIDE, SPEED = 48, (320, 192), 40, 4


def true_box(frame: int) -> NDArray[np.float64]:
    """Left, top, right, bottom."""
    left, top = 30 + SPEED * frame, 70
    return np.array([left, top, left + SIDE, top + SIDE], np.float64)


def square_pictures(count: int, seed: int = 5) -> list[gsvc.Picture]:
    """A textured square that crosses a still, textured background."""
    rng = np.random.default_rng(seed)
    width, height = SIZE
    back, square = (
        np.kron(rng.integers(low, high, (rows // 8, columns // 8, 3)), np.ones((8, 8, 1)))
        for low, high, rows, columns in ((60, 120, height, width), (150, 250, SIDE, SIDE))
    )
    pictures = []
    for frame in range(count):
        picture = back.copy()
        left, top, right, bottom = true_box(frame).astype(int)
        picture[top:bottom, left:right] = square
        pictures.append(picture.astype(np.uint8))
    return pictures


class Eye:
    """Sees the square."""

    def __call__(self, picture: gsvc.Picture) -> list[gsvc.Detection]:
        """See `gsvc.Detector`."""
        where = np.argwhere(picture.mean(axis=2) > 140)
        if not len(where):
            return []
        (top, left), (bottom, right) = where.min(axis=0), where.max(axis=0)
        box = np.array([left, top, right + 1, bottom + 1], np.float64)
        return [gsvc.Detection("square", box, 0.9)]


def overlaps(found: gsvc.Analysis) -> list[float]:
    """Of all that was found with the square."""
    return [
        overlap([one.box], [true_box(frame.frame)]).item()
        for frame in found.frames
        for one in frame.objects
    ]


def is_on_square(box: NDArray[np.float64], frame: int) -> bool:
    """Whether a box has the middle of the square in it, and not much besides."""
    middle = true_box(frame)[:2] + SIDE / 2
    size = box[2:] - box[:2]
    return bool((box[:2] < middle).all() and (middle < box[2:]).all() and size.max() < 2 * SIDE)


def check_motion_follows(found: gsvc.Analysis) -> None:
    """One track is the square's from its first frame to the last.

    Motion tells boxes of blocks, and takes what the square uncovers for a thing for a moment.
    """
    tracks = defaultdict[int, dict[int, NDArray[np.float64]]](dict)
    for frame in found.frames:
        for one in frame.objects:
            assert one.kind == "moving"
            tracks[one.track][frame.frame] = one.box
    *others, longest = sorted(tracks.values(), key=len)
    assert len(longest) > 0.9 * FRAMES and all(len(one) < FRAMES / 3 for one in others)
    assert np.mean([is_on_square(box, frame) for frame, box in longest.items()]) > 0.8
    boxes = ((box, true_box(frame)) for frame, box in longest.items())
    assert np.median([overlap([box], [true]).item() for box, true in boxes]) > 0.4
