"""A graph model of TensorFlow.js as ONNX, which OpenCV runs.

It has the operations of the convolutional networks that `gsvc.datasets.models` lists, and no more.
TensorFlow's pictures are (1, H, W, channels); those of the result are (1, channels, H, W).
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import MissingModelError
from gsvc.codec.extras import need

_Node = Mapping[str, Any]
_OPSET = 13
_SAME_OPERATION = {
    "Mul": "Mul",
    "Add": "Add",
    "Relu": "Relu",
    "Sigmoid": "Sigmoid",
    "Identity": "Identity",
}
_TYPES = {"float16": np.float16, "float32": np.float32, "int32": np.int32}


def as_onnx(
    model: Mapping[str, Any], weights: bytes, side: int, outputs: Mapping[str, Sequence[int]]
) -> bytes:
    """An ONNX file that takes float32 (1, 3, side, side) and gives `outputs`, shapes by name.

    `model` is the parsed JSON file, `weights` the binary one. Raises MissingDependencyError
    without the package onnx, MissingModelError for an operation that is not known here.
    """
    need("detect", "the detector coco", ', or choose detector="moving"')
    from onnx import TensorProto, helper

    builder = _Builder(model, weights)
    for name in outputs:
        builder.add(name)
    shape = [1, 3, side, side]
    given = helper.make_tensor_value_info(builder.placeholder, TensorProto.FLOAT, shape)
    wanted = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
        for name, shape in outputs.items()
    ]
    graph = helper.make_graph(builder.nodes, "graph", [given], wanted, builder.constants)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    return cast(bytes, whole.SerializeToString())


class _Builder:
    """Adds nodes with all that they depend on, in the order in which they run."""

    def __init__(self, model: Mapping[str, Any], weights: bytes) -> None:
        nodes = model["modelTopology"]["node"]
        self._nodes: dict[str, _Node] = {node["name"]: node for node in nodes}
        self._values = _constants(model["weightsManifest"][0]["weights"], weights)
        self._done: set[str] = set()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.placeholder = next(node["name"] for node in nodes if node["op"] == "Placeholder")

    def add(self, name: str) -> str:
        """The value of that name, of a node or a constant."""
        if name in self._done:
            return name
        self._done.add(name)
        if name in self._values:
            return self._constant(name, self._values[name])
        node = self._nodes[name]
        if node["op"] != "Placeholder":
            self._operation(node)
        return name

    def _operation(self, node: _Node) -> None:
        name, op, inputs = node["name"], node["op"], node["input"]
        if "Conv" in op:
            self._convolution(node)
        elif op in _SAME_OPERATION:
            self._put(_SAME_OPERATION[op], [self.add(one) for one in inputs], name)
        elif op == "Relu6":
            bounds = [self._constant(f"{name}/{n}", np.float32(n)) for n in (0, 6)]
            self._put("Clip", [self.add(inputs[0]), *bounds], name)
        elif op == "Mean":  # over height and width: squeeze and excite
            self._put("GlobalAveragePool", [self.add(inputs[0])], name)
        elif op == "ConcatV2":
            self._put("Concat", [self.add(one) for one in inputs[:-1]], name, axis=1)
        elif op == "ResizeBilinear":
            twice = self._constant(f"{name}/scales", np.array([1, 1, 2, 2], np.float32))
            how = {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}
            self._put("Resize", [self.add(inputs[0]), "", twice], name, **how)
        else:
            raise MissingModelError(f"the model has an operation that gsvc does not know: {op}")

    def _convolution(self, node: _Node) -> None:
        name, attributes = node["name"], node["attr"]
        picture, kernel, *bias = node["input"]
        weights = self._values[kernel]
        is_depthwise = "Depthwise" in node["op"]
        weights = weights.transpose((2, 3, 0, 1) if is_depthwise else (3, 2, 0, 1))
        stride = int(attributes["strides"]["list"]["i"][1])
        fused = [b64decode(s) for s in attributes.get("fused_ops", {}).get("list", {}).get("s", [])]
        has_relu = fused[-1:] == [b"Relu"]
        inputs = [self.add(picture), self._constant(f"{name}/kernel", weights)]
        inputs += [self._constant(f"{name}/bias", self._values[one]) for one in bias]
        result = f"{name}/linear" if has_relu else name
        side = int(weights.shape[2])
        self._put(
            "Conv",
            inputs,
            result,
            strides=[stride, stride],
            kernel_shape=[side, side],
            group=len(weights) if is_depthwise else 1,
            pads=_padding(attributes, side, stride),
        )
        if has_relu:
            self._put("Relu", [result], name)

    def _put(self, operation: str, inputs: list[str], output: str, **attributes: object) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(operation, inputs, [output], **attributes))

    def _constant(self, name: str, value: NDArray[Any] | np.float32) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name


def _padding(attributes: Mapping[str, Any], side: int, stride: int) -> list[int]:
    """Top, left, bottom, right of TensorFlow's "SAME" for an even picture: more at the end."""
    all_of_it = max(0, side - stride) if b64decode(attributes["padding"]["s"]) == b"SAME" else 0
    before = all_of_it // 2
    return [before, before, all_of_it - before, all_of_it - before]


def _constants(manifest: Sequence[Mapping[str, Any]], data: bytes) -> dict[str, NDArray[Any]]:
    """The weights by name; those stored in half precision in single."""
    values, at = {}, 0
    for one in manifest:
        kind = one.get("quantization", {}).get("dtype", one["dtype"])
        count = int(np.prod(one["shape"], dtype=np.int64))
        stored = np.frombuffer(data, _TYPES[kind], count, at).reshape(one["shape"])
        at += stored.nbytes
        values[one["name"]] = stored.astype(_TYPES[one["dtype"]])
    return values
