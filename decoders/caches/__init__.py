"""Memory for compute: what a diffusion loop need not compute because it, or another, did before.

`latents` keeps intermediate latents on disk, across windows, files and processes; `transformer`
switches on what diffusers keeps within one run of a transformer.
"""
