"""The architectures: classes of diffusers, their settings, and where the settings are from."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """A transformer or U-Net with its autoencoder, and how a window goes through them."""

    network: str
    """Class in diffusers."""
    autoencoder: str
    source: str
    """Where the settings are published."""
    text: tuple[int, int]
    """Tokens of the prompt, its width."""
    space: int
    """Pixels that one value of the latents stands for, in each direction."""
    time: int
    """Frames that one of the latents stands for, after the first; 0: of pictures."""
    multiple: int
    """Sides are padded to multiples of this."""
    steps: int
    """That are usual in restoring."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those that differ from the class's own."""
    autoencoder_settings: Mapping[str, Any] = field(default_factory=dict)
    added_frames: int = 0
    """That the back end gives a window besides its own."""
    encodes: int = 1
    """Times that frames as many as the window's are encoded."""
    key_encodes: int = 0
    """Keyframes that are encoded alone, of a window of 33 with one each 8 frames."""
    key_frames: int = 1
    """Frames that each of them is repeated to."""
    key_tokens: int = 0
    """Latent frames more that the network sees: keys that stand beside the window's own."""
    connectors: str = ""
    """Class of the network, with its own settings, that reads the prompt's embedding, if any."""
    connector_settings: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""


def _listed() -> dict[str, Architecture]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

    def fields(name: str) -> dict[str, Any]:
        own = dict(rows[name])
        return {**fields(own.pop("base")), **own} if "base" in own else own

    return {
        name: Architecture(**{**fields(name), "text": tuple(fields(name)["text"])}) for name in rows
    }


ARCHITECTURES = _listed()
"""By the names of back ends."""
