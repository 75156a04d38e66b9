"""The restorer, which ships with gsvc: the default, guided by the stream."""
