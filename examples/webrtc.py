"""Video over WebRTC data channels with aiortc: pip install gsvc aiortc

    python examples/webrtc.py IN OUT

Both peers run in this process; an application carries their session descriptions between them.
Messages are the datagrams of docs/wire.md. Those of INTRA packets go over a reliable channel, all
others over one without retransmissions; the depacketizer merges the two and tells when to request a
new group.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from aiortc import RTCDataChannel, RTCPeerConnection

import gsvc

LIMITS = gsvc.Limits.restrictive()
NEW_GROUP = "new group"
POLL_SECONDS = 0.05


async def send(
    peer: RTCPeerConnection, encoder: gsvc.Encoder, frames: Iterable[gsvc.Frame]
) -> None:
    """Send frames in real time. Call it before the offer: it creates the data channels."""
    reliable = peer.createDataChannel("gsvc-intra")
    lossy = peer.createDataChannel("gsvc", ordered=False, maxRetransmits=0)
    packetizer = gsvc.Packetizer(encoder.header)
    encoder.keyframes_on_request = True

    @reliable.on("message")
    def asked(text: str) -> None:
        if text == NEW_GROUP:
            with suppress(gsvc.ConfigError):  # the stream has ended
                encoder.force_keyframe()

    while not reliable.readyState == lossy.readyState == "open":
        await asyncio.sleep(0.01)
    time_base, began = float(encoder.header.format.time_base), time.monotonic()

    async def due() -> AsyncIterator[gsvc.Frame]:
        for frame in frames:
            await asyncio.sleep(max(0.0, began + frame.pts * time_base - time.monotonic()))
            yield frame

    async for packet in gsvc.encode_stream(encoder, due()):
        # Pictures between INTRA packets are worthless when they are late.
        channel = lossy if packet.is_picture and not packet.is_intra else reliable
        for datagram in packetizer.packetize([packet]):
            channel.send(datagram.to_bytes())


class Inbox:
    """The packets that come over a peer's data channels."""

    def __init__(self, peer: RTCPeerConnection) -> None:
        self.depacketizer = gsvc.Depacketizer(LIMITS)
        self._queue: asyncio.Queue[gsvc.Packet] = asyncio.Queue()
        self._reliable: RTCDataChannel | None = None
        peer.on("datachannel", self._opened)

    async def packets(self) -> AsyncIterator[gsvc.Packet]:
        """Packets in order up to the END."""
        while True:
            try:
                packet = await asyncio.wait_for(self._queue.get(), POLL_SECONDS)
            except TimeoutError:
                self._take(self.depacketizer.poll(time.monotonic()))
                if self._reliable and self.depacketizer.header and self.depacketizer.needs_key:
                    self._reliable.send(NEW_GROUP)
                continue
            yield packet
            if packet.type == gsvc.PacketType.END:
                return

    def _opened(self, channel: RTCDataChannel) -> None:
        if channel.ordered:
            self._reliable = channel
        push = self.depacketizer.push
        channel.on("message", lambda data: self._take(push(data, time.monotonic())))

    def _take(self, packets: list[gsvc.Packet]) -> None:
        for packet in packets:
            self._queue.put_nowait(packet)


async def receive(
    peer: RTCPeerConnection, steps: int = 0
) -> AsyncIterator[tuple[gsvc.Header, gsvc.Frame]]:
    """The frames that come, each with the stream's header."""
    inbox = Inbox(peer)
    packets = inbox.packets()
    first = await anext(packets)
    header = inbox.depacketizer.header
    assert header is not None  # it comes with the first packet
    settings = gsvc.DecoderSettings(steps=steps, conceal=True)
    with gsvc.Decoder(header, settings, LIMITS) as decoder:
        for frame in decoder.decode(first):
            yield header, frame
        async for frame in gsvc.decode_stream(decoder, packets):
            yield header, frame


async def connect(offering: RTCPeerConnection, answering: RTCPeerConnection) -> None:
    """Exchange session descriptions, as an application does over its own signalling."""
    await offering.setLocalDescription(await offering.createOffer())
    await answering.setRemoteDescription(offering.localDescription)
    await answering.setLocalDescription(await answering.createAnswer())
    await offering.setRemoteDescription(answering.localDescription)


async def relay(source: str, target: str) -> int:
    """Send a video from one peer to another, which writes it; gives the number of frames."""
    here, there = RTCPeerConnection(), RTCPeerConnection()
    count = 0
    with gsvc.open_video(source) as video:
        settings = gsvc.EncoderSettings(low_delay=True, preset="fast")
        encoder = gsvc.Encoder(video.format, settings)
        receiving = receive(there)
        sending = asyncio.create_task(send(here, encoder, video))
        coming = asyncio.ensure_future(anext(receiving))
        # Both begin: the channels exist then, and the other peer listens for them.
        await asyncio.sleep(0)
        await connect(here, there)
        header, frame = await coming
        with gsvc.open_writer(target, header.format, overwrite=True) as writer:
            writer.write(frame)
            count = 1
            async for _, frame in receiving:
                writer.write(frame)
                count += 1
        await sending
    await asyncio.gather(here.close(), there.close())
    return count


if __name__ == "__main__":
    print(asyncio.run(relay(*sys.argv[1:])), "frames")
