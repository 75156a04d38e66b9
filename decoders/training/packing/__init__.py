"""Packs to train on: pictures and renderings as decoders get them, beside what they should be."""
