"""Tiny pretrained models with random weights, in folders as the hub has them: for wiring alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from gsvc.codec.weights.hub import HUB_MODELS, HubManifest, hub_folder
from gsvc.codec.weights.model_files import sha256_of
from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import keep_prompt
from needs import need_package
from stand_ins.swiftvr import CHECKPOINT

TEXT = 16
"""Width of the prompt's embedding."""
_LTX: dict[str, Any] = {
    "in_channels": 8,
    "out_channels": 8,
    "num_attention_heads": 2,
    "attention_head_dim": 8,
    "cross_attention_dim": 16,
    "num_layers": 2,
    "caption_channels": TEXT,
}


def ltx() -> Any:
    from diffusers import (
        AutoencoderKLLTXVideo,
        FlowMatchEulerDiscreteScheduler,
        LTXConditionPipeline,
        LTXVideoTransformer3DModel,
    )

    vae = AutoencoderKLLTXVideo(
        latent_channels=8,
        block_out_channels=(8, 8, 8, 8),
        decoder_block_out_channels=(8, 16, 32),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1),
        decoder_spatio_temporal_scaling=(True, True, True),
        decoder_inject_noise=(False, False, False, False),
        upsample_residual=(False, False, False),
        upsample_factor=(1, 1, 1),
        timestep_conditioning=False,
    )
    return LTXConditionPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=vae,
        text_encoder=None,
        tokenizer=None,
        transformer=LTXVideoTransformer3DModel(**_LTX),
    )


def _wan(pipeline: str, transformer: Any) -> Any:
    import diffusers
    from diffusers import AutoencoderKLWan, UniPCMultistepScheduler

    vae = AutoencoderKLWan(base_dim=4, num_res_blocks=1, z_dim=16)
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    made = getattr(diffusers, pipeline)
    parts = {"vae": vae, "scheduler": scheduler, "transformer": transformer}
    return made(text_encoder=None, tokenizer=None, **parts)


_WAN: dict[str, Any] = {
    "num_attention_heads": 2,
    "attention_head_dim": 12,
    "in_channels": 16,
    "out_channels": 16,
    "text_dim": TEXT,
    "freq_dim": 16,
    "ffn_dim": 32,
    "num_layers": 2,
}


def wan_v2v() -> Any:
    from diffusers import WanTransformer3DModel

    return _wan("WanVideoToVideoPipeline", WanTransformer3DModel(**_WAN))


def wan_vace() -> Any:
    from diffusers import WanVACETransformer3DModel

    network = WanVACETransformer3DModel(**_WAN, vace_layers=[0, 1], vace_in_channels=96)
    return _wan("WanVACEPipeline", network)


def ltx2() -> Any:
    from diffusers import (
        AutoencoderKLLTX2Audio,
        AutoencoderKLLTX2Video,
        FlowMatchEulerDiscreteScheduler,
        LTX2InContextPipeline,
        LTX2VideoTransformer3DModel,
    )
    from diffusers.pipelines.ltx2 import LTX2TextConnectors

    vae = AutoencoderKLLTX2Video(
        latent_channels=8,
        block_out_channels=(8, 16, 32, 64),
        decoder_block_out_channels=(8, 16, 32),
        layers_per_block=(1, 1, 1, 1, 1),
        decoder_layers_per_block=(1, 1, 1, 1),
        decoder_causal=False,
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )
    sound = AutoencoderKLLTX2Audio(
        base_channels=8, ch_mult=(1,), num_res_blocks=1, latent_channels=2, mel_bins=16
    )
    network = LTX2VideoTransformer3DModel(
        **_LTX,
        audio_in_channels=8,
        audio_out_channels=8,
        audio_num_attention_heads=2,
        audio_attention_head_dim=4,
        audio_cross_attention_dim=8,
    )
    connectors = LTX2TextConnectors(
        caption_channels=TEXT,
        text_proj_in_factor=2,
        video_connector_num_attention_heads=2,
        video_connector_attention_head_dim=8,
        video_connector_num_layers=1,
        video_connector_num_learnable_registers=6,
        audio_connector_num_attention_heads=2,
        audio_connector_attention_head_dim=8,
        audio_connector_num_layers=1,
        audio_connector_num_learnable_registers=6,
    )
    return LTX2InContextPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=vae,
        audio_vae=sound,
        text_encoder=None,
        tokenizer=None,
        connectors=connectors,
        transformer=network,
        vocoder=None,
    )


def sparkvsr() -> Any:
    from diffusers import (
        AutoencoderKLCogVideoX,
        CogVideoXDPMScheduler,
        CogVideoXImageToVideoPipeline,
        CogVideoXTransformer3DModel,
    )

    network = CogVideoXTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=8,
        out_channels=4,
        time_embed_dim=8,
        text_embed_dim=TEXT,
        num_layers=2,
        sample_width=8,
        sample_height=8,
        patch_size_t=2,
        patch_bias=False,
        ofs_embed_dim=8,
        max_text_seq_length=6,
        use_rotary_positional_embeddings=True,
    )
    vae = AutoencoderKLCogVideoX(
        block_out_channels=(8, 8, 8, 8), norm_num_groups=2, layers_per_block=1, latent_channels=4
    )
    scheduler = CogVideoXDPMScheduler(prediction_type="v_prediction")
    parts = {"vae": vae, "scheduler": scheduler, "transformer": network}
    return CogVideoXImageToVideoPipeline(tokenizer=None, text_encoder=None, **parts)


def sd_turbo() -> Any:
    from diffusers import (
        AutoencoderKL,
        EulerDiscreteScheduler,
        StableDiffusionImg2ImgPipeline,
        UNet2DConditionModel,
    )

    network = UNet2DConditionModel(
        sample_size=64,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=2,
        layers_per_block=1,
        attention_head_dim=2,
        cross_attention_dim=TEXT,
    )
    vae = AutoencoderKL(
        block_out_channels=[8, 8, 8, 8],
        down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4,
        norm_num_groups=2,
        layers_per_block=1,
    )
    return StableDiffusionImg2ImgPipeline(
        vae=vae,
        text_encoder=None,
        tokenizer=None,
        unet=network,
        scheduler=EulerDiscreteScheduler(timestep_spacing="trailing", steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


MAKERS: dict[str, Callable[[], Any]] = {
    "ltx": ltx,
    "ltx2": ltx2,
    "wan-vace": wan_vace,
    "wan-v2v": wan_v2v,
    "sparkvsr": sparkvsr,
    "sd-turbo": sd_turbo,
}
"""Back end -> its pipeline."""


def prompt_of(name: str) -> dict[str, torch.Tensor]:
    """An embedding of six words."""
    width = 2 * TEXT if name == "ltx2" else TEXT
    prompt = {"prompt_embeds": torch.randn(1, 6, width)}
    if name.startswith("ltx"):
        prompt["prompt_attention_mask"] = torch.ones(1, 6)
    return prompt


def _put_swiftvr(folder: Path) -> None:
    """The files that its package reads, without a network: it has none of diffusers' pipelines."""
    for file in CHECKPOINT:
        (folder / file).parent.mkdir(exist_ok=True)
        if file.endswith(".safetensors"):
            save_file({"prompt_emb": torch.zeros(1, 6, TEXT)}, folder / file)
        else:
            (folder / file).write_text("{}")


def put_tiny(name: str) -> Path:
    """Write a tiny model into the cache, as `gsvc models pull` would leave it; gives its folder."""
    need_package("transformers")
    torch.manual_seed(1)
    folder = hub_folder(name)
    folder.mkdir(parents=True)
    if name in MAKERS:
        MAKERS[name]().save_pretrained(folder)
    else:
        _put_swiftvr(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    told = {str(path.relative_to(folder)): (path.stat().st_size, sha256_of(path)) for path in files}
    HubManifest(HUB_MODELS[name].repo, "0" * 40, told).write(folder)
    if name in MAKERS:
        keep_prompt(name, prompt_of(name))
    return folder
