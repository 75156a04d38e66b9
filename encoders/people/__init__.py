"""People in a picture, for the encoder: masks, faces."""
