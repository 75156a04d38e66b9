"""torchvision's ImageNet networks, the backbones of LPIPS and DISTS: read from disk and checked."""

from functools import cache
from pathlib import Path

from gsvc.codec.errors import MissingModelError
from gsvc.codec.hashes import sha256_of

FILES = {"alex": "alexnet-owt-7be5be79.pth", "vgg": "vgg16-397923af.pth"}
"""As torchvision publishes them; what stands after the last dash begins the file's SHA-256."""


def backbone_path(net: str) -> Path:
    """Where torch keeps the file. Raises MissingModelError when it is missing or another one."""
    import torch

    path = Path(torch.hub.get_dir()) / "checkpoints" / FILES[net]
    where = f"put torchvision's {FILES[net]} into {_tilde(path.parent)}"
    if not path.is_file():
        raise MissingModelError(f"the {net} backbone is not on this machine: {where}")
    if not _sha256(path).startswith(path.stem.rpartition("-")[2]):
        raise MissingModelError(f"the {net} backbone is damaged or another one: {where}")
    return path


def _tilde(folder: Path) -> str:
    """With ~ for the home folder: the reason for a gap goes into tables that others read."""
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


_sha256 = cache(sha256_of)
