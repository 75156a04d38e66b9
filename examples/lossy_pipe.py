"""Two processes and a transport that loses messages: the receiver asks for a keyframe.

    python examples/lossy_pipe.py IN OUT [N]

Every Nth picture packet is lost (5). Late messages are concealed. Each holds a numbered packet: the
decoder sees what is missing. Where a loss costs too much, take
`gsvc.Packetizer` (examples/webrtc.py): it makes datagrams, with copies and parity.
"""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection

import gsvc

LIMITS = gsvc.Limits.restrictive()
NEW_KEYFRAME = "new keyframe"
ROUND_TRIP = 1.0
"""Seconds from a request to its picture, at least: none is sent meanwhile."""


def send(source: str, link: Connection, every: int) -> None:
    """Encode in real time; begin a new group when the receiver asks."""
    settings = gsvc.EncoderSettings(low_delay=True, preset="fast")
    with gsvc.open_video(source) as video, gsvc.Encoder(video.format, settings) as encoder:
        encoder.keyframes_on_request = True
        link.send(encoder.header.to_bytes())  # the header must arrive: send it again if it may not
        began = time.monotonic()

        def deliver(packets: Iterable[gsvc.Packet]) -> None:
            for packet in packets:
                if packet.number is None or (packet.number + 1) % every:
                    link.send(packet.to_bytes(numbered=True))

        for frame in video:
            due = began + float(frame.pts * video.format.time_base)
            time.sleep(max(0.0, due - time.monotonic()))
            if link.poll():
                link.recv()
                encoder.force_keyframe()
            deliver(encoder.encode(frame))
        deliver(encoder.flush())


def receive(link: Connection, target: str) -> tuple[int, int, int]:
    """Write the video; gives the frames, the concealed ones among them, and the requests."""
    header, asked = gsvc.Header.from_bytes(link.recv()), -ROUND_TRIP
    frames = concealed = requests = 0
    settings = gsvc.DecoderSettings(steps=0, conceal=True)
    with (
        gsvc.Decoder(header, settings, LIMITS) as decoder,
        gsvc.open_writer(target, header.format, overwrite=True) as writer,
    ):
        while True:
            packet = gsvc.Packet.from_bytes(link.recv(), LIMITS, numbered=True)
            for frame in decoder.decode(packet):
                writer.write(frame)
                frames += 1
                concealed += frame.concealed
            if packet.type == gsvc.PacketType.END:
                return frames, concealed, requests
            if decoder.needs_key and time.monotonic() - asked > ROUND_TRIP:
                asked, requests = time.monotonic(), requests + 1
                with suppress(BrokenPipeError):  # the sender has ended
                    link.send(NEW_KEYFRAME)


if __name__ == "__main__":
    source, target, *rest = sys.argv[1:]
    here, there = Pipe()
    sender = Process(target=send, args=(source, there, int(rest[0]) if rest else 5))
    sender.start()
    there.close()  # so that reading ends with the sender
    frames, concealed, requests = receive(here, target)
    print(f"{frames} frames, {concealed} concealed, {requests} keyframes asked for")
    sender.join()
