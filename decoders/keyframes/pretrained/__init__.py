"""Pretrained models of others as back ends, one module each: their weights come from the hub."""
