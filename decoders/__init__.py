"""The receiver: from pictures and scaffold to frames. Importing it does not import torch."""
