"""Pictures as the networks take them, and back."""

import torch
from torch import Tensor

from gsvc.codec.frames import Picture


def tensor_of(picture: Picture, device: str | torch.device = "cpu") -> Tensor:
    """RGB uint8 (H, W, 3) as float32 (1, 3, H, W) in [-1, 1]; it travels to a device as uint8."""
    return torch.tensor(picture, device=device).permute(2, 0, 1)[None].float() / 127.5 - 1


def pictures_of(tensor: Tensor) -> Picture:
    """Float (1, 3 n, H, W) in [-1, 1], what is beyond cut off, as uint8 (H, W, 3 n)."""
    levels = tensor[0].add(1).mul(127.5).round().clamp(0, 255).byte()
    picture: Picture = levels.permute(1, 2, 0).contiguous().cpu().numpy()
    return picture
