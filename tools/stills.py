"""Stills of equal bytes: gsvc beside AVIF, WebP and JPEG XL.

    python tools/stills.py photos/ --bytes 500 2000 --photos 6

Each photograph is scaled to 720 pixels of the longer side. The others are given what they lack for
such budgets: each is coded at six sizes down to an eighth, with the finest quality that fits, and
the best of them by ST-LPIPS VGG is taken. gsvc chooses by itself, in one call. All are compared at
720 pixels. JPEG XL needs pillow-jxl-plugin, and is left out without it.
"""

import io
import logging
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image, features

import gsvc
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.layout import markdown
from gsvc.eval.metrics import find_metric

_LONGER, _LANCZOS = 720, Image.Resampling.LANCZOS
_SIZES = 1, 0.7, 0.5, 0.35, 0.25, 0.125
_SETTINGS: dict[str, dict[str, Any]] = {
    "AVIF": {"speed": 2, "advanced": {"tune": "ssim"}},
    "WEBP": {"method": 6},
    "JXL": {"effort": 9},
}
_STEPS = {"gsvc": 1, "gsvc, steps 0": 0}
_METRICS = "st_lpips_vgg", "ms_ssim"


def main() -> None:
    """A table of means."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bytes", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--photos", type=int, default=6)
    options = parser.parse_args()
    logging.getLogger("gsvc").setLevel(logging.ERROR)
    paths = sorted(path for path in options.folder.iterdir() if path.is_file())
    photos = [_photo(path) for path in paths[:: max(1, len(paths) // options.photos)]]
    photos = photos[: options.photos]
    rows = []
    for budget in options.bytes:
        ways = {name: partial(_best, name) for name in _formats()}
        measured = {name: [way(budget, photo) for photo in photos] for name, way in ways.items()}
        ours = [_gsvc(budget, photo) for photo in photos]
        measured |= {name: [one[name] for one in ours] for name in _STEPS}
        for name, found in measured.items():
            means = np.mean(found, axis=0)
            rows.append([str(budget), name, f"{means[0]:.0f}", *(f"{m:.3f}" for m in means[1:])])
            print(*rows[-1], file=sys.stderr)
    print(f"{len(photos)} photographs")
    print(markdown(["bytes", "format", "mean bytes", "ST-LPIPS VGG", "MS-SSIM"], rows))


def _photo(path: Path) -> Image.Image:
    photo = Image.open(path).convert("RGB")
    photo.thumbnail((_LONGER, _LONGER), _LANCZOS)
    return photo


def _formats() -> Iterator[str]:
    yield from (name for name in ("AVIF", "WEBP") if features.check(name.lower()))
    try:
        import_module("pillow_jxl")  # Pillow reads and writes .jxl then
    except ImportError:
        print("no JPEG XL: pip install pillow-jxl-plugin", file=sys.stderr)
    else:
        yield "JXL"


def _gsvc(budget: int, photo: Image.Image) -> dict[str, list[float]]:
    found = {}
    with TemporaryDirectory() as folder:
        source, stream = Path(folder, "s.png"), Path(folder, "s.gsv")
        photo.save(source)
        size = gsvc.encode(source, stream, target_size=budget).size
        if size > budget:
            raise RuntimeError(f"{size} bytes of {budget}")
        for name, steps in _STEPS.items():
            shown = Path(folder, f"{steps}.png")
            gsvc.decode(stream, shown, settings=gsvc.DecoderSettings(steps=steps))
            found[name] = [size, *_distances(photo, Image.open(shown))]
    return found


def _best(name: str, budget: int, photo: Image.Image) -> list[float]:
    """The best of several sizes by the first metric; NaN where none is small enough."""
    found = []
    for factor in _SIZES:
        small = photo.resize((round(factor * photo.width), round(factor * photo.height)), _LANCZOS)
        if (data := _largest(small, name, budget)) is not None:
            found.append([len(data), *_distances(photo, Image.open(io.BytesIO(data)))])
    return min(found, key=lambda one: one[1], default=[np.nan] * (1 + len(_METRICS)))


def _largest(photo: Image.Image, name: str, budget: int) -> bytes | None:
    """The finest quality, 0 to 95, that fits; None where the coarsest does not."""
    least, most, best = 0, 95, None  # JPEG XL is lossless at 100
    while least <= most:
        middle = (least + most) // 2 if best else 0
        file = io.BytesIO()
        photo.save(file, name, quality=middle, **_SETTINGS[name])
        if file.tell() <= budget:
            least, best = middle + 1, file.getvalue()
        else:
            most = middle - 1
    return best


def _distances(photo: Image.Image, shown: Image.Image) -> list[float]:
    same = shown.convert("RGB").resize(photo.size, _LANCZOS)
    clip = TestClip("photo", [np.asarray(photo)], Fraction(25))
    tests = [[np.asarray(same)]]
    return [float(find_metric(name).measure(clip, tests, [0])[0, 0]) for name in _METRICS]


if __name__ == "__main__":
    main()
