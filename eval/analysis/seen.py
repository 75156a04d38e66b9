"""What was seen in a clip: boxes, and people's key points where a detector finds them."""

from collections.abc import Sequence
from typing import NamedTuple

from gsvc.codec.errors import ConfigError
from gsvc.datasets.annotated.boxes import Boxes
from gsvc.eval.analysis.key_points import Pose


class Seen(NamedTuple):
    """What a detector or an analyser may give in place of boxes alone."""

    boxes: Boxes
    poses: Sequence[Pose] | None = None
    """None: key points were not looked for."""


def as_seen(found: object) -> Seen:
    """What a detector or an analyser gave. Raises ConfigError when it is something else."""
    seen = found if isinstance(found, Seen) else Seen(found)  # type: ignore[arg-type]
    if not isinstance(seen.boxes, Boxes):
        kind = type(seen.boxes).__name__
        raise ConfigError(f"the detector or analyser gave {kind}: give what make_boxes makes")
    return seen
