"""What each scaffold layer takes from the video, one module each."""

from collections.abc import Callable

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.flow import FLOW
from gsvc.codec.scaffold.layers.pose import POSE
from gsvc.codec.scaffold.layers.segmentation import SEGMENTATION
from gsvc.encoders.layers.extractor import Extractor
from gsvc.encoders.layers.flow import FlowExtractor
from gsvc.encoders.layers.pose import PoseExtractor
from gsvc.encoders.layers.segmentation import SegmentationExtractor
from gsvc.encoders.tuning import Level

EXTRACTORS: dict[str, Callable[[Geometry, Level], Extractor]] = {
    POSE.name: PoseExtractor,
    SEGMENTATION.name: SegmentationExtractor,
    FLOW.name: FlowExtractor,
}
"""The layers with samples, in the order in which they see a frame: people confirm segments."""
