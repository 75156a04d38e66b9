"""Things of the 80 classes of COCO: a small CenterNet, brought by `gsvc models pull coco`.

X. Zhou, D. Wang, P. Krähenbühl, "Objects as Points", 2019 (arXiv:1904.07850), with MobileNetV3:
each class has a map of where the middles of its things are, and one map has their four sides.

The file is a graph model of TensorFlow.js; `as_onnx` makes of it what OpenCV runs. It knows the
operations of the convolutional networks that `gsvc.codec.weights.model_files` lists, and no more.
TensorFlow's pictures are (1, H, W, channels); those of the result are (1, channels, H, W).
"""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.objects import COCO
from gsvc.codec.weights import extras, model_files
from gsvc.decoders.detection.findings import Detection, within

_Node = Mapping[str, Any]
_OPSET = 13
_SAME_OPERATION = "Mul", "Add", "Relu", "Sigmoid", "Identity"
_TYPES = {"float16": np.float16, "float32": np.float32, "int32": np.int32}


def as_onnx(
    model: Mapping[str, Any], weights: bytes, side: int, outputs: Mapping[str, Sequence[int]]
) -> bytes:
    """An ONNX file that takes float32 (1, 3, side, side) and gives `outputs`, shapes by name.

    `model` is the parsed JSON file, `weights` the binary one. Raises MissingDependencyError
    without the package onnx, MissingModelError for an operation that is not known here.
    """
    extras.need("detect", "the detector coco", ', or choose detector="moving"')
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
            self._put(op, [self.add(one) for one in inputs], name)
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
    values, at = {}, 0
    for one in manifest:
        kind = one.get("quantization", {}).get("dtype", one["dtype"])
        count = int(np.prod(one["shape"], dtype=np.int64))
        stored = np.frombuffer(data, _TYPES[kind], count, at).reshape(one["shape"])
        at += stored.nbytes
        values[one["name"]] = stored.astype(_TYPES[one["dtype"]])
    return values


_SIDE, _STEP = 512, 4
"""Of the picture that the network sees; pixels of it from one place of a map to the next."""
_MAPS, _SIDES = "tower_0/keypoints", "tower_0/wh"
_MOST = 100  # things of a picture
_LEAST_SCORE, _NEW_SCORE = 0.25, 0.4
"""Of what goes on with a thing that was found before, and of a new one: Y. Zhang et al.,
"ByteTrack", ECCV 2022 (arXiv:2110.06864)."""
_SAME = 0.7
"""Share of a thing within a surer one, from which they are one: a car is no truck as well."""


class CocoDetector:
    """Finds things of COCO's classes; see `Detector`.

    The constructor raises MissingModelError, and MissingDependencyError without onnx.
    """

    def __init__(self) -> None:
        graph = json.loads(model_files.model_path("coco_graph").read_text("utf-8"))
        count = _SIDE // _STEP
        shapes = {_MAPS: (1, len(COCO), count, count), _SIDES: (1, 4, count, count)}
        data = as_onnx(graph, model_files.model_path("coco").read_bytes(), _SIDE, shapes)
        self._net = cv2.dnn.readNetFromONNX(np.frombuffer(data, np.uint8))

    def __call__(self, picture: Picture) -> list[Detection]:
        """What is in RGB uint8 (H, W, 3), surest first."""
        height, width = picture.shape[:2]
        how = cv2.INTER_AREA if min(height, width) > _SIDE else cv2.INTER_LINEAR
        square = cv2.resize(picture, (_SIDE, _SIDE), interpolation=how)
        self._net.setInput(cv2.dnn.blobFromImage(square))
        maps, sides = (one[0] for one in self._net.forward([_MAPS, _SIDES]))
        scale = np.array([width, height, width, height]) / _SIDE
        found: list[Detection] = []
        for kind, row, column in _peaks(maps, _LEAST_SCORE):
            middle = _STEP * np.array([column, row, column, row], np.float64)
            box = (middle + sides[:, row, column] * (-1, -1, 1, 1)) * scale
            shares = (min(within(box, one.box), within(one.box, box)) for one in found)
            if (box[2:] <= box[:2]).any() or any(share > _SAME for share in shares):
                continue
            score = float(maps[kind, row, column])
            found.append(Detection(COCO[kind], box, score, begins=score >= _NEW_SCORE))
        return found


def _peaks(maps: NDArray[np.float32], least: float) -> list[tuple[int, int, int]]:
    """Class, row and column of the places that none beside them surpasses, surest first."""
    kernel = np.ones((3, 3), np.uint8)
    highest = np.stack([cv2.dilate(one, kernel) for one in maps])
    at = np.argwhere((maps == highest) & (maps >= least))
    order = np.argsort(-maps[tuple(at.T)], kind="stable")[:_MOST]
    return [(kind, row, column) for kind, row, column in at[order].tolist()]
