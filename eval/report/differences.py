"""Where and when a decoded clip differs from its source: over time, in maps, and in strips.

A strip shows successive frames of the part of a clip where its motion differs most, or where a
mouth moves most.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import GsvcError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip import TestClip
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.encoders.scaffold.face_landmarks import LIPS
from gsvc.eval.metrics.cvvdp import differences_over_time
from gsvc.eval.metrics.faces import SPEAKS, main_faces, opening
from gsvc.eval.report.media import image_file

WINDOW, LENGTH = 112, 8
"""Side of the part of a frame, in pixels, and how many frames."""


@dataclass(frozen=True)
class StripPlace:
    """Where and when a strip is cut."""

    first: int
    """Its first frame."""
    top: int
    left: int
    side: int = WINDOW
    """Of the square that is cut out, in pixels."""

    def cut(self, frames: Sequence[Picture]) -> list[Picture]:
        """The parts of the frames, at most `LENGTH` of them; smaller ones enlarged."""
        rows = slice(self.top, self.top + self.side)
        columns = slice(self.left, self.left + self.side)
        parts = [frame[rows, columns] for frame in frames[self.first : self.first + LENGTH]]
        return parts if self.side == WINDOW else [_enlarged(part) for part in parts]


def worst_place(
    ours: Sequence[Picture], source: Sequence[Picture], start: int = 0, end: int | None = None
) -> StripPlace:
    """Where our changes of luma from frame to frame differ most from the source's.

    `start`, `end`: only among these frames.
    """
    end = len(source) if end is None else end
    worst, place = -1.0, StripPlace(start, 0, 0)
    height, width = source[0].shape[:2]
    window = min(WINDOW, height), min(WINDOW, width)
    both = zip(_changes(ours[start:end]), _changes(source[start:end]), strict=True)
    for index, (change, true_change) in enumerate(both, start=start + 1):
        apart = cv2.absdiff(change, true_change)
        means = cv2.boxFilter(apart, -1, window[::-1], anchor=(0, 0))
        inside = means[: height - window[0] + 1, : width - window[1] + 1]
        _, value, _, (x, y) = cv2.minMaxLoc(inside)
        if value > worst:
            first = max(start, min(index - LENGTH // 2, end - LENGTH))
            worst, place = value, StripPlace(first, y, x)
    return place


def _enlarged(part: Picture) -> Picture:
    resized = cv2.resize(part, (WINDOW, WINDOW), interpolation=cv2.INTER_CUBIC)
    return np.asarray(resized, np.uint8)


def _changes(video: Sequence[Picture]) -> Iterator[NDArray[np.float32]]:
    """Of luma, from each frame to the next."""
    luma = (gray(frame).astype(np.float32) for frame in video)
    return (after - before for before, after in pairwise(luma))


_SHARE = 0.75
"""Side of the square about the lips, in widths of the face: from the nose to below the chin."""
_LEAST_SIDE = 32


def speaking_place(source: TestClip) -> StripPlace | None:
    """The part about the lips of the frames whose mouth opens and closes most.

    None where no mouth moves. Raises MissingModelError and MissingDependencyError.
    """
    faces = main_faces(source)
    points = [faces[t].points if t in faces else None for t in range(len(source.frames))]
    openings = np.array([opening(one) for one in points])
    spans = [_range(openings[k : k + LENGTH]) for k in range(max(1, len(openings) - LENGTH + 1))]
    first = int(np.argmax(spans))
    if spans[first] < SPEAKS:
        return None
    shown = np.array([one for one in points[first : first + LENGTH] if one is not None])
    height, width = source.frames[0].shape[:2]
    across = float(np.ptp(shown[..., 0], axis=1).mean())
    side = min(max(_LEAST_SIDE, round(_SHARE * across)), height, width)
    x, y = shown[:, LIPS].mean(axis=(0, 1))
    return StripPlace(first, _start(y, side, height), _start(x, side, width), side)


def _start(centre: float, side: int, size: int) -> int:
    """Of a side about `centre`, inside the picture."""
    return min(max(0, round(centre - side / 2)), size - side)


def _range(openings: NDArray[np.float64]) -> float:
    """From the least to the greatest; 0 unless the face is found on all frames."""
    return 0.0 if np.isnan(openings).any() else float(np.ptp(openings))


_BY_EYE = "ColorVideoVDP: JOD that are lost"
_BY_LIGHT = "mean difference of luma, 0 to 255, as ColorVideoVDP cannot tell"
_EYE_ROWS, _EYE_ORDER = ["still", "changing"], "each half from fine detail down to coarse"
_LIGHT_ROWS, _LIGHT_ORDER = ["light"], "from the top of the picture to its bottom"
_MOST_SHARE = 99.5
"""Percentile of all values that is white in the maps: a cut must not darken the rest."""
_LIGHT_SLICES = 18


@dataclass(frozen=True)
class DifferenceTimeline:
    """Of several versions of one clip, in one measure."""

    measure: str
    """What the lines show; greater is worse."""
    rows: list[str]
    """What the maps show, in as many equal parts from the top."""
    order: str
    """Of the rows of each part."""
    lines: list[list[float]]
    """Of each version, by frame."""
    maps: list[NDArray[np.float64]]
    """Of each version, shape (rows, frames)."""

    @property
    def most(self) -> float:
        """The value that is white in the maps."""
        return float(np.percentile(np.concatenate(self.maps), _MOST_SHARE))


def differences(source: TestClip, versions: Sequence[Sequence[Picture]]) -> DifferenceTimeline:
    """Of each version from the source, all in the same measure."""
    if len(source.frames) < 2:
        return _by_light(source, versions, "one picture is no video")
    try:
        found = [differences_over_time(source, frames) for frames in versions]
    except GsvcError as error:
        return _by_light(source, versions, str(error))
    # Light and colour that stand, then light that changes.
    maps = [np.vstack([one.bands[:3].max(axis=0).T, one.bands[3].T]) for one in found]
    return DifferenceTimeline(
        _BY_EYE, _EYE_ROWS, _EYE_ORDER, [list(map(float, one.frames)) for one in found], maps
    )


def worst_second(line: Sequence[float], frame_rate: float) -> tuple[int, int]:
    """First frame, and the one after the last, of the second with the greatest sum."""
    length = max(1, min(len(line), round(frame_rate)))
    sums = np.convolve(line, np.ones(length), "valid")
    first = int(sums.argmax())
    return first, first + length


def map_picture(values: NDArray[np.float64], most: float) -> bytes:
    """A map as a PNG with a pixel a value: from black over red to white at `most`."""
    shades = np.clip(255 * values / (most or 1.0), 0, 255).astype(np.uint8)
    coloured = cv2.applyColorMap(shades, cv2.COLORMAP_INFERNO)
    return image_file(np.asarray(coloured[..., ::-1], np.uint8), ".png")


def _by_light(
    source: TestClip, versions: Sequence[Sequence[Picture]], why: str
) -> DifferenceTimeline:
    maps = []
    for frames in versions:
        pairs = zip(source.frames, frames, strict=True)
        apart = [cv2.absdiff(gray(a), gray(b)).mean(axis=1) for a, b in pairs]
        slices = [np.array_split(one, min(_LIGHT_SLICES, len(one))) for one in apart]
        maps.append(np.array([[float(part.mean()) for part in one] for one in slices]).T)
    lines = [list(map(float, one.mean(axis=0))) for one in maps]
    return DifferenceTimeline(f"{_BY_LIGHT} ({why})", _LIGHT_ROWS, _LIGHT_ORDER, lines, maps)
