"""What reaches each pretrained model of a whole stream: models that return their conditioning.

They run in diffusers' own pipelines, from packets to frames, with a cut and several windows.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import gsvc
from gsvc.codec.bitstream.container import decoded_frames
from gsvc.decoders.keyframes.pretrained.pretrained import keys_on_grid
from gsvc.decoders.keyframes.pretrained.wan_vace import TRUSTED
from returning_models import BLUE, GREEN, RED, put_returning

Pictures = Callable[..., list[gsvc.Picture]]
COUNT, CUT = 84, 50
GRID = {"ltx": 8, "ltx2": 8, "ltx2:condition": 8, "wan-vace": 4, "sparkvsr": 8}
"""Of back ends that are given keys: frames from one to the next."""

WITHOUT_KEYS = "wan-v2v", "swiftvr"


class Truth(NamedTuple):
    """A frame of a plain decoder."""

    picture: gsvc.Picture
    confidence: NDArray[np.float32]
    is_key: bool


class Seen(NamedTuple):
    """A window, and the frame of the stream that it begins with."""

    start: int
    keys: Mapping[int, gsvc.Picture]
    confidence: NDArray[np.float32]
    shown: list[gsvc.Picture]


@pytest.fixture(scope="module", params=["", "ltx"])
def stream(request: pytest.FixtureRequest, moving_pictures: Pictures) -> bytes:
    """84 frames of 66x50 with a cut, key pictures where they fall, or where a model wants them."""
    pictures = moving_pictures(COUNT, (66, 50))
    pictures[CUT:] = [255 - picture for picture in pictures[CUT:]]
    settings = gsvc.EncoderSettings(level=2, preset="fast", target_backend=request.param or None)
    form, file = gsvc.VideoFormat(66, 50, Fraction(1, 25), Fraction(25)), io.BytesIO()
    with gsvc.Encoder(form, settings) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        for packet in (*packets, *encoder.flush()):
            writer.write(packet)
    return file.getvalue()


@pytest.fixture(scope="module")
def truth(stream: bytes) -> list[Truth]:
    """The frames, as they are drawn without a back end."""

    def frames() -> Iterator[Truth]:
        reader = gsvc.StreamReader(io.BytesIO(stream))
        with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=0)) as decoder:
            drawn = decoder._open_timeline().frames
            for one in (one for packet in reader for one in drawn(packet)):
                assert one.interval is not None
                confidence = one.interval.confidence(one.number)
                yield Truth(one.frame.pixels, confidence, one.interval.is_key(one.number))

    return list(frames())


@pytest.mark.parametrize("name", [*GRID, *WITHOUT_KEYS])
@pytest.mark.usefixtures("swiftvr")
def test_each_frame_gets_what_is_its_own(
    name: str,
    tiny: Callable[[str], Any],
    stream: bytes,
    truth: list[Truth],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = tiny(name)
    put_returning(backend, monkeypatch)
    monkeypatch.setattr("gsvc.decoders.streams.windows.joined", lambda _, window: window)
    shown, windows = decoded(stream, backend)
    starts = [window.start for window in windows]
    assert len(shown) == COUNT and len(windows) > 3
    assert CUT in starts and any(CUT < start for start in starts)
    given = 0
    for window, after in zip(windows, [*starts[1:], COUNT], strict=True):
        # But at the cut, the frame with which the next one begins is in both.
        end = after if after in (CUT, COUNT) else after + 1
        keys = keys_on_grid(window.keys, GRID.get(name, 8), exact=name != "ltx")
        for at, one in enumerate(truth[window.start : end]):
            picture = window.shown[at]
            assert (at in window.keys) == one.is_key
            assert np.allclose(window.confidence[at], one.confidence, atol=1e-6)
            check_rendering(name, picture, one)
            if name in WITHOUT_KEYS:
                assert near(picture, one.picture).all()
            else:
                key = one.picture[..., GREEN] if at in keys else 0
                assert near(picture[..., GREEN], key).all(), (name, window.start, at)
        given += len(keys)
        if name == "ltx2":
            check_trust(window)
        fresh = window.start in (0, CUT)
        for at in range(0 if fresh else 1, end - window.start):
            assert np.array_equal(shown[window.start + at].pixels, window.shown[at])
    assert given > len(windows)


def decoded(stream: bytes, backend: Any) -> tuple[list[gsvc.Frame], list[Seen]]:
    """The frames of a stream, and the windows that they were restored in."""
    windows: list[Seen] = []
    shown: list[gsvc.Frame] = []
    restore = backend.restore

    def noted(rendering: Any, keys: Any, confidence: Any, **given: Any) -> list[gsvc.Picture]:
        pictures: list[gsvc.Picture] = restore(rendering, keys, confidence, **given)
        start = len(shown) if len(shown) in (0, CUT) else len(shown) - 1
        windows.append(Seen(start, keys, confidence, pictures))
        return pictures

    backend.restore = noted
    reader = gsvc.StreamReader(io.BytesIO(stream))
    with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=1), refiner=backend) as decoder:
        # One by one: a window that is restored finds here how many frames came before.
        for frame in decoded_frames(decoder, ((packet, True) for packet in reader)):
            shown += [frame]
    return shown, windows


def check_rendering(name: str, picture: gsvc.Picture, truth: Truth) -> None:
    """It is that of the frame; VACE sees gray where it is not to be trusted."""
    same = near(picture[..., RED], truth.picture[..., RED])
    gray = (picture[..., RED] == 128) & (truth.confidence < TRUSTED)
    assert (same | gray).all() if name == "wan-vace" else same.all()


def check_trust(window: Seen) -> None:
    """The reference is attended to where the mean of a token of 8 frames is trusted."""
    count, height, width = window.confidence.shape
    padded = np.pad(
        window.confidence, ((0, -count % 8), (0, -height % 32), (0, -width % 32)), "edge"
    )
    for at in range(0, count, 8):
        for y, x in np.ndindex(padded.shape[1] // 32, padded.shape[2] // 32):
            token = padded[at : at + 8, 32 * y : 32 * y + 32, 32 * x : 32 * x + 32]
            for shown in window.shown[at : at + 8]:
                blue = shown[32 * y : 32 * y + 32, 32 * x : 32 * x + 32, BLUE]
                assert (blue == (255 if token.mean() >= TRUSTED else 0)).all()


def near(a: Any, b: Any) -> NDArray[np.bool_]:
    """Where levels are the same but for rounding."""
    same: NDArray[np.bool_] = np.abs(a.astype(int) - b) <= 1
    return same
