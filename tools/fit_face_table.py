"""Fits `face_table.json` to videos of people who speak, and prints it.

    python tools/fit_face_table.py VIDEO... > decoders/interpolation/face_table.json

The first 1500 frames of each video count, at 288 lines, and mirrored. Shapes are laid over their
mean by a similarity of what hardly moves by itself (generalised Procrustes analysis, Gower 1975);
expressions are the principal components of what is left, less the mean of the video.
"""

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.layers.faces import EXPRESSIONS
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.decoders.interpolation.scaffold_motion import (
    EXPRESSION_STEPS,
    LANDMARKS,
    MEAN,
    MEAN_STEPS,
    laid_over,
)
from gsvc.encoders.face_landmarks import FaceMesh, face_tracks

_FRAMES = 1500
_ROUNDS = 4
_RMS = 1 / 128
"""Of an expression with weight 1, in distances of the eyes."""
_LIPS, _EYES = range(40), range(40, 56)
_WEIGHTS = 1.2, 2.0
"""Of lips and eyes, where the rest weighs 1."""

Shapes = NDArray[np.float64]
"""(..., points, 2)"""


def fitted(tracks: Sequence[Shapes]) -> tuple[Shapes, Shapes]:
    """The mean shape, (points, 2), and the expressions, (6, points, 2), in distances of the eyes.

    `tracks`: points of a face in the frames of each video, (frames, points, 2), in pixels.
    """
    mirrored = _mirror(MEAN)
    mean = MEAN
    for _ in range(_ROUNDS):
        laid = [laid_over(track, mean)[1] for track in tracks]
        mean = np.mean([shapes.mean(axis=0) for shapes in laid], axis=0)
        mean = (mean + mean[mirrored] * (-1, 1)) / 2
    rest = [shapes - shapes.mean(axis=0) for shapes in laid]
    # A long video counts no more than a thousand frames.
    rest = [one * min(1.0, np.sqrt(1000 / len(one))) for one in rest]
    rest += [one[:, mirrored] * (-1, 1) for one in rest]
    weights = np.ones((len(LANDMARKS), 1))
    weights[_LIPS], weights[_EYES] = _WEIGHTS
    flat = np.concatenate([(one * weights).reshape(len(one), -1) for one in rest])
    parts = np.linalg.svd(flat, full_matrices=False)[2][:EXPRESSIONS]
    found = parts.reshape(EXPRESSIONS, -1, 2) / weights
    scale = np.sqrt((found**2).sum(axis=2).mean(axis=1))
    return mean, found / scale[:, None, None] * _RMS


def _mirror(mean: Shapes) -> NDArray[np.intp]:
    """The point that lies opposite each one."""
    apart = np.linalg.norm(mean[:, None] * (-1, 1) - mean[None], axis=2)
    return np.asarray(apart.argmin(axis=1))


def _main(videos: Sequence[str]) -> int:
    tracks = []
    for video in videos:
        found = face_tracks(load_clip(video, frames=_FRAMES)[0], FaceMesh())
        tracks += [track[np.isfinite(track[:, 0, 0])] for track in found[:1]]
    mean, expressions = fitted(tracks)
    lines = []
    for row, landmark in enumerate(LANDMARKS):
        places = np.rint(mean[row] * MEAN_STEPS).astype(int).tolist()
        moves = np.rint(expressions[:, row] * EXPRESSION_STEPS).astype(int).ravel().tolist()
        lines.append(f"  {[landmark, *places, *moves]}")
    print("[", ",\n".join(lines), "]", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
