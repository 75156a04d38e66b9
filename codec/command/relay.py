"""`gsvc relay`: cameras and players stay as they are, the link between them carries gsvc."""

import asyncio
import time
from argparse import Namespace
from functools import partial

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.command import recv, send
from gsvc.codec.media.places import display_name, is_live
from gsvc.codec.network.address import parse_address
from gsvc.codec.network.congestion_control import Adaptation
from gsvc.codec.network.player_relay import NO_SOUND, Outage, PageRelay, PlayerRelay, newest

USAGE = f"""Connect a camera and a player over a thin link, by one relay at each end. At the
camera, SOURCE is rtsp://..., /dev/video0, an .sdp file (RTP), udp://0.0.0.0:port (MPEG-TS) or a
file, and TARGET an address of gsvc send. Without a rate or level, the rate follows the link between
8 and 120 kbit/s. At the player, SOURCE is an address of gsvc recv (udp://@:port, tcp://, ws://...),
and TARGET udp://host:port or rtp://host:port (MPEG-TS), rtsp://server/name (a server that accepts
ANNOUNCE), /dev/video10 (v4l2loopback), or http://host:port for the page of gsvc serve. The player
gets H.264 at a constant frame rate, without sound. While no new picture arrives, the picture says
"frozen, as of 12 s ago". A relay reconnects after a loss. Ctrl-C ends it.

source SOURCE           the camera, or the address of a gsvc stream
target TARGET           the address of gsvc send, or the player
{send.SENDING}{recv.RECEIVING}
--burn-in-age           show the age of pictures older than 2 s; both clocks must agree
{recv.SECURITY}"""
_GSVC = "udp://@", "tcp://", "tls://", "ws://", "wss://"
"""How a SOURCE begins that sends gsvc."""
_LINK = Adaptation(8_000, 120_000)
"""What a link is taken to carry unless told, in bits per second."""
DEFAULTS = (Namespace(load=0.8), *recv.DEFAULTS, *send.DEFAULTS)
"""A player's video waits for nothing, so drawing may take this share of the time."""
TYPES = {**send.TYPES, **recv.TYPES}
_UNASKED = {"start": 0.0, "frames": None, "loop": False, "audio": None, "sdp": None}
"""What else gsvc send takes."""


def run(options: Namespace) -> int:
    """Relay until interrupted, or to the end of a file."""
    return (_to_player if options.source.startswith(_GSVC) else _from_camera)(options)


def _to_player(options: Namespace) -> int:
    settings, where = recv.receive_settings(options), (options.source, options.target)
    relay: PageRelay | PlayerRelay
    if options.target.startswith("http://"):
        relay = PageRelay(where[0], settings, where[1])
    else:
        relay = PlayerRelay(where[0], settings, where[1], options.fps, options.burn_in_age)
    watch = recv.Watch(relay, options, lambda: relay.note)

    async def shown() -> None:
        async with watch:
            await relay.run()

    return recv.run_watched(shown(), watch)


def _from_camera(options: Namespace) -> int:
    del options.seed  # of what the receiver draws
    vars(options).update(_UNASKED, no_sound=NO_SOUND)
    given = options.bitrate, options.total_bitrate, options.level, options.adapt
    if options.low_delay and given == (None,) * len(given):
        options.adapt = _LINK
    parse_address(options.target)  # before the camera is waited for
    options.address, camera = options.target, is_live(options.source)
    outage = Outage(display_name(options.source))
    frames_of: send.FramesOf = partial(newest, outage=outage) if camera else iter
    try:
        while _is_lost(options, frames_of, outage):
            pass
    except KeyboardInterrupt:  # while it is opened again
        if not outage.has_been_there:
            raise
    return 0


def _is_lost(options: Namespace, frames_of: send.FramesOf, outage: Outage) -> bool:
    """Send; whether the camera was lost, after a pause, or else it is over."""
    why = f"{outage.name}: it ended"
    try:
        sent = send.send_video(options, *send.settings_for(options), frames_of)
        if asyncio.run(sent) or frames_of is iter:
            return False
    except GsvcError as error:
        if isinstance(error, ConfigError) or not outage.has_been_there:
            raise
        why = str(error)
    time.sleep(outage.lost(why))
    return True
