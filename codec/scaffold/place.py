"""Where the frames of an interval lie."""

from enum import Enum


class Place(Enum):
    """Where the frames of an interval lie, and so what they are drawn from."""

    BETWEEN = 0
    """Between two coded pictures, drawn from both."""
    BEFORE = 1
    """Before the first coded picture of a scene, which they hold."""
    AFTER = 2
    """After the last coded picture of a scene, which they hold; their packet has no picture."""
