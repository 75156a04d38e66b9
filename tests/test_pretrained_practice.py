"""Pretrained back ends in practice: any size, work that is cut short, a live receiver."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gsvc
from gsvc import (
    DeviceError,
    Frame,
    ReceiveSettings,
    SendSettings,
    VideoReceiver,
    VideoSender,
    decode_stream,
)
from gsvc.decoders.keyframes.pretrained.gpu_memory import need_of
from gsvc.decoders.keyframes.pretrained.pretrained import PretrainedWindow, PretrainedWindows
from live import PATIENT, SETTINGS, VIDEO, collect, frames, free_port, listening, run
from pretrained_windows import WINDOWED, decode, window_of


class Returned(PretrainedWindows):
    """Draws what it is given, with one frame too many."""

    multiple = 32
    shapes: list[tuple[int, ...]]

    def _loaded(self, pixels: int) -> Any:
        return None

    def _drawn(
        self, pipeline: Any, window: PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        shape = window.frames.shape[:3]
        assert window.confidence.shape == shape
        assert all(key.shape == (*shape[1:], 3) for key in window.keys.values())
        self.shapes.append(shape)
        return np.concatenate([window.frames, window.frames[-1:]])


@pytest.mark.parametrize(
    ("count", "size", "padded"),
    [
        (1, (2160, 3840), (2176, 3840)),
        (1, (2161, 3841), (2176, 3872)),
        (1, (1, 1), (64, 64)),
        (9, (33, 203), (64, 224)),
    ],
)
def test_sides_are_padded_and_cropped_again(
    count: int, size: tuple[int, int], padded: tuple[int, int]
) -> None:
    backend, (shown, keys, confidence) = Returned("it"), window_of(count, size)
    shown[:, 0, 0] = 200
    backend.shapes = []
    drawn = backend.restore(shown, keys, confidence, steps=1, seed=0)
    assert backend.shapes == [(count, *padded)]
    assert len(drawn) == count and np.array_equal(np.stack(drawn), shown)


def test_large_frames_are_decoded_in_tiles(tiny: Callable[[str], Any]) -> None:
    for name in WINDOWED:
        assert not tiny(name)._loaded(512 * 288).vae.use_tiling
        assert tiny(name)._loaded(3840 * 2160).vae.use_tiling


def test_4k_is_refused_before_loading_where_memory_will_not_do() -> None:
    need = need_of("ltx2", 2160, 3840, 33)
    with pytest.raises(DeviceError, match="ltx2 at 3840x2160 needs about .* take a smaller model"):
        need.chosen(need.of("groups") - 1)


@pytest.mark.slow
def test_what_is_cut_short_goes_on_window_by_window(
    tiny: Callable[[str], Any], cut_stream: bytes, tmp_path: Path
) -> None:
    backend, kept = tiny("wan-v2v"), str(tmp_path)
    whole = decode(cut_stream, backend)
    restore, calls = backend.restore, 0

    def counted(*window: Any, **given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        return restore(*window, **given)

    backend.restore, stop = counted, 0
    decode(cut_stream, backend)
    windows = calls
    assert windows > 1
    stop = 2
    for done in range(1, windows):  # one window more each time, then it is stopped
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            decode(cut_stream, backend, resume=kept)
        assert calls == 2 and len(list(tmp_path.glob("*.safetensors"))) == done
    calls, stop = 0, 0
    assert decode(cut_stream, backend, resume=kept) == whole
    assert calls == 1  # the last one


@pytest.mark.slow
def test_a_task_that_is_cancelled_leaves_what_is_done(
    tiny: Callable[[str], Any], cut_stream: bytes, tmp_path: Path
) -> None:
    backend = tiny("wan-v2v")
    whole = decode(cut_stream, backend)
    reader = gsvc.StreamReader(io.BytesIO(cut_stream))
    settings = gsvc.DecoderSettings(steps=1, resume=str(tmp_path))
    decoder = gsvc.Decoder(reader.header, settings, refiner=backend)
    shown: list[Frame] = []

    async def source() -> AsyncIterator[gsvc.Packet]:
        for packet in reader:
            yield packet

    async def show() -> None:
        async for frame in decode_stream(decoder, source()):
            shown.append(frame)
            await asyncio.sleep(60)

    async def cancelled() -> None:
        task = asyncio.create_task(show())
        while not shown:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert shown == whole[:1] and list(tmp_path.glob("*.safetensors"))
    assert decode(cut_stream, backend, resume=str(tmp_path)) == whole


@pytest.mark.slow
def test_a_receiver_restores_windows(tiny: Callable[[str], Any]) -> None:
    """What comes over a socket is what a file would show; the last window comes at the end."""
    tiny("wan-v2v")
    settings = gsvc.DecoderSettings(steps=1, backend="wan-v2v")
    with gsvc.Encoder(VIDEO, SETTINGS) as encoder, gsvc.Decoder(encoder.header, settings) as direct:
        packets = [packet for frame in frames(40) for packet in encoder.encode(frame)]
        packets += encoder.flush()
        expected = [frame for packet in packets for frame in direct.decode(packet)]
        expected += direct.flush()

    async def main() -> None:
        port, shown = free_port(), list[Frame]()
        receiver = VideoReceiver(f"udp://@127.0.0.1:{port}", ReceiveSettings(settings, PATIENT))
        receiving = asyncio.create_task(collect(receiver, shown))
        await listening(port)
        sending = SendSettings(realtime=False)
        sender = VideoSender(f"udp://127.0.0.1:{port}", gsvc.Encoder(VIDEO, SETTINGS), sending)
        await sender.run(frames(40))
        await receiving
        assert [frame.pts for frame in shown] == [frame.pts for frame in expected]
        assert receiver.stats().concealed == 0
        for ours, theirs in zip(shown, expected, strict=True):
            assert np.array_equal(ours.pixels, theirs.pixels)

    run(main())
