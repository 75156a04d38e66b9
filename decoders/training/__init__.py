"""Training of networks: packs of footage coded by the real codec, the trainer, adoption."""
