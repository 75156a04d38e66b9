"""Frames as diffusers' video pipelines take them, and back."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from gsvc.codec.frames import Picture


def video_tensor(frames: NDArray[np.uint8]) -> Tensor:
    """RGB uint8 (n, H, W, 3) as float32 (1, 3, n, H, W) in [-1, 1], as autoencoders take it."""
    return torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float() / 127.5 - 1


def frame_tensors(frames: NDArray[np.uint8]) -> Tensor:
    """RGB uint8 (n, H, W, 3) as float32 (n, 3, H, W) in [0, 1], as video processors take it."""
    return torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255


def picture_tensor(picture: Picture) -> Tensor:
    """RGB uint8 (H, W, 3) as float32 (1, 3, H, W) in [0, 1]."""
    return frame_tensors(picture[None])


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
