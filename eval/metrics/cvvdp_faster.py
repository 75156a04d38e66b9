"""ColorVideoVDP's own arithmetic on a CPU, many times as fast as the package's.

The parameters, the display, the tables of contrast sensitivity and the pooling are the package's;
what is done for every pixel is done here by OpenCV on frames of four interleaved channels (light,
red-green, yellow-violet, and light that changes), and what belongs to the reference is done once
for all tests. The scores are the package's within 1e-4 JOD.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.frames import Picture

Channels = NDArray[np.float32]
"""Float32 (H, W, 4)."""

_TINY = 1e-5
"""The package adds it under every power."""
_LEAST_LIGHT = 0.01
"""cd/m2, under which the package takes no background to be."""
_MOST_CONTRAST = 1000.0
_GAIN = np.array([1, 1.45, 1, 1])
"""Of the channels, in the package's code."""
_REDUCE = np.array([0.05, 0.25, 0.4, 0.25, 0.05], np.float32)
_EXPAND = np.array([0, 0.1, 0.4, 0.4, 0.1], np.float32)
"""Of a picture whose pixels were doubled: what `_REDUCE` makes of one with zeros between them."""


@dataclass(frozen=True)
class _Band:
    """What one spatial band of one reference frame brings to every test."""

    seen: Channels
    """Its contrast in units of the threshold of sight."""
    sensitivity: Channels
    """From contrast to that unit."""


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
        between = len(self.frequencies) - 2
        gains = [_GAIN, *[2 * _GAIN] * between, np.ones(4)]
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
            bands = self._bands(view)
            for row, test in zip(found, views, strict=True):
                for b, (contrast, _) in enumerate(self._contrasts(next(test))):
                    row[:, index, b] = self._masking.difference(
                        contrast * bands[b].sensitivity, bands[b], masks=b < len(bands) - 1
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

    def _bands(self, view: Channels) -> list[_Band]:
        pairs = zip(self._contrasts(view), self._tables, strict=True)
        found = []
        for (contrast, light), table in pairs:
            sensitivity = self._looked_up(table, np.log10(light))
            found.append(_Band(contrast * sensitivity, sensitivity))
        return found

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
        offset = 1 - _TINY**powers @ weights
        self._mix = np.column_stack([weights.T, offset]).astype(np.float32)

    def difference(self, seen: Channels, band: _Band, *, masks: bool) -> NDArray[np.float64]:
        """The four channels' differences pooled over the picture; the lowest band masks nothing."""
        change = np.abs(seen - band.seen)
        if masks:
            hidden = _power(change, self._power)
            np.divide(hidden, self._mask(np.minimum(np.abs(seen), np.abs(band.seen))), out=hidden)
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
    import torch

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
