"""How much a trained refiner improves on the rendering, on development clips that training never saw.

    python -m gsvc.decoders.assess CLIPS RUN/compact.safetensors --steps 0 1 2 4

CLIPS is the folder of the clips; prints the scores of each sequence and their means.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import ArrayLike

from gsvc.codec.frames import Picture
from gsvc.decoders.footage import HELD_OUT, read_run
from gsvc.decoders.pairs import CodedSequence, Plan
from gsvc.decoders.refiner import CompactBackend
from gsvc.decoders.rendering import Rendering
from gsvc.eval.metrics import Quality, measure

PLANS = tuple(Plan(16, 2, crf, False) for crf in (50, 58, 62))
"""Three rates: about levels 2, 1 and 0."""
_EVERY = 4
_LINES = 256


def sequences(clips: Path) -> Iterator[tuple[str, list[Picture], list[Rendering]]]:
    """Each held-out clip under each plan: its name, frames and renderings."""
    for name in HELD_OUT:
        for plan in PLANS:
            run = read_run(clips / name, 0.5, plan.frames, _scale(clips / name))
            assert run is not None, f"{name} has no run of {plan.frames} frames"
            coded = CodedSequence(run.__getitem__, plan)
            yield name, run, [coded.render(i) for i in range(plan.frames)]


def assess(clips: Path, weights: Path, steps: list[int]) -> Iterator[tuple[str, list[Quality]]]:
    """For each of `sequences`, the quality at each number of steps, over every fourth frame."""
    backend = CompactBackend(weights, "cpu")
    for name, frames, renderings in sequences(clips):
        shown = [list(backend.refine(renderings, steps=count, seed=1)) for count in steps]
        yield name, measure(frames[::_EVERY], [pictures[::_EVERY] for pictures in shown])


def _scale(path: Path) -> float:
    capture = cv2.VideoCapture(str(path))
    height = capture.get(cv2.CAP_PROP_FRAME_HEIGHT)
    capture.release()
    return min(1.0, _LINES / height)


def main() -> None:
    parser = argparse.ArgumentParser(description="Assess a refiner on held-out clips.")
    parser.add_argument("clips", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--steps", type=int, nargs="+", default=[0, 1, 2, 4])
    options = parser.parse_args()
    every = []
    for name, qualities in assess(options.clips, options.weights, options.steps):
        every.append([(q.st_lpips_vgg, q.st_lpips_alex, q.psnr_y) for q in qualities])
        _show(name, options.steps, every[-1])
    _show("mean", options.steps, np.mean(every, axis=0))


def _show(name: str, steps: list[int], rows: ArrayLike) -> None:
    for count, (vgg, alex, psnr) in zip(steps, np.asarray(rows), strict=True):
        line = f"{name} steps {count}: ST-LPIPS VGG {vgg:.4f} AlexNet {alex:.4f} PSNR-Y {psnr:.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
