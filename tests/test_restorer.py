"""The restorer: what its file computes is what was trained, and guides are obeyed."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import gsvc.decoders.keyframes.restorer.runtime as running
from beside.checkpoint import read_checkpoint
from beside.mixtures import conditions_of, mixed
from export_restorer import KEPT, export
from forked import exit_code_of_fork, needs_fork
from gsvc import (
    ConfigError,
    DecoderSettings,
    EncoderSettings,
    Header,
    Picture,
    StreamReader,
    VideoFormat,
)
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.layers.guide import GUIDE, LOOKS, MIXTURES, moved
from gsvc.codec.bitstream.scaffold import Place
from gsvc.decoders.keyframes.backends import load_refiner, model_id
from gsvc.decoders.keyframes.compact.pipeline import pictures_of, tensor_of
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.restorer.backend import RESTORER, RestorerBackend
from gsvc.decoders.keyframes.restorer.network import Restorer
from gsvc.decoders.keyframes.restorer.runtime import FILE
from gsvc.eval.baselines.gsvc import coded, decoded

VIDEO = VideoFormat(64, 48, Fraction(1, 25), Fraction(25))


def key(height: int, width: int, guide: int | None = None) -> Keyframe:
    rng = np.random.default_rng(1)
    picture = cv2.GaussianBlur(rng.integers(0, 256, (height, width, 3), np.uint8), (0, 0), 3)
    gain = rng.random((height, width), np.float32)
    return Keyframe(picture, gain, quantizer=0.9, size=0.75, layer=2, guide=guide)


def test_the_file_computes_what_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_lattice", np.zeros_like)
    state, job = read_checkpoint(KEPT)
    network = Restorer(**job["network"])
    network.load_state_dict(state["average"])
    export(network, tmp_path / FILE.name)
    assert (tmp_path / FILE.name).read_bytes() == FILE.read_bytes()
    one, made = key(47, 63), RestorerBackend(RESTORER)
    values = (torch.tensor([value]) for value in (one.quantizer, one.size, one.layer))
    edge = torch.nn.ReplicationPad2d((0, 1, 0, 1))
    picture, gain = edge(tensor_of(one.picture)), edge(torch.from_numpy(one.gain)[None, None])
    with torch.no_grad():
        residuals = network(picture, gain, conditions_of(*values))
    for guide, weights in enumerate(MIXTURES):
        shown = made.refine(replace(one, guide=guide), steps=1, seed=0)
        expected = pictures_of(mixed(picture, residuals, torch.tensor((*weights, 0.0))))
        assert np.abs(shown.astype(int) - expected[:47, :63]).max() <= 1


def test_a_grid_is_removed_and_nothing_else() -> None:
    rng = np.random.default_rng(2)
    smooth = np.stack([cv2.GaussianBlur(plane, (0, 0), 2) for plane in rng.random((4, 81, 99))])
    grid = np.tile(rng.random((4, 2, 2)), (1, 41, 50))[:, :81, :99]
    drawn = (smooth + grid).astype(np.float32)
    left = drawn - running._lattice(drawn)
    means = np.tile(grid[:, :2, :2].mean((1, 2), keepdims=True), (1, 81, 99))
    assert np.abs(left - smooth - means)[:, 4:-4, 4:-4].max() < 0.03
    ramp = np.broadcast_to(np.arange(99, dtype=np.float32), (4, 81, 99))
    assert np.abs(running._lattice(ramp))[:, :, 12:-12].max() < 0.02


def test_strips_have_no_seams(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RestorerBackend(RESTORER).refine(key(500, 64), steps=1, seed=0)
    monkeypatch.setattr(running, "_MOST_PIXELS", 70 * 32)
    assert np.array_equal(RestorerBackend(RESTORER).refine(key(500, 64), steps=1, seed=0), whole)


def test_a_look_moves_the_mixture_and_leaves_what_is_left_alone() -> None:
    assert [moved(0, look) for look in LOOKS] == [0, 0, 0]
    assert [moved(3, look) for look in LOOKS] == [1, 3, 5]
    assert [moved(9, look) for look in LOOKS] == [7, 9, 10]
    made, pictures = RestorerBackend(RESTORER), []
    for made.look in LOOKS:
        pictures.append(made.refine(key(48, 64, 8), steps=1, seed=0))
    assert not np.array_equal(pictures[0], pictures[1])
    assert not np.array_equal(pictures[1], pictures[2])


def test_it_runs_on_a_gpu_where_onnxruntime_can(caplog: pytest.LogCaptureFixture) -> None:
    with_gpu = [running._CUDA, running._CPU]
    assert running._providers("cuda:1", with_gpu) == [
        (running._CUDA, {"device_id": "1"}),
        running._CPU,
    ]
    assert running._providers("cpu", with_gpu) == [running._CPU] and not caplog.records
    assert running._providers("cuda", [running._CPU]) == [running._CPU]
    assert "onnxruntime-gpu" in caplog.text


@needs_fork
def test_a_forked_process_restores_after_its_parent_did() -> None:
    networks = list[running.RestorerNetwork]()

    def restore() -> None:
        networks[:] = [running.RestorerNetwork()]  # The child ends what its parent had.
        networks[0].restorations(key(48, 64))

    restore()
    assert exit_code_of_fork(restore, seconds=15) == 0


def test_it_takes_one_step() -> None:
    with pytest.raises(ConfigError, match="takes one"):
        RestorerBackend(RESTORER).refine(key(32, 32), steps=2, seed=0)


def test_guides_are_sent_and_obeyed_by_the_restorer_that_they_are_for(
    moving_pictures: Callable[..., list[Picture]],
) -> None:
    data = coded(moving_pictures(9), VIDEO, EncoderSettings(level=1))
    reader = StreamReader(io.BytesIO(data))
    header, packets = reader.header, list(reader)
    assert header.model_id == model_id(RESTORER)
    groups = GroupReader(header)
    intervals = [i for p in packets if p.is_picture for i in groups.read(p).intervals]
    assert all(i[GUIDE] is not None for i in intervals if i.place is not Place.AFTER)
    shown, plain = (decoded(data, DecoderSettings(steps=steps)) for steps in (1, 0))
    other = replace(header, model_id=bytes(4))
    unguided = decoded(other.to_bytes() + data[len(Header.to_bytes(header)) :], DecoderSettings())
    assert not np.array_equal(shown, plain)
    usual = load_refiner().usual  # type: ignore[union-attr]
    assert np.array_equal(shown, unguided) == all(i[GUIDE] == usual for i in intervals)


def test_a_live_stream_sends_none(moving_pictures: Callable[..., list[Picture]]) -> None:
    data = coded(moving_pictures(3), VIDEO, EncoderSettings(level=1, low_delay=True))
    assert GUIDE.name not in StreamReader(io.BytesIO(data)).header.tools


def test_the_network_tells_nobody_that_it_runs(tmp_path: Path) -> None:
    """onnxruntime 1.32 keeps notes in the home and sends them."""
    program = f"from {running.__name__} import *; RestorerNetwork().session"
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=home, check=True)
    assert not list(tmp_path.iterdir())
