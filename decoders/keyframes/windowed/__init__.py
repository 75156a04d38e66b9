"""The window restorer: frames that motion drew, restored one after the other."""
