"""Objects at the encoder: found in the frames of the source, followed, and coded at anchors."""
