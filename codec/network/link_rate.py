"""Keeping to what a link takes: the size of intra pictures, the time of all, and the rate.

`RateAdapter` lets the encoder follow the network: reports become its rate, level and spacing.
`LinkRate` keeps all that is sent within a rate that is known.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import ceil, inf

from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import check_bitrate
from gsvc.codec.api.target_size import LEAST_BESIDE, SOUND
from gsvc.codec.bitstream.errors import ConfigError, typed
from gsvc.codec.bitstream.stream_info import Ledger
from gsvc.codec.network import congestion_control, rtp
from gsvc.codec.network.rtp_session import RtpSender
from gsvc.codec.network.tcp_websocket import Announced
from gsvc.encoders.tuning import LEAST_BITRATE

_ROOM, _LEAST_ROOM = 0.6, 1 / 3
"""Seconds for an intra picture and what waits before it; least part that it may take alone."""
_HOLD, _LONGEST_HOLD = 0.5, 1.0
"""Part of the room that is taken from which on frames wait for a later packet; seconds for which
they do so, from where on they are left out."""
_LONGEST_WAIT = 2.0  # the same where pictures follow each other as fast as the link takes them
_KEPT = 0.9
"""Of what was counted before, at each report: seconds differ, an intra picture comes every four."""


class Pacer:
    """Keeps what waits before a link short, by the size of intra pictures and the time of all."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._held: float | None = None

    def lets(
        self, now: float, waits: float, rate: float, most: float = _ROOM, ahead: float | None = None
    ) -> bool:
        """Let the frame of second `now` pass or wait; False: it is to be left out.

        `waits`: seconds of what was sent that the link has not taken yet; `rate`: bits per second
        that it has for pictures; `most`: seconds that an intra picture and what waits before it may
        take; `ahead`: that may wait when another picture comes, which it does then. None: a part of
        `most`, and pictures come when they are due.
        """
        is_held = waits > (_HOLD * most if ahead is None else ahead)
        self._held = (self._held or now) if is_held else None
        longest = _LONGEST_HOLD if ahead is None else _LONGEST_WAIT
        if self._held is not None and now - self._held > longest:
            return False
        room = max(_LEAST_ROOM * most, most - waits)
        self._encoder.hold(is_held=is_held, intra_bits=room * rate, fills=ahead is not None)
        return True


class RateAdapter:
    """Holds a sender's controller. `heard` runs in the event loop, `steer` where it encodes."""

    def __init__(
        self,
        encoder: Encoder,
        bounds: congestion_control.Adaptation,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: gives seconds.

        Raises ConfigError for an encoder that looks ahead, or that has no rate to begin with.
        """
        if not encoder.is_low_delay:
            raise ConfigError(
                "with look-ahead a rate follows the network seconds too late: leave out one of them"
            )
        start = encoder.target_bitrate
        if start is None:
            raise ConfigError("a rate that follows the network needs one to begin with: a bitrate")
        form = encoder.header.format
        pixel_rate = float(form.width * form.height * form.frame_rate)
        self._encoder, self._clock = encoder, clock
        first = min(bounds.most, max(bounds.least, start))
        self.controller = congestion_control.CongestionController(
            bounds, first, pixel_rate, encoder.preset
        )
        self._taken: congestion_control.Reception | None = None
        self._order: congestion_control.EncoderOrder | None = None
        self._before = 0, 0
        self._dropped = self._reports = 0
        self._flight, self._pacer = congestion_control.InFlight(), Pacer(encoder)
        self._share, self._packets, self._sent = 0.5, 0.0, 0.0

    def heard(self, session: RtpSender, bits: Ledger, dropped: int) -> None:
        """Take what a receiver told, if it is a new report.

        `bits`: of all packets so far; `dropped`: frames so far that the encoder had no time for.
        """
        self.controller.limit, self.controller.pictures = session.limit, session.pictures
        if session.reports != self._reports:
            self._reports = session.reports
            if carried := self._flight.told(self._clock(), session.arrived):
                self.controller.carried(carried)
        seen = session.reception
        if seen is None or seen is self._taken:
            return
        self._taken = seen
        now = sum(bits.values()), 8 * session.wire_bytes
        packets, sent = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        self._packets, self._sent = _KEPT * self._packets + packets, _KEPT * self._sent + sent
        self._share = self._packets / max(1.0, self._sent)
        self.controller.tried = self._flight.burst(self._clock(), _ROOM)
        self._report(seen, self._share, dropped)
        self._flight.trip = self.controller.shortest_trip or self._flight.trip

    def sent(self, session: RtpSender) -> None:
        """Take note of what was sent just now."""
        self._flight.sent(self._clock(), 8 * session.wire_bytes)

    def measured(
        self, seen: congestion_control.Reception, dropped: int, announced: Announced
    ) -> None:
        """Take what a connection told: all bits are of packets. `dropped`: as of `heard`."""
        self.controller.limit, self.controller.pictures = announced.limit, announced.pictures
        self._report(seen, 1.0, dropped)

    def _report(self, seen: congestion_control.Reception, share: float, dropped: int) -> None:
        since, self._dropped = dropped - self._dropped, dropped
        self.controller.report(replace(seen, at=self._clock()), share, since)

    def steer(self) -> bool:
        """Let the encoder do what the controller says; False: it is to leave this frame out."""
        now = self._clock()
        if self.controller.is_paused(now):
            return False
        rate = self.controller.estimate
        room = self.controller.of_packets(rate, self._share)
        if not self._pacer.lets(now, self._flight.waiting(now, rate), room):
            return False
        order = self.controller.order(now)
        if order != self._order:
            self._order = order
            self._encoder.follow(order.bitrate, order.level, order.preset)
        return True


_LOOK = 4.0  # seconds of video for which a link is watched before a rate moves
_AIM = 0.95  # of a link, what is aimed at: without look-ahead a rate is only neared
_AHEAD = 0.1
"""Seconds of a link's queue at which the next picture is coded: it is never idle for a frame."""
_ENDING = 0.6  # seconds of a link that the end of a stream takes, about
_TOLD_LATE = 1.5  # seconds that a link is slower before anybody tells, about
_MOVES = 0.1  # in proportion to a rate: a smaller change is not worth telling the encoder
_FIRST_COPIES, _HEADED = 0.5, 0.85
"""Of all bits of pictures, those that copies repeat and those that parity covers, to begin with; of
a thin link, what headers leave."""
_PIECE_ROOM, _PIECE_HEADS = rtp.RTP_HEADER_BYTES + rtp.PIECE_HEAD_BYTES, 52
"""Bytes of a datagram that a piece leaves to headers; that these take, with IP and UDP."""
_COPIED = 25.0  # bits per second of a link up to which copies fit, by bytes of a small datagram
SOUND_HEADERS = 2_000.0
"""Bits per second of headers where there is sound: of its packets, and of two or three datagrams a
second, which it shares with pictures."""
_OPUS_TAKES = 0.9  # of its rate: .8 in speech, .9 in music at 6 and 8 kbit/s
LEAST_WITH_SOUND = SOUND[0] + SOUND_HEADERS + LEAST_BESIDE  # of a link, bits per second
_LEAST_SHARE, _INTRA_SHARE, _BARE_SHARE = 0.1, 0.65, 0.9
"""Of a link, for pictures; of all that an intra picture takes, itself, with parity and without."""
LEAST_LINK = 1_000.0  # bits per second; below, headers leave nothing
_LINK_ROOM = 1.0  # seconds of the link that an intra picture and what waits before it may take
_THIN, _THIN_AGAIN = (3.0, 8_800.0), (1.2, 6_000.0)
"""Seconds that an intra picture may take on a thin link, and bits from which it needs no more: with
fewer it is a smear, at any size. The second where groups begin without a request, after the first.
"""


def intra_seconds(rate: float, share: float = _INTRA_SHARE, *, is_free: bool = True) -> float:
    """How long an intra picture may take of a link, getting `share` of `rate` bits per second."""
    longest, bits = _THIN if is_free else _THIN_AGAIN
    return max(_LINK_ROOM, min(longest, bits / (share * rate)))


@typed
class LinkRate:
    """Keeps all that is sent within the rate of a link: the pictures get what sound, copies, parity
    and headers leave them. Call `lets` before each frame and `sent` after it; where nothing
    was sent, that may be left out.

    `total`: bits per second, in all, 1000 or more, else ConfigError; the encoder's bitrate is where
    its pictures begin. `longest_intra`: most seconds of the link that an intra picture takes, by
    coarser pixels, above 0; at most 3 even without this limit.
    """

    def __init__(self, encoder: Encoder, total: float, longest_intra: float = inf) -> None:
        check_bitrate(total, LEAST_LINK)
        if not longest_intra > 0:
            raise ConfigError(f"an intra picture of {longest_intra:g} s: give more than 0")
        self._longest = longest_intra
        self._encoder, self._at, self._total = encoder, 0.0, _AIM * total
        # The last picture and the end, which wait for nothing, are paid for at the beginning.
        self._queue, self._sent = _ENDING * self._total, (0.0, 0.0)
        self._owed = 0.0  # bits that wait since the link got slower, for which half of it goes
        self._pictures, self._all, self._before = 0.0, 0.0, (0.0, 0.0, 0.0)
        self._pacer = Pacer(encoder)

    @typed
    def meet(self, total: float, late: float = _TOLD_LATE) -> None:
        """The link has another rate, in bits per second: the pictures' follows in seconds. After a
        fall, half of the link takes what was sent too fast in the `late` seconds before anybody
        knew. Raises ConfigError for a rate that no link has and for another `late` than 0 or more.
        """
        check_bitrate(total, LEAST_LINK)
        if not 0 <= late < inf:
            raise ConfigError(f"late {late:g}: give seconds, 0 where the fall is known at once")
        now, less = self._encoder.target_bitrate, _AIM * total / self._total
        self._owed = max(0.0, self._owed + late * (1 - less) * self._total)
        self._total *= less
        if now and less < 1:
            self._encoder.target_bitrate = max(LEAST_BITRATE, less * now)

    @typed
    def lets(self, seconds: float, beside: float = 0.0, unprotected: float = inf) -> bool:
        """Whether to encode the frame that ends at this second of the video. False: leave it out.
        With look-ahead a group's pictures come at once, and all are encoded.

        `beside`: bits per second that sound takes; `unprotected`: see `Packetizer`.
        """
        if not self._encoder.is_low_delay:
            return True
        waits = self.left(seconds) / self._total
        rate = max(_LEAST_SHARE * self._total, self._total - beside)
        # A group that nobody asked for comes every few seconds: it is not to take most of them.
        is_free = self._encoder.keyframes_on_request or not self._sent[0]
        for share in (_BARE_SHARE, _INTRA_SHARE):
            most = min(self._longest, intra_seconds(rate, share, is_free=is_free))
            if share * rate * most <= unprotected:
                break
        ahead = _AHEAD if self._sent[1] else _LONGEST_WAIT  # the first picture waits for nothing
        return self._pacer.lets(seconds, waits, share * rate, most, ahead)

    def left(self, seconds: float) -> float:
        """Bits of what was sent that have not left at this second: they wait before the link."""
        taken = self._total * (seconds - self._sent[0])
        return max(0.0, self._queue - taken + min(self._owed, taken / 2))

    def dropped(self, total: float) -> None:
        """Note that packets which waited for the link were dropped: `total` bits remain of all."""
        self._queue = max(0.0, self._queue + total - self._sent[1])
        self._sent = self._sent[0], total

    @typed
    def sent(self, seconds: float, pictures: float, total: float, sound: float = 0.0) -> None:
        """Note what was sent up to this second of the video: bits of `pictures`, of all with
        headers, and of `sound` among them, since the beginning."""
        # What was not used is gone; what was too much waits before the link.
        queue, (before, others), self._sent = self.left(seconds), self._sent, (seconds, total)
        self._owed = max(0.0, self._owed - self._total * (seconds - before) / 2)
        self._queue = queue + total - others
        if seconds - self._at < _LOOK:
            return
        beside = (sound - self._before[2]) / (seconds - self._at)
        more, self._at = total - self._before[1] - (sound - self._before[2]), seconds
        self._pictures = 0.5 * self._pictures + pictures - self._before[0]
        self._all, self._before = 0.5 * self._all + more, (pictures, total, sound)
        share = min(1.0, max(_LEAST_SHARE, self._pictures / max(1.0, self._all)))
        room = max(_LEAST_SHARE * self._total, self._total - beside - queue / _LOOK)
        now = self._encoder.target_bitrate
        if now is None or abs(share * room / now - 1) > _MOVES:
            with suppress(ConfigError):  # after its last packets it takes no rate
                self._encoder.target_bitrate = max(LEAST_BITRATE, share * room)


def sound_bits(rate: float) -> float:
    """Bits per second of a link that sound takes at an Opus encoder's rate, headers included."""
    return _OPUS_TAKES * rate + SOUND_HEADERS


FACES = 4_000.0  # bits per second of live pictures below which faces are coarse, by eye


def sound_verdict(total: float, sound: float, wire: rtp.WireSettings) -> str:
    """What to do where sound, headers included, leaves pictures too few bits for faces; else ""."""
    left, alone = (pictures_within(total, taken, wire) for taken in (sound, 0.0))
    if not sound or left >= FACES:
        return ""
    least = ceil((sound + (total - sound) * FACES / left) / 1000)
    return (
        f"sound leaves so little of {total / 1000:g} kbit/s that faces are coarse: take --audio "
        f"none (pictures then get {alone / 1000:.1f} kbit/s) or about {least} kbit/s in all"
    )


def pictures_within(total: float, sound: float, wire: rtp.WireSettings) -> float:
    """Bits per second that pictures may begin with on a link of `total`, with sound of `sound`."""
    copies, heads = _FIRST_COPIES * wire.redundancy, 1.0
    held, usual = (mtu - _PIECE_ROOM for mtu in (wire.mtu, rtp.WireSettings.mtu))
    if held < usual:
        copies *= min(1.0, _COPIED * held / total)
        heads += _PIECE_HEADS / held - _PIECE_HEADS / usual
    if wire.parity_span:
        copies += _FIRST_COPIES / wire.parity_span
    room = _AIM * max(_LEAST_SHARE * total, total - sound) / (1 + copies) / heads
    return room if sound else _HEADED * room  # a sound's headers count pictures' too
