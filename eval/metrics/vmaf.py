"""VMAF and VMAF-NEG, by libvmaf in the ffmpeg binary that the package `imageio-ffmpeg` ships.

Z. Li et al., "Toward a Practical Perceptual Video Quality Metric", Netflix 2016; models vmaf_v0.6.1
and vmaf_v0.6.1neg (no gain from enhancement), which are built into libvmaf. Both clips are handed
over as raw 4:2:0 pictures, one for one, so nothing can pair them by time stamp.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from gsvc.codec.bitstream.errors import InputError, MissingDependencyError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.baselines.conventional import BT709
from gsvc.eval.late_loading import bundled_ffmpeg, ffmpeg_path
from gsvc.eval.metrics.base import Golden, Indices, ProvedMetric, Tests, Values, check_sides

Name = Literal["vmaf", "vmaf_neg"]

SMALLEST_SIDE = 64
"""Pixels: under it libvmaf's coarsest scales are empty."""
_MODELS: dict[Name, str] = {"vmaf": "vmaf_v0.6.1", "vmaf_neg": "vmaf_v0.6.1neg"}
_GOLDEN: dict[Name, Golden] = {
    "vmaf": Golden(99.142865, 41.282174, slack=0.01, frames=3),
    "vmaf_neg": Golden(99.142134, 38.150069, slack=0.01, frames=3),
}
_INSTALL = 'pip install "gsvc[bench]"'


class Vmaf(ProvedMetric):
    """VMAF, 0 to 100; equal frames score just under 100.

    Every frame up to the last index is scored, since the motion between frames counts.
    """

    higher_is_better = True
    advice = "reinstall it: pip install --force-reinstall imageio-ffmpeg==0.8.1"

    def __init__(self, name: Name) -> None:
        super().__init__()
        self.name = name
        self.model = _MODELS[name]
        self.golden = _GOLDEN[name]

    def version(self) -> str:
        if " libvmaf " not in bundled_ffmpeg("-filters"):
            raise MissingDependencyError(f"{ffmpeg_path()} was built without libvmaf: {_INSTALL}")
        release = bundled_ffmpeg("-version").split()[2]
        return f"libvmaf {self.model} in ffmpeg {release}, 8-bit 4:2:0 BT.709"

    def _values(self, source: TestClip, tests: Tests, indices: Indices) -> Values:
        check_sides(source.frames, SMALLEST_SIDE, "VMAF")
        count = max(indices) + 1
        with TemporaryDirectory(prefix="gsvc-vmaf-") as folder:
            reference = Path(folder) / "reference.yuv"
            _write(reference, source.frames[:count])
            rows = [self._row(Path(folder), reference, test[:count]) for test in tests]
        return np.array(rows)[:, list(indices)]

    def _row(self, folder: Path, reference: Path, test: Sequence[Picture]) -> list[float]:
        _write(folder / "test.yuv", test)
        height, width = _even_size(test[0])
        raw = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{width}x{height}", "-r", "25"]
        command = [ffmpeg_path(), "-hide_banner", "-nostdin", "-loglevel", "error", "-y"]
        command += ["-filter_threads", "1", *raw, "-i", "test.yuv", *raw, "-i", str(reference)]
        options = f"model=version={self.model}:log_fmt=json:log_path=log.json:n_threads=1"
        command += ["-lavfi", f"libvmaf={options}", "-f", "null", "-"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InputError(f"libvmaf failed ({done.stderr.strip()[-200:]}): {self.advice}")
        frames = json.loads((folder / "log.json").read_text())["frames"]
        if len(frames) != len(test):
            raise InputError(f"libvmaf scored {len(frames)} frames of {len(test)}: {self.advice}")
        return [frame["metrics"]["vmaf"] for frame in frames]


def _even_size(picture: Picture) -> tuple[int, int]:
    height, width = picture.shape[:2]
    return height - height % 2, width - width % 2


def _write(path: Path, frames: Sequence[Picture]) -> None:
    """Write planes of 8 bits, limited range, without an odd last row or column."""
    with path.open("wb") as file:
        for frame in frames:
            height, width = _even_size(frame)
            file.write(yuv_from_rgb(frame[:height, :width], BT709).to_ndarray().tobytes())


METRICS = (Vmaf("vmaf"), Vmaf("vmaf_neg"))
