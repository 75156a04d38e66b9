"""A bad network between two programs on one machine: relays UDP both ways and loses some of it.

    python tools/lossy_relay.py 5012 5010 --loss 0.1 --burst 2 --delay 0.05

Send to port 5012 and receive at 5010. Ctrl-C or SIGTERM ends it. `--outage 10 4` loses everything
for 4 s, 10 s after the first datagram. `--rate 12` lets 12 kbit/s through to the receiver, headers
of IP and UDP included; 2 s of that wait, and what comes beyond is lost. It needs
Python 3.11 alone, not gsvc.
"""

import asyncio
import random
import signal
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

_QUEUE, _HEADERS = 2.0, 28
"""Seconds that datagrams wait for a thin link; bytes of IP and UDP."""


@dataclass(frozen=True)
class Loss:
    """How datagrams are lost, by Gilbert's model."""

    share: float
    """Of the datagrams, from 0 to below 1."""
    burst: float = 1.0
    """Mean number of datagrams lost in a row."""
    seed: int = 0
    """Of the patterns."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1 or self.burst < 1:
            raise ValueError("a loss has a share from 0 to below 1 and bursts of at least 1")

    def pattern(self, stream: int) -> Callable[[], bool]:
        """A function that says whether the next datagram is lost; patterns differ by `stream`."""
        chance = random.Random(f"{self.seed} {stream}")
        begins = self.share / (self.burst * (1 - self.share))
        is_bad = False

        def is_lost() -> bool:
            nonlocal is_bad
            is_bad = chance.random() < (1 - 1 / self.burst if is_bad else begins)
            return is_bad

        # With bursts of 1 on average a loss may still follow a loss.
        return is_lost if self.burst > 1 else lambda: chance.random() < self.share


class LossyRelay:
    """Async context manager: relays from `port` to `target` on this machine, and back.

    `port`: where to send to; 0: a free one, known when it has begun. `delay`: seconds each way.
    `outage`: seconds from the first datagram until nothing passes, and for how long.
    `rate`: bits per second that pass towards the target; 0: any.
    `passed`, `lost`: datagrams towards the target.
    """

    def __init__(
        self,
        target: int,
        loss: Loss,
        port: int = 0,
        delay: float = 0.0,
        outage: tuple[float, float] = (0.0, 0.0),
        rate: float = 0.0,
    ) -> None:
        if rate < 0:
            raise ValueError("a rate is above 0")
        self._target, self._loss, self._delay, self._outage = target, loss, delay, outage
        self.port, self.passed, self.lost = port, 0, 0
        self._rate, self._free_at = rate, 0.0
        self._sender: Any = None
        self._began: float | None = None

    async def __aenter__(self) -> Self:
        loop = self._loop = asyncio.get_running_loop()
        self._inside, _ = await loop.create_datagram_endpoint(
            lambda: _Port(self._forward), local_addr=("127.0.0.1", self.port)
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
        waits = max(0.0, self._free_at - self._loop.time())
        if self._lost_forward() or self._is_down() or waits > _QUEUE:
            self.lost += 1
            return
        self.passed += 1
        if self._rate:
            waits += 8 * (len(data) + _HEADERS) / self._rate
            self._free_at = self._loop.time() + waits
        self._put(self._outside, data, after=waits)

    def _back(self, data: bytes, _: Any) -> None:
        if self._sender and not self._lost_back() and not self._is_down():
            self._put(self._inside, data, self._sender)

    def _is_down(self) -> bool:
        now, (begin, seconds) = self._loop.time(), self._outage
        self._began = now if self._began is None else self._began
        return begin <= now - self._began < begin + seconds

    def _put(self, port: asyncio.DatagramTransport, *what: Any, after: float = 0.0) -> None:
        def put() -> None:
            if not port.is_closing():
                port.sendto(*what)

        self._loop.call_later(self._delay + after, put) if self._delay + after else put()


class _Port(asyncio.DatagramProtocol):
    def __init__(self, take: Callable[[bytes, Any], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._take(data, addr)

    def error_received(self, exc: Exception) -> None:
        """Nothing listens there yet."""


def main() -> None:
    """Relay until it is ended, then tell what was lost."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int, help="where to send to")
    parser.add_argument("target", type=int, help="where the receiver listens")
    parser.add_argument("--loss", type=float, default=0.0, help="share lost each way, 0 to 1")
    parser.add_argument("--burst", type=float, default=1.0, help="mean number lost in a row")
    parser.add_argument("--seed", type=int, default=0, help="another seed loses others")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds each way")
    parser.add_argument(
        "--outage",
        type=float,
        nargs=2,
        default=(0.0, 0.0),
        metavar=("FROM", "SECONDS"),
        help="lose everything for so long, so many seconds after the first datagram",
    )
    parser.add_argument(
        "--rate", type=float, default=0.0, metavar="KBIT", help="kbit/s towards the receiver"
    )
    options = parser.parse_args()
    try:
        asyncio.run(_relay(options))
    except (ValueError, OSError) as error:
        parser.error(str(error))


async def _relay(options: Namespace) -> None:
    loss, ended = Loss(options.loss, options.burst, options.seed), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with LossyRelay(
        options.target, loss, options.port, options.delay, options.outage, 1000 * options.rate
    ) as relay:
        await ended.wait()
    print(f"{relay.lost} of {relay.lost + relay.passed} datagrams lost")


if __name__ == "__main__":
    main()
