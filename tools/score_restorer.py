"""Scores a checkpoint of the job on held-out clips, beside no refiner and nano.

    python tools/score_restorer.py --footage FOLDER                  the job's newest checkpoint
    python tools/score_restorer.py CHECKPOINT --footage FOLDER --judges

Each held-out clip is coded once at levels 1 and 2. All pictures of a stream are restored and
carried by the motion, as nano's are. SSIM at half size and PSNR are of luma and all frames;
`--judges` also asks CVVDP (all frames) and ST-LPIPS VGG (every seventh). What was measured is kept
beside the streams, so only what is new is computed.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from beside.checkpoint import CHECKPOINT, read_checkpoint
from beside.distances import luma, structural
from beside.making import HELD_OUT
from beside.mixtures import FAITHFUL, MIDDLE, TEXTURED, conditions_of, mixed
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.frames import Picture, VideoFormat
from gsvc.codec.weights.model_files import sha256_of
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.compact.pipeline import pictures_of, tensor_of
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.refiner import KeyRefiner, Refiner
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.decoders.training.adoption import refined
from gsvc.eval.baselines.gsvc import coded
from gsvc.eval.metrics import find_metric

ROOT = Path(__file__).resolve().parent.parent
LEVELS = 1, 2
JUDGES = "cvvdp", "st_lpips_vgg"
STRIDE = 7
LOW = "fidelity, bfloat16"

Row = dict[str, float]


class MixedRestorer(KeyRefiner):
    """The restorer with fixed weights of its outputs."""

    def __init__(self, network: Restorer, weights: Sequence[float], *, low: bool = False) -> None:
        """`low`: in bfloat16, which is slow where the processor has none."""
        super().__init__("restorer")
        self._network, self._weights, self._low = network, torch.tensor(weights), low

    @torch.no_grad()
    def refine(self, key: Keyframe, *, steps: int, seed: int) -> Picture:
        """See `KeyRefiner.refine`."""
        height, width = key.picture.shape[:2]
        padding = 0, -width % self._network.multiple, 0, -height % self._network.multiple
        pad = torch.nn.functional.pad
        picture = pad(tensor_of(key.picture), padding, mode="replicate")
        gain = pad(torch.from_numpy(key.gain)[None, None], padding, mode="replicate")
        values = (torch.tensor([value]) for value in (key.quantizer, key.size, key.layer))
        with torch.autocast("cpu", torch.bfloat16, enabled=self._low):
            residuals = self._network(picture, gain, conditions_of(*values)).float()
        return pictures_of(mixed(picture, residuals, self._weights)[..., :height, :width])


def restorers(path: Path) -> dict[str, MixedRestorer]:
    """By mixture, with the averaged weights of a checkpoint. Errors as of `read_checkpoint`."""
    state, job = read_checkpoint(path)
    network = Restorer(**job["network"])
    network.load_state_dict(state["average"])
    ends = {"fidelity": FAITHFUL, "middle": MIDDLE, "texture": TEXTURED}
    made = {name: MixedRestorer(network.merged(), weights) for name, weights in ends.items()}
    return {**made, LOW: MixedRestorer(network.merged(), FAITHFUL, low=True)}


def stream(clip: TestClip, level: int, folder: Path) -> bytes:
    """The clip, coded at a level; kept in `folder`."""
    path = folder / f"{Path(clip.name).stem}-{len(clip.frames)}-{level}.gsv"
    if not path.exists():
        form = clip.format
        video = VideoFormat(form.width, form.height, 1 / clip.frame_rate, clip.frame_rate)
        path.write_bytes(coded(clip.frames, video, EncoderSettings(level=level)))
        print(f"coded {path.name}: {path.stat().st_size} bytes", flush=True)
    return path.read_bytes()


def fidelity_of(clip: TestClip, frames: Sequence[Picture]) -> Row:
    """Means over frames of PSNR and of SSIM at half size, both of luma."""
    errors, similar = [], []
    for truth, shown in zip(clip.frames, frames, strict=True):
        pair = [luma(tensor_of(picture)) for picture in (truth, shown)]
        errors.append(float((pair[0] - pair[1]).square().mean()))
        halves = (torch.nn.functional.avg_pool2d(one, 2) for one in pair)
        similar.append(float(structural(*halves)))
    return {
        "psnr": float(np.mean([-10 * np.log10(max(error, 1e-10)) for error in errors])),
        "ssim_half": float(np.mean(similar)),
    }


def judged(clip: TestClip, frames: Sequence[Picture]) -> Row:
    """What the judges say."""
    indices = range(0, len(clip.frames), STRIDE)
    return {
        judge: float(np.nanmean(find_metric(judge).measure(clip, [frames], indices)))
        for judge in JUDGES
    }


class Kept:
    """What was measured before, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}

    def row(self, key: str, names: Sequence[str], measure: Callable[[], Row]) -> Row:
        """Of a way and a stream; measured if some of `names` are not there."""
        row = self._rows.setdefault(key, {})
        if not set(names) <= row.keys():
            row |= measure()
            self._path.write_text(json.dumps(self._rows, indent=1))
        return row


def scores_of(
    refiner: MixedRestorer | Refiner | None, clip: TestClip, data: bytes, *, judges: bool
) -> Row:
    """Of a stream, decoded with a refiner or without."""
    frames = refined(refiner, int(refiner is not None))(data)
    return fidelity_of(clip, frames) | (judged(clip, frames) if judges else {})


def options_of() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    work = ROOT / "build" / "train"
    parser.add_argument("checkpoint", nargs="?", type=Path, default=work / CHECKPOINT)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--streams", type=Path, default=work / "streams")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--judges", action="store_true")
    parser.add_argument("--ways", nargs="+", help="some of them: 'no refiner' nano fidelity ...")
    return parser.parse_args()


def main() -> None:
    """Print a table: mean over clips, by level and way."""
    options = options_of()
    torch.set_num_threads(1)
    options.streams.mkdir(parents=True, exist_ok=True)
    kept = Kept(options.streams / "scores.json")
    weights = sha256_of(options.checkpoint)[:12]
    ways: dict[str, Any] = {"no refiner": None, "nano": load_refiner("compact")}
    ways |= restorers(options.checkpoint)
    ways = {
        name: way for name, way in ways.items() if name in (options.ways or ways.keys() - {LOW})
    }
    found: dict[tuple[int, str], list[Row]] = {}
    names = ["psnr", "ssim_half", *(JUDGES if options.judges else ())]
    for name, level, (way, refiner) in product(HELD_OUT, LEVELS, ways.items()):
        pictures, rate = load_clip(next(options.footage.rglob(name)), options.frames)
        clip = TestClip(name, pictures, rate)
        data = stream(clip, level, options.streams)
        version = weights if isinstance(refiner, MixedRestorer) else ""
        key = " ".join((name, str(options.frames), str(level), way, version))
        measure = partial(scores_of, refiner, clip, data, judges=options.judges)
        found.setdefault((level, way), []).append(kept.row(key, names, measure))
    step = read_checkpoint(options.checkpoint)[1]["step"]
    print(f"step {step}, {len(HELD_OUT)} clips of {options.frames} frames at 288 lines\n")
    print_table(found, names)


def print_table(found: dict[tuple[int, str], list[Row]], names: Sequence[str]) -> None:
    """Means over clips; the last column: how much less 1 - SSIM is than without a refiner."""
    print(f"| level | way | {' | '.join(names)} | of 1 - SSIM |")
    print("|" + " --- |" * (len(names) + 3))
    for (level, way), rows in found.items():
        means = {name: float(np.mean([row[name] for row in rows])) for name in names}
        base = [row["ssim_half"] for row in found.get((level, "no refiner"), rows)]
        gained = (1 - means["ssim_half"]) / (1 - float(np.mean(base))) - 1
        figures = " | ".join(f"{means[name]:.4f}" for name in names)
        print(f"| {level} | {way} | {figures} | {100 * gained:+.2f} % |")


if __name__ == "__main__":
    main()
