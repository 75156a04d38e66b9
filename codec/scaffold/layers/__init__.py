"""The layers of the scaffold, one module each."""

from typing import Any

from gsvc.codec.scaffold.layer import Layer
from gsvc.codec.scaffold.layers.camera import CAMERA
from gsvc.codec.scaffold.layers.faces import FACES
from gsvc.codec.scaffold.layers.flow import FLOW
from gsvc.codec.scaffold.layers.pose import POSE
from gsvc.codec.scaffold.layers.segmentation import SEGMENTATION
from gsvc.codec.scaffold.layers.texture import TEXTURE

LAYERS: tuple[Layer[Any], ...] = (SEGMENTATION, POSE, FLOW, TEXTURE, CAMERA)
"""Every layer that the header switches; within a scope they are coded in this order."""
ALL_LAYERS: tuple[Layer[Any], ...] = (*LAYERS, FACES)
"""And those that a group switches, which come last."""
