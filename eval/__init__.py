"""Measuring: baselines, metrics and the tables made from them."""
