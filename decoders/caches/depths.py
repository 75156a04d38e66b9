"""How much of a diffusion loop a similar one saves.

After approximate caching (Agarwal et al., NSDI 2024): what two loops draw is decided late, so the
latents of one are a good place to start the other, the later the more alike the two are.
"""

LOOP = 50
"""Steps of the loop that depths are told in; of a shorter loop they are the same share."""
DEPTHS = (5, 10, 15, 20, 25)
"""Where latents are kept."""
_TABLE = ((0.95, 25), (0.90, 20), (0.85, 15), (0.75, 10), (0.65, 5))
"""Similarity over which a depth is taken, the published figures."""


def reuse_depth(similarity: float) -> int:
    """The depth, of `LOOP`, up to which a loop may take another's latents; 0: it may not."""
    return next((depth for least, depth in _TABLE if similarity > least), 0)


def steps_at(depth: int, steps: int) -> int:
    """How many steps of a loop of `steps` a depth is, rounded down; 0: none are saved."""
    return depth * steps // LOOP


def kept_steps(steps: int) -> set[int]:
    """After how many steps a loop of `steps` keeps its latents; a short one has few such places."""
    return {steps_at(depth, steps) for depth in DEPTHS} - {0}
