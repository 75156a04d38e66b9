"""The layers of the scaffold, one module each."""

from typing import Any

from gsvc.codec.bitstream.layers.brightness import BRIGHTNESS
from gsvc.codec.bitstream.layers.camera import CAMERA
from gsvc.codec.bitstream.layers.faces import FACES
from gsvc.codec.bitstream.layers.flow import FLOW
from gsvc.codec.bitstream.layers.guide import GUIDE
from gsvc.codec.bitstream.layers.pose import POSE
from gsvc.codec.bitstream.layers.segmentation import SEGMENTATION
from gsvc.codec.bitstream.layers.texture import TEXTURE
from gsvc.codec.bitstream.scaffold import Layer

__all__ = ["BRIGHTNESS", "CAMERA", "FACES", "FLOW", "GUIDE", "POSE", "SEGMENTATION", "TEXTURE"]

LAYERS: tuple[Layer[Any], ...] = (SEGMENTATION, POSE, FLOW, TEXTURE, CAMERA, GUIDE)
"""Every layer that the header switches; within a scope they are coded in this order."""
GROUP_LAYERS: tuple[Layer[Any], ...] = (FACES, BRIGHTNESS)
"""Layers that a group switches (`Coding.layers`), by rising bits."""
ALL_LAYERS = (*LAYERS, *GROUP_LAYERS)
