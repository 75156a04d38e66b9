"""Pipelines of diffusers: loading, tensors, schedule, and the empty prompt.

The text encoder is left out: it runs once, on the empty prompt, and what it says is kept.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from diffusers.utils import logging as diffusers_logging
from diffusers.utils.torch_utils import randn_tensor
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gsvc.codec.bitstream.errors import DeviceError, MissingModelError
from gsvc.codec.weights.hub import PROMPT, hub_folder, hub_model, pull_line, read_hub_manifest
from gsvc.decoders.keyframes.pretrained.gpu_memory import place
from gsvc.decoders.keyframes.refiner import enough_memory


def video_tensor(frames: NDArray[np.uint8]) -> Tensor:
    """RGB uint8 (n, H, W, 3) as float32 (1, 3, n, H, W) in [-1, 1], as autoencoders take it."""
    return torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float() / 127.5 - 1


def frame_tensors(frames: NDArray[np.uint8]) -> Tensor:
    """RGB uint8 (n, H, W, 3) as float32 (n, 3, H, W) in [0, 1], as video processors take it."""
    return torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255


def video_frames(video: Tensor) -> NDArray[np.uint8]:
    """What an autoencoder gives, float (1, 3, n, H, W) in [-1, 1], as RGB uint8 (n, H, W, 3)."""
    levels = video[0].float().add(1).mul(127.5).round().clamp(0, 255).byte()
    frames: NDArray[np.uint8] = levels.permute(1, 2, 3, 0).contiguous().cpu().numpy()
    return frames


def images_of(frames: NDArray[np.uint8]) -> list[Image.Image]:
    """Frames (n, H, W, 3), or masks (n, H, W), uint8, as images."""
    return [Image.fromarray(frame).convert("RGB") for frame in frames]


def frames_of(output: Any) -> NDArray[np.uint8]:
    """What a pipeline gives as `output_type="pt"`, float (1, n, 3, H, W) in [0, 1], as uint8."""
    video: Tensor = output.frames[0]
    levels = video.float().mul(255).round().clamp(0, 255).byte()
    frames: NDArray[np.uint8] = levels.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return frames


def noise_from(seed: int) -> torch.Generator:
    """A generator on the CPU, so that every device draws the same noise."""
    return torch.Generator("cpu").manual_seed(seed)


def first_noise(shape: Sequence[int], seed: int, device: str | torch.device) -> Tensor:
    """What a pipeline draws first of `noise_from`, float32."""
    drawn: Tensor = randn_tensor(
        tuple(shape), noise_from(seed), torch.device(device), torch.float32
    )
    return drawn


def latents_of(vae: Any, frames: NDArray[np.uint8], device: str) -> Tensor:
    """What an autoencoder makes of RGB uint8 (n, H, W, 3), float32."""
    video = video_tensor(frames).to(device, vae.dtype)
    latents: Tensor = vae.encode(video).latent_dist.mode().float()
    return latents


class GivenLevels(diffusers.FlowMatchEulerDiscreteScheduler):  # type: ignore[misc]
    """Euler steps from level to level. A model's own scheduler would shift them."""

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        sigmas: Sequence[float] | None = None,
        mu: float | None = None,
        timesteps: Sequence[float] | None = None,
        **_: Any,
    ) -> None:
        """Run at `timesteps`, thousandths, or `sigmas`, 0 to 1, descending; the rest is unused."""
        levels = sigmas if timesteps is None else [time / 1000 for time in timesteps]
        assert levels is not None  # the pipelines here are always given some
        super().set_timesteps(sigmas=list(levels), device=device)


_TEXT = "text_encoder", "tokenizer"
_UNUSED = (*_TEXT, "vocoder", "safety_checker", "feature_extractor")
"""Parts that no window needs."""
_MADE_BY = "text encoder"
_NEEDED_FOR_TEXT = {*_TEXT, "scheduler"}


def load_pipeline(
    name: str, made_by: str, device: str, kind: str, pixels: int, quantize: bool
) -> Any:
    """A hub model in a pipeline class of diffusers, weights held as `kind` of `budget.KINDS` says.

    In bfloat16 on a GPU, in float32 on a CPU; `quantize`: its network's in 8 bits.

    Raises MissingModelError for a folder without such a pipeline, DeviceError if memory runs out.
    """
    made = getattr(diffusers, made_by)
    dtype = torch.bfloat16 if torch.device(device).type == "cuda" else torch.float32
    with enough_memory(device):
        others = dict.fromkeys(_UNUSED)
        pipeline = _from_folder(made, name, dtype, _int8(made) if quantize else None, **others)
        pipeline.set_progress_bar_config(disable=True)
        place(pipeline, kind, device, pixels)
    return pipeline


def _from_folder(
    made: Any, name: str, dtype: torch.dtype, quantization: Any = None, **left_out: None
) -> Any:
    left_out = {part: None for part in left_out if part in _parts(made)}
    diffusers_logging.disable_progress_bar()
    try:
        return made.from_pretrained(
            str(hub_folder(name)),
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            quantization_config=quantization,
            **left_out,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError | DeviceError):
            raise
        reason = str(error).strip().split("\n")[0][:160]
        why = f"model {name} cannot be loaded ({reason}); run: {pull_line(name)}"
        raise MissingModelError(why) from error


def _int8(made: Any) -> Any:
    """Linear layers of the network by torchao, in 8 bits with a scale for each row."""
    from torchao.quantization import Int8WeightOnlyConfig

    network = "transformer" if "transformer" in _parts(made) else "unet"
    return diffusers.PipelineQuantizationConfig(
        quant_mapping={network: diffusers.TorchAoConfig(Int8WeightOnlyConfig())}
    )


def load_prompt(name: str, device: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """The embedding of the empty prompt, by the arguments that a pipeline takes.

    Raises MissingModelError where it has not been made, or by another text encoder.
    """
    held = _kept_prompt(name)
    if held is None:
        why = f"model {name} lacks its embedding of the empty prompt; run: {pull_line(name)}"
        raise MissingModelError(why)
    return {
        key: value.to(device, dtype if value.is_floating_point() else None)
        for key, value in held.items()
    }


def _kept_prompt(name: str) -> dict[str, Tensor] | None:
    """What the text encoder that is here said; None where none, or another one, was asked."""
    try:
        with safe_open(hub_folder(name) / PROMPT, framework="pt") as file:
            made_by = (file.metadata() or {}).get(_MADE_BY)
            held: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    return held if made_by == read_hub_manifest(name).text_encoder else None


def keep_prompt(name: str, held: dict[str, Tensor]) -> Path:
    """Keep what the text encoder says of the empty prompt; gives the file."""
    path = hub_folder(name) / PROMPT
    part = path.with_name(f".{path.name}")
    save_file(held, part, {_MADE_BY: read_hub_manifest(name).text_encoder})
    part.replace(path)
    return path


def embed_empty_prompt(name: str) -> Path:
    """Run the text encoder once, on the empty prompt, and keep what it says; gives the file.

    Afterwards it need not be loaded any more, until it is another one. Raises MissingModelError
    where it cannot be loaded.
    """
    if _kept_prompt(name) is not None:
        return hub_folder(name) / PROMPT
    made = getattr(diffusers, hub_model(name).pipeline)
    unused = dict.fromkeys(_parts(made) - _NEEDED_FOR_TEXT)
    pipeline = _from_folder(made, name, torch.bfloat16, **unused)
    more = {"device": "cpu", "num_images_per_prompt": 1}  # that others have as defaults
    more = more if made.__name__ == "StableDiffusionImg2ImgPipeline" else {}
    with torch.no_grad():
        told = pipeline.encode_prompt(
            prompt="", do_classifier_free_guidance=False, **_length(made), **more
        )
    names = ("prompt_embeds", "prompt_attention_mask") if len(told) == 4 else ("prompt_embeds",)
    return keep_prompt(
        name, {key: value.contiguous() for key, value in zip(names, told, strict=False)}
    )


def _length(made: Any) -> dict[str, int]:
    """The tokens that a pipeline itself asks for: `encode_prompt` alone may take fewer, and the
    network sees the padding."""
    name = "max_sequence_length"
    told, taken = (inspect.signature(f).parameters for f in (made.__call__, made.encode_prompt))
    return {name: told[name].default} if name in told and name in taken else {}


def _parts(made: Any) -> set[str]:
    return set(inspect.signature(made.__init__).parameters) - {"self"}
