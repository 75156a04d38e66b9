"""A small live video, and what sends and receives it over sockets of this machine."""

import asyncio
import socket
from collections.abc import Coroutine, Iterator
from fractions import Fraction
from itertools import cycle
from typing import Any

import numpy as np

import gsvc
from gsvc import Frame, ReorderLimits, VideoFormat, VideoReceiver

RATE = Fraction(50)
VIDEO = VideoFormat(96, 64, 1 / RATE, RATE)
SETTINGS = gsvc.EncoderSettings(
    level=3,
    preset="fast",
    low_delay=True,
    tools=gsvc.Tools(segmentation=False, pose=False, flow=False),
)
STILL = gsvc.DecoderSettings(steps=0)
PATIENT = ReorderLimits(seconds=20.0)
"""On a machine too busy to keep pace, nothing is made up."""
SECONDS = 120
"""What is waited for at most."""


def frames(count: int) -> list[Frame]:
    """A texture that moves, and stops at times."""
    texture = np.random.default_rng(0).integers(0, 255, (64, 48, 3), dtype=np.uint8)
    texture = np.kron(texture, np.ones((4, 4, 1), np.uint8))
    pictures = (np.ascontiguousarray(texture[8:72, n % 90 :][:, :96]) for n in range(count))
    return [Frame(picture, n + 5 * (n // 15)) for n, picture in enumerate(pictures)]


def endless() -> Iterator[Frame]:
    return (Frame(frame.pixels, n) for n, frame in enumerate(cycle(frames(90))))


def socket_of(scheme: str) -> socket.SocketKind:
    return socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM


def free_port(kind: socket.SocketKind = socket.SOCK_DGRAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, SECONDS))


async def collect(receiver: VideoReceiver, into: list[Frame]) -> None:
    async for frame in receiver.frames():
        into.append(frame)


async def listening(port: int, kind: socket.SocketKind = socket.SOCK_DGRAM) -> None:
    """Ends as soon as somebody in this event loop listens at the port."""
    while True:
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return
        await asyncio.sleep(0.01)


async def some(shown: list[Frame]) -> None:
    while len(shown) < 10:
        await asyncio.sleep(0.02)
