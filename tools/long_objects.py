"""Writes a long stream of objects, to time its analysis: `python tools/long_objects.py OUT.gsv`.

Objects wander at 25 frames a second, turn at the border, and now and then give way to new ones.
Then: `gsvc analyse OUT.gsv -o OUT.jsonl`.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gsvc.codec.bitstream.objects import MAX_TRACK, Anchor, ObjectBox, ObjectRun

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from test_analyse_objects import run_of, stream_of

_FRAMES = 100


def runs(minutes: int, count: int, gap: int) -> Iterator[ObjectRun]:
    """Four seconds each, one in four to be read alone."""
    rng = np.random.default_rng(1)
    places, ways = rng.integers(0, 250, (count, 2)), rng.integers(-3, 4, (count, 2))
    tracks = list(range(count))
    for number in range(minutes * 15):
        anchors = []
        for _ in range(_FRAMES // gap):
            places += ways + rng.integers(-1, 2, (count, 2)) * (rng.random((count, 2)) < 0.4)
            ways = np.where((places < 0) | (places > 280), -ways, ways)
            places = np.clip(places, 0, 290)
            if rng.random() < 0.05:
                tracks[rng.integers(count)] = max(tracks) + 1
            boxes = [
                ObjectBox(track & MAX_TRACK, "person", int(x), int(y) // 2, 20, 40)
                for track, (x, y) in zip(tracks, places, strict=True)
            ]
            anchors.append(Anchor(gap, tuple(boxes)))
        yield run_of(*anchors, begins=number % 4 == 0)


def main() -> None:
    """Write the stream."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT.gsv")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--objects", type=int, default=5, help="in each frame")
    gap = "frames between anchors: 10 as in a task, 5 as beside pictures"
    parser.add_argument("--gap", type=int, default=10, choices=(5, 10), help=gap)
    options = parser.parse_args()
    stream_of(runs(options.minutes, options.objects, options.gap), options.out)
    print(f"{options.out}: {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
