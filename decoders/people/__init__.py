"""Finding people in a picture, at the encoder or at the receiver."""
