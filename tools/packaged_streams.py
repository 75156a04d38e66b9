"""Hashes the streams and frames of the packaged clips, which a change of structure must not alter.

    python tools/packaged_streams.py --out before.json      # on the old tree
    python tools/packaged_streams.py --against before.json  # on the new one; fails if any differs

Where all are equal, it writes `same_bytes.json`, and a benchmark keeps the old code's cells.
The hashes depend on the machine and its libraries: record and compare them on the same one.
"""

import argparse
import hashlib
import io
import json
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import gsvc
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.datasets.clips.packaged import CLIPS, packaged_clip
from gsvc.eval.baselines.code_hash import SAME_BYTES, code_hash, own_hash

STEPS = (0, 1)
SETTINGS = {f"level {level}": gsvc.EncoderSettings(level=level) for level in range(4)} | {
    "low delay": gsvc.EncoderSettings(level=1, low_delay=True),
    "texture": gsvc.EncoderSettings(level=1, tune="texture"),
    "motion": gsvc.EncoderSettings(level=1, tune="motion"),
}
FRAMES = 97


def _stream(name: str, setting: str, frames: int) -> bytes:
    pictures, rate = load_clip(packaged_clip(name), frames)
    height, width = pictures[0].shape[:2]
    video = gsvc.VideoFormat(width, height, time_base=1 / rate, frame_rate=rate)
    file = io.BytesIO()
    with gsvc.Encoder(video, SETTINGS[setting]) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        for pts, picture in enumerate(pictures):
            for packet in encoder.encode(gsvc.Frame(picture, pts)):
                writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    return file.getvalue()


def _frames(stream: bytes, steps: int) -> Iterator[bytes]:
    reader = gsvc.StreamReader(io.BytesIO(stream))
    with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=steps)) as decoder:
        for packet in reader:
            for frame in decoder.decode(packet):
                yield frame.pts.to_bytes(8, "little") + frame.pixels.tobytes()


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _hashes(cell: tuple[str, str, int]) -> dict[str, str | int]:
    """Of one clip at one setting: the stream, and its frames at each number of steps."""
    stream = _stream(*cell)
    found: dict[str, str | int] = {"bytes": len(stream), "stream": _hash([stream])}
    return found | {f"frames, steps {n}": _hash(_frames(stream, n)) for n in STEPS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clips", nargs="+", default=sorted(CLIPS), choices=sorted(CLIPS))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    cells = list(product(options.clips, options.settings, [options.frames]))
    before = json.loads(options.against.read_text()) if options.against else {}
    made: dict[str, Any] = {"code": code_hash()}
    differ = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for cell, found in zip(cells, pool.map(_hashes, cells), strict=True):
            key = f"{cell[0]} {cell[1]}, {cell[2]} frames"
            made[key] = found
            equal = found == before.get(key, found)
            differ += not equal
            print(f"{'equal' if equal else 'DIFFERS'}  {key}: {json.dumps(found)}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(made, indent=1) + "\n")
    if before and not differ and before.keys() == made.keys() and _is_whole(options):
        SAME_BYTES.write_text(json.dumps({"code": own_hash(), "as": before["code"]}) + "\n")
    return int(differ > 0)


def _is_whole(options: argparse.Namespace) -> bool:
    """Whether all that can be coded here was."""
    cells = set(options.clips), set(options.settings), options.frames
    return cells == (set(CLIPS), set(SETTINGS), FRAMES)


if __name__ == "__main__":
    sys.exit(main())
