"""The actions of `gsvc train`, one module each."""
