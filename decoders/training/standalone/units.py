"""In what arrays of a pack are stored. Who makes samples needs no torch for it."""

GAIN_UNIT = 128
"""What a texture gain of 1 is stored as."""
CONFIDENCE_UNIT = 255
"""What a confidence of 1 is stored as."""
