"""What a receiver announces over a connection: messages the other way, in RTCP's packets.

Over TCP four bytes of length lead a message, as under a key.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gsvc.codec.errors import BitstreamError
from gsvc.codec.network.rtcp import BitrateLimit, PictureLimit, Rtcp, read_rtcp, write_rtcp
from gsvc.codec.network.tcp_websocket import Channel

_SECONDS = 1.0
"""Between two looks at what there is time for."""
_CHANGED = 0.1
"""By what share pictures a second differ from those announced before they are announced again."""
_MOST_BYTES = 256


@dataclass
class Announced:
    """Of one receiver; None: nothing was announced."""

    limit: float | None = None
    """The most bits per second."""
    pictures: float | None = None
    """The most coded pictures a second."""


async def announce(
    channel: Channel, bandwidth: float | None, pictures: Callable[[], float | None]
) -> None:
    """Tell a sender, over its connection, until cancelled or the connection ends.

    `bandwidth`: bits per second; `pictures`: gives coded pictures a second.
    """
    told: float | None = None
    with suppress(OSError, BitstreamError):
        if bandwidth is not None:
            await channel.write_message(write_rtcp(BitrateLimit(0, 0, bandwidth)))
        while True:
            now = pictures()
            if now is not None and (told is None or abs(now - told) > _CHANGED * told):
                told = now
                await channel.write_message(write_rtcp(PictureLimit(0, 0, now)))
            await asyncio.sleep(_SECONDS)


async def heed(channel: Channel, found: Announced) -> None:
    """Note in `found` what a receiver announces, until it sends what is none, or is gone."""
    with suppress(OSError, BitstreamError):
        while True:
            for packet in read_rtcp(await channel.read_message(_MOST_BYTES)):
                _note(packet, found)


def _note(packet: Rtcp, found: Announced) -> None:
    if isinstance(packet, BitrateLimit):
        found.limit = packet.bitrate
    elif isinstance(packet, PictureLimit):
        found.pictures = packet.pictures


def strictest(every: list[Announced]) -> Announced:
    """What keeps to all of them."""
    return Announced(
        min((one.limit for one in every if one.limit is not None), default=None),
        min((one.pictures for one in every if one.pictures is not None), default=None),
    )
