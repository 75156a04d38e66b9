"""gsvc: the generative semantic video codec toolkit."""

__version__ = "0.1.0"
