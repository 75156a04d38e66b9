"""A queue between tasks that never grows: when it is full, the oldest item makes way for the newest."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class LatestQueue(Generic[T]):
    """Holds `size` items at most; `dropped` counts those that nobody took. For one event loop, and one taker."""

    def __init__(self, size: int) -> None:
        self.dropped = 0
        self._items: deque[T] = deque()
        self._size = size
        self._changed = asyncio.Event()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Add an item at once; the oldest is dropped if there is no room."""
        if len(self._items) == self._size:
            self._items.popleft()
            self.dropped += 1
        self._items.append(item)
        self._changed.set()

    async def put_all(self, item: T) -> None:
        """Add an item when there is room: nothing is dropped."""
        while len(self._items) == self._size and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()
        self.put(item)

    def close(self) -> None:
        """No more items: who takes gets what is left, then the end."""
        self._is_closed = True
        self._changed.set()

    async def get(self) -> T | None:
        """The oldest item; None at the end."""
        while not self._items and not self._is_closed:
            self._changed.clear()
            await self._changed.wait()
        self._changed.set()
        return self._items.popleft() if self._items else None
