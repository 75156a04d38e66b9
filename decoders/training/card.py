"""The model card of a training run."""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from gsvc.decoders.training.footage import Footage
from gsvc.decoders.training.trainer import Trainer
from gsvc.eval.metrics.quality import Quality


def model_card(
    trainer: Trainer, footage: Footage, held_out: Sequence[Path], scores: Mapping[int, Quality]
) -> str:
    """Data, training, hardware, time and scores of a run's weights, as Markdown.

    `scores`: quality by number of steps.
    """
    settings, network = trainer.settings, trainer.model
    parameters = sum(parameter.numel() for parameter in network.parameters())
    names = ", ".join(path.name for path in held_out) or "nothing"
    minutes = trainer.seconds / 60
    return f"""# Model card: compact refiner, {settings.size}

{parameters} parameters, float32. Restores decoded key pictures of gsvc's streams; no other use.

## Data
{len(footage.clips)} clips and {len(footage.photos)} photographs and cut-outs, coded by the codec.
Held out: {names}.

## Training
{trainer.step} steps of {settings.batch} crops in {minutes:.0f} minutes on {_device(trainer)}.
Loss: Charbonnier + {settings.texture} x difference of strength of detail
+ {settings.perceptual} x ST-LPIPS AlexNet of randomly changed views; half of the batches
moved by a part of a pixel, as frames are. Averaged weights.
Settings: {settings}.

## Scores
{_scores(scores)}
"""


def _device(trainer: Trainer) -> str:
    if trainer.settings.device.startswith("cuda"):
        return torch.cuda.get_device_name(trainer.settings.device)
    return f"{torch.get_num_threads()} of {os.cpu_count()} CPU cores ({platform.machine()})"


def _scores(scores: Mapping[int, Quality]) -> str:
    if not scores:
        return "None: nothing was held out (`--held-out`)."
    rows = "\n".join(
        f"| {steps} | {q.st_lpips_vgg:.4f} | {q.st_lpips_alex:.4f} | {q.psnr_y:.2f} |"
        for steps, q in scores.items()
    )
    return f"""Means over the key pictures held out; 0 steps: as decoded. VGG was not trained on.

| steps | ST-LPIPS VGG | ST-LPIPS AlexNet | PSNR-Y, dB |
| ---: | ---: | ---: | ---: |
{rows}"""
