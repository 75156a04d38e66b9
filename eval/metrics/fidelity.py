"""PSNR and MS-SSIM of luma, VMAF and VMAF-NEG.

MS-SSIM: Z. Wang, E. Simoncelli and A. Bovik, "Multiscale structural similarity for image quality
assessment", Asilomar 2003, as in the package `pytorch-msssim`. VMAF: Z. Li et al., "Toward a
Practical Perceptual Video Quality Metric", Netflix 2016; models vmaf_v0.6.1 and vmaf_v0.6.1neg (no
gain from enhancement), built into libvmaf in the ffmpeg binary of the package `imageio-ffmpeg`.
Both clips are handed over as raw 4:2:0 pictures, so nothing can pair them by time stamp.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gsvc.codec.bitstream.errors import InputError, MissingDependencyError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.baselines.conventional import BT709
from gsvc.eval.late_loading import bundled_ffmpeg, ffmpeg_path, optional
from gsvc.eval.metrics import base


def psnr_y(reference: base.Frames, test: base.Frames) -> base.Values:
    """PSNR in dB of BT.709 luma (full range, 0-255, not rounded) of each pair of frames.

    Both sequences hold RGB uint8 pictures (H, W, 3) of one size. Returns shape (frames,), float64,
    infinite where a pair is equal. Raises InputError when the sequences do not pair.
    """
    base.check_pairs(reference, test)
    pairs = zip(reference, test, strict=True)
    errors = [np.mean((base.luma(a) - base.luma(b)) ** 2) for a, b in pairs]
    with np.errstate(divide="ignore"):
        return np.array([10 * np.log10(255**2 / error) for error in errors])


class PsnrY(base.ProvedMetric):
    """PSNR of luma."""

    name = "psnr_y"
    unit = "dB"
    higher_is_better = True
    nothing = "every frame measured is exact: infinite"
    golden = base.Golden(np.inf, 18.70187497)
    advice = "reinstall numpy"

    def version(self) -> str:
        return "BT.709 luma of RGB, full range"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        reference = base.chosen(source.frames, indices)
        return np.stack([psnr_y(reference, base.chosen(test, indices)) for test in tests])


class MsSsim(base.FrameMetric):
    """MS-SSIM of luma, for sides of 161 pixels or more; 1 = equal."""

    name = "ms_ssim"
    smallest_side = 161
    """A window of 11 at the fifth scale needs so many."""
    higher_is_better = True
    golden = base.Golden(1, 0.912879, slack=1e-6, side=176)
    advice = "reinstall it: pip install --force-reinstall pytorch-msssim==1.0.0"

    def version(self) -> str:
        _package()
        return f"pytorch-msssim {version('pytorch-msssim')} on BT.709 luma, full range"

    def _against(self, source: base.Frames, index: int) -> Callable[[base.Frames], float]:
        reference, ms_ssim = _tensor(source[index]), _package().ms_ssim
        return lambda test: float(ms_ssim(reference, _tensor(test[index]), data_range=255))


def _tensor(picture: Picture) -> Any:
    import torch

    return torch.from_numpy(base.luma(picture).astype(np.float32))[None, None]


def _package() -> Any:
    with optional("MS-SSIM needs pytorch-msssim: pip install 'gsvc[bench]'"):
        import pytorch_msssim
    return pytorch_msssim


_LIBVMAF_SIDE = 64  # pixels: under it libvmaf's coarsest scales are empty
_INSTALL = "pip install 'gsvc[bench]'"


class Vmaf(base.ProvedMetric):
    """VMAF, 0 to 100; equal frames score just under 100.

    Every frame up to the last index is scored, since the motion between frames counts.
    """

    higher_is_better = True
    advice = "reinstall it: pip install --force-reinstall imageio-ffmpeg==0.8.1"

    def __init__(self, name: str, model: str, same: float, different: float) -> None:
        """`model`: of libvmaf; `same` and `different`: its golden values."""
        super().__init__()
        self.name, self.model = name, model
        self.golden = base.Golden(same, different, slack=0.01, frames=3)

    def version(self) -> str:
        if " libvmaf " not in bundled_ffmpeg("-filters"):
            raise MissingDependencyError(f"{ffmpeg_path()} was built without libvmaf: {_INSTALL}")
        release = bundled_ffmpeg("-version").split()[2]
        return f"libvmaf {self.model} in ffmpeg {release}, 8-bit 4:2:0 BT.709"

    def _values(self, source: TestClip, tests: base.Tests, indices: base.Indices) -> base.Values:
        base.check_sides(source.frames, _LIBVMAF_SIDE, "VMAF")
        count = max(indices) + 1
        with TemporaryDirectory(prefix="gsvc-vmaf-") as folder:
            reference = Path(folder) / "reference.yuv"
            _write_planes(reference, source.frames[:count])
            rows = [self._row(Path(folder), reference, test[:count]) for test in tests]
        return np.array(rows)[:, list(indices)]

    def _row(self, folder: Path, reference: Path, test: Sequence[Picture]) -> list[float]:
        _write_planes(folder / "test.yuv", test)
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


def _write_planes(path: Path, frames: Sequence[Picture]) -> None:
    """Write planes of 8 bits, limited range, without an odd last row or column."""
    with path.open("wb") as file:
        for frame in frames:
            height, width = _even_size(frame)
            file.write(yuv_from_rgb(frame[:height, :width], BT709).to_ndarray().tobytes())


METRICS = (
    *(PsnrY(), MsSsim()),
    Vmaf("vmaf", "vmaf_v0.6.1", 99.142865, 41.282174),
    Vmaf("vmaf_neg", "vmaf_v0.6.1neg", 99.142134, 38.150069),
)
