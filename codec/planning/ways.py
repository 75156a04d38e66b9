"""The ways to decode that a planner chooses from."""

from dataclasses import dataclass

from gsvc.codec.decoder_settings import DecoderSettings


@dataclass(frozen=True)
class Way:
    """One way to decode."""

    motion: str = "dis"
    """As of `DecoderSettings`."""
    backend: str = ""
    """The refiner, which takes one step; empty: none."""

    @property
    def name(self) -> str:
        """As profiles and tables call it: "dis", "rife + compact:nano"."""
        return f"{self.motion} + {self.backend}" if self.backend else self.motion

    @property
    def settings(self) -> DecoderSettings:
        """What the decoder is told."""
        backend = self.backend or DecoderSettings.backend
        return DecoderSettings(steps=int(bool(self.backend)), backend=backend, motion=self.motion)

    @property
    def arguments(self) -> list[str]:
        """The same for `gsvc decode`."""
        refiner = ["--steps", "1", "--backend", self.backend] if self.backend else ["--steps", "0"]
        return refiner + (["--motion", self.motion] if self.motion != "dis" else [])


WAYS = {
    way.name: way
    for way in (
        Way(),
        Way(backend="compact:nano"),
        Way(backend="compact:small"),
        Way("rife"),
        Way("rife", "compact:nano"),
    )
}
"""By name, the plain one first. More steps than one gain nothing (docs/model_card.md), and
compact:base was not measured at every level."""
