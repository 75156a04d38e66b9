"""Where the frames of an interval lie relative to the coded pictures."""

from enum import Enum


class Place(Enum):
    """Where the frames of an interval lie relative to the coded pictures that they show."""

    BETWEEN = 0
    """Between two coded pictures; frames are drawn from both."""
    BEFORE = 1
    """Before the first coded picture of a scene; frames show it, moved with the camera."""
    AFTER = 2
    """After the last coded picture of a scene, likewise; the packet has no picture."""
