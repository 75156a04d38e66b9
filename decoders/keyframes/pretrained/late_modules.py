"""torch, and the module that needs diffusers, imported when a window comes.

Back ends are listed, and named in streams, on machines that have neither.
"""

from typing import TYPE_CHECKING

from gsvc.codec.weights.extras import Late

if TYPE_CHECKING:
    import torch

    from gsvc.decoders.keyframes.pretrained import diffusers_pipeline as pipes
else:
    torch = Late("torch")
    pipes = Late("gsvc.decoders.keyframes.pretrained.diffusers_pipeline")

__all__ = ["pipes", "torch"]
