"""People in a picture: detection, segmentation and pose."""
