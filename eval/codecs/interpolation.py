"""Frames between decoded ones, drawn from these: what a player can do with a lower frame rate.

A cut is found in the decoded frames, and nothing is interpolated over it: frames there hold the
nearer one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.motion.estimation import dense_flow, gray, trust
from gsvc.decoders.motion.learned.rife import loaded_rife
from gsvc.decoders.rendering import IntervalRenderer

Between = Callable[[Picture, Picture, int], Iterator[Picture]]
"""From two RGB uint8 pictures `step` frames apart to the step - 1 frames between them."""

_LEAST_AGREEMENT = 0.25
"""Of motion there and back: on development clips, frames of different scenes have below 0.05, four
frames apart in the fastest pan 0.47."""


def filled(coded: Sequence[Picture], step: int, count: int, between: Between) -> list[Picture]:
    """`count` frames of which every `step`-th, from the first, is coded.

    Frames after the last coded one hold it.
    """
    frames = [coded[0]]
    for left, right in pairwise(coded):
        draw = nearer if is_cut(left, right) else between
        frames += [*draw(left, right, step), right]
    return frames + frames[-1:] * (count - len(frames))


def is_cut(left: Picture, right: Picture) -> bool:
    """Whether motion there and motion back contradict each other nearly everywhere."""
    before, after = gray(left), gray(right)
    agreement = trust(dense_flow(before, after), dense_flow(after, before))
    return float(agreement.mean()) < _LEAST_AGREEMENT


def nearer(left: Picture, right: Picture, step: int) -> Iterator[Picture]:
    """Hold the picture that is nearer in time."""
    for offset in range(1, step):
        yield left if 2 * offset <= step else right


def by_dis(left: Picture, right: Picture, step: int) -> Iterator[Picture]:
    """Both pictures moved by DIS, as our own decoder does without a scaffold."""
    interval = Interval((1,) * step)
    renderer = IntervalRenderer(left, right, interval, None)
    for offset in range(1, step):
        yield renderer.picture(offset)


def by_rife(left: Picture, right: Picture, step: int) -> Iterator[Picture]:
    """By RIFE. Raises as `load_rife`."""
    pair = loaded_rife().pair(left, right)
    for offset in range(1, step):
        yield pair.motion(offset / step).drawn(left, right)
