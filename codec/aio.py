"""Encoding and decoding from asyncio: the work runs in a thread, the event loop is never held up.

Queues are bounded. Where frames come faster than they can be encoded, the newest wins and older ones are dropped and
counted: a live picture is worth more than a complete one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from gsvc.codec.decoder import Decoder
from gsvc.codec.encoder import Encoder
from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Frame
from gsvc.codec.packet import Packet

if TYPE_CHECKING:
    from gsvc.codec.frame_input import AnyFrame

_T = TypeVar("_T")


class LatestQueue(Generic[_T]):
    """A queue of at most `size` things that drops the oldest for a new one; `dropped` counts them. Iterate over it;
    it ends when it is closed and empty. Of one event loop only."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ConfigError(f"a queue of {size}: it must hold at least 1")
        self._waiting: deque[_T] = deque(maxlen=size)
        self._changed = asyncio.Event()
        self._is_closed = False
        self.dropped = 0

    def put(self, thing: _T) -> None:
        """Add the newest; never waits."""
        self.dropped += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(thing)
        self._changed.set()

    def close(self) -> None:
        """What waits is still given out, nothing more comes."""
        self._is_closed = True
        self._changed.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def __aiter__(self) -> AsyncIterator[_T]:
        return self

    async def __anext__(self) -> _T:
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()


async def encode_stream(
    encoder: Encoder,
    frames: "AsyncIterable[AnyFrame]",
    *,
    queue: "LatestQueue[AnyFrame] | None" = None,
) -> AsyncIterator[Packet]:
    """The packets of `frames`, the END packet last; the encoder is closed in the end.

    `queue`, two frames long by default: between the source and the encoder, in `queue.dropped` are the frames that were
    too many. The frames' own times (or those at which an `av.VideoFrame` says it was taken) stay true; arrays without
    times close ranks. Raises what the source and the encoder raise.
    """
    queue = LatestQueue(2) if queue is None else queue
    source = asyncio.create_task(_fill(queue, frames))
    try:
        with ThreadPoolExecutor(1) as worker:
            async for frame in queue:
                for packet in await _run(worker, lambda frame=frame: encoder.encode(frame)):
                    yield packet
            await source
            for packet in await _run(worker, encoder.flush):
                yield packet
    finally:
        await _stop(source)
        encoder.close()


async def decode_stream(decoder: Decoder, packets: AsyncIterable[Packet]) -> AsyncIterator[Frame]:
    """The frames of `packets`, each when it is made; the decoder is closed in the end. Packets are never dropped: what
    comes after them needs them, so a slow receiver slows its source. Raises what the source and the decoder raise."""
    try:
        with ThreadPoolExecutor(1) as worker:
            async for packet in packets:
                frames = decoder.frames(packet)
                while (frame := await _run(worker, lambda: next(frames, None))) is not None:
                    yield frame
    finally:
        decoder.close()


async def _fill(queue: LatestQueue[_T], things: AsyncIterable[_T]) -> None:
    try:
        async for thing in things:
            queue.put(thing)
    finally:
        queue.close()


async def _run(worker: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(worker, work)


async def _stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
