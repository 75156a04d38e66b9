"""Training that needs Python, numpy and torch alone, for machines that have nothing else.

`gsvc train export` writes these modules, and the networks that they train, into one file.
"""
