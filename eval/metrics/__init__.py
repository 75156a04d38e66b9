"""Quality of decoded frames against the source. Each metric lives in a module of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.eval.metrics.base import Metric
from gsvc.eval.metrics.cvvdp import Cvvdp
from gsvc.eval.metrics.dists import Dists
from gsvc.eval.metrics.frechet import FrechetEfficientNet, Fvd
from gsvc.eval.metrics.lpips import Lpips
from gsvc.eval.metrics.ms_ssim import MsSsim
from gsvc.eval.metrics.psnr import PsnrY, psnr_y
from gsvc.eval.metrics.semantic import MaskIou, pose_oks, pose_pck
from gsvc.eval.metrics.shift_tolerant import (
    NETS,
    SMALLEST_SIDE,
    Net,
    StLpips,
    st_lpips,
    st_lpips_each,
)
from gsvc.eval.metrics.temporal import DifferenceDistance, WarpError
from gsvc.eval.metrics.vmaf import Vmaf

__all__ = [
    "DEFAULT_METRICS",
    "METRICS",
    "NETS",
    "SMALLEST_SIDE",
    "Metric",
    "Net",
    "Quality",
    "find_metric",
    "measure",
    "psnr_y",
    "st_lpips",
    "st_lpips_each",
]

METRICS: dict[str, Callable[[], Metric]] = {
    "st_lpips_alex": partial(StLpips, "alex"),
    "st_lpips_vgg": partial(StLpips, "vgg"),
    "psnr_y": PsnrY,
    "ms_ssim": MsSsim,
    "lpips_alex": partial(Lpips, "alex"),
    "lpips_vgg": partial(Lpips, "vgg"),
    "dists": Dists,
    "cvvdp": Cvvdp,
    "vmaf": partial(Vmaf, "vmaf"),
    "vmaf_neg": partial(Vmaf, "vmaf_neg"),
    "warp_error": WarpError,
    "st_lpips_alex_of_differences": DifferenceDistance,
    "mask_iou": MaskIou,
    "pose_oks": pose_oks,
    "pose_pck": pose_pck,
    "frechet_efficientnet_lite0": FrechetEfficientNet,
    "fvd": Fvd,
}
"""Every metric, by name: what makes it."""

DEFAULT_METRICS: tuple[str, ...] = (
    "st_lpips_alex",
    "st_lpips_vgg",
    "psnr_y",
    "ms_ssim",
    "vmaf",
    "warp_error",
    "st_lpips_alex_of_differences",
    "mask_iou",
    "pose_oks",
)
"""What a benchmark measures when nobody asks for others. The first two are the primary pair; the others
add an eighth to their time."""


@cache
def find_metric(name: str) -> Metric:
    """The metric of that name, one object a process. Raises ConfigError naming the known ones."""
    if name not in METRICS:
        raise ConfigError(f"unknown metric {name!r}; there are {', '.join(METRICS)}")
    return METRICS[name]()


@dataclass(frozen=True)
class Quality:
    """Means over the frames of a clip; `psnr_y` is in dB and infinite when every frame is exact."""

    st_lpips_alex: float
    st_lpips_vgg: float
    psnr_y: float


def measure(reference: Sequence[Picture], tests: Sequence[Sequence[Picture]]) -> list[Quality]:
    """ST-LPIPS and PSNR-Y for each of `tests`, averaged over the frames.

    Several tests at once cost little more than half of one at a time. Errors as in `st_lpips`.
    """
    alex, vgg = (st_lpips_each(reference, tests, net).mean(axis=1) for net in NETS)
    return [
        Quality(float(alex[index]), float(vgg[index]), float(psnr_y(reference, test).mean()))
        for index, test in enumerate(tests)
    ]
