"""Weights and models: where they are kept, how they are fetched, checked and read."""
