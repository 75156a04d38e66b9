"""The judge of a plan's trial: ColorVideoVDP over all of its frames."""

from collections.abc import Sequence
from fractions import Fraction

from gsvc.codec.frames import Picture


def jod(source: Sequence[Picture], shown: Sequence[Picture], rate: Fraction) -> float | None:
    """What CVVDP says of decoded frames, in JOD; see `gsvc.codec.planning.trial.Judge`.

    None of pictures too small for it. Raises MissingDependencyError without its package.
    """
    from gsvc.datasets.clips import TestClip  # late: who asks has this done in another process
    from gsvc.eval.metrics import find_metric
    from gsvc.eval.metrics.cvvdp import SMALLEST_SIDE

    if min(source[0].shape[:2]) < SMALLEST_SIDE:
        return None
    clip = TestClip("trial", source, rate)
    return float(find_metric("cvvdp").measure(clip, [shown], range(len(source)))[0, 0])
