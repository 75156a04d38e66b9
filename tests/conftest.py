"""Fixtures of many tests: a tiny video with sound, its stream, and the command as users run it."""

import io
import os
import random
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.video.stream import VideoStream
from hypothesis import HealthCheck, settings

import gsvc
from video_clips import SAME

RATE = 25
SIZE = 64, 48

# Property tests try the same examples in every run, and take as long as the machine needs;
# `fuzz_run` looks for new ones.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


if (worker := os.environ.get("PYTEST_XDIST_WORKER", "")).startswith("gw"):
    # A core each: their threads would wait for each other, a tenth of the processor's time.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
os.environ.setdefault("RAY_worker_niceness", "0")
"""Ray's workers are nice to all other processes, so that tests beside them would starve them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: short tests at the end keep every worker busy."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Random numbers do not depend on the tests that ran before."""
    random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


def _moving_pictures(count: int, size: tuple[int, int] = SIZE) -> list[gsvc.Picture]:
    """Soft coloured patches that drift by two pixels a frame over a still background."""
    width, height = size
    rng = np.random.default_rng(7)
    y, x = np.mgrid[:height, :width]
    still = np.stack([40 + 100 * x / width, 60 + 90 * y / height, 90 + 0 * x], axis=2)
    patches = [
        (rng.uniform(0, width), rng.uniform(0, height), rng.integers(0, 255, 3)) for _ in "abc"
    ]
    pictures = []
    for index in range(count):
        picture = still.copy()
        for px, py, color in patches:
            near = ((x - (px + 2 * index) % width) ** 2 + (y - py) ** 2) < (height / 5) ** 2
            picture[near] = color
        pictures.append(picture.astype(np.uint8))
    return pictures


def _write_video(
    path: Path, pictures: list[gsvc.Picture], *, rate: int = RATE, sound: float = 0.0
) -> Path:
    """Pictures as H.264 with a tone of `sound` seconds."""
    with av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=rate, options={"crf": "18", **SAME})
        assert isinstance(video, VideoStream)
        video.height, video.width = pictures[0].shape[:2]
        video.pix_fmt = "yuv420p" if not (video.width % 2 or video.height % 2) else "yuv444p"
        audio = container.add_stream("aac", rate=48_000, layout="mono") if sound else None
        for index, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = index, Fraction(1, rate)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            assert isinstance(audio, AudioStream)
            tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(round(sound * 48_000)) / 48_000)
            samples = av.AudioFrame.from_ndarray(tone.astype(np.float32)[None], "fltp", "mono")
            samples.sample_rate, samples.pts = 48_000, 0
            container.mux(audio.encode(samples))
            container.mux(audio.encode(None))
    return path


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64x48, 20 frames at 25 a second, 0.8 s of sound."""
    return _write_video(
        tmp_path_factory.mktemp("clip") / "clip.mp4", _moving_pictures(20), sound=0.8
    )


@pytest.fixture(scope="session")
def moving_pictures() -> Callable[..., list[gsvc.Picture]]:
    """Makes pictures: a count, and a (width, height) if not 64x48."""
    return _moving_pictures


@pytest.fixture(scope="session")
def write_video() -> Callable[..., Path]:
    """Writes pictures to a path as H.264; keywords `rate` and `sound`, in seconds."""
    return _write_video


@pytest.fixture(scope="session")
def bare_settings() -> gsvc.EncoderSettings:
    """Level 3 without the layers that need downloaded models, coded fast."""
    return gsvc.EncoderSettings(level=3, preset="fast")


@pytest.fixture(scope="session")
def stream(
    clip: Path, bare_settings: gsvc.EncoderSettings, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """`clip`, encoded with `bare_settings`."""
    target = tmp_path_factory.mktemp("stream") / "clip.gsv"
    gsvc.encode(clip, target, settings=bare_settings)
    return target


@pytest.fixture(scope="session")
def tiny_hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with tiny models; the folder of each back end is made when first asked for."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def tiny(tiny_hub: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A pretrained back end with its tiny model of random weights."""
    monkeypatch.setenv("GSVC_CACHE", str(tiny_hub))

    def make(name: str) -> Any:
        # Late: these need torch.
        from gsvc.codec.weights.hub import hub_folder
        from gsvc.decoders.keyframes.backends import load_refiner
        from tiny_models import put_tiny

        if not hub_folder(name).exists():
            put_tiny(hub_folder(name).name)
        return load_refiner(name)

    return make


@pytest.fixture
def swiftvr(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of SwiftVR's authors can be imported: one that stands in for it."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "stand_ins")
    yield
    sys.modules.pop("swiftvr", None)


@pytest.fixture(scope="session")
def cut_stream() -> bytes:
    """26 frames of 66x50 with a scene cut at 17."""
    pictures = _moving_pictures(26, (66, 50))
    pictures[17:] = [255 - picture for picture in pictures[17:]]
    file = io.BytesIO()
    settings = gsvc.EncoderSettings(level=1, preset="fast")
    form = gsvc.VideoFormat(66, 50, Fraction(1, 25), Fraction(25))
    with gsvc.Encoder(form, settings) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        for packet in (*packets, *encoder.flush()):
            writer.write(packet)
    return file.getvalue()
