"""The synthetic set with exact truth: things that move over a plane, before one camera or several.

Everything follows from the seed: who walks where, how it looks, what hides what.
"""

from gsvc.datasets.annotated.synthetic.scene import (
    SceneSettings,
    SyntheticScene,
    make_scene,
    read_synthetic,
    write_synthetic,
)

__all__ = ["SceneSettings", "SyntheticScene", "make_scene", "read_synthetic", "write_synthetic"]
