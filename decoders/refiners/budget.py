"""How much of a GPU's memory a refiner may take, and how its weights are held."""

from dataclasses import dataclass

from gsvc.codec.errors import ConfigError

KINDS = {
    "whole": "all weights stay on the GPU",
    "offload": "network and autoencoder take turns on the GPU",
    "groups": "a block of the network at a time is on the GPU: slow",
    "fp8": "as offload, with weights kept in 8 bits: pictures change a little",
}
"""How weights are held -> what that means. A size chooses among the first three."""
_UNITS = {"K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Budget:
    """What `--vram` says: bytes, or a kind."""

    bytes: int | None = None
    kind: str | None = None

    @classmethod
    def of(cls, text: str) -> "Budget":
        """Read "8G", "offload" ... Raises ConfigError for anything else."""
        if text in KINDS:
            return cls(kind=text)
        number, unit = text[:-1], _UNITS.get(text[-1:].upper())
        try:
            size = float(number) * (unit or 0)
        except ValueError:
            size = 0
        if not size > 0:
            raise ConfigError(f"vram {text!r}: write a size, 8G, or one of {', '.join(KINDS)}")
        return cls(bytes=int(size))
