"""Drives a refiner that sees windows: frames wait until theirs is full, or cannot get longer.

A window takes whole intervals, as many as fit, and so ends at a keyframe, with which the next one
begins again. Only an interval longer than a window is cut. No window crosses a scene cut, and
frames that were made up for lost packets pass by.

Two windows share one frame, mostly a keyframe, and each restores it in its own way (`joined`).
Detail switches there at once: two details laid over each other would be ghosts. What is coarse
switches slowly: the difference that the two have in the shared frame is added to those behind it,
less and less. That costs nothing to compute twice, and no frame waits for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Frame, Picture
from gsvc.codec.media.output import atomic_output, explain_failure, own_folder
from gsvc.decoders.keyframes.refiner import WindowRefiner
from gsvc.decoders.streams.reconstruction import DecodedInterval, DrawnFrame

FADE = 8
"""Frames behind the shared one in which the difference goes."""
_CELLS = 16  # cells along a frame's longer side: what is smaller counts as detail


def joined(shown: Picture, window: Sequence[Picture]) -> Iterator[Picture]:
    """The frames of a window that begins with a frame which was shown before as `shown`.

    All RGB uint8 (H, W, 3). A constant difference goes in equal parts, one of `FADE` a frame; from
    the frame `FADE` on nothing is changed, nor anywhere if the shared frame is equal in both.
    """
    height, width = shown.shape[:2]
    cell = max(height, width) / _CELLS
    grid = max(1, round(width / cell)), max(1, round(height / cell))
    means = cv2.resize(shown.astype(np.float32) - window[0], grid, interpolation=cv2.INTER_AREA)
    step = cv2.resize(means, (width, height), interpolation=cv2.INTER_LINEAR)  # what is coarser
    if not step.any():
        yield from window
        return
    for at, picture in enumerate(window):
        if at < FADE:
            levels = np.rint(picture + step * np.float32(1 - at / FADE))
            yield levels.clip(0, 255).astype(np.uint8)
        else:
            yield picture


_MARK = "gsvc-windows"
_SUFFIX = ".safetensors"


class KeptWindows:
    """A folder of restored windows, so that a decode that was interrupted goes on where it was.

    A window is found by all that it was made of. Nobody clears the folder but its user.
    """

    def __init__(self, folder: Path, made_by: str) -> None:
        """`made_by`: one text for all that must be equal, such as refiner, steps and seed.

        Raises ConfigError for a folder of something else, OutputError where it cannot be written.
        """
        self._folder, self._made_by = folder, made_by
        self.taken = 0
        """Windows that need not be restored."""
        own_folder(folder, _MARK)
        with explain_failure(folder):
            (folder / _MARK).touch()

    def restored(
        self,
        rendering: NDArray[np.uint8],
        keys: Mapping[int, Picture],
        confidence: NDArray[np.float32],
        restore: Callable[[], Sequence[Picture]],
    ) -> Sequence[Picture]:
        """The window, from the folder, or by `restore` and into it."""
        # Late: plain decoding does without this package.
        from safetensors import SafetensorError
        from safetensors.numpy import load_file, save_file

        digest = sha256(f"{self._made_by}, {rendering.shape}, {sorted(keys)}".encode())
        for array in (rendering, *(keys[at] for at in sorted(keys)), np.float16(confidence)):
            digest.update(np.ascontiguousarray(array).tobytes())
        path = self._folder / f"{digest.hexdigest()[:32]}{_SUFFIX}"
        with suppress(OSError, ValueError, KeyError, SafetensorError):
            frames: NDArray[np.uint8] = load_file(path)["frames"]
            if frames.shape == rendering.shape and frames.dtype == np.uint8:
                self.taken += 1
                return list(frames)
        pictures = restore()
        with atomic_output(path, overwrite=True) as part:
            save_file({"frames": np.stack(pictures)}, part)
        return pictures


_STEP = 8
"""Windows have a multiple of this many frames, and one more: so video autoencoders take them."""


@dataclass(frozen=True)
class _Rendering:
    picture: Picture
    confidence: NDArray[np.float32]
    is_key: bool
    frame: Frame | None
    """None where an earlier window has given it."""


class Windows:
    """Gathers frames in windows and gives them restored, at most `refiner.delay` frames late."""

    def __init__(
        self, refiner: WindowRefiner, steps: int, seed: int, kept: KeptWindows | None = None
    ) -> None:
        """`kept`: where restored windows are, and are put."""
        self._refiner, self._steps, self._seed, self._kept = refiner, steps, seed, kept
        self.delay = refiner.delay
        """Frames by which output may be late."""
        self.reset()

    def reset(self) -> None:
        """Forget the frames that wait."""
        self._window: list[_Rendering] = []
        self._interval: DecodedInterval | None = None
        self._last: Picture | None = None
        """The last frame shown, where the next window begins with it."""

    def frames(self, drawn: Iterable[DrawnFrame]) -> Iterator[Frame]:
        """Take frames in; gives those that need not wait any longer."""
        for one in drawn:
            if one.interval is None or one.frame.concealed:
                yield from self.flush()
                yield one.frame
            else:
                yield from self._take(one.frame, one.interval, one.number)

    def flush(self) -> Iterator[Frame]:
        """The frames that wait. What comes then begins a window."""
        yield from self._ended()
        self._last = None

    def _ended(self) -> Iterator[Frame]:
        """The frames that wait. What comes then may go on from the last one."""
        if any(rendering.frame for rendering in self._window):
            yield from self._restored()
        self._window, self._interval = [], None

    def _take(self, frame: Frame, interval: DecodedInterval, number: int) -> Iterator[Frame]:
        goes_on = self._interval is not None and interval.start is self._interval.key
        size = len(self._window) + interval.interval.length - number + 1
        if interval is not self._interval and not (goes_on and size <= self._refiner.delay + 1):
            yield from self._ended() if goes_on else self.flush()
        start = interval.start
        if not self._window and number == 1 and start is not None and not start.stands_in:
            # The keyframe that the interval goes on from, which was shown before.
            trust = np.ones(start.shown.shape[:2], np.float32)
            self._window = [_Rendering(start.shown, trust, True, None)]
        self._interval = interval
        picture, confidence = frame.pixels, interval.confidence(number)
        self._window.append(_Rendering(picture, confidence, interval.is_key(number), frame))
        if len(self._window) > self._refiner.delay:
            yield from self._restored()
            self._window = [replace(self._window[-1], frame=None)]

    def _restored(self) -> Iterator[Frame]:
        window = self._window
        padded = window + window[-1:] * (-(len(window) - 1) % _STEP)
        given = (
            np.stack([rendering.picture for rendering in padded]),
            {n: rendering.picture for n, rendering in enumerate(window) if rendering.is_key},
            np.stack([rendering.confidence for rendering in padded]),
        )
        restore = partial(self._refiner.restore, *given, steps=self._steps, seed=self._seed)
        pictures = self._kept.restored(*given, restore) if self._kept else restore()
        pictures = pictures[: len(window)]
        if self._last is not None and window[0].frame is None:
            pictures = list(joined(self._last, pictures))
        self._last = pictures[-1]
        for rendering, picture in zip(window, pictures, strict=True):
            if rendering.frame:
                pasted = rendering.is_key and self._refiner.pastes_keys
                pixels = rendering.picture if pasted else picture
                yield replace(rendering.frame, pixels=pixels)
