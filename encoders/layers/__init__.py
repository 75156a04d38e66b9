"""What each scaffold layer takes from the video, one module each."""

from gsvc.encoders.layers.extractor import Extractor
from gsvc.encoders.layers.flow import FlowExtractor
from gsvc.encoders.layers.pose import PoseExtractor
from gsvc.encoders.layers.segmentation import SegmentationExtractor

EXTRACTORS: tuple[type[Extractor], ...] = (PoseExtractor, SegmentationExtractor, FlowExtractor)
"""The layers with samples, in the order in which they see a frame: people confirm segments."""
