"""`python -m gsvc.datasets.annotated.synthetic OUT`: write a synthetic scene with its truth."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.datasets.annotated.synthetic import SceneSettings, make_scene, write_synthetic

_HELP = {
    "seed": "decides all that is left open (%(default)s)",
    "frames": "(%(default)s)",
    "frame_rate": "frames per second (%(default)s)",
    "width": "pixels (%(default)s)",
    "height": "pixels (%(default)s)",
    "cameras": "around the ground (%(default)s)",
    "people": "(%(default)s)",
    "animals": "(%(default)s)",
    "things": "(%(default)s)",
    "pillars": "that hide what is behind them (%(default)s)",
    "sway": "degrees by which the cameras turn to and fro (%(default)s)",
    "noise": "grey levels (%(default)s)",
    "background": "a photograph in place of the drawn ground",
    "cutouts": "a folder of pictures with alpha in person/ animal/ thing/, to move instead",
}
_KINDS = {
    "frame_rate": Fraction,
    "sway": float,
    "noise": float,
    "background": Path,
    "cutouts": Path,
}


def _main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gsvc.datasets.annotated.synthetic",
        description="Write a synthetic scene with exact truth: OUT/C1 and so on are MOT sequences.",
    )
    parser.add_argument("out", metavar="OUT", help="the folder to make")
    for one in fields(SceneSettings):
        name = f"--{one.name.replace('_', '-')}"
        kind = _KINDS.get(one.name, int)
        parser.add_argument(name, type=kind, default=one.default, help=_HELP[one.name])
    chosen = vars(parser.parse_args(arguments))
    try:
        out = Path(chosen.pop("out"))
        scene = make_scene(SceneSettings(**chosen))
        write_synthetic(scene, out)
        print(f"{out}: {len(scene.cameras)} cameras, {scene.settings.frames} frames each")
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
