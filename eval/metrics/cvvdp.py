"""ColorVideoVDP: a model of what an observer sees on a given display.

The arithmetic is the package's own, computed on a CPU many times as fast.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.late_loading import optional, torch
from gsvc.eval.metrics import base

Channels = NDArray[np.float32]
"""Float32 (H, W, 4)."""

_TINY = 1e-5  # the package adds it under every power
_LEAST_LIGHT = 0.01  # cd/m2, under which the package takes no background to be
_MOST_CONTRAST = 1000.0
_GAIN = np.array([1, 1.45, 1, 1])  # of the channels, in the package's code
_REDUCE = np.array([0.05, 0.25, 0.4, 0.25, 0.05], np.float32)
_EXPAND = np.array([0, 0.1, 0.4, 0.4, 0.1], np.float32)
"""Of a picture whose pixels were doubled: what `_REDUCE` makes of one with zeros between them."""


class Observer:
    """The package's observer before clips of one size and frame rate."""

    def __init__(self, package: Any, width: int, height: int, frame_rate: float) -> None:
        from pycvvdp.lpyr_dec import weber_contrast_pyr

        pyramid = weber_contrast_pyr(width, height, package.pix_per_deg, "cpu", package.contrast)
        self.frequencies = np.array(pyramid.get_freqs())
        self.frequencies[-1] = 0.1  # as the package has the lowest band
        self._light, self._steps = _sight(package, frame_rate)
        self._masking = _Masking(package)
        # The package doubles the bands between the first and the last, and gains all but the last.
        gains = [_GAIN, *[2 * _GAIN] * (len(self.frequencies) - 2), np.ones(4)]
        self._tables = [
            _sensitivities(package, rho, gain)
            for rho, gain in zip(self.frequencies, gains, strict=True)
        ]
        self._log_light = package.csf.log_L_bkg.numpy()

    def differences(
        self, reference: Sequence[Picture], tests: Sequence[Sequence[Picture]]
    ) -> NDArray[np.float32]:
        """Float32 (tests, 4, frames, bands): the package's `Q_per_ch` of each test."""
        found = np.empty((len(tests), 4, len(reference), len(self.frequencies)), np.float32)
        views = [self._views(frames) for frames in tests]
        for index, view in enumerate(self._views(reference)):
            bands = list(self._bands(view))
            for row, test in zip(found, views, strict=True):
                for b, (contrast, _) in enumerate(self._contrasts(next(test))):
                    seen, sensitivity = bands[b]
                    row[:, index, b] = self._masking.difference(
                        contrast * sensitivity, seen, masks=b < len(bands) - 1
                    )
        return found

    def _views(self, frames: Sequence[Picture]) -> Iterator[Channels]:
        """Each frame as the temporal channels see it: the first stood there before it began."""
        latest: deque[Channels] = deque(maxlen=len(self._steps))
        for frame in frames:
            light = cv2.LUT(frame, self._light)
            light = np.asarray(cv2.merge([*cv2.split(light), np.zeros_like(light[..., 0])]))
            latest.extendleft([light] * (1 if latest else len(self._steps)))
            view = np.zeros_like(light)
            for step, one in zip(self._steps, latest, strict=True):
                cv2.add(view, cv2.transform(one, step), dst=view)
            yield view

    def _contrasts(self, view: Channels) -> Iterator[tuple[Channels, NDArray[np.float32]]]:
        """Each band's contrast, and its background: light, (H, W), or its mean, (1, 1)."""
        for _ in self.frequencies[:-1]:
            smaller = _reduced(view)
            blurred = _expanded(smaller, view)
            light = np.maximum(blurred[..., 0], _LEAST_LIGHT)
            contrast = np.subtract(view, blurred, out=blurred)
            np.divide(contrast, cv2.merge([light] * 4), out=contrast)
            yield np.minimum(contrast, _MOST_CONTRAST, out=contrast), light
            view = smaller
        mean = np.maximum(view[..., 0], _LEAST_LIGHT).mean(keepdims=True)
        yield np.minimum(view / mean[..., None], _MOST_CONTRAST), mean

    def _bands(self, view: Channels) -> Iterator[tuple[Channels, Channels]]:
        """Each band's contrast in thresholds of sight, and what turned it into that unit."""
        for (contrast, light), table in zip(self._contrasts(view), self._tables, strict=True):
            sensitivity = self._looked_up(table, np.log10(light))
            yield contrast * sensitivity, sensitivity

    def _looked_up(self, table: NDArray[np.float32], log_light: Any) -> Channels:
        """The table, logarithms of four sensitivities by light, between its rows: (..., 4)."""
        known = self._log_light
        last = len(known) - 1
        place = np.clip((log_light - known[0]) / (known[-1] - known[0]) * last, 0, last)
        row = np.asarray(place, np.int32)
        part = cv2.merge([np.asarray(place - row, np.float32)] * 4)
        below, above = table[row], table[np.minimum(row + 1, last)]
        return np.asarray(np.exp(below + (above - below) * part), np.float32)


class _Masking:
    """What a difference is to the eye beside what both pictures show there ("mult-mutual")."""

    def __init__(self, package: Any) -> None:
        self._power = float(package.mask_p)
        self._most = 10 ** float(package.d_max)
        self._pooling = float(package.beta)
        self._blur = int(package.pu_dilate * 4) + 1, float(package.pu_dilate)
        self._least_side = package.pu_padsize
        scale = np.log(10) * float(package.mask_c)
        powers = package.mask_q.numpy().astype(np.float64)
        # log(x + tiny) → the logarithm of its power, channel by channel.
        self._powers = np.diag(powers).astype(np.float32)
        self._scale = float(np.exp(scale))
        weights = 2 ** package.xcm_weights.numpy().astype(np.float64).reshape(4, 4)
        self._mix = np.column_stack([weights.T, 1 - _TINY**powers @ weights]).astype(np.float32)

    def difference(self, test: Channels, own: Channels, *, masks: bool) -> NDArray[np.float64]:
        """The four channels' differences pooled over the picture; the lowest band masks nothing."""
        change = np.abs(test - own)
        if masks:
            hidden = _power(change, self._power)
            np.divide(hidden, self._mask(np.minimum(np.abs(test), np.abs(own))), out=hidden)
            change = hidden * self._most / (self._most + hidden)
        mean = np.array(cv2.mean(cv2.pow(change + np.float32(_TINY), self._pooling)))
        mean -= _TINY**self._pooling
        root = 1 / self._pooling
        return np.asarray((mean + _TINY) ** root - _TINY**root)

    def _mask(self, both: Channels) -> Channels:
        """1 and what of `both`, in all channels around it, hides a difference."""
        side, sigma = self._blur
        if min(both.shape[:2]) > self._least_side:
            both = np.asarray(cv2.GaussianBlur(both, (side, side), sigma))
        log = cv2.log(both * np.float32(self._scale) + np.float32(_TINY))
        return np.asarray(cv2.transform(cv2.exp(cv2.transform(log, self._powers)), self._mix))


def _sight(package: Any, frame_rate: float) -> tuple[Channels, list[NDArray[np.float32]]]:
    """The display's light for each level, and from light to channels for each frame back."""
    levels = torch.arange(256, dtype=torch.float32) / 255
    light = package.display_photometry.forward(levels).numpy()
    unit = torch.eye(3).reshape(3, 3, 1, 1, 1)  # red, green and blue light, one after another
    colours = package.display_photometry.linear_2_target_colorspace(unit, "DKLd65")
    matrix = colours.reshape(3, 3).numpy().T[[0, 1, 2, 0]]
    filters = np.stack([one.numpy() for one in package.get_temporal_filters(frame_rate)[0]])
    steps = [np.pad(f[:, None] * matrix, ((0, 0), (0, 1))) for f in filters.T]
    return light, [np.ascontiguousarray(step, np.float32) for step in steps]


def _sensitivities(package: Any, rho: float, gain: NDArray[Any]) -> NDArray[np.float32]:
    """Natural logarithms, (lights, 4), of what turns contrast of this frequency into thresholds."""
    csf = package.csf
    correction = 10 ** (float(package.sensitivity_correction) / 20)
    columns = [
        csf.sensitivity(rho, package.omega[when], csf.log_L_bkg, colour, package.csf_sigma).numpy()
        for colour, when in ((0, 0), (1, 0), (2, 0), (0, 1))
    ]
    return np.asarray(np.log(np.stack(columns, axis=1) * gain * correction), np.float32)


def _power(x: Channels, power: float) -> Channels:
    """The package's power, which has a slope at 0."""
    raised = cv2.exp(cv2.log(x + np.float32(_TINY)) * np.float32(power))
    return np.asarray(raised - np.float32(_TINY**power))


def _reduced(x: Channels) -> Channels:
    """Half the size, as the package's pyramid has it."""
    full = cv2.sepFilter2D(x, -1, _REDUCE, _REDUCE, borderType=cv2.BORDER_REFLECT)
    half = np.ascontiguousarray(full[::2, ::2])
    rows_odd, columns_odd = x.shape[0] % 2, x.shape[1] % 2
    if rows_odd != columns_odd:
        # The package mirrors the last column by the number of rows, not of columns.
        one = np.ones(1, np.float32)
        ends = cv2.sepFilter2D(x[:, -2:], -1, one, _REDUCE, borderType=cv2.BORDER_REFLECT)[::2]
        before, last = ends[:, 0], ends[:, 1]
        error = _REDUCE[3] * last + _REDUCE[4] * (before - last)
        half[:, -1] += error if rows_odd else -error
    return half


def _expanded(x: Channels, like: Channels) -> Channels:
    """Twice the size, that of `like`."""
    height, width = like.shape[:2]
    doubled = cv2.resize(x, None, fx=2, fy=2, interpolation=cv2.INTER_NEAREST)
    doubled = np.ascontiguousarray(doubled[:height, :width])
    return np.asarray(
        cv2.sepFilter2D(doubled, -1, _EXPAND, _EXPAND, borderType=cv2.BORDER_REPLICATE)
    )


DISPLAY = "standard_fhd"
"""24-inch full-HD monitor, 200 cd/m2, office light, from 60 cm; clips are shown unscaled."""
_SCREEN = 1920, 1080
SMALLEST_SIDE = 16
"""Pixels: under it the package has no bands to look at."""


class Cvvdp(base.ProvedMetric):
    """10 less the just-objectionable differences; one number per clip, from all of its frames."""

    name = "cvvdp"
    unit = "JOD"
    higher_is_better = True
    per_frame = False
    golden = base.Golden(10, 4.819357, slack=1e-6, frames=2)
    advice = "reinstall it: pip install --force-reinstall cvvdp==0.5.7"

    def version(self) -> str:
        _metric()
        return f"cvvdp {version('cvvdp')}, display {DISPLAY}"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        base.check_sides(source.frames, SMALLEST_SIDE, "ColorVideoVDP")
        if len(source.frames) == 1:
            return _of_pictures(source.frames[0], [test[0] for test in tests])
        return _pooled(_observer(source).differences(source.frames, tests))[:, np.newaxis]


class CvvdpEnlarged(Cvvdp):
    """CVVDP of clips that fill the screen, enlarged bicubically: 14 times as slow at 288 lines."""

    name = "cvvdp_enlarged"
    golden = base.Golden(10, 5.228076, slack=1e-6, frames=2)

    def version(self) -> str:
        return f"{super().version()}, enlarged to its full screen"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        enlarged = replace(source, frames=_OnScreen(source.frames))
        return super()._values(enlarged, [_OnScreen(test) for test in tests], indices)


class _OnScreen(Sequence[Picture]):
    """Frames enlarged, one at a time, to the width or the height of the screen."""

    def __init__(self, frames: Sequence[Picture]) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: Any) -> Any:
        frame = self._frames[index]
        height, width = frame.shape[:2]
        scale = min(side / own for side, own in zip(_SCREEN, (width, height), strict=True))
        size = round(width * scale), round(height * scale)
        return cv2.resize(frame, size, interpolation=cv2.INTER_CUBIC)


class Differences(NamedTuple):
    """Where in time, colour and size of detail a test differs, in JOD that are lost.

    The model's eye looks back over .25 s: one frame's difference is strongest .125 s later.
    """

    frequencies: NDArray[np.float64]
    """(bands,): cycles per degree of the viewing angle, falling; the last band is what is left."""
    bands: NDArray[np.float64]
    """(4, frames, bands): in light, red-green, yellow-violet, and in light that changes."""
    frames: NDArray[np.float64]
    """(frames,): what the clip would lose if all of it were like that frame."""


def differences_over_time(source: TestClip, test: Sequence[Picture]) -> Differences:
    """What the package calls a distogram, and the loss frame by frame.

    The clip has two frames or more. Raises InputError when the frames do not match the source's,
    MissingDependencyError without the package.
    """
    base.check_pairs(source.frames, test)
    base.check_sides(source.frames, SMALLEST_SIDE, "ColorVideoVDP")
    observer, package = _observer(source), _metric()
    found = observer.differences(source.frames, [test])[0]
    weights = 4 * package.get_ch_weights(4)[0].repeat(1, 1, found.shape[-1])
    weights[:, 0, -1] *= package.baseband_weight
    bands = 10 - package.met2jod(torch.from_numpy(found) * weights).numpy()
    # Every frame twice: the package takes one alone for a picture that is looked at for long.
    alone = np.repeat(found.swapaxes(0, 1)[:, :, np.newaxis], 2, axis=2)
    return Differences(observer.frequencies, bands.astype(np.float64), 10 - _pooled(alone))


def _observer(source: TestClip) -> Observer:
    form = source.format
    return Observer(_metric(), form.width, form.height, float(form.frame_rate))


def _pooled(differences: NDArray[np.float32]) -> NDArray[np.float64]:
    """(tests, 4, frames, bands) → JOD of each test."""
    scores = [_metric().do_pooling_and_jods(torch.from_numpy(one)[None]) for one in differences]
    return np.array([float(score) for score in scores])


def _of_pictures(reference: Picture, tests: Sequence[Picture]) -> NDArray[np.float64]:
    """The package's score of single pictures, which has no channel of change."""
    with torch.inference_mode():
        scores = [_metric().predict(one, reference, dim_order="HWC")[0] for one in tests]
    return np.array([[float(score)] for score in scores])


@cache
def _metric() -> Any:
    # The package loads what looks for a compiler, and warns of one without a GPU: none is needed.
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    with optional("ColorVideoVDP cannot be imported ({error}): pip install 'gsvc[eval]'"):
        import pycvvdp
    return pycvvdp.cvvdp(display_name=DISPLAY, device=torch.device("cpu"), quiet=True)


METRICS = Cvvdp(), CvvdpEnlarged()


def jod(source: Sequence[Picture], shown: Sequence[Picture], rate: Fraction) -> float | None:
    """CVVDP in JOD, a `Judge` of the planner's trials; None of pictures too small for it."""
    if min(source[0].shape[:2]) < SMALLEST_SIDE:
        return None
    clip = TestClip("trial", source, rate)
    return float(METRICS[0].measure(clip, [shown], range(len(source)))[0, 0])
