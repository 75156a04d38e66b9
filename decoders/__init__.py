"""The receiver: from key pictures and scaffold to frames. Importing this package does not import torch."""
