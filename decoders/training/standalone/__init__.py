"""Training that needs Python, torch, numpy and Pillow alone, for machines that have nothing else.

`gsvc train export` writes these modules, and the networks that they train, into one file.
"""
