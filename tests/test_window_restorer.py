"""The window restorer: weights of a run as a back end, and what its network sees."""

import io
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

import gsvc
from gsvc import ConfigError, MissingModelError
from gsvc.codec.bitstream.container import decoded_frames
from gsvc.codec.weights.safetensors_files import CLASS
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.windowed import window_frames as frames
from gsvc.decoders.keyframes.windowed.window_backend import WindowedBackend
from gsvc.decoders.keyframes.windowed.window_frames import Between, place_of, restored_frames
from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer
from gsvc.eval.compute import count_flops

Pictures = Callable[..., list[gsvc.Picture]]
Window = tuple[NDArray[np.uint8], NDArray[np.float32]]
SMALL = {"channels": (8, 16, 16), "blocks": (1, 1, 1)}
KEYS = [0, 8]


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of weights in half precision, as training leaves them, whose last layer is zero."""
    path = tmp_path_factory.mktemp("run") / "window.safetensors"
    state = {name: value.half() for name, value in WindowRestorer(**SMALL).state_dict().items()}
    save_file(state, path)
    path.with_suffix(".json").write_text(json.dumps({CLASS: "WindowRestorer", **SMALL}))
    return path


@pytest.fixture(scope="module")
def network() -> WindowRestorer:
    """A small network whose last layer is not zero, so that everything in it shows."""
    torch.manual_seed(3)
    made = WindowRestorer(**SMALL).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return made


@pytest.fixture(scope="module")
def window(moving_pictures: Pictures) -> Window:
    """9 frames, as motion might draw them, and a confidence."""
    pictures = np.stack(moving_pictures(9))
    confidence = np.ones(pictures.shape[:3], np.float32)
    confidence[1:8, :, ::3] = 0.4
    return pictures, confidence


def test_weights_of_a_run_restore_a_stream(untrained: Path, moving_pictures: Pictures) -> None:
    file = io.BytesIO()
    video = gsvc.VideoFormat(64, 48, Fraction(1, 10), Fraction(10))
    with gsvc.Encoder(video, gsvc.EncoderSettings(preset="fast")) as encoder:
        packets = [p for picture in moving_pictures(30) for p in encoder.encode(picture)]
        packets += encoder.flush()
    for settings in (
        gsvc.DecoderSettings(steps=0),
        gsvc.DecoderSettings(steps=1, backend=str(untrained)),
    ):
        with gsvc.Decoder(encoder.header, settings) as decoder:
            shown = list(decoded_frames(decoder, ((packet, True) for packet in packets)))
        file.write(b"".join(frame.pixels.tobytes() for frame in shown))
    data = file.getvalue()
    # Its last layer is zero: it shows the renderings.
    assert len(shown) == 30 and data[: len(data) // 2] == data[len(data) // 2 :]


def test_places_of_frames_between_key_pictures() -> None:
    assert [place_of(n, [0, 4, 8]) for n in (0, 1, 4, 6, 8)] == [
        Between(0, 4, 0.0),
        Between(0, 4, 0.25),
        Between(4, 8, 0.0),
        Between(4, 8, 0.5),
        Between(4, 8, 1.0),
    ]
    assert place_of(9, [0, 8]) == Between(8, 8, 0.0)  # held after the last one
    assert place_of(2, [5]) == Between(5, 5, 0.0)
    assert place_of(3, []) == Between(3, 3, 0.0)


@pytest.mark.parametrize("size", [(1, 1), (17, 33), (48, 64)])
def test_any_size_comes_back_in_that_size(
    network: WindowRestorer, window: Window, size: tuple[int, int]
) -> None:
    rendering, confidence = window[0][:, : size[0], : size[1]], window[1][:, : size[0], : size[1]]
    shown = restored_frames(network, rendering, KEYS, confidence)
    assert {(picture.shape, picture.dtype) for picture in shown} == {((*size, 3), np.dtype("u1"))}
    assert len(shown) == 9


def test_all_that_is_given_is_heard(network: WindowRestorer, window: Window) -> None:
    rendering, confidence = window
    shown = restored_frames(network, rendering, KEYS, confidence)
    unsure = restored_frames(network, rendering, KEYS, 0.5 * confidence)
    assert not np.array_equal(shown[4], unsure[4])
    other_keys = restored_frames(network, rendering, [0, 4, 8], confidence)
    assert not np.array_equal(shown[3], other_keys[3])
    changed = rendering.copy()
    changed[2] = 255 - changed[2]
    after = restored_frames(network, changed, KEYS, confidence)
    assert np.array_equal(shown[1], after[1])
    assert not np.array_equal(shown[3], after[3])  # a frame remembers the one before


@pytest.mark.slow
def test_tiles_hardly_show(
    network: WindowRestorer, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendering, confidence = window[0].repeat(6, 1).repeat(6, 2), window[1].repeat(6, 1).repeat(6, 2)
    whole = restored_frames(network, rendering, KEYS, confidence)
    monkeypatch.setattr(frames, "WHOLE_PIXELS", 0)
    monkeypatch.setattr(frames, "_TILE", 64)
    tiled = restored_frames(network, rendering, KEYS, confidence)
    differences = [np.abs(a.astype(int) - b) for a, b in zip(whole, tiled, strict=True)]
    assert differences[0].max() <= 1 and max(d.max() for d in differences) <= 1


def test_no_pixel_sees_farther_than_the_margin_of_tiles(network: WindowRestorer) -> None:
    picture = torch.zeros(1, 3, 256, 256, requires_grad=True)
    other, time = torch.zeros(1, 3, 256, 256), torch.zeros(1)
    frame, _ = network(picture, other, other, other[:, :1], time)
    frame[..., 128, 128].sum().backward()
    assert picture.grad is not None
    seen = torch.nonzero(picture.grad[0].abs().sum(0))
    assert (seen - 128).abs().max() <= network.reach <= 128


@pytest.mark.slow
def test_cost_is_that_of_a_whole_window(untrained: Path) -> None:
    backend = WindowedBackend(str(untrained))
    small, large = (count_flops(backend.cost(*size).step) for size in ((64, 64), (128, 64)))
    assert large == pytest.approx(2 * small, rel=0.02)
    assert small > 17 * 64 * 64 * 1000


def test_errors_name_the_way_out(untrained: Path, window: Window, tmp_path: Path) -> None:
    rendering, confidence = window
    keys = {n: rendering[n] for n in KEYS}
    refiner = load_refiner(str(untrained))
    assert isinstance(refiner, WindowedBackend)
    with pytest.raises(ConfigError, match="steps=1"):
        refiner.restore(rendering, keys, confidence, steps=2, seed=0)
    with pytest.raises(ConfigError, match="unknown refiner 'windowed:none'"):
        load_refiner("windowed:none")
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(untrained.read_bytes())
    settings = {CLASS: "WindowRestorer", **SMALL}
    for changed, message in (
        ({"blocks": [2, 1, 1]}, "does not fit the network"),
        ({"colour": 3}, "damaged"),
    ):
        copy.with_suffix(".json").write_text(json.dumps(settings | changed))
        with pytest.raises(MissingModelError, match=message):
            load_refiner(str(copy)).load()
    copy.with_suffix(".json").write_text(json.dumps({CLASS: "IFNet"}))
    with pytest.raises(ConfigError, match="IFNet, which is no refiner"):
        load_refiner(str(copy))
