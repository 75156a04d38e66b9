"""VVenC and libaom, by the ffmpeg program in the package `imageio-ffmpeg` (optional extra)."""

import subprocess
import tempfile
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, MissingDependencyError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.eval.baselines import conventional, svtav1
from gsvc.eval.baselines.base import Value
from gsvc.eval.late_loading import CodecFacts, bundled_ffmpeg, ffmpeg_path


class FfmpegCodec(conventional.ConventionalCodec):
    """An encoder that the ffmpeg of `imageio-ffmpeg` has and PyAV's does not; PyAV decodes."""

    presets: ClassVar[tuple[Value, ...]]
    format: ClassVar[str]
    """FFmpeg's name of the elementary stream."""
    passes: ClassVar[int] = 1

    def version(self) -> str:
        if self.library not in bundled_ffmpeg("-encoders"):
            raise MissingDependencyError(
                f"the ffmpeg of this imageio-ffmpeg has no {self.library}: "
                "pip install --upgrade imageio-ffmpeg"
            )
        ffmpeg = " ".join(bundled_ffmpeg("-version").split()[:3])
        return f"{self.library} of {ffmpeg}, protocol {conventional.PROTOCOL}"

    def check_preset(self, preset: Value) -> None:
        if preset not in self.presets:
            known = ", ".join(map(str, self.presets))
            raise ConfigError(f"{self.name} has no preset {preset}: take {known}")

    def _packets(self, pictures: Iterable[Picture], coding: conventional.Coding) -> list[bytes]:
        planes = (
            yuv_from_rgb(picture, conventional.BT709, self.pixel_format).to_ndarray()
            for picture in pictures
        )
        raw = b"".join(np.ascontiguousarray(plane).tobytes() for plane in planes)
        options = self.options(*coding[2:])
        command = [ffmpeg_path(), "-hide_banner", "-loglevel", "error", "-f", "rawvideo"]
        command += ["-pix_fmt", self.pixel_format, "-video_size", "{}x{}".format(*coding.size)]
        command += ["-framerate", str(coding.frame_rate), "-i", "-", "-c:v", self.library]
        command += [part for key, value in options.items() for part in (f"-{key}", value)]
        command += ["-threads", str(conventional.THREADS), "-f", self.format, "-"]
        with tempfile.TemporaryDirectory() as folder:
            for number in range(1, self.passes + 1):
                log = ["-pass", str(number), "-passlogfile", f"{folder}/log"]
                *start, output = command
                once = command if self.passes == 1 else [*start, *log, output]
                done = subprocess.run(once, input=raw, capture_output=True, check=False)
        if done.returncode or not done.stdout:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            raise self._refused(coding, lines[0].strip())
        return [done.stdout]


class VVenC(FfmpegCodec):
    """VVC in Annex B, 10 bits, random-access structure, decoded by FFmpeg's own decoder in PyAV.

    Preset medium takes about five times as long as x265 slow. VVenC drops the last random access
    point of a clip when less than a group of pictures (32 or 16) follows it.
    """

    name = "vvenc"
    suffix = ".266"
    facts = CodecFacts(is_anchor=True, colour="#8e5bd0", marker="P")
    library = "libvvenc"
    demuxer = format = "vvc"
    pixel_format = "yuv420p10le"
    presets = "faster", "fast", "medium", "slow", "slower"
    preset = "medium"
    quality = "qp"
    max_crf = 63
    points: ClassVar[conventional.Points] = {"1": (52, 46, 40, 34), "1/2": (46, 36), "1/3": (38,)}

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        # VVenC places intra pictures at multiples of its group of pictures: 32, or 16 at low rates.
        group = 32 if interval >= 32 else 16
        parameters = f"intraperiod={max(1, interval // group) * group}:gopsize={group}"
        return {"preset": str(preset), "qp": str(quality), "vvenc-params": parameters}


class LibAom(FfmpegCodec):
    """AV1 by libaom in two passes, 8 bits, 35 frames of look-ahead; the preset is `cpu-used`."""

    name = "libaom"
    suffix = ".obu"
    facts = CodecFacts(family=svtav1.AV1_FAMILY, is_anchor=True, colour="#5b8fd2", marker="d")
    library = "libaom-av1"
    demuxer = format = "obu"
    pixel_format = "yuv420p"
    presets = tuple(range(9))
    preset = 2
    max_crf = 63
    points: ClassVar[conventional.Points] = {"1": (63, 56, 48), "1/2": (63, 52), "1/3": (58,)}
    passes = 2

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        return {
            "cpu-used": str(preset),
            "crf": str(quality),
            "b:v": "0",
            "g": str(interval),
            "lag-in-frames": "35",
            "row-mt": "1",
        }


CODECS = VVenC, LibAom
