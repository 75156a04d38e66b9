"""VVenC, by the ffmpeg program in the package `imageio-ffmpeg` (optional extra)."""

import subprocess
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, MissingDependencyError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.eval.baselines import conventional
from gsvc.eval.baselines.base import Value
from gsvc.eval.late_loading import CodecFacts, bundled_ffmpeg, ffmpeg_path

_PRESETS = "faster", "fast", "medium", "slow", "slower"


class VVenC(conventional.ConventionalCodec):
    """VVC in Annex B, 10 bits, random-access structure, decoded by FFmpeg's own decoder in PyAV.

    Preset medium takes about five times as long as x265 slow. VVenC drops the last random access
    point of a clip when less than a group of pictures (32 or 16) follows it.
    """

    name = "vvenc"
    suffix = ".266"
    facts = CodecFacts(is_anchor=True, colour="#8e5bd0", marker="P")
    library = "libvvenc"
    demuxer = "vvc"
    pixel_format = "yuv420p10le"
    preset = "medium"
    quality = "qp"
    max_crf = 63
    points: ClassVar[conventional.Points] = {"1": (52, 46, 40, 34), "1/2": (46, 36), "1/3": (38,)}

    def version(self) -> str:
        return f"libvvenc of {_ffmpeg_version()}, protocol {conventional.PROTOCOL}"

    def check_preset(self, preset: Value) -> None:
        if preset not in _PRESETS:
            raise ConfigError(f"{self.name} has no preset {preset}: take {', '.join(_PRESETS)}")

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        # VVenC places intra pictures at multiples of its group of pictures: 32, or 16 at low rates.
        group = 32 if interval >= 32 else 16
        period = max(1, interval // group) * group
        parameters = f"intraperiod={period}:gopsize={group}"
        return {"preset": str(preset), "qp": str(quality), "vvenc-params": parameters}

    def _packets(
        self,
        pictures: Iterable[Picture],
        size: tuple[int, int],
        frame_rate: Fraction,
        preset: Value,
        quality: int,
        interval: int,
    ) -> list[bytes]:
        raw = (
            yuv_from_rgb(picture, conventional.BT709, self.pixel_format).to_ndarray()
            for picture in pictures
        )
        options = self.options(preset, quality, interval)
        command = [ffmpeg_path(), "-hide_banner", "-loglevel", "error", "-f", "rawvideo"]
        command += ["-pix_fmt", self.pixel_format, "-video_size", f"{size[0]}x{size[1]}"]
        command += ["-framerate", str(frame_rate), "-i", "-", "-c:v", self.library]
        command += [part for key, value in options.items() for part in (f"-{key}", value)]
        command += ["-threads", str(conventional.THREADS), "-f", "vvc", "-"]
        done = subprocess.run(
            command,
            input=b"".join(np.ascontiguousarray(p).tobytes() for p in raw),
            capture_output=True,
            check=False,
        )
        if done.returncode or not done.stdout:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            raise ConfigError(
                f"{self.name} refuses preset {preset}, qp {quality} at {size[0]}x{size[1]} "
                f"({lines[0].strip()}): take another preset or size"
            )
        return [done.stdout]


@cache
def _ffmpeg_version() -> str:
    if "libvvenc" not in bundled_ffmpeg("-encoders"):
        raise MissingDependencyError(
            "the ffmpeg of this imageio-ffmpeg has no VVenC: pip install --upgrade imageio-ffmpeg"
        )
    return " ".join(bundled_ffmpeg("-version").split()[:3])


CODECS = (VVenC,)
