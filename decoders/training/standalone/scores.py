"""How good results are on what was held out, and a sheet of pictures to look at.

ST-LPIPS AlexNet is in the loss too: a score tells whether a run learns, not what it is worth. The
judges (ST-LPIPS VGG, CVVDP) are not here: `gsvc train adopt` asks them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.decoders.training.standalone.alex import AlexDistance
from gsvc.decoders.training.standalone.losses import luma_of
from gsvc.decoders.training.standalone.placing import on_device
from gsvc.decoders.training.standalone.png import write_png
from gsvc.decoders.training.standalone.tasks import Batch, Task

_ROWS = 8


class Scorer:
    """Scores a task's networks as they are, always on the same samples."""

    def __init__(
        self, task: Task, count: int, alex: dict[str, Tensor], device: torch.device
    ) -> None:
        """Raises ConfigError where nothing was held out."""
        self._task, self._batches = task, task.held(count)
        if not self._batches:
            raise ConfigError("the pack holds nothing out to score on: make it with --held-out")
        self._alex = on_device(AlexDistance(alex), device)

    def score(self) -> dict[str, dict[str, float]]:
        """Mean ST-LPIPS AlexNet and PSNR of luma in dB, by result; `given`: before."""
        sums: dict[str, Tensor] = {}
        count = 0
        for batch in self._batches:
            shown = dict(self._task.shown(batch))
            truth = shown.pop("truth")
            count += len(truth)
            for name, picture in shown.items():
                picture = picture.float().clamp(-1, 1)
                distances = self._distances(picture, truth)
                pair = torch.stack([distances, _psnr(picture, truth)]).double()
                sums[name] = sums.get(name, 0) + pair.sum(1)
        means = {name: (total / count).tolist() for name, total in sums.items()}
        return {name: {"alex": mean[0], "psnr": mean[1]} for name, mean in means.items()}

    def _distances(self, picture: Tensor, truth: Tensor) -> Tensor:
        with torch.no_grad():
            distances: Tensor = self._alex(picture, truth)
        return distances

    def sheet(self, path: Path) -> None:
        """A PNG with a row for each of a few samples: truth, given, results."""
        rows: list[Tensor] = []
        batch = _first(self._batches, _ROWS)
        shown = self._task.shown(batch)
        count = min(_ROWS, len(shown["truth"]))
        for number in range(count):
            rows.append(torch.cat([picture[number].float() for picture in shown.values()], 2))
        levels = torch.cat(rows, 1).add(1).mul(127.5).round().clamp(0, 255).byte()
        write_png(path, np.ascontiguousarray(levels.permute(1, 2, 0).cpu().numpy()))


def _first(batches: Sequence[Batch], count: int) -> Batch:
    """Of all batches, samples that lie far apart."""
    joined = {name: torch.cat([b[name] for b in batches]) for name in batches[0]}
    step = max(1, len(joined["truth"]) // count)
    return {name: values[::step][:count] for name, values in joined.items()}


def _psnr(picture: Tensor, truth: Tensor) -> Tensor:
    error = luma_of(picture - truth).div(2).square().mean((1, 2, 3))
    return -10 * torch.log10(error.clamp(min=1e-10))
