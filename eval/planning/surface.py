"""What bits, computation and memory buy of each other: the surface of measured points.

Computation is decoding time in multiples of plain decoding of the same streams, so that what one
machine measured says something of another.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import ConfigError
from gsvc.eval.summary.frontier import Dial, Exchange, exchange, frontier, targets
from gsvc.eval.summary.hull import hull_at, lower_hull

JUDGES = {"jod": "CVVDP, JOD", "texture": "ST-LPIPS VGG"}
_COLUMNS = {"jod": "cvvdp", "texture": "st_lpips_vgg"}
_PLAIN = "steps 0"


@dataclass(frozen=True)
class Point:
    """One decoded stream of a run."""

    clip: str
    key: str
    """Of its cell in the run."""
    way: str
    """How it was decoded, as the run tells it."""
    bpp: float
    kbps: float
    seconds: float
    """Of decoding, for each second of video."""
    flops: float
    """Of the decoder's networks, for each second of video."""
    memory: float
    """Bytes at the peak of decoding, as the run measured them."""
    jod: float
    texture: float

    def distance(self, judge: str) -> float:
        """Lower is better."""
        return -self.jod if judge == "jod" else self.texture


def read_points(path: Path) -> list[Point]:
    """gsvc's points of a run's summary.csv that have both judges. Raises ConfigError."""
    try:
        with path.open(newline="") as file:
            found = [_point(line) for line in csv.DictReader(file) if _is_ours(line)]
    except (OSError, KeyError, ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"{path} is no summary.csv of gsvc bench run: {error}") from error
    if not any(point.way == _PLAIN for point in found):
        raise ConfigError(
            f"{path} has no points of gsvc with steps 0, CVVDP and ST-LPIPS VGG: run gsvc bench "
            "run with --codec gsvc:steps=0+1 --metric cvvdp --metric st_lpips_vgg"
        )
    return found


def clips_of(points: Sequence[Point]) -> list[str]:
    """Their names, each once."""
    return list(dict.fromkeys(point.clip for point in points))


def dials(points: Sequence[Point], clip: str, judge: str) -> list[Dial]:
    """The ways to decode a clip, by rising computation: 1 is plain decoding."""
    ways = dict.fromkeys(point.way for point in points if point.clip == clip)
    found = []
    for way in ways:
        own = [point for point in points if (point.clip, point.way) == (clip, way)]
        hull = lower_hull([(point.bpp, point.distance(judge)) for point in own])
        found.append(Dial(way, _computation(points, own), hull))
    return sorted(found, key=lambda dial: dial.compute)


def best(found: Sequence[Dial], bpp: float, compute: float) -> float | None:
    """The least distance at a rate with ways of at most that computation."""
    distances = [hull_at(dial.hull, bpp) for dial in found if dial.compute <= compute]
    reached = [distance for distance in distances if distance is not None]
    return min(reached, default=None)


def surface(
    points: Sequence[Point], judge: str, rates: Sequence[float], computes: Sequence[float]
) -> NDArray[np.float64]:
    """Quality, a mean over clips, (computes, rates); NaN where a clip has none."""
    every = [dials(points, clip, judge) for clip in clips_of(points)]
    grid = np.full((len(computes), len(rates)), np.nan)
    for row, compute in enumerate(computes):
        for column, bpp in enumerate(rates):
            found = [best(clip, bpp, compute) for clip in every]
            reached = [one for one in found if one is not None]
            if len(reached) == len(every):
                grid[row, column] = fmean(reached) * (-1 if judge == "jod" else 1)
    return grid


def exchanges(points: Sequence[Point], judge: str) -> Mapping[str, Exchange]:
    """What computation buys, by clip: the mean over three qualities; clips without are absent."""
    found = {}
    for clip in clips_of(points):
        ways = dials(points, clip, judge)
        each = [exchange(frontier(ways, target)) for target in targets(ways)]
        some = [one for one in each if one is not None]
        if some:
            found[clip] = Exchange(
                exp(fmean(log(one.compute) for one in some)),
                exp(fmean(log(one.compression) for one in some)),
                fmean(one.exponent for one in some),
            )
    return found


def rate_of_quality(points: Sequence[Point], judge: str) -> float:
    """By how much the logarithm of bits rises for a unit of quality, plain decoding, all clips."""
    slopes = []
    for clip in clips_of(points):
        own = sorted(
            (p.bpp, p.distance(judge)) for p in points if (p.clip, p.way) == (clip, _PLAIN)
        )
        logs, distances = np.log([bpp for bpp, _ in own]), [distance for _, distance in own]
        if len(own) > 1:
            slopes.append(1 / float(np.polyfit(logs, distances, 1)[0]))
    return fmean(slopes)


def _computation(points: Sequence[Point], own: Sequence[Point]) -> float:
    """Decoding time in multiples of plain decoding of the same streams."""
    plain = {point.key: point.seconds for point in points if point.way == _PLAIN}
    return exp(fmean([log(p.seconds / plain[p.key]) for p in own if p.key in plain] or [0.0]))


def _is_ours(line: Mapping[str, str]) -> bool:
    told = line["settings"]
    odd = "tune" in told or "people" in told or "preset medium" not in told
    return line["codec"] == "gsvc" and not odd and all(line[name] for name in _COLUMNS.values())


def _point(line: Mapping[str, str]) -> Point:
    numerator, _, denominator = line["frame_rate"].partition("/")
    rate = float(numerator) / float(denominator or 1)
    frames, pixels = int(line["frames"]), int(line["width"]) * int(line["height"])
    return Point(
        clip=line["clip"],
        key=line["key"],
        way=line["way"],
        bpp=int(line["bits"]) / (pixels * frames),
        kbps=int(line["bits"]) / frames * rate / 1000,
        seconds=float(line["decode_seconds"]) * rate / frames,
        flops=float(line["flops_per_pixel"] or 0) * pixels * rate,
        memory=float(line["peak_memory"] or 0),
        jod=float(line["cvvdp"]),
        texture=float(line["st_lpips_vgg"]),
    )
