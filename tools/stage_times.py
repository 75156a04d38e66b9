"""Where an encoder's time goes: processor seconds of each stage.

`python tools/stage_times.py CLIP... --lines 288 --frames 97`, on a machine that does nothing else.
Stages run one after another, each on all cores, so a stage takes the processor time that the whole
process, with the threads of SVT-AV1 and OpenCV, spends in it.
"""

import argparse
import functools
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gsvc
from gsvc.decoders.streams import reconstruction  # noqa: F401 (imports take no stage's time)
from gsvc.encoders.coding import cuts, face_rdo, keyframes, lookahead, packer
from gsvc.encoders.search import candidates, group_search, probes

STAGES: tuple[tuple[str, Any, str], ...] = (
    ("cuts", cuts.CutDetector, "__call__"),
    ("references", probes.Probes, "__init__"),
    ("references", group_search, "_weights"),
    ("placement", candidates.Placement, "_placed"),
    ("probes", probes.Probes, "make"),
    ("probes", probes.Probes, "whole"),
    ("pre-emphasis", lookahead, "FrameBuffer"),
    ("final coding", lookahead, "encode_keyframes"),
    ("final coding", lookahead, "fit_quantizer"),
    ("final coding", packer, "fit_quantizer"),
    ("texture", keyframes.Keyframes, "choose_textures"),
    ("guides", keyframes.Keyframes, "choose_guides"),
    ("scaffold", lookahead.Lookahead, "_intervals"),
    ("faces", face_rdo.FaceRdo, "added"),
    ("faces", face_rdo.FaceRdo, "chosen"),
)
"""Stages, and the functions that do their work."""


class Stages:
    """Processor seconds by stage, without those of stages inside it."""

    def __init__(self) -> None:
        self.spent = defaultdict[str, float](float)
        self._inside: list[float] = []
        for stage, owner, name in STAGES:
            found = vars(owner)[name]
            if isinstance(found, functools.cached_property):
                found.func = self._timed(stage, found.func)
            else:
                setattr(owner, name, self._timed(stage, found))

    def _timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **given: Any) -> Any:
            begun = time.process_time()
            self._inside.append(0.0)
            try:
                return function(*args, **given)
            finally:
                took, inside = time.process_time() - begun, self._inside.pop()
                self.spent[stage] += took - inside
                if self._inside:
                    self._inside[-1] += took

        return timed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("clips", nargs="+")
    parser.add_argument("--lines", type=int, default=288)
    parser.add_argument("--frames", type=int, default=97)
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--preset", default="medium")
    given = parser.parse_args()
    stages, settings = Stages(), gsvc.EncoderSettings(level=given.level, preset=given.preset)
    begun = time.process_time()
    for clip in given.clips:
        with tempfile.TemporaryDirectory() as folder:
            cut: Any = {"size": given.lines, "frames": given.frames, "audio": "none"}
            gsvc.encode(clip, Path(folder, "a.gsv"), settings=settings, **cut)
    total = time.process_time() - begun
    stages.spent["all else"] = total - sum(stages.spent.values())
    for stage, spent in sorted(stages.spent.items(), key=lambda one: -one[1]):
        print(f"{stage:14} {spent:7.2f} s {100 * spent / total:5.1f} %")
    print(f"{'all':14} {total:7.2f} s")


if __name__ == "__main__":
    main()
