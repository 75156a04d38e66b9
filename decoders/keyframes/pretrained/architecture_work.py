"""An architecture at work on tensors without storage: what a counter of operations is given."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES, Architecture
from gsvc.decoders.keyframes.refiner import RefinerCost

_BYTES = 2  # of a number in bfloat16
_SOUND_A_FRAME = 1
"""Latents of sound for each frame: LTX-2 has 25 in a second, its back end 25 frames."""


def architecture(name: str) -> Architecture:
    """The architecture of a back end. Raises ConfigError for an unknown one."""
    if name not in ARCHITECTURES:
        raise ConfigError(f"no architecture {name!r}: take {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


@dataclass(frozen=True)
class ArchitectureWork:
    """One window, or one picture, on its way through an architecture."""

    form: Architecture
    height: int
    width: int
    frames: int
    """Of the window."""
    device: str = "meta"
    """"cpu" to compute in earnest, with weights that are random."""

    @property
    def given_frames(self) -> int:
        """Of the window, as the back end gives it."""
        return self.frames + self.form.added_frames

    @property
    def latent_frames(self) -> int:
        """Of them, as the autoencoder makes them."""
        return 1 + (self.given_frames - 1) // self.form.time if self.form.time else 1

    @property
    def latent_size(self) -> tuple[int, int]:
        """Height and width of the latents; sides are padded."""
        height, width = (side + -side % self.form.multiple for side in (self.height, self.width))
        return height // self.form.space, width // self.form.space

    @property
    def tokens(self) -> int:
        """That attention sees, at most: where latents are patched in time too, fewer."""
        patch = self.network.config.get("patch_size", 1)
        side = patch[-1] if isinstance(patch, tuple | list) else patch
        height, width = self.latent_size
        frames = self.latent_frames + self.form.key_tokens
        return int(frames * (height // side) * (width // side))

    @property
    def hidden(self) -> int:
        """Width of the network's hidden state."""
        config = self.network.config
        if "num_attention_heads" in config and isinstance(config.num_attention_heads, int):
            return int(config.num_attention_heads * config.attention_head_dim)
        return int(max(config.block_out_channels))

    @cached_property
    def network(self) -> Any:
        """Without weights, or with random ones."""
        return self._made(self.form.network, self.form.settings)

    @cached_property
    def autoencoder(self) -> Any:
        return self._made(self.form.autoencoder, self.form.autoencoder_settings)

    @cached_property
    def connectors(self) -> Any:
        """Without weights, or with random ones; None where the network reads the prompt itself."""
        from diffusers.pipelines import ltx2

        if not self.form.connectors:
            return None
        with torch.device(self.device):
            return getattr(ltx2, self.form.connectors)(**self.form.connector_settings).eval()

    @property
    def weights(self) -> int:
        """Bytes of network, connectors and autoencoder in bfloat16."""
        parts = self.network, self.autoencoder, self.connectors
        return _BYTES * sum(parameters(part) for part in parts if part)

    @property
    def latents(self) -> int:
        """Bytes of the latents in bfloat16: an entry of a latent cache has five times as much."""
        height, width = self.latent_size
        channels: int = self.autoencoder.config[_latent_channels(self.form)]
        return _BYTES * channels * self.latent_frames * height * width

    def cost(self) -> RefinerCost:
        """One evaluation of the network; once a window, encoding and decoding. No text encoder."""
        return RefinerCost(self.step, self.once)

    def step(self) -> object:
        """One evaluation of the network, without guidance."""
        return self.network(**_GIVEN[self.form.network](self))

    def once(self) -> object:
        """What is encoded and decoded, however many steps are between."""
        form, vae = self.form, self.autoencoder
        if self.connectors:
            words, width = form.text
            layers = self.connectors.config.text_proj_in_factor
            self.connectors(self.empty(1, words, width * layers), self.empty(1, words))
        height, width = (side * form.space for side in self.latent_size)
        time = (self.given_frames,) if form.time else ()
        for _ in range(form.encodes):
            vae.encode(self.empty(1, 3, *time, height, width))
        for _ in range(form.key_encodes):
            vae.encode(self.empty(1, 3, form.key_frames, height, width))
        latent_time = (self.latent_frames,) if form.time else ()
        latents = self.empty(1, vae.config[_latent_channels(form)], *latent_time, *self.latent_size)
        if form.autoencoder.startswith("AutoencoderKLLTX"):
            return vae.decode(latents, self.empty(1) if vae.config.timestep_conditioning else None)
        return vae.decode(latents)

    def empty(self, *shape: int) -> Tensor:
        """Input of this shape; on a device that computes, zeros."""
        return torch.zeros(shape, device=self.device)

    def _made(self, name: str, settings: Any) -> Any:
        import diffusers

        with torch.device(self.device):
            return getattr(diffusers, name)(**settings).eval()


def parameters(network: nn.Module) -> int:
    """How many numbers it has learned."""
    return sum(parameter.numel() for parameter in network.parameters())


def _latent_channels(form: Architecture) -> str:
    return "z_dim" if form.autoencoder == "AutoencoderKLWan" else "latent_channels"


def _ltx(work: ArchitectureWork) -> dict[str, Any]:
    (height, width), config = work.latent_size, work.network.config
    frames = work.latent_frames + work.form.key_tokens
    tokens, (words, _) = frames * height * width, work.form.text
    return {
        "hidden_states": work.empty(1, tokens, config.in_channels),
        "encoder_hidden_states": work.empty(1, words, config.caption_channels),
        "encoder_attention_mask": work.empty(1, words),
        "timestep": work.empty(1, tokens),
        "video_coords": work.empty(1, 3, tokens),
    }


def _ltx2(work: ArchitectureWork) -> dict[str, Any]:
    (height, width), config = work.latent_size, work.network.config
    frames = work.latent_frames + work.form.key_tokens
    tokens, (words, _) = frames * height * width, work.form.text
    sound = _SOUND_A_FRAME * work.given_frames
    prompt = work.empty(1, words, config.caption_channels)
    return {
        "hidden_states": work.empty(1, tokens, config.in_channels),
        "audio_hidden_states": work.empty(1, sound, config.audio_in_channels),
        "encoder_hidden_states": prompt,
        "audio_encoder_hidden_states": prompt,
        "timestep": work.empty(1, tokens),
        "audio_timestep": work.empty(1),
        "sigma": work.empty(1),
        "audio_sigma": work.empty(1),
        "use_cross_timestep": True,
        "num_frames": frames,
        "height": height,
        "width": width,
        "audio_num_frames": sound,
    }


def _wan(work: ArchitectureWork) -> dict[str, Any]:
    config = work.network.config
    shape = work.latent_frames, *work.latent_size
    return {
        "hidden_states": work.empty(1, config.in_channels, *shape),
        "encoder_hidden_states": work.empty(1, work.form.text[0], config.text_dim),
        "timestep": work.empty(1),
    }


def _vace(work: ArchitectureWork) -> dict[str, Any]:
    config = work.network.config
    shape = work.latent_frames, *work.latent_size
    control = work.empty(1, config.vace_in_channels, *shape)
    scale = torch.ones(len(config.vace_layers), device=work.device)
    return {**_wan(work), "control_hidden_states": control, "control_hidden_states_scale": scale}


def _cogvideo(work: ArchitectureWork) -> dict[str, Any]:
    config, (height, width) = work.network.config, work.latent_size
    frames = work.latent_frames + -work.latent_frames % (config.patch_size_t or 1)
    patch = config.patch_size
    tokens = frames // (config.patch_size_t or 1) * (height // patch) * (width // patch)
    turn = work.empty(tokens, config.attention_head_dim)
    return {
        "hidden_states": work.empty(1, frames, config.in_channels, height, width),
        "encoder_hidden_states": work.empty(1, work.form.text[0], config.text_embed_dim),
        "timestep": work.empty(1),
        "ofs": work.empty(1) if config.ofs_embed_dim else None,
        "image_rotary_emb": (turn, turn) if config.use_rotary_positional_embeddings else None,
    }


def _unet(work: ArchitectureWork) -> dict[str, Any]:
    config = work.network.config
    words = work.empty(1, work.form.text[0], config.cross_attention_dim)
    picture = work.empty(1, config.in_channels, *work.latent_size)
    return {"sample": picture, "timestep": work.empty(1), "encoder_hidden_states": words}


_GIVEN: dict[str, Callable[[ArchitectureWork], dict[str, Any]]] = {
    "LTXVideoTransformer3DModel": _ltx,
    "LTX2VideoTransformer3DModel": _ltx2,
    "WanTransformer3DModel": _wan,
    "WanVACETransformer3DModel": _vace,
    "CogVideoXTransformer3DModel": _cogvideo,
    "UNet2DConditionModel": _unet,
}
"""What a network is given."""
