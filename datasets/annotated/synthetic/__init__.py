"""The synthetic set with exact truth: things that move over a plane, before one camera or several.

Everything follows from the seed: who walks where, how it looks, what hides what.
"""

from gsvc.datasets.annotated.synthetic.scene import Scene, make_scene
from gsvc.datasets.annotated.synthetic.settings import SceneSettings
from gsvc.datasets.annotated.synthetic.write import read_synthetic, write_synthetic

__all__ = ["Scene", "SceneSettings", "make_scene", "read_synthetic", "write_synthetic"]
