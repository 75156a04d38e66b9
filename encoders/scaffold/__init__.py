"""Extractors: they find the values of the scaffold's layers, and objects, in the source."""
