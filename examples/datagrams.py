"""Datagrams over a thin link: losses, a receiver that comes late, a rate that falls by half.

    python examples/datagrams.py IN OUT [RATE]

RATE: bits per second in all, IP and UDP headers included (12000). The link here is a list; yours is
a socket or a radio, which sends no faster than RATE.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import replace

import cv2

import gsvc

LOSS, LATE, FALL = 0.05, 2.0, 6.0
"""Share of datagrams lost; seconds when the receiver comes, and when the link falls to half of its
rate. A sender may keep its size then, by `LinkRate.meet`; here a smaller one goes on."""
SMALLER = 0.7
"""Of the sides: half of the pixels for half of the rate."""
RETRY_BITS = 24_000
"""Bits of the link from one request for a keyframe to the next, about what it takes."""
IP_UDP = 28
WAIT = 1.5
"""Seconds that pictures wait for a datagram that is asked for again."""
KEPT = 64
"""Datagrams that the sender keeps for that."""
TOLD = 10.0
"""Seconds of video from one line of progress to the next."""
CLOCK = 1 << 31
"""Ticks of a camera's clock at its first frame: the encoder makes them 0, of each sender anew."""


class Sender:
    """Frames to datagrams, at the rate of the link and the size of `video`."""

    def __init__(self, video: gsvc.VideoFormat, rate: float, began: float) -> None:
        self.size = video.width, video.height
        settings = gsvc.EncoderSettings(
            bitrate=rate / 2,  # to begin with: headers, copies and parity take about as much
            low_delay=True,
            preset="fast",
            faces=False,
        )
        self.encoder = gsvc.Encoder(video, settings)
        self.encoder.keyframes_on_request = True
        self.packetizer = gsvc.Packetizer(self.encoder.header)
        self.link, self.rate, self.began = gsvc.LinkRate(self.encoder, rate), rate, began
        self.bits = self.wire_bits = 0
        self.kept: dict[int, tuple[bytes, float]] = {}  # by number; when it left again
        self.key_left = 0.0  # when the last INTRA packet has left the link

    def send(self, frame: gsvc.Frame, seconds: float) -> list[bytes]:
        """The datagrams that leave once the frame has come; none if it only waits."""
        if not self.link.lets(seconds - self.began, unprotected=self.packetizer.unprotected):
            return []  # no room: the frame is left out
        pixels = cv2.resize(frame.pixels, self.size, interpolation=cv2.INTER_AREA)
        return self._sent(self.encoder.encode(pixels, frame.pts + CLOCK), seconds)

    def answer(self, seconds: float) -> None:
        """The receiver asks for a keyframe: one that is on its way, as after a cut, will do."""
        if seconds >= self.key_left:  # and a round trip, where it is long
            self.encoder.force_keyframe()

    def again(self, numbers: list[int], seconds: float) -> list[bytes]:
        """The datagrams that the receiver asks for once more, unless that still waits to leave."""
        found = [one for one in numbers if one in self.kept and seconds >= self.kept[one][1]]
        datagrams = self._counted([self.kept[one][0] for one in found], seconds)
        self.kept.update((one, (self.kept[one][0], self._left(seconds))) for one in found)
        return datagrams

    def end(self, seconds: float) -> list[bytes]:
        """The datagrams of the frames that still wait."""
        return self._sent(self.encoder.flush(), seconds)

    def _sent(self, packets: list[gsvc.Packet], seconds: float) -> list[bytes]:
        made = self.packetizer.packetize(packets)
        self.kept.update((one.sequence, (one.to_bytes(), 0.0)) for one in made)
        for old in list(self.kept)[:-KEPT]:
            del self.kept[old]
        self.bits += sum(8 * len(packet.to_bytes()) for packet in packets)
        datagrams = self._counted([one.to_bytes() for one in made], seconds)
        if any(packet.is_intra for packet in packets):
            self.key_left = self._left(seconds)
        return datagrams

    def _left(self, seconds: float) -> float:
        """When all that was sent has left the link."""
        return seconds + self.link.left(seconds - self.began) / self.rate

    def _counted(self, datagrams: list[bytes], seconds: float) -> list[bytes]:
        self.wire_bits += sum(8 * (len(one) + IP_UDP) for one in datagrams)
        self.link.sent(seconds - self.began, self.bits, self.wire_bits)
        return datagrams


class Receiver:
    """Datagrams to frames. `asks` says when to ask for a keyframe."""

    def __init__(self, rate: float) -> None:
        patience = gsvc.ReorderLimits(seconds=WAIT)
        self.depacketizer = gsvc.Depacketizer(gsvc.Limits.restrictive(), patience)
        self.decoder: gsvc.Decoder | None = None
        self.header: gsvc.Header | None = None
        self.retry = RETRY_BITS / rate  # seconds
        self.asked = -self.retry
        self.last, self.shift, self.shown = -1, 0, 0.0
        self.size: tuple[int, int] | None = None  # of what is shown, whatever comes

    def take(self, datagram: bytes | None, now: float) -> Iterator[gsvc.Frame]:
        """The frames that can be shown; without a datagram, those that waited long enough."""
        come = self.depacketizer
        for packet in come.poll(now) if datagram is None else come.push(datagram, now):
            if come.header and come.header is not self.header:  # the first sender, or another
                settings = gsvc.DecoderSettings(steps=0, conceal=True)
                self.decoder, self.header = gsvc.Decoder(come.header, settings), come.header
            assert self.decoder is not None
            if packet.type == gsvc.PacketType.INTRA:
                self.asked = -self.retry  # what was asked for has come
            for frame in self.decoder.decode(packet):
                yield self._placed(frame, now)

    def _placed(self, frame: gsvc.Frame, now: float) -> gsvc.Frame:
        """The frame at the first size, with a time that goes on after a restart."""
        assert self.header is not None
        if self.size is None:
            self.size = frame.pixels.shape[1], frame.pixels.shape[0]
        pixels = cv2.resize(frame.pixels, self.size, interpolation=cv2.INTER_CUBIC)
        if frame.pts + self.shift <= self.last:  # times begin anew
            gap = round((now - self.shown) / float(self.header.format.time_base))
            self.shift = self.last + max(1, gap) - frame.pts
        self.last, self.shown = frame.pts + self.shift, now
        return replace(frame, pixels=pixels, pts=self.last)

    def asks(self, now: float) -> bool:
        """Whether to ask for a keyframe now."""
        come = self.depacketizer
        needs = come.needs_key or (self.decoder is not None and self.decoder.needs_key)
        if come.source is None or not needs or now - self.asked < self.retry:
            return False  # before anything came, the sender's first picture may be under way
        self.asked = now
        return True


def main(source: str, target: str, rate: float) -> None:
    """Send `source` over the link, write what is shown to `target`."""
    lost, receiver, sent, sender = random.Random(1), Receiver(rate), 0, None
    shown = concealed = 0
    tells = TOLD

    def told() -> str:
        return f"{sent / now / 1000:.1f} kbit/s in all, {shown} frames, {concealed} concealed"

    def link(datagrams: list[bytes], now: float) -> None:
        nonlocal sent, shown, concealed
        sent += sum(8 * (len(one) + IP_UDP) for one in datagrams)
        kept = [one for one in datagrams if lost.random() >= LOSS and now > LATE]
        for datagram in (*kept, None):
            for picture in receiver.take(datagram, now):
                writer.write(picture)
                shown, concealed = shown + 1, concealed + picture.concealed

    with gsvc.open_video(source) as video, gsvc.open_writer(target, video.format) as writer:
        for frame in video:
            now = float(frame.pts * video.format.time_base + 1 / video.format.frame_rate)
            if sender is None:
                sender = Sender(video.format, rate, 0.0)
            elif sender.began == 0 and now > FALL:
                link(sender.end(now), now)
                width, height = (round(SMALLER * side) for side in sender.size)
                smaller = replace(video.format, width=width, height=height)
                sender = Sender(smaller, rate / 2, now)
            if now > LATE and receiver.asks(now):
                sender.answer(now)
            if now > LATE:
                link(sender.again(receiver.depacketizer.to_nack(now), now), now)
            link(sender.send(frame, now), now)
            if now >= tells:
                tells += TOLD
                print(f"{now:.0f} s: {told()}", file=sys.stderr, flush=True)
        if sender:
            link(sender.end(now), now)
    print(told())


if __name__ == "__main__":
    main(*sys.argv[1:3], rate=float(sys.argv[3]) if len(sys.argv) > 3 else 12_000.0)
