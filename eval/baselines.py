"""Conventional codecs on gsvc's protocol: x265 and SVT-AV1 through PyAV, at a quality and a size.

Bits are those of the elementary stream alone; the pictures are decoded from exactly those bytes. A clip
coded smaller is scaled down by area, up by Lanczos, and compared at full size. Both ways between RGB and
YUV use BT.709, limited range. At most four seconds lie between random access points, as for gsvc.
"""

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, log

import av
import cv2
import numpy as np
from av.codec.context import Flags

from gsvc.codec.color import rgb_from_yuv, yuv_from_rgb
from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.frames import Color, Picture
from gsvc.encoders.scheduling import ordinary_priority

BT709 = Color(primaries=1, transfer=1, matrix=1)
RANDOM_ACCESS_SECONDS = 4
MAX_CRF = {"x265": 51, "svtav1": 63}
SMALLEST_SIDE = 64
"""Pixels, as coded: x265 writes outside its buffers on some narrower pictures (34, 42, 48 wide)."""
_THREADS = 2


@dataclass(frozen=True)
class Encoded:
    """What a baseline made of a clip.

    `data` is the elementary stream, `frames` what it decodes to: RGB uint8 (H, W, 3) at the size of the
    source. Times are wall-clock: encoding from RGB frames to bytes, decoding from bytes to RGB frames,
    conversions and scaling included.
    """

    codec: str
    settings: dict[str, int | float | str]
    data: bytes = field(repr=False)
    frames: list[Picture] = field(repr=False)
    encode_seconds: float
    decode_seconds: float

    @property
    def bits(self) -> int:
        """Bits a receiver must get."""
        return 8 * len(self.data)

    @property
    def bpp(self) -> float:
        """Bits a pixel of the frames as shown, whatever size was coded."""
        height, width = self.frames[0].shape[:2]
        return self.bits / float(len(self.frames) * height * width)


def encode_x265(
    frames: Sequence[Picture],
    frame_rate: Fraction,
    crf: int,
    preset: str = "slow",
    scale: float = 1.0,
) -> Encoded:
    """Code with x265: 10 bits, B-frames, parameter sets once, no info SEI.

    `frames` are RGB uint8 (H, W, 3) of one size, `frame_rate` is in frames per second, `crf` 0-51 (higher
    is smaller), `scale` the coded size relative to the frames, 0-1. Raises ConfigError for a setting out
    of range, InputError for frames that are not a clip.
    """
    interval = _key_interval(frame_rate)
    parameters = (
        f"info=0:keyint={interval}:pools={_THREADS}:frame-threads={_THREADS}:log-level=none"
    )
    coder = _Coder(
        name="x265",
        library="libx265",
        demuxer="hevc",
        pixel_format="yuv420p10le",
        options={"preset": preset, "crf": str(crf), "x265-params": parameters},
        headers_once=True,
    )
    return coder.run(frames, frame_rate, {"preset": preset, "crf": crf, "scale": scale})


def encode_svtav1(
    frames: Sequence[Picture],
    frame_rate: Fraction,
    crf: int,
    preset: int = 4,
    scale: float = 1.0,
) -> Encoded:
    """Code with SVT-AV1: 8 bits, random-access structure, the bytes as the encoder gives them.

    `crf` is 0-63, `preset` 0-13 (higher is faster); the rest as in `encode_x265`. The stream holds a
    temporal delimiter of two bytes a frame, as AV1's own stream format demands.
    """
    coder = _Coder(
        name="svtav1",
        library="libsvtav1",
        demuxer="obu",
        pixel_format="yuv420p",
        options={"preset": str(preset), "crf": str(crf), "svtav1-params": f"lp={_THREADS}"},
        headers_once=False,
    )
    return coder.run(frames, frame_rate, {"preset": preset, "crf": crf, "scale": scale})


def nearest_rate(
    encode: Callable[[int, float], Encoded],
    target_bpp: float,
    *,
    crfs: tuple[int, int],
    scales: Sequence[float] = (1.0,),
) -> Encoded:
    """The result of `encode(crf, scale)` whose bpp is nearest to the target, by ratio.

    `crfs` are the lowest and highest crf to consider (rate falls as crf rises); of equally near results
    the first of `scales` wins. Takes about four encodes a scale. Nearest says nothing of quality: to
    compare sizes, call once for each. Raises ConfigError when there is nothing to choose from.
    """
    if target_bpp <= 0 or not scales or crfs[0] > crfs[1]:
        raise ConfigError(
            f"no rate can be searched with target {target_bpp} bpp, crf {crfs}, scales {scales}: "
            "give a positive target, crf as (lowest, highest) and at least one scale"
        )
    found = [_nearest_crf(encode, target_bpp, crfs, scale) for scale in scales]
    return min(found, key=lambda encoded: abs(log(encoded.bpp / target_bpp)))


def _nearest_crf(
    encode: Callable[[int, float], Encoded], target: float, crfs: tuple[int, int], scale: float
) -> Encoded:
    """Narrow `crfs` around the target; each guess assumes the log of the rate linear in crf."""
    low, high = crfs
    excess: dict[int, float] = {}
    best: Encoded | None = None

    def visit(crf: int) -> float:
        nonlocal best
        encoded = encode(crf, scale)
        excess[crf] = log(encoded.bpp / target)
        if best is None or abs(excess[crf]) < abs(log(best.bpp / target)):
            best = encoded
        return excess[crf]

    if visit(high) < 0 and low < high and visit(low) > 0:
        while high - low > 1:
            share = excess[low] / (excess[low] - excess[high])
            guess = min(max(round(low + share * (high - low)), low + 1), high - 1)
            if visit(guess) > 0:
                low = guess
            else:
                high = guess
    assert best is not None
    return best


@dataclass(frozen=True)
class _Coder:
    """One encoder library, and the demuxer that reads its elementary stream back.

    With `headers_once` the library hands its parameter sets over apart instead of repeating them at
    every random access point.
    """

    name: str
    library: str
    demuxer: str
    pixel_format: str
    options: dict[str, str]
    headers_once: bool

    def run(
        self,
        frames: Sequence[Picture],
        frame_rate: Fraction,
        settings: dict[str, int | float | str],
    ) -> Encoded:
        crf, scale = int(settings["crf"]), float(settings["scale"])
        _check(frames, crf, MAX_CRF[self.name], scale)
        shown = frames[0].shape[1], frames[0].shape[0]
        coded = _coded_size(shown, scale)
        _check_coded(coded)
        start = time.perf_counter()
        data = self._encode([_shrink(frame, coded, scale) for frame in frames], frame_rate)
        middle = time.perf_counter()
        decoded = [_enlarge(frame, shown, scale) for frame in self._decode(data)]
        end = time.perf_counter()
        if len(decoded) != len(frames):
            raise RuntimeError(f"{self.name} gave back {len(decoded)} of {len(frames)} frames")
        return Encoded(self.name, settings, data, decoded, middle - start, end - middle)

    def _encode(self, frames: Sequence[Picture], frame_rate: Fraction) -> bytes:
        context = av.CodecContext.create(self.library, "w")
        assert isinstance(context, av.VideoCodecContext)
        context.height, context.width = frames[0].shape[:2]
        context.pix_fmt = self.pixel_format
        context.time_base, context.framerate = 1 / frame_rate, frame_rate
        context.gop_size = _key_interval(frame_rate)
        context.options = self.options
        if self.headers_once:
            context.flags |= Flags.global_header
        with ordinary_priority():
            context.open()
        packets = []
        for index, frame in enumerate(frames):
            picture = yuv_from_rgb(frame, BT709, self.pixel_format)
            picture.pts, picture.time_base = index, context.time_base
            packets += context.encode(picture)
        packets += context.encode(None)
        headers = context.extradata if self.headers_once else None
        return (headers or b"") + b"".join(bytes(packet) for packet in packets)

    def _decode(self, data: bytes) -> list[Picture]:
        with av.open(io.BytesIO(data), mode="r", format=self.demuxer) as container:
            container.streams.video[0].codec_context.thread_count = _THREADS
            return [rgb_from_yuv(frame, BT709) for frame in container.decode(video=0)]


def _check(frames: Sequence[Picture], crf: int, max_crf: int, scale: float) -> None:
    if not frames or any(frame.shape != frames[0].shape for frame in frames):
        raise InputError("a baseline needs frames, all of one size: pass at least one")
    if not 0 <= crf <= max_crf:
        raise ConfigError(f"crf {crf} is out of range: 0 to {max_crf}")
    if not 0 < scale <= 1:
        raise ConfigError(f"scale {scale} is out of range: above 0, up to 1")


def _check_coded(size: tuple[int, int]) -> None:
    if min(size) < SMALLEST_SIDE:
        raise ConfigError(
            f"a baseline at {size[0]}x{size[1]} is too small: "
            f"use frames and a scale that leave {SMALLEST_SIDE} pixels a side"
        )


def _key_interval(frame_rate: Fraction) -> int:
    return max(1, round(RANDOM_ACCESS_SECONDS * frame_rate))


def _coded_size(shown: tuple[int, int], scale: float) -> tuple[int, int]:
    """Even sides, as 4:2:0 needs: rounded up at full size, to the nearest when scaled."""
    if scale == 1:
        return ceil(shown[0] / 2) * 2, ceil(shown[1] / 2) * 2
    return max(2, 2 * round(shown[0] * scale / 2)), max(2, 2 * round(shown[1] * scale / 2))


def _shrink(frame: Picture, coded: tuple[int, int], scale: float) -> Picture:
    if scale < 1:
        return np.asarray(cv2.resize(frame, coded, interpolation=cv2.INTER_AREA), np.uint8)
    height, width = frame.shape[:2]
    return np.pad(frame, ((0, coded[1] - height), (0, coded[0] - width), (0, 0)), mode="edge")


def _enlarge(frame: Picture, shown: tuple[int, int], scale: float) -> Picture:
    if scale < 1:
        return np.asarray(cv2.resize(frame, shown, interpolation=cv2.INTER_LANCZOS4), np.uint8)
    return frame[: shown[1], : shown[0]]
