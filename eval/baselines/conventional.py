"""What the conventional codecs share, and those that need little more: x264, x265 and libvpx."""

import io
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from importlib.metadata import version
from math import ceil
from typing import ClassVar, NamedTuple

import av
import cv2
import numpy as np

from gsvc.codec.bitstream.errors import BitstreamError, ConfigError
from gsvc.codec.bitstream.frames import Color, Picture
from gsvc.codec.media.color import rgb_from_yuv, yuv_from_rgb
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.encoders.svt_av1 import quiet_and_ordinary
from gsvc.eval.baselines import base
from gsvc.eval.baselines.base import Decoded, Settings
from gsvc.eval.late_loading import CodecFacts

SMALLEST_SIDE = 64
"""Pixels, as coded: x265 writes outside its buffers on some narrower pictures (34, 42, 48 wide)."""

Size = tuple[int, int]
"""Width and height in pixels."""


def read_scale(value: base.Value) -> Fraction:
    """The setting `scale`, such as "1/2". Raises ConfigError when it is no number."""
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"scale {value!r} is no number: write 1 or 1/2") from error


def coded_size(shown: Size, scale: Fraction) -> Size:
    """Even sides, as 4:2:0 needs: rounded up at full size, to the nearest when scaled.

    `scale` is the coded size relative to the shown one, above 0 and up to 1. Raises ConfigError for
    another scale, and when a coded side is shorter than `SMALLEST_SIDE` pixels.
    """
    if not 0 < scale <= 1:
        raise ConfigError(f"scale {scale} is out of range: above 0, up to 1")
    if scale == 1:
        size = ceil(shown[0] / 2) * 2, ceil(shown[1] / 2) * 2
    else:
        size = 2 * round(shown[0] * scale / 2), 2 * round(shown[1] * scale / 2)
    if min(size) < SMALLEST_SIDE:
        raise ConfigError(
            f"pictures of {size[0]}x{size[1]} are too small to code: "
            f"use a clip and a scale that leave {SMALLEST_SIDE} pixels a side"
        )
    return size


def shrink(picture: Picture, coded: Size) -> Picture:
    """The picture at the coded size: area averages, or its border repeated by at most a pixel."""
    height, width = picture.shape[:2]
    if _is_padded(coded, (width, height)):
        return np.pad(picture, ((0, coded[1] - height), (0, coded[0] - width), (0, 0)), mode="edge")
    return np.asarray(cv2.resize(picture, coded, interpolation=cv2.INTER_AREA), np.uint8)


def enlarge(picture: Picture, shown: Size) -> Picture:
    """The inverse of `shrink`, by Lanczos over 8 x 8 pixels."""
    height, width = picture.shape[:2]
    if _is_padded((width, height), shown):
        return picture[: shown[1], : shown[0]]
    return np.asarray(cv2.resize(picture, shown, interpolation=cv2.INTER_LANCZOS4), np.uint8)


def _is_padded(coded: Size, shown: Size) -> bool:
    return coded == (shown[0] + shown[0] % 2, shown[1] + shown[1] % 2)


Points = Mapping[str, Sequence[int]]

BT709 = Color(primaries=1, transfer=1, matrix=1)
RANDOM_ACCESS_SECONDS = 4
"""From one random access point to the next, unless a codec's option `gop` says otherwise."""
NO_LIMIT = 1 << 16
"""An interval of frames that no clip is as long as: one random access point, at its start."""
THREADS = 2
_PROBE = 320, 192
"""A size that every encoder takes."""
PROTOCOL = 2
"""Part of every version: raise it when a change to a codec here alters output or what counts."""


class Coding(NamedTuple):
    """What an encoder is opened with: the size as coded, then what `options` takes."""

    size: Size
    frame_rate: Fraction
    preset: base.Value
    quality: int
    interval: int


class ConventionalCodec(base.Codec, ABC):
    """An encoder library of PyAV; a subclass fills in what is declared here.

    Settings:
        preset: the library's.
        crf: 0 to `max_crf`, higher is smaller; called `qp` where `quality` says so.
        scale: coded size relative to the frames, as a fraction: "1", "1/2".
        gop: most seconds between random access points, else `RANDOM_ACCESS_SECONDS`; 0: no limit.

    The constructor takes the same names, each with one value or several, and then runs these rate
    points in place of the usual ones.
    """

    library: ClassVar[str]
    demuxer: ClassVar[str]
    """Reads the elementary stream back."""
    pixel_format: ClassVar[str]
    preset: ClassVar[base.Value]
    tuned: ClassVar[tuple[base.Value, ...]] = ()
    """Further presets that a benchmark runs, each better by some metric."""
    quality: ClassVar[str] = "crf"
    max_crf: ClassVar[int]
    points: ClassVar[Points]
    """Scale -> the qualities that a benchmark runs."""
    headers_once: ClassVar[bool] = False
    """Parameter sets come once, apart from the packets, instead of at every random access point."""

    def __init__(self, **options: base.Option) -> None:
        self._names = {"preset", self.quality, "scale"}
        if unknown := set(options) - self._names - {"gop"}:
            known = ", ".join(sorted({*self._names, "gop"}))
            raise ConfigError(f"{self.name} has no option {min(unknown)}: there are {known}")
        self._gops = base.unless_usual("gop", options.pop("gop", None), None, float)
        chosen = {name: base.several(value) for name, value in options.items()}
        self._presets = chosen.get("preset", (self.preset, *self.tuned))
        self._scales = [str(scale) for scale in chosen.get("scale", self.points)]
        self._qualities = chosen.get(self.quality)
        for settings in self.rate_points():
            self._read(settings)
        for preset in chosen.get("preset", ()):
            self.check_preset(preset)

    @abstractmethod
    def options(self, preset: base.Value, quality: int, interval: int) -> dict[str, str]:
        """The library's options; `interval`: frames between random access points."""

    def check_preset(self, preset: base.Value) -> None:
        """Raise ConfigError for a preset that the library does not know: at once, not in cells."""
        if self.library not in av.codecs_available:
            return
        rate = Fraction(25)
        probe = Coding(_PROBE, rate, preset, self.max_crf, key_interval(rate))
        self.options(*probe[2:])
        try:
            self._opened(probe)
        except ConfigError as error:
            raise ConfigError(
                f"{self.name} has no preset {preset}: take one of the library's, such as "
                f"{self.preset}"
            ) from error

    def version(self) -> str:
        return f"{self.library} of av {version('av')}, protocol {PROTOCOL}"

    def rate_points(self) -> Sequence[Settings]:
        usual = next(iter(self.points.values()))
        return [
            {"preset": preset, self.quality: quality, "scale": scale, **gop}
            for gop in self._gops
            for preset in self._presets
            for scale in self._scales
            for quality in self._qualities or self.points.get(scale, usual)
        ]

    def encode(self, clip: TestClip, settings: Settings) -> base.Encoded:
        """Code the clip. Raises ConfigError for settings out of range, InputError for no frames."""
        preset, quality, scale = self._read(settings)
        base.require_frames(clip)
        coded = coded_size((clip.width, clip.height), scale)
        start = time.perf_counter()
        pictures = (shrink(frame, coded) for frame in clip.frames)
        interval = key_interval(clip.frame_rate, settings.get("gop", RANDOM_ACCESS_SECONDS))
        coding = Coding(coded, clip.frame_rate, preset, quality, interval)
        data = self._join(self._packets(pictures, coding))
        return base.Encoded(data, time.perf_counter() - start, self._ledger(data))

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode to RGB at the clip's size. Raises BitstreamError where that cannot be done."""
        shown = clip.width, clip.height
        start = time.perf_counter()
        try:
            frames = [enlarge(picture, shown) for picture in self._small(data)]
        except av.FFmpegError as error:
            why = f"the {self.name} stream does not decode ({error.strerror}): code the clip again"
            raise BitstreamError(why) from error
        return Decoded(base.all_frames(self.name, frames, clip), time.perf_counter() - start)

    def _read(self, settings: Settings) -> tuple[base.Value, int, Fraction]:
        if set(settings) - {"gop"} != self._names:
            raise ConfigError(
                f"{self.name} takes the settings {', '.join(sorted(self._names))}, "
                f"not {', '.join(sorted(settings)) or 'none'}"
            )
        key_interval(Fraction(25), settings.get("gop", RANDOM_ACCESS_SECONDS))
        quality = settings[self.quality]
        if not isinstance(quality, int) or not 0 <= quality <= self.max_crf:
            why = f"{self.quality} {quality} is out of range for {self.name}: 0 to {self.max_crf}"
            raise ConfigError(why)
        return settings["preset"], quality, read_scale(settings["scale"])

    def _packets(self, pictures: Iterable[Picture], coding: Coding) -> list[bytes]:
        """The stream in decoding order, parameter sets first where they come apart."""
        context = self._opened(coding)
        packets = []
        for index, picture in enumerate(pictures):
            frame = yuv_from_rgb(picture, BT709, self.pixel_format)
            frame.pts, frame.time_base = index, context.time_base
            packets += context.encode(frame)
        packets += context.encode(None)
        headers = context.extradata if self.headers_once else None
        return [headers or b"", *(bytes(packet) for packet in packets)]

    def _opened(self, coding: Coding) -> av.VideoCodecContext:
        """The encoder. Raises ConfigError when the library refuses the settings."""
        context = av.CodecContext.create(self.library, "w")
        assert isinstance(context, av.VideoCodecContext)
        context.width, context.height = coding.size
        context.pix_fmt = self.pixel_format
        context.time_base, context.framerate = 1 / coding.frame_rate, coding.frame_rate
        context.gop_size = coding.interval
        context.options = self.options(*coding[2:])
        if self.headers_once:
            context.flags |= av.codec.context.Flags.global_header
        try:
            with quiet_and_ordinary():
                context.open()
        except av.FFmpegError as error:
            raise self._refused(coding, error.strerror) from error
        return context

    def _refused(self, coding: Coding, why: str | None) -> ConfigError:
        return ConfigError(
            f"{self.name} refuses preset {coding.preset}, {self.quality} {coding.quality} "
            f"at {coding.size[0]}x{coding.size[1]} ({why}): take another preset or size"
        )

    def _join(self, packets: Sequence[bytes]) -> bytes:
        return b"".join(packets)

    def _ledger(self, data: bytes) -> dict[str, int]:
        return {"video": 8 * len(data)}

    def _small(self, data: bytes) -> Iterator[Picture]:
        return (rgb_from_yuv(frame, BT709) for frame in self._pictures(data))

    def _pictures(self, data: bytes) -> Iterator[av.VideoFrame]:
        with av.open(io.BytesIO(data), mode="r", format=self.demuxer) as container:
            container.streams.video[0].codec_context.thread_count = THREADS
            yield from container.decode(video=0)


def key_interval(frame_rate: Fraction, seconds: base.Value = RANDOM_ACCESS_SECONDS) -> int:
    """Most frames between random access points; 0 s: `NO_LIMIT`. Raises ConfigError."""
    if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise ConfigError(f"gop {seconds}: give seconds, or 0 for no limit")
    return min(NO_LIMIT, max(1, round(seconds * frame_rate))) if seconds else NO_LIMIT


_SEI = 6
_USER_DATA = 5
"""Payload type "user data, unregistered" (ITU-T H.264, D.1): x264's name and settings as text."""
_START = re.compile(rb"(\x00?\x00\x00\x01)")


class X264(ConventionalCodec):
    """H.264 in Annex B, 8 bits, parameter sets once, without the 700 bytes of x264's signature."""

    name = "x264"
    suffix = ".264"
    facts = CodecFacts(is_anchor=True, colour="#8a8f98", marker="v")
    library = "libx264"
    demuxer = "h264"
    pixel_format = "yuv420p"
    preset = "veryslow"
    max_crf = 51
    points: ClassVar[Points] = {"1": (50, 45, 38), "1/2": (46, 36), "1/3": (44,)}
    headers_once = True

    def options(self, preset: base.Value, quality: int, interval: int) -> dict[str, str]:
        parameters = f"keyint={interval}:threads={THREADS}:sliced-threads=0"
        return {"preset": str(preset), "crf": str(quality), "x264-params": parameters}

    def _join(self, packets: Sequence[bytes]) -> bytes:
        parts = _START.split(b"".join(packets))
        units = zip(parts[1::2], parts[2::2], strict=True)
        return b"".join(
            start + unit for start, unit in units if unit[0] & 31 != _SEI or unit[1] != _USER_DATA
        )


class X265(ConventionalCodec):
    """HEVC in Annex B, parameter sets once, no info SEI (it alone is 2.3 kB)."""

    name = "x265"
    suffix = ".265"
    facts = CodecFacts(is_anchor=True, colour="#2f8f5b", marker="s")
    library = "libx265"
    demuxer = "hevc"
    pixel_format = "yuv420p10le"
    preset = "slow"
    max_crf = 51
    points: ClassVar[Points] = {"1": (50, 45, 40, 34), "1/2": (46, 38), "1/3": (44,)}
    headers_once = True

    def options(self, preset: base.Value, quality: int, interval: int) -> dict[str, str]:
        parameters = (
            f"info=0:keyint={interval}:pools={THREADS}:frame-threads={THREADS}:log-level=none"
        )
        return {"preset": str(preset), "crf": str(quality), "x265-params": parameters}


class Vp9(ConventionalCodec):
    """VP9 frames, each after its length of 1 or 2 bytes, which the ledger calls framing.

    The lengths do what Annex B's start codes do for H.264 and HEVC; VP9 has no elementary stream
    format of its own, and IVF spends 12 bytes a frame. One pass, because PyAV does not pass
    first-pass statistics on: a second would help most where the content changes: VP9 can do better.
    """

    name = "vp9"
    suffix = ".vp9"
    facts = CodecFacts(is_anchor=True, colour="#17a2b0", marker="^")
    library = "libvpx-vp9"
    pixel_format = "yuv420p"
    preset = 1
    max_crf = 63
    points: ClassVar[Points] = {"1": (63, 57, 48), "1/2": (63, 52), "1/3": (58,)}

    def options(self, preset: base.Value, quality: int, interval: int) -> dict[str, str]:
        return {
            "deadline": "good",
            "cpu-used": str(preset),
            "crf": str(quality),
            "b": "0",
            "auto-alt-ref": "1",
            "lag-in-frames": "25",
            "row-mt": "1",
            "threads": str(THREADS),
        }

    def _join(self, packets: Sequence[bytes]) -> bytes:
        return base.join_parts(packet for packet in packets if packet)

    def _ledger(self, data: bytes) -> dict[str, int]:
        video = sum(8 * len(packet) for packet in base.split_parts(data))
        return {"video": video, "framing": 8 * len(data) - video}

    def _pictures(self, data: bytes) -> Iterator[av.VideoFrame]:
        decoder = av.CodecContext.create("vp9", "r")
        assert isinstance(decoder, av.VideoCodecContext)
        decoder.thread_count = THREADS
        for packet in base.split_parts(data):
            yield from decoder.decode(av.Packet(packet))
        yield from decoder.decode(None)


CODECS = X264, X265, Vp9
