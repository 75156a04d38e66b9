"""How a refiner is trained."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainSettings:
    """What a run keeps beside its weights, and goes on with when it is resumed."""

    size: str = "nano"
    """Size of the network, a key of `gsvc.decoders.refiners.compact.network.SIZES`."""
    steps: int = 6000
    """Number of training steps."""
    batch: int = 8
    """Crops in a step."""
    rate: float = 1e-3
    """Highest learning rate."""
    texture: float = 0.3
    """Weight of `texture_distance`; the Charbonnier distance has 1."""
    perceptual: float = 0.7
    """Weight of the perceptual distance."""
    noise: float = 0.003
    """Standard deviation of the noise added to the state, where pictures lie in [-1, 1]."""
    seed: int = 0
    """Seed of everything that is drawn at random."""
    device: str = "cpu"
    """Device to train on, as torch names it."""
    compiled: bool = False
    """Run the network through torch.compile: needs a C++ compiler and a minute, then saves a third
    of the time."""
