"""A bad network between two programs on one machine: relays UDP both ways and loses some of it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from gsvc.codec.bitstream.errors import ConfigError


@dataclass(frozen=True)
class Loss:
    """How datagrams are lost, by Gilbert's model."""

    share: float
    """Of the datagrams, from 0 to below 1."""
    burst: float = 1.0
    """Mean number of datagrams lost in a row."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1 or self.burst < 1:
            raise ConfigError("a loss has a share below 1 and bursts of at least 1")

    def pattern(self, stream: int) -> Callable[[], bool]:
        """A function that says whether the next datagram is lost; patterns differ by `stream`."""
        chance = random.Random(f"0 {stream}")
        begins = self.share / (self.burst * (1 - self.share))
        is_bad = False

        def is_lost() -> bool:
            nonlocal is_bad
            is_bad = chance.random() < (1 - 1 / self.burst if is_bad else begins)
            return is_bad

        # With bursts of 1 on average a loss may still follow a loss.
        return is_lost if self.burst > 1 else lambda: chance.random() < self.share


class LossyRelay:
    """Async context manager: relays from a port of its own to `target` on this machine, and back.

    `port`: where to send to.
    `passed`, `lost`: datagrams towards the target.
    """

    def __init__(self, target: int, loss: Loss) -> None:
        self._target, self._loss = target, loss
        self.port = self.passed = self.lost = 0
        self._sender: Any = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._inside, _ = await loop.create_datagram_endpoint(
            lambda: _Port(self._forward), local_addr=("127.0.0.1", 0)
        )
        self._outside, _ = await loop.create_datagram_endpoint(
            lambda: _Port(self._back), remote_addr=("127.0.0.1", self._target)
        )
        self.port = self._inside.get_extra_info("sockname")[1]
        self._lost_forward, self._lost_back = self._loss.pattern(0), self._loss.pattern(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._inside.close()
        self._outside.close()

    def _forward(self, data: bytes, sender: Any) -> None:
        self._sender = sender
        if self._lost_forward():
            self.lost += 1
            return
        self.passed += 1
        self._outside.sendto(data)

    def _back(self, data: bytes, _: Any) -> None:
        if self._sender and not self._lost_back():
            self._inside.sendto(data, self._sender)


class _Port(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, Any], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._take(data, addr)

    def error_received(self, exc: Exception) -> None:
        """Nothing listens there yet."""
