"""Small codecs and metrics for the tests of the benchmark, named to it as bench_doubles:Class."""

import io
import os
import signal
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc import InputError, MissingDependencyError, Picture
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.datasets.clips.sets import find_clips
from gsvc.eval.baselines.base import Codec, Compute, Decoded, Encoded, Settings


def note(what: str) -> None:
    """Append a line to the file $BENCH_LOG, if it is set: tests count the work done."""
    if path := os.environ.get("BENCH_LOG"):
        with Path(path).open("a") as file:
            file.write(what + "\n")


def wait_while_held() -> None:
    """Waits as long as the file $BENCH_HOLD is there: tests stop a run in the middle."""
    while (path := os.environ.get("BENCH_HOLD")) and Path(path).exists():
        time.sleep(0.02)


class Blocks(Codec):
    """Codes each frame as `side` x `side` block means, deflated; shown in blocks, or smoothed.

    Sides from `held` on wait while the tests hold them.
    """

    name = "blocks"
    suffix = ".blk"

    def __init__(
        self, sides: tuple[int, ...] | int = (4, 8), ways: int = 1, held: int = 1000
    ) -> None:
        self.sides = (sides,) if isinstance(sides, int) else sides
        self.ways, self.held = ways, held

    def version(self) -> str:
        return "1"

    def rate_points(self) -> Sequence[Settings]:
        return [{"side": side} for side in self.sides]

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        return [{"smooth": smooth} for smooth in range(self.ways)]

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        note(f"encode {clip.name} {settings['side']}")
        assert clip.frames[0].shape == (clip.height, clip.width, 3)
        side = int(settings["side"])
        if side >= self.held:
            wait_while_held()
        start = time.perf_counter()
        small = [cv2.resize(f, (side, side), interpolation=cv2.INTER_AREA) for f in clip.frames]
        data = zlib.compress(np.stack(small).tobytes())
        return Encoded(data, time.perf_counter() - start, {"blocks": 8 * len(data)})

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        note(f"decode {settings['side']} {way['smooth']}")
        start = time.perf_counter()
        side = int(settings["side"])
        small = np.frombuffer(zlib.decompress(data), np.uint8).reshape(-1, side, side, 3)
        method = cv2.INTER_LINEAR if way["smooth"] else cv2.INTER_NEAREST
        shown = [
            np.asarray(cv2.resize(one, (clip.width, clip.height), interpolation=method), np.uint8)
            for one in small
        ]
        return Decoded(shown, time.perf_counter() - start)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        return Compute(2.0, 0) if way["smooth"] else None


class InMp4(Blocks):
    """H.264 in an MP4."""

    name = "mp4"
    suffix = ".mp4"

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        file = io.BytesIO()
        with av.open(file, "w", format="mp4") as container:
            stream = container.add_stream("libx264", rate=clip.frame_rate)
            stream.width, stream.height = clip.width, clip.height
            for picture in clip.frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
            container.mux(stream.encode(None))
        return Encoded(file.getvalue(), 0.0, {"file": 8 * len(file.getvalue())})

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        with av.open(io.BytesIO(data), "r") as file:
            shown = [one.to_ndarray(format="rgb24") for one in file.decode(video=0)]
        return Decoded([np.asarray(one, np.uint8) for one in shown], 0.0)


class Failing(Blocks):
    """Cannot code at side 4."""

    name = "failing"

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        if settings["side"] == 4:
            raise InputError("four blocks are too few")
        return super().encode(clip, settings)


class Crashing(Blocks):
    """Takes its process down at side 4."""

    name = "crashing"

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        if settings["side"] == 4:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().encode(clip, settings)


class Twin(Blocks):
    """Has the name of another."""


class Comma(Blocks):
    """Has a name like a curve's."""

    name = "blocks, fast"


class Grouped(Blocks):
    """Needs a group of pictures."""

    name = "grouped"

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        clip.frames[5]
        return super().encode(clip, settings)


class Absent(Blocks):
    """Not installed."""

    name = "absent"

    def version(self) -> str:
        raise MissingDependencyError("absent is not installed: pip install absent")


class Empty(Blocks):
    """Gives no bits."""

    name = "empty"

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        return Encoded(b"", 0.0, {})


class Plain(Blocks):
    """Gives bytes alone."""

    name = "plain"

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        return b"bytes"  # type: ignore[return-value]


class Half(Codec):
    """Cannot decode."""

    name = "half"


class Short(Blocks):
    """Loses the last frame."""

    name = "short"

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        decoded = super().decode(data, clip, settings, way)
        return Decoded(decoded.frames[:-1], decoded.seconds)


class Swapping(Blocks):
    """Gives the stream of the other clip in `folder`."""

    name = "swapping"

    def __init__(self, folder: str) -> None:
        super().__init__(sides=16)
        self.folder = folder

    def encode(self, clip: TestClip, settings: Settings) -> Encoded:
        other = next(one for one in find_clips([self.folder]) if one.name != clip.name)
        return super().encode(other.load("native", len(clip.frames)), settings)


class Distance:
    """Mean absolute difference of two pictures, 0-255."""

    name = "distance"
    unit = ""
    higher_is_better = False
    per_frame = True

    def version(self) -> str:
        return "1"

    def measure(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        note(f"score {self.name} {len(tests)}")
        return np.array(
            [[np.abs(t[i] - source.frames[i].astype(float)).mean() for i in indices] for t in tests]
        )


class Worst(Distance):
    """The largest distance: one number a clip."""

    name = "worst"
    per_frame = False

    def measure(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        values = super().measure(source, tests, indices)
        worst: NDArray[np.float64] = np.max(values, axis=1, keepdims=True)
        return worst


class AbsentMetric(Distance):
    """Not installed."""

    def version(self) -> str:
        raise MissingDependencyError("no such network: pip install it")


class Fatal(Distance):
    """Takes its process down, after the other metrics have measured."""

    name = "fatal"

    def measure(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError


class Refusing(Distance):
    """Cannot measure coarse pictures."""

    def measure(
        self, source: TestClip, tests: Sequence[Sequence[Picture]], indices: Sequence[int]
    ) -> NDArray[np.float64]:
        if any(len(np.unique(test[0].reshape(-1, 3), axis=0)) <= 16 for test in tests):
            raise InputError("too coarse to be measured")
        return super().measure(source, tests, indices)
