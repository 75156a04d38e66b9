"""SVT-AV1's points on the packaged clips, kept in a JSON file, and the lower hull of such points.

`python -m gsvc.eval.hull --out svtav1.json` codes each clip at several qualities and sizes and measures
each result. The file is written after every few points; a second run goes on where the first ended.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

from gsvc.codec.errors import ConfigError, GsvcError, InputError, OutputError
from gsvc.codec.frames import Picture
from gsvc.datasets.clips import TestClip
from gsvc.datasets.packaged import CLIPS, load_clip, packaged_clip
from gsvc.eval.codecs.search import CodedClip, nearest_rate
from gsvc.eval.codecs.svtav1 import SvtAv1
from gsvc.eval.metrics import Quality, measure

SCHEMA = 2
PRESET = 4
CRFS = (63, 57, 60, 52, 47, 40)
"""In an order that gives every clip a coarse hull first."""
SCALES = ("1", "1/2")
_CRFS_AT_ONCE = 2
_CRF_RANGE = (10, SvtAv1.max_crf)

RatePoint = tuple[float, float]
"""Rate (bits a pixel) and distance (lower is better)."""


@dataclass(frozen=True)
class CodedPoint:
    """One coded clip: `scale` is a fraction, `bits` are the elementary stream's, quality is the mean
    over the frames measured, times are in seconds.
    """

    crf: int
    scale: str
    bits: int
    bpp: float
    st_lpips_alex: float
    st_lpips_vgg: float
    psnr_y: float
    encode_seconds: float
    decode_seconds: float


def lower_hull(points: Sequence[RatePoint]) -> list[RatePoint]:
    """The lower convex hull of (bpp, distance) by rising rate, up to the least distance.

    Andrew's monotone chain (Information Processing Letters 9, 1979). Raises InputError without points.
    """
    if not points:
        raise InputError("a hull needs points: pass at least one")
    least: dict[float, float] = {}
    for bpp, distance in sorted(points):
        least.setdefault(bpp, distance)
    hull: list[RatePoint] = []
    for point in least.items():
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    lowest = min(range(len(hull)), key=lambda index: hull[index][1])
    return hull[: lowest + 1]


def hull_at(hull: Sequence[RatePoint], bpp: float) -> float | None:
    """The hull's distance at a rate, linear between its points; None outside its range of rates."""
    if len(hull) == 1 and hull[0][0] == bpp:
        return hull[0][1]
    for (left, above), (right, below) in pairwise(hull):
        if left <= bpp <= right:
            return above + (below - above) * (bpp - left) / (right - left)
    return None


def _turn(a: RatePoint, b: RatePoint, c: RatePoint) -> float:
    """Positive when b lies below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


class PointFile:
    """A JSON file of coded points by clip. A clip's points count only for the very frames coded.

    Of `stride` frames the first is measured (None: as the file has it, 1 in a new one). Raises InputError
    when the file at `path` is not one of this schema and this stride.
    """

    def __init__(self, path: str | Path, stride: int | None = None) -> None:
        self._path = Path(path)
        self._content: dict[str, Any] = {
            "schema": SCHEMA,
            "made_with": _made_with(),
            "stride": stride or 1,
            "clips": {},
        }
        if self._path.exists():
            self._content = self._read()
        if stride not in (None, self.stride):
            raise InputError(
                f"{self._path} measures one frame in {self.stride}, not in {stride}: choose another file"
            )

    @property
    def stride(self) -> int:
        """One frame in so many is measured; all are coded."""
        return int(self._content["stride"])

    def points(self, clip: str, frames_sha256: str | None = None) -> list[CodedPoint]:
        """The clip's points; none when they were measured on frames of another hash."""
        record = self._content["clips"].get(clip)
        if record is None or frames_sha256 not in (None, record["frames_sha256"]):
            return []
        return [CodedPoint(**point) for point in record["points"]]

    def add(self, clip: str, frames_sha256: str, points: Sequence[CodedPoint]) -> None:
        """Add points and write the file at once. Raises OutputError when it cannot be written."""
        kept = self.points(clip, frames_sha256) + list(points)
        self._content["clips"][clip] = {
            "frames_sha256": frames_sha256,
            "points": [asdict(point) for point in sorted(kept, key=lambda point: point.bpp)],
        }
        self._write()

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self._path.read_text())
            if content["schema"] == SCHEMA and content["made_with"] == _made_with():
                return dict(content)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._path} is not a file of points: choose another") from error
        raise InputError(
            f"{self._path} was made with {content['made_with']}, schema {content['schema']}; "
            f"here it is {_made_with()}, schema {SCHEMA}: choose another file"
        )

    def _write(self) -> None:
        partial = self._path.with_suffix(".partial")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(self._content, indent=1) + "\n")
            os.replace(partial, self._path)
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written ({error.strerror})") from error


def _made_with() -> dict[str, str]:
    return {
        "codec": f"SVT-AV1 of av {version('av')}, preset {PRESET}",
        "metric": f"stlpips-pytorch {version('stlpips-pytorch')}",
    }


def add_points(
    file: PointFile,
    name: str,
    frames: Sequence[Picture],
    frame_rate: Fraction,
    crfs: Sequence[int],
    scales: Sequence[str],
) -> None:
    """Code and measure the clip at each of `crfs` and `scales` that `file` does not have yet."""
    frames_sha256 = frames_hash(frames)
    present = {(point.crf, point.scale) for point in file.points(name, frames_sha256)}
    missing = [(c, s) for s in scales for c in crfs if (c, s) not in present]
    if not missing:
        return
    codec, clip = SvtAv1(), TestClip(name, frames, frame_rate)
    coded = [
        nearest_rate(codec, clip, 1.0, lowest=crf, highest=crf, scale=scale, preset=PRESET)
        for crf, scale in missing
    ]
    decoded = [codec.decode(c.encoded.data, clip.format, c.settings, {}) for c in coded]
    measured = slice(None, None, file.stride)
    qualities = measure(frames[measured], [one.frames[measured] for one in decoded])
    points = [
        _coded_point(one, seconds.seconds, quality)
        for one, seconds, quality in zip(coded, decoded, qualities, strict=True)
    ]
    file.add(name, frames_sha256, points)


def add_nearest(
    file: PointFile,
    name: str,
    frames: Sequence[Picture],
    frame_rate: Fraction,
    bpp: float,
    scales: Sequence[str],
) -> None:
    """See that `file` has the clip's point nearest to a rate, at each of `scales`.

    A point within 15 % is near enough; so is the lowest rate there is, when even that is above `bpp`.
    """
    for scale in scales:
        points = [p for p in file.points(name, frames_hash(frames)) if p.scale == scale]
        excess = [log(point.bpp / bpp) for point in points]
        if any(
            abs(e) <= log(1.15) or (e > 0 and p.crf == _CRF_RANGE[1])
            for e, p in zip(excess, points, strict=True)
        ):
            continue
        found = nearest_rate(
            SvtAv1(),
            TestClip(name, frames, frame_rate),
            bpp,
            lowest=_CRF_RANGE[0],
            highest=_CRF_RANGE[1],
            scale=scale,
            preset=PRESET,
        )
        add_points(file, name, frames, frame_rate, [int(found.settings["crf"])], [scale])


def _coded_point(coded: CodedClip, decode_seconds: float, quality: Quality) -> CodedPoint:
    return CodedPoint(
        crf=int(coded.settings["crf"]),
        scale=str(coded.settings["scale"]),
        bits=8 * len(coded.encoded.data),
        bpp=coded.bpp,
        **asdict(quality),
        encode_seconds=round(coded.encoded.seconds, 3),
        decode_seconds=round(decode_seconds, 3),
    )


def frames_hash(frames: Sequence[Picture]) -> str:
    """SHA-256 of a clip's pixels: what a `PointFile` knows a clip by."""
    digest = hashlib.sha256(str(frames[0].shape).encode())
    for frame in frames:
        digest.update(frame.tobytes())
    return digest.hexdigest()


def _main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gsvc.eval.hull",
        description="Measure SVT-AV1 on the packaged clips (97 frames, 288 lines).",
    )
    parser.add_argument("--clips", nargs="+", choices=CLIPS, default=list(CLIPS))
    parser.add_argument("--crfs", nargs="+", type=int, default=list(CRFS), metavar="CRF")
    parser.add_argument("--scales", nargs="+", default=list(SCALES), metavar="SCALE")
    parser.add_argument(
        "--stride", type=int, default=1, metavar="N", help="measure every Nth frame (default: 1)"
    )
    parser.add_argument("--out", required=True, help="the JSON file to write or to go on with")
    chosen = parser.parse_args(arguments)
    # SVT-AV1 prints its settings on stderr at every encode unless told not to.
    os.environ.setdefault("SVT_LOG", "1")
    # Every clip gets some of its points early: a coarse hull, then a finer one.
    rounds = -(-len(chosen.crfs) // _CRFS_AT_ONCE)
    try:
        if chosen.stride < 1:
            raise ConfigError(f"stride {chosen.stride}: it must be 1 or more")
        file = PointFile(chosen.out, chosen.stride)
        for start in range(rounds):
            for name in chosen.clips:
                frames, frame_rate = load_clip(packaged_clip(name))
                crfs = chosen.crfs[start::rounds]
                add_points(file, name, frames, frame_rate, crfs, chosen.scales)
                print(f"{name}: {len(file.points(name))} points", file=sys.stderr)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
