"""The metrics of the benchmark by name: quality of decoded frames against the source.

To add one, write a module here with a class that has the members of `base.Metric`, and list an
object of it in the module's `METRICS`; or give the benchmark a class of your own as `module:Class`.
"""

from functools import cache

from gsvc.codec.bitstream.errors import ConfigError, nearest
from gsvc.eval.late_loading import declared
from gsvc.eval.metrics.base import Metric

DEFAULT_METRICS: tuple[str, ...] = (
    *("cvvdp", "st_lpips_vgg", "st_lpips_alex", "motion_error", "jumps", "psnr_y", "ms_ssim"),
    *("vmaf", "warp_error", "st_lpips_alex_of_differences", "mask_iou", "pose_oks"),
)
"""What a benchmark measures unless asked otherwise.

The first two judge; the next two say what they overlook. ST-LPIPS VGG takes as long as the rest.
"""


@cache
def metrics() -> dict[str, Metric]:
    """Every metric, by name; they load what they need when they are used."""
    return {metric.name: metric for metric in declared(__name__, "METRICS")}


def find_metric(name: str) -> Metric:
    """The metric of that name. Raises ConfigError for an unknown one."""
    if name not in metrics():
        meant = nearest(name, metrics()) or f"; there are {', '.join(metrics())}"
        raise ConfigError(f"unknown metric {name!r}{meant}")
    return metrics()[name]
