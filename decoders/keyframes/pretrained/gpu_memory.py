"""How a pretrained model fits into a GPU's memory: whole, a part at a time, or in small groups.

What weights take is counted; what a window takes besides is estimated from its tokens, and nobody
has measured it on a GPU.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from gsvc.codec.bitstream.errors import ConfigError, DeviceError
from gsvc.decoders.keyframes.pretrained.architectures import ARCHITECTURES
from gsvc.decoders.keyframes.refiner import Budget

_KINDS = "whole", "offload", "groups"
_QUANTIZED_KINDS = _KINDS[:2]
_AT_LEAST = 1_500_000_000  # bytes for CUDA itself and tiles of the autoencoder
_PER_VALUE = 24
"""Bytes of activations for each value of the network's hidden state: twelve copies in bfloat16."""
_TILED_FROM = 600_000  # pixels of a frame from which the autoencoder works in tiles


@dataclass(frozen=True)
class Need:
    """Bytes that a window of a model takes on a GPU, by kind."""

    name: str
    height: int
    width: int
    network: int
    others: int
    """The autoencoder, and what reads the prompt's embedding."""
    block: int
    """The network's largest part that is moved at once."""
    window: int
    """Besides weights, an estimate."""
    kinds: tuple[str, ...] = _KINDS
    """That may be chosen, the fastest first."""

    def of(self, kind: str) -> int:
        """Of one of `budget.KINDS`."""
        network = self.network // 2 if kind == "fp8" else self.network
        held = {"whole": self.network + self.others, "groups": 2 * self.block + self.others}.get(
            kind, max(network, self.others)
        )
        return held + self.window

    def chosen(self, free: int) -> str:
        """The fastest of `kinds` that fits. Raises DeviceError where none does."""
        for kind in self.kinds:
            if self.of(kind) <= free:
                return kind
        last = self.kinds[-1]
        raise DeviceError(
            f"{self.name} at {self.width}x{self.height} needs about {self.of(last) / 1e9:.1f} "
            f'GB of GPU memory even with vram="{last}", {free / 1e9:.1f} GB are there: '
            "take a smaller model or video, or compact"
        )


@cache
def need_of(name: str, height: int, width: int, frames: int, *, quantized: bool = False) -> Need:
    """What a window of the back end `name` takes, its network's weights in 8 bits if `quantized`.

    Raises ConfigError where nothing is known.
    """
    if name not in ARCHITECTURES:
        raise ConfigError(f"what {name} needs is not known: leave out vram")
    from gsvc.decoders.keyframes.pretrained.architecture_work import ArchitectureWork, parameters

    form = ARCHITECTURES[name]
    work = ArchitectureWork(form, height, width, frames if form.time else 1)
    layers = getattr(work.network.config, "num_layers", 4)
    whole = 2 * parameters(work.network)
    network = quantized_bytes(work.network) if quantized else whole
    return Need(
        name,
        height,
        width,
        network,
        work.weights - whole,
        network // layers,
        _AT_LEAST + _PER_VALUE * work.tokens * work.hidden,
        _QUANTIZED_KINDS if quantized else _KINDS,
    )


def quantized_bytes(network: Any) -> int:
    """Of a network's weights as torchao quantizes them: those of linear layers in 8 bits.

    Each row has a scale and a zero point beside it; all else stays in bfloat16, and so do layers
    that diffusers names as sensitive.
    """
    from torch import nn

    sensitive = tuple(getattr(network, "_keep_in_fp32_modules", None) or ())
    total: int = sum(2 * one.numel() for one in network.parameters())
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear) and not any(part in name for part in sensitive):
            total += 3 * module.out_features - module.weight.numel()
    return total


def kind_for(need: Need, budget: Budget | None, device: str) -> str:
    """How the weights are held on a device. Raises DeviceError where they cannot be."""
    import torch

    if torch.device(device).type != "cuda":
        return budget.kind if budget and budget.kind == "fp8" else "whole"
    if budget and budget.kind:
        return budget.kind
    free: int = torch.cuda.mem_get_info(device)[0]
    return need.chosen(min(free, budget.bytes) if budget and budget.bytes else free)


def place(pipeline: Any, kind: str, device: str, pixels: int) -> None:
    """Put a pipeline where it computes, in one of `budget.KINDS`; `pixels` of a frame."""
    import torch

    if kind == "fp8":
        network = getattr(pipeline, "transformer", None) or pipeline.unet
        network.enable_layerwise_casting(
            storage_dtype=torch.float8_e4m3fn, compute_dtype=network.dtype
        )
    on_gpu = torch.device(device).type == "cuda"
    if kind == "groups":
        pipeline.enable_group_offload(
            onload_device=torch.device(device),
            offload_type="block_level",
            num_blocks_per_group=1,
            use_stream=on_gpu,
        )
    elif on_gpu and kind in ("offload", "fp8"):
        pipeline.enable_model_cpu_offload(device=device)
    else:
        pipeline.to(device)
    if pixels >= _TILED_FROM or (on_gpu and kind != "whole"):
        pipeline.vae.enable_tiling()
