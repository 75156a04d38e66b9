"""Pretrained video models as architectures: what they compute and hold, told without weights."""
