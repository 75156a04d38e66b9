"""`python -m gsvc.eval.table --out results.json`: gsvc on the packaged clips, level by level, beside SVT-AV1.

Each clip at each level is a cell: coded, decoded with several steps of the refiner, measured. The file is
written after every cell; a second run goes on where the first ended, and measures again what was made by
another state of the code or the weights.
"""

import argparse
import hashlib
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gsvc.codec.decoder import STEPS
from gsvc.codec.errors import ConfigError, GsvcError, InputError
from gsvc.codec.frames import Picture
from gsvc.codec.levels import LEVELS
from gsvc.codec.output import atomic_output, explain_failure
from gsvc.codec.stream_info import read_info
from gsvc.datasets.clips import TestClip
from gsvc.datasets.packaged import CLIPS, load_clip, packaged_clip
from gsvc.eval.codecs.ours import Gsvc
from gsvc.eval.codecs.search import nearest_rate
from gsvc.eval.codecs.x265 import X265
from gsvc.eval.hull import (
    SCALES,
    CodedPoint,
    PointFile,
    add_nearest,
    frames_hash,
    hull_at,
    lower_hull,
)
from gsvc.eval.layout import markdown
from gsvc.eval.metrics import measure

SCHEMA = 1
POINTS = Path(__file__).parent / "results" / "svtav1.json"
_X265_CRFS = (28, 51)

Cell = dict[str, Any]
"""What was measured of one clip at one level, as it stands in the file; see `measure_cell`."""


class ResultFile:
    """A JSON file of cells. Raises InputError when the file at `path` is something else."""

    def __init__(self, path: Path, stride: int) -> None:
        self._path = path
        self._content: dict[str, Any] = {
            "schema": SCHEMA,
            "metric": f"stlpips-pytorch {version('stlpips-pytorch')}",
            "stride": stride,
            "cells": {},
        }
        if path.exists():
            self._content = self._read(self._content)

    def cell(self, clip: str, level: int) -> Cell | None:
        """The cell, unless it is missing or was measured with another state of the code."""
        found: Cell | None = self._content["cells"].get(f"{clip}/{level}")
        return found if found and found["code"] == _code_hash() else None

    def add(self, cell: Cell) -> None:
        """Put a cell in and write the file. Raises OutputError when it cannot be written."""
        cells = self._content["cells"]
        cells[f"{cell['clip']}/{cell['level']}"] = cell
        self._content["cells"] = dict(sorted(cells.items()))
        with explain_failure(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(self._path, overwrite=True) as partial, explain_failure(self._path):
            partial.write_text(json.dumps(self._content, indent=1) + "\n")

    def _read(self, expected: dict[str, Any]) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._path.read_text())
            if all(content[key] == expected[key] for key in ("schema", "metric", "stride")):
                return content
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._path} is not a file of results: choose another") from error
        raise InputError(f"{self._path} has another schema, metric or stride: choose another file")


def measure_cell(
    clip: str,
    frames: Sequence[Picture],
    frame_rate: Fraction,
    level: int,
    steps: Sequence[int],
    stride: int,
) -> Cell:
    """Code the clip at a level, decode it with each of `steps`, measure every `stride`-th frame.

    Rates are those of the whole `.gsv` (no audio); times are seconds, x265's at the nearest rate beside.
    """
    codec, source = Gsvc(level=level, steps=tuple(steps)), TestClip(clip, frames, frame_rate)
    settings = codec.rate_points()[0]
    encoded = codec.encode(source, settings)
    info = read_info(io.BytesIO(encoded.data))
    decoded = [
        codec.decode(encoded.data, source.format, settings, way)
        for way in codec.ways_to_decode(settings)
    ]
    part = slice(None, None, stride)
    qualities = measure(frames[part], [one.frames[part] for one in decoded])
    lowest, highest = _X265_CRFS
    x265 = nearest_rate(X265(), source, info.bpp, lowest=lowest, highest=highest)
    return {
        "clip": clip,
        "level": level,
        "code": _code_hash(),
        "frames_sha256": frames_hash(frames),
        "size": [info.header.format.width, info.header.format.height],
        "frames": info.frames,
        "frame_rate": str(frame_rate),
        "bits": 8 * info.size,
        "bpp": info.bpp,
        "bitrate": info.bitrate,
        "ledger": info.bits,
        "scaffold_sha256": info.scaffold_hash,
        "encode_seconds": round(encoded.seconds, 2),
        "steps": {
            str(count): asdict(quality) | {"decode_seconds": round(one.seconds, 2)}
            for count, one, quality in zip(steps, decoded, qualities, strict=True)
        },
        "x265": {
            "crf": x265.settings["crf"],
            "bpp": x265.bpp,
            "encode_seconds": round(x265.encoded.seconds, 2),
        },
    }


def report(cells: Sequence[Cell], points: PointFile) -> str:
    """Two Markdown tables: rate, quality and time beside SVT-AV1; bits by layer."""
    return f"{_quality_table(cells, points)}\n\n{_ledger_table(cells)}"


def _quality_table(cells: Sequence[Cell], points: PointFile) -> str:
    steps = sorted({step for cell in cells for step in cell["steps"]}, key=int)
    header = ["clip, level", "bpp", "kbit/s", *(f"steps {step}" for step in steps)]
    header += ["SVT-AV1 hull", "steps 0 is", *(f"SVT-AV1 size {scale}" for scale in SCALES)]
    header += ["encode", *(f"decode {step}" for step in steps)]
    rows = []
    for cell in cells:
        baseline = points.points(cell["clip"], cell["frames_sha256"])
        x265 = cell["x265"]["encode_seconds"]
        rows.append(
            [
                f"{cell['clip']}, {cell['level']}",
                f"{cell['bpp']:.5f}",
                f"{cell['bitrate'] / 1000:.1f}",
                *(_pair(cell["steps"].get(step)) for step in steps),
                *_against_hull(cell, baseline),
                *(_nearest(cell["bpp"], baseline, scale) for scale in SCALES),
                f"{cell['encode_seconds'] / x265:.2f}x",
                *(_ratio(cell["steps"].get(step), x265) for step in steps),
            ]
        )
    return markdown(header, rows)


def _pair(quality: dict[str, float] | None) -> str:
    return f"{quality['st_lpips_alex']:.4f} {quality['st_lpips_vgg']:.4f}" if quality else "-"


def _ratio(step: dict[str, float] | None, x265_seconds: float) -> str:
    return f"{step['decode_seconds'] / x265_seconds:.2f}x" if step else "-"


def _against_hull(cell: Cell, baseline: Sequence[CodedPoint]) -> tuple[str, str]:
    """SVT-AV1's hull at the cell's rate (AlexNet and VGG), and where the point with 0 steps lies.

    "under its range": fewer bits than SVT-AV1's coarsest point; "better": and nearer to the source too.
    """
    if not baseline or "0" not in cell["steps"]:
        return "-", "-"
    alex = hull_at(lower_hull([(p.bpp, p.st_lpips_alex) for p in baseline]), cell["bpp"])
    vgg = hull_at(lower_hull([(p.bpp, p.st_lpips_vgg) for p in baseline]), cell["bpp"])
    ours = cell["steps"]["0"]
    if alex is None or vgg is None:
        lowest = min(baseline, key=lambda point: point.bpp)
        if cell["bpp"] >= lowest.bpp:
            return "-", "over its range"
        keys = ("st_lpips_alex", "st_lpips_vgg")
        better = all(ours[key] < getattr(lowest, key) for key in keys)
        return "-", "under its range" + (", better" if better else "")
    below = [
        name
        for name, hull, key in (("Alex", alex, "st_lpips_alex"), ("VGG", vgg, "st_lpips_vgg"))
        if ours[key] < hull
    ]
    verdict = {0: "above", 1: f"below in {below[0] if below else ''} only", 2: "below"}[len(below)]
    return f"{alex:.4f} {vgg:.4f}", verdict


def _nearest(bpp: float, baseline: Sequence[CodedPoint], scale: str) -> str:
    """The point of that size nearest in rate: bpp, AlexNet, VGG."""
    sized = [point for point in baseline if point.scale == scale]
    if not sized:
        return "-"
    point = min(sized, key=lambda point: max(point.bpp / bpp, bpp / point.bpp))
    return f"{point.bpp:.5f}: {point.st_lpips_alex:.4f} {point.st_lpips_vgg:.4f}"


def _ledger_table(cells: Sequence[Cell]) -> str:
    layers = [layer for layer in cells[0]["ledger"] if any(cell["ledger"][layer] for cell in cells)]
    rows = [
        [
            f"{cell['clip']}, {cell['level']}",
            *(str(cell["ledger"][layer]) for layer in layers),
            str(cell["bits"]),
        ]
        for cell in cells
    ]
    return markdown(["bits", *layers, "sum"], rows)


@cache
def _code_hash() -> str:
    """SHA-256 of the codec's sources and weights: what decides the numbers of a cell."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for folder in ("codec", "encoders", "decoders"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".safetensors", ".json"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.stride < 1 or chosen.frames < 1:
            raise ConfigError("--stride and --frames must be 1 or more")
        results = ResultFile(chosen.out, chosen.stride)
        points = PointFile(chosen.hull, chosen.stride)
        cells = []
        for clip in chosen.clips:
            frames, frame_rate = load_clip(packaged_clip(clip), chosen.frames)
            for level in chosen.levels:
                cell = results.cell(clip, level)
                if cell is None or not {str(step) for step in chosen.steps} <= set(cell["steps"]):
                    print(f"{clip}, level {level}", file=sys.stderr, flush=True)
                    cell = measure_cell(
                        clip, frames, frame_rate, level, chosen.steps, chosen.stride
                    )
                    results.add(cell)
                if not chosen.no_baseline:
                    add_nearest(points, clip, frames, frame_rate, cell["bpp"], SCALES)
                cells.append(cell)
        print(_preamble(chosen.frames, chosen.stride))
        print(report(cells, points))
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gsvc.eval.table",
        description="Measure gsvc on the packaged clips at 288 lines, beside SVT-AV1 and x265.",
    )
    parser.add_argument("--clips", nargs="+", choices=CLIPS, default=list(CLIPS))
    parser.add_argument(
        "--levels", nargs="+", type=int, choices=range(len(LEVELS)), default=[0, 1, 2, 3]
    )
    parser.add_argument("--steps", nargs="+", type=int, choices=STEPS, default=[0, 1, 4])
    parser.add_argument("--frames", type=int, default=97, metavar="N", help="how many to code (97)")
    parser.add_argument("--stride", type=int, default=3, metavar="N", help="measure one in N (3)")
    parser.add_argument("--hull", type=Path, default=POINTS, help="SVT-AV1's points, extended")
    parser.add_argument("--no-baseline", action="store_true", help="only points that are there")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write or go on with")
    return parser


def _preamble(frames: int, stride: int) -> str:
    return (
        f"First {frames} frames at 288 lines; each pair is ST-LPIPS AlexNet, VGG (lower is better), "
        f"mean of one frame in {stride}; times are multiples of encoding with x265 slow at the "
        "nearest rate in the same run.\n"
    )


if __name__ == "__main__":
    sys.exit(_main())
