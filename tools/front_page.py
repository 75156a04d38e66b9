"""`python tools/front_page.py`: the moving picture at the top of the README.

Three clips: the source, and gsvc beside SVT-AV1 and x265 at the same bytes or, where a codec cannot
come down so far, at its lowest rate. Each opponent takes the size of three that comes nearest to
the source by MS-SSIM.
"""

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from demo import CodedClip, nearest_rate
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.model_files import pull
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.eval.baselines.conventional import X265, ConventionalCodec
from gsvc.eval.baselines.gsvc import Gsvc
from gsvc.eval.baselines.svtav1 import SvtAv1
from gsvc.eval.layout import write_bytes
from gsvc.eval.metrics import find_metric
from gsvc.eval.report.sheets import captioned

TARGET = Path(__file__).parents[1] / "eval/results/front.webp"
CLIPS = "vtest", "city", "carphone"
LEVEL = 1
_SCALES = "1", "1/2", "1/3"
_WIDTH, _HEIGHT = 288, 216
_SHOWN = 48
"""Frames of the animation."""
_STEP = {"city": 2, "carphone": 2}
"""Every so many-th frame is shown; of vtest, which has 10 a second, all."""
_MILLISECONDS = 80


def opponents(clip: TestClip, bpp: float) -> Iterator[tuple[str, CodedClip, list[Picture]]]:
    """SVT-AV1 and x265 with their frames."""
    judge = find_metric("ms_ssim")
    shown = range(0, len(clip.frames), 8)
    codecs: tuple[tuple[str, ConventionalCodec, str, int], ...] = (
        ("SVT-AV1", SvtAv1(), "2-qsc", 35),
        ("x265", X265(), "slow", 28),
    )
    for name, codec, preset, lowest in codecs:
        found = []
        for scale in _SCALES:
            coded = nearest_rate(
                codec, clip, bpp, lowest=lowest, highest=codec.max_crf, scale=scale, preset=preset
            )
            frames = codec.decode(coded.encoded.data, clip.format, coded.settings, {}).frames
            score = float(np.nanmean(judge.measure(clip, [frames], shown)))
            # One that takes a tenth more than its share counts only where none comes down so far.
            found.append((coded.bpp <= 1.1 * bpp, score, coded, list(frames)))
        fits = [one for one in found if one[0]]
        best = max(fits, key=lambda one: one[1]) if fits else min(found, key=lambda o: o[2].bpp)
        yield name, *best[2:]


def rows(name: str) -> tuple[list[Picture], str]:
    """A clip's row, frame by frame, and what it took."""
    clip = TestClip(name, *load_clip(packaged_clip(name), _SHOWN * _STEP.get(name, 1)))
    ours = Gsvc(level=LEVEL, steps=1)
    settings = ours.rate_points()[0]
    encoded = ours.encode(clip, settings)
    (way,) = ours.ways_to_decode(settings)
    form = clip.format
    bpp = encoded.bits / (len(clip.frames) * form.width * form.height)
    columns = [("gsvc", bpp, ours.decode(encoded.data, form, settings, way).frames)]
    columns += [(codec, coded.bpp, frames) for codec, coded, frames in opponents(clip, bpp)]
    rate = form.width * form.height * float(clip.frame_rate) / 1000
    captions = ["source", *(f"{codec}, {bits * rate:.1f} kbit/s" for codec, bits, _ in columns)]
    panels = [clip.frames, *(frames for _, _, frames in columns)]
    indices = range(0, len(clip.frames), _STEP.get(name, 1))
    moving = [
        np.hstack(
            [
                captioned(_fitted(frames[index]), caption)
                for frames, caption in zip(panels, captions, strict=True)
            ]
        )
        for index in indices
    ]
    return moving, f"{name}: {'; '.join(captions[1:])}"


def _fitted(picture: Picture) -> Picture:
    """Its middle, as large as a panel."""
    height, width = picture.shape[:2]
    scale = max(_WIDTH / width, _HEIGHT / height)
    size = round(scale * width), round(scale * height)
    large = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    left, top = (size[0] - _WIDTH) // 2, (size[1] - _HEIGHT) // 2
    return np.asarray(large[top : top + _HEIGHT, left : left + _WIDTH], np.uint8)


def animation(frames: Sequence[Picture], quality: int) -> bytes:
    """An animated WebP."""
    first, *others = (Image.fromarray(frame) for frame in frames)
    data = io.BytesIO()
    options = {"duration": _MILLISECONDS, "loop": 0, "quality": quality, "method": 4}
    first.save(data, "WEBP", save_all=True, append_images=others, **options)
    return data.getvalue()


def main() -> int:
    """Write the picture and say what each codec took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--quality", type=int, default=60, help="of the WebP, 0 to 100")
    options = parser.parse_args()
    pull(progress=lambda line: print(line, file=sys.stderr))
    with ProcessPoolExecutor(2) as pool:
        made = list(pool.map(rows, CLIPS))
    frames = [np.vstack(each) for each in zip(*(moving for moving, _ in made), strict=True)]
    data = animation(frames, options.quality)
    write_bytes(options.out, data)
    print("\n".join(told for _, told in made))
    print(f"{options.out}: {len(frames)} frames, {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
