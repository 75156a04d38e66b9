"""Writes the restorer that ships, of a checkpoint of the job that trains it.

    python tools/export_restorer.py [CHECKPOINT] [--usual INDEX]

The network becomes an ONNX file with averaged weights, one convolution a block, without what
surrounds it (`decoders/keyframes/restorer/runtime.py`). Weights are stored in half
precision, as a checkpoint has them, and run in single.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from beside.checkpoint import read_checkpoint
from gsvc.codec.bitstream.layers.guide import MIXTURES
from gsvc.codec.weights.model_files import sha256_of
from gsvc.codec.weights.safetensors_files import SUMS
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.decoders.keyframes.restorer.runtime import FILE

KEPT = Path(__file__).resolve().parent / "training" / "restorer.safetensors"
"""The checkpoint of what ships."""
_LEAST_HALVED = 256


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
    _halve(target)


def _halve(path: Path) -> None:
    """Store weights in half precision; onnxruntime casts them when it loads the file."""
    model = onnx.load(path)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    weights |= {
        node.output[0]: node.attribute[0].t
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    casts = []
    for name, tensor in weights.items():
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.size >= _LEAST_HALVED:
            half = onnx.numpy_helper.from_array(values.astype(np.float16), f"{name}.half")
            model.graph.initializer.append(half)
            whole = onnx.TensorProto.FLOAT
            casts.append(onnx.helper.make_node("Cast", [half.name], [name], to=whole))
    cast = {node.output[0] for node in casts}
    kept = [node for node in model.graph.node if not cast & set(node.output)]
    left = [tensor for tensor in model.graph.initializer if tensor.name not in cast]
    for field, values in ((model.graph.node, [*casts, *kept]), (model.graph.initializer, left)):
        del field[:]
        field.extend(values)
    onnx.save(model, path)


def main() -> None:
    """Write the network, its settings and their sums."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", nargs="?", type=Path, default=KEPT)
    parser.add_argument("--usual", type=int, default=7, choices=range(len(MIXTURES)))
    options = parser.parse_args()
    state, job = read_checkpoint(options.checkpoint)
    network = Restorer(**job["network"])
    network.load_state_dict(state["average"])
    export(network, FILE)
    settings = {**network.settings, "usual": options.usual, "step": job["step"]}
    FILE.with_suffix(".json").write_text(json.dumps(settings, indent=1) + "\n")
    files = FILE.with_suffix(".json"), FILE
    sums = "".join(f"{sha256_of(file)}  {file.name}\n" for file in files)
    (FILE.parent / SUMS).write_text(sums)
    print(f"{FILE}: step {job['step']}, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
