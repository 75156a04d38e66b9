"""What shots that come back save: `python tools/turns.py HEAD.mp4 OTHER.mp4`, two videos or more.

They are cut to and fro ten times in 24 s at 384x288 and 25 frames a second, and encoded at levels 0
to 2 without and with returning shots. One video alone is encoded as it is, from its first frame.
Prints bytes, CVVDP of all frames and ST-LPIPS VGG of one in thirteen; then the BD-rate by each.
"""

import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product

import av
import cv2
import numpy as np

import gsvc
from compare_settings import Points, add, bd_rates, scores
from gsvc.codec.bitstream.header import HEADER_BYTES
from gsvc.datasets.clips.clip_reader import TestClip

_SIZE, _RATE, _FRAMES, _CUTS = (384, 288), 25, 600, 10


def frames_of(path: str) -> list[gsvc.Picture]:
    """The first frames of a video, cropped and scaled; a short one begins again."""
    found: list[gsvc.Picture] = []
    with av.open(path) as source:
        start: float | None = None
        for frame in source.decode(video=0):
            start = frame.time if start is None else start
            due = int((frame.time - start + 1e-6) * _RATE) + 1
            found += [_fitted(np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))] * (
                due - len(found)
            )
            if len(found) >= _FRAMES:
                break
    return [found[number % len(found)] for number in range(_FRAMES)]


def _fitted(picture: gsvc.Picture) -> gsvc.Picture:
    height, width = picture.shape[:2]
    share = min(width / _SIZE[0], height / _SIZE[1])
    right, low = (int(side * share) for side in _SIZE)
    top, left = (height - low) // 2, (width - right) // 2
    kept = picture[top : top + low, left : left + right]
    return np.asarray(cv2.resize(kept, _SIZE, interpolation=cv2.INTER_AREA), np.uint8)


def in_turns(videos: Sequence[Sequence[gsvc.Picture]]) -> list[gsvc.Picture]:
    """Frames of each in turn, at the time that they have in it."""
    rng = np.random.default_rng(5)
    even = (round(_FRAMES * (cut + 1) / (_CUTS + 1)) for cut in range(_CUTS))
    cuts = sorted({middle + int(rng.integers(-12, 13)) for middle in even})
    spans = enumerate(pairwise([0, *cuts, _FRAMES]))
    return [
        videos[turn % len(videos)][at] for turn, (start, end) in spans for at in range(start, end)
    ]


def coded(
    pictures: Sequence[gsvc.Picture], level: int, *, returning: bool
) -> tuple[int, list[gsvc.Picture]]:
    """Bytes of the stream, and its frames."""
    form = gsvc.VideoFormat(*_SIZE, Fraction(1, _RATE), Fraction(_RATE))
    settings = gsvc.EncoderSettings(level=level, returning_shots=returning)
    with gsvc.Encoder(form, settings) as encoder:
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        packets += encoder.flush()
    with gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0)) as decoder:
        shown = [frame.pixels for packet in packets for frame in decoder.decode(packet)]
    return HEADER_BYTES + sum(len(packet.to_bytes()) for packet in packets), shown


def main(paths: Sequence[str]) -> None:
    """Print a line for each stream, then the BD-rate with returning shots against without."""
    videos = [frames_of(path) for path in paths]
    pictures = in_turns(videos) if len(videos) > 1 else videos[0]
    clip = TestClip("turns", pictures, Fraction(_RATE))
    points: Points = {}
    for level, returning in product((0, 1, 2), (False, True)):
        size, shown = coded(pictures, level, returning=returning)
        found = scores(clip, shown)
        print(
            f"level {level}, {'with' if returning else 'without'}: {size} bytes", found, flush=True
        )
        add(points, returning, size, found)
    print("BD-rates in %:", bd_rates(points, False, True))


if __name__ == "__main__":
    main(sys.argv[1:])
