"""Refiners: the generative models that restore pictures."""
