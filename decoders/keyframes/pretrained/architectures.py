"""The architectures: classes of diffusers, their settings, and where the settings are from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_SCRIPTS = "diffusers, scripts/convert_{}_to_diffusers.py"


@dataclass(frozen=True)
class Architecture:
    """A transformer or U-Net with its autoencoder, and how a window goes through them."""

    network: str
    """Class in diffusers."""
    settings: Mapping[str, Any]
    """Those that differ from the class's own."""
    autoencoder: str
    autoencoder_settings: Mapping[str, Any]
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


_WAN = {"attention_head_dim": 128, "text_dim": 4096, "in_channels": 16}
_SMALL_WAN = {**_WAN, "num_attention_heads": 12, "num_layers": 30, "ffn_dim": 8960}
_LARGE_WAN = {**_WAN, "num_attention_heads": 40, "num_layers": 40, "ffn_dim": 13824}
_OF_WAN: dict[str, Any] = {
    "autoencoder": "AutoencoderKLWan",
    "autoencoder_settings": {},
    "source": _SCRIPTS.format("wan"),
    "text": (512, 4096),
    "space": 8,
    "time": 4,
    "multiple": 16,
}

_VACE = Architecture(
    "WanVACETransformer3DModel",
    {**_SMALL_WAN, "vace_layers": list(range(0, 30, 2)), "vace_in_channels": 96},
    steps=30,
    encodes=2,
    **_OF_WAN,
)
_LTX2 = Architecture(
    "LTX2VideoTransformer3DModel",
    {},
    "AutoencoderKLLTX2Video",
    {"decoder_causal": False},
    source=_SCRIPTS.format("ltx2") + ", 2.0",
    text=(1024, 3840),
    space=32,
    time=8,
    multiple=32,
    steps=8,
    key_encodes=6,
    key_tokens=5,
    added_frames=8,
    connectors="LTX2TextConnectors",
    notes="by LTX2ConditionPipeline: a window of 33 is given as 41 frames, which are 6 latent "
    "frames, and 5 keys; sound goes along",
)

ARCHITECTURES = {
    "ltx": Architecture(
        "LTXVideoTransformer3DModel",
        {},
        "AutoencoderKLLTXVideo",
        {
            "decoder_block_out_channels": (256, 512, 1024),
            "decoder_layers_per_block": (5, 6, 7, 8),
            "decoder_spatio_temporal_scaling": (True, True, True),
            "decoder_inject_noise": (False, True, True, True),
            "upsample_residual": (True, True, True),
            "upsample_factor": (2, 2, 2),
            "timestep_conditioning": True,
        },
        source=_SCRIPTS.format("ltx") + ", 2B, autoencoder 0.9.1",
        text=(256, 4096),
        space=32,
        time=8,
        multiple=32,
        steps=8,
        key_encodes=5,
        key_tokens=4,
        notes="the autoencoder of later checkpoints may differ",
    ),
    "ltx2": replace(
        _LTX2,
        encodes=2,
        key_tokens=11,
        notes="by LTX2InContextPipeline: a window of 33 is given as 41 frames, which are 6 latent "
        "frames, as many of the rendering, and 5 keys; sound goes along",
    ),
    "ltx2:condition": _LTX2,
    "wan-vace": _VACE,
    "wan-vace-14b": replace(
        _VACE,
        settings={**_LARGE_WAN, "vace_layers": list(range(0, 40, 5)), "vace_in_channels": 96},
    ),
    "wan-v2v": Architecture("WanTransformer3DModel", _SMALL_WAN, steps=20, **_OF_WAN),
    "sparkvsr": Architecture(
        "CogVideoXTransformer3DModel",
        {
            "num_attention_heads": 48,
            "num_layers": 42,
            "in_channels": 32,
            "patch_size_t": 2,
            "patch_bias": False,
            "ofs_embed_dim": 512,
            "use_rotary_positional_embeddings": True,
            "sample_height": 300,
            "sample_width": 300,
        },
        "AutoencoderKLCogVideoX",
        {},
        source=_SCRIPTS.format("cogvideox") + ", 1.5 5B, image to video",
        text=(226, 4096),
        space=8,
        time=4,
        multiple=16,
        steps=1,
        key_encodes=5,
        key_frames=4,
    ),
    "sd-turbo": Architecture(
        "UNet2DConditionModel",
        {
            "attention_head_dim": [5, 10, 20, 20],
            "cross_attention_dim": 1024,
            "use_linear_projection": True,
        },
        "AutoencoderKL",
        {
            "block_out_channels": [128, 256, 512, 512],
            "down_block_types": ["DownEncoderBlock2D"] * 4,
            "up_block_types": ["UpDecoderBlock2D"] * 4,
            "layers_per_block": 2,
        },
        source="Stable Diffusion 2.1, from which it is distilled (Sauer et al., 2023)",
        text=(77, 1024),
        space=8,
        time=0,
        multiple=64,
        steps=1,
        notes="of one keyframe",
    ),
}
"""By the names of back ends."""
