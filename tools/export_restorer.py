"""Writes the restorer that ships, of a checkpoint of the job that trains it.

    python tools/export_restorer.py [CHECKPOINT] [--usual INDEX]

The network becomes an ONNX file with averaged weights, one convolution a block, without what
surrounds it (`decoders/keyframes/compact/restorer_network.py`).
"""

import argparse
import json
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from beside.checkpoint import read_checkpoint
from gsvc.codec.bitstream.layers.guide import MIXTURES
from gsvc.codec.weights.package_files import sha256_of
from gsvc.codec.weights.safetensors_files import SUMS
from gsvc.decoders.keyframes.compact.restorer import Restorer
from gsvc.decoders.keyframes.compact.restorer_network import FILE

KEPT = Path(__file__).resolve().parent / "training" / "shipped.safetensors"


class Core(nn.Module):
    """The network between splitting a picture and mixing what it draws."""

    def __init__(self, network: Restorer) -> None:
        super().__init__()
        self.network = network

    def forward(self, picture: Tensor, conditions: Tensor) -> Tensor:
        """`picture`: split, with its gains, (1, 13, H / 2, W / 2); `conditions`: (1, 6)."""
        return self.network.drawn(picture, conditions)


def export(network: Restorer, target: Path) -> None:
    """Write the network, with torch's older exporter: the newer one needs further packages."""
    given = torch.zeros(1, 13, 144, 256), torch.zeros(1, 6)
    free = {2: "rows", 3: "columns"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Core(network.merged()),
            given,
            target,
            input_names=["picture", "conditions"],
            output_names=["drawn"],
            dynamic_axes={"picture": free, "drawn": free},
            opset_version=17,
            dynamo=False,
        )


def main() -> None:
    """Write the network, its settings and their sums."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", nargs="?", type=Path, default=KEPT)
    parser.add_argument("--usual", type=int, default=7, choices=range(len(MIXTURES)))
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    state, job = read_checkpoint(options.checkpoint)
    network = Restorer(**job["network"])
    network.load_state_dict(state["average"])
    export(network, options.out)
    settings = {**network.settings, "usual": options.usual, "step": job["step"]}
    options.out.with_suffix(".json").write_text(json.dumps(settings, indent=1) + "\n")
    sums = options.out.parent / SUMS
    names = {options.out.name, options.out.with_suffix(".json").name}
    kept = sums.read_text().splitlines() if sums.exists() else []
    lines = [line for line in kept if line.split()[1] not in names]
    lines += [f"{sha256_of(options.out.parent / name)}  {name}" for name in names]
    sums.write_text("\n".join(sorted(lines, key=lambda line: line.split()[1])) + "\n")
    print(f"{options.out}: step {job['step']}, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
