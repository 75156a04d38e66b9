"""The layers of the scaffold, one module each."""
