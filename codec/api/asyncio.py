"""Encoding and decoding from asyncio: the work runs in a thread, and the event loop stays free."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.encoder import AnyFrame, Encoder
from gsvc.codec.bitstream import errors, scaffold
from gsvc.codec.bitstream.container import Packet, next_frames
from gsvc.codec.bitstream.frames import Frame

if TYPE_CHECKING:
    import typing_extensions

    _T = typing_extensions.TypeVar("_T", default=Any)  # for a queue of which only `dropped` is read
else:
    _T = TypeVar("_T")
_log = logging.getLogger(__name__)


class LatestQueue(Generic[_T]):
    """A queue that drops its oldest item for a new one when it is full. Use it in one event loop.

    Iterate over it for the items; iteration ends when it is closed and empty.
    """

    @errors.typed
    def __init__(self, size: int) -> None:
        """Hold at most `size` items. Raises ConfigError for less than 1."""
        if size < 1:
            raise errors.ConfigError(f"a queue of {size}: it must hold at least 1")
        self._waiting: deque[_T] = deque(maxlen=size)
        self._changed = asyncio.Event()
        self._is_closed = False
        self.dropped = 0
        """Items dropped so far."""

    def put(self, thing: _T) -> None:
        """Add an item without waiting; a full queue drops its oldest. ConfigError: it is closed."""
        if self._is_closed:
            raise errors.ConfigError("this queue is closed: make another")
        self.dropped += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(thing)
        self._changed.set()

    async def put_all(self, thing: _T) -> None:
        """Add an item when there is room, without dropping any."""
        while len(self._waiting) == self._waiting.maxlen and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()
        self.put(thing)

    def close(self) -> None:
        """Add no more items; those in the queue are still handed out."""
        self._is_closed = True
        self._changed.set()

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True  # so that `queue or LatestQueue(16)` keeps an empty one

    def __aiter__(self) -> AsyncIterator[_T]:
        return self

    async def __anext__(self) -> _T:
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        self._changed.set()  # there is room now
        return self._waiting.popleft()


Timed: TypeAlias = tuple[AnyFrame, int | None]
"""A frame, and its pts unless it has its own."""


async def encode_stream(
    encoder: Encoder,
    frames: AsyncIterable[AnyFrame],
    *,
    queue: LatestQueue[Timed] | None = None,
    drop: bool = True,
) -> AsyncGenerator[Packet, None]:
    """Encode `frames`; yield the packets, END last. Then, and when `aclose()` or a cancelled task
    returns, the encoder is closed.

    A frame without a time gets a nominal one; dropped frames count, and the log warns of the first
    and in the end of their number. Raises what the source raises, after the packets of its frames
    and END, and what the encoder raises; frames that it holds are lost then.

    Args:
        encoder: An encoder that has taken no frame.
        frames: What `Encoder.encode` takes.
        queue: Between source and encoder; `LatestQueue(16)` by default.
        drop: Whether a full queue drops its oldest frame, as for a camera; else the source waits.
    """
    errors.check_type("frames", frames, AsyncIterable)
    errors.check_type("queue", queue, LatestQueue | None)
    if encoder.has_frames:
        raise errors.ConfigError("this encoder has already taken frames: make another")
    queue = LatestQueue(16) if queue is None else queue
    source = asyncio.create_task(_fill(queue, frames, encoder.header.frame_ticks, drop))
    worker = ThreadPoolExecutor(1)
    try:
        async for frame, pts in queue:
            for packet in await _run(worker, encoder.encode, frame, pts):
                yield packet
        for packet in await _run(worker, encoder.flush):
            yield packet
        await source
    finally:
        source.cancel()
        await asyncio.shield(asyncio.wrap_future(finish(worker, encoder.close)))


async def decode_stream(
    decoder: Decoder, packets: AsyncIterable[Packet]
) -> AsyncGenerator[Frame, None]:
    """Decode `packets`; yield each frame as it is drawn, and close the decoder.

    Every packet is decoded, because later ones build on it: a slow consumer slows the source. To
    `break`, use `contextlib.aclosing`. Raises what the source and the decoder raise.
    """
    errors.check_type("packets", packets, AsyncIterable)
    worker = ThreadPoolExecutor(1)
    try:
        async for packet in packets:
            async for frame in made_in(worker, next_frames(decoder, packet)):
                yield frame
        async for frame in made_in(worker, next_frames(decoder, None)):
            yield frame
    finally:
        await asyncio.shield(asyncio.wrap_future(finish(worker, decoder.close)))


async def _fill(
    queue: LatestQueue[Timed], frames: AsyncIterable[AnyFrame], frame_ticks: Fraction, drop: bool
) -> None:
    number, has_warned = 0, False
    try:
        async for frame in frames:
            own = getattr(frame, "pts", None)
            timed = frame, scaffold.nominal_time(number, frame_ticks) if own is None else None
            if drop:
                queue.put(timed)
            else:
                await queue.put_all(timed)
            number += 1
            if queue.dropped and not has_warned:
                has_warned = True
                _log.warning(
                    "frames come too fast for encoder or loop: some are dropped; preset='fast' and "
                    "faces=False if not set, fewer pixels, less work per packet help; drop=False: "
                    "a file waits"
                )
    finally:
        queue.close()
        if has_warned:
            _log.warning("%d of %d frames were dropped", queue.dropped, number)


async def made_in(worker: Executor, items: Iterator[_T]) -> AsyncIterator[_T]:
    """The items of an iterator, each made in a thread of `worker` when it is asked for."""
    while (item := await _run(worker, next, items, None)) is not None:
        yield item


async def _run(worker: Executor, work: Callable[..., _T], *arguments: object) -> _T:
    return await asyncio.get_running_loop().run_in_executor(worker, work, *arguments)


async def until_set(
    event: asyncio.Event, items: AsyncGenerator[_T, None]
) -> AsyncGenerator[_T, None]:
    """The items, up to when `event` is set: the one that is awaited then is not waited for."""
    stopped = asyncio.ensure_future(event.wait())
    try:
        while not event.is_set():
            item = asyncio.ensure_future(anext(items, None))
            try:
                await asyncio.wait((item, stopped), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not item.done():
                    item.cancel()
                    await asyncio.wait((item,))
            if item.cancelled() or (found := item.result()) is None:
                return
            yield found
    finally:
        stopped.cancel()
        await items.aclose()


def finish(worker: Executor, close: Callable[[], None]) -> Future[None]:
    """Close after the work that may still be going on; await it, or leave it to the thread."""
    closed = worker.submit(close)
    worker.shutdown(wait=False)
    return closed
