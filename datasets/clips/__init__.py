"""Test clips: packaged, published, synthetic and locked ones, and how they are read."""
