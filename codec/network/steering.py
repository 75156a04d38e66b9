"""An encoder that follows a network: what reports say becomes its rate, level and spacing."""

import time
from collections.abc import Callable
from dataclasses import replace

from gsvc.codec.encoder import Encoder
from gsvc.codec.errors import ConfigError
from gsvc.codec.network.announcing import Announced
from gsvc.codec.network.flight import Flight
from gsvc.codec.network.pilot import Adaptation, Order, Pilot, Reception
from gsvc.codec.network.rtp_sender import RtpSender
from gsvc.codec.network.stats import IP_UDP_BYTES
from gsvc.codec.stream.ledger import Ledger

_HOLD, _LONGEST_HOLD = 0.3, 1.0
"""Seconds of queue from which frames wait for a later packet; seconds for which they do so, from
where on they are left out."""
_ROOM, _LEAST_ROOM = 0.6, 0.2
"""Seconds that an intra picture and what waits before it may take; at least, the picture alone."""
_WARY = 20.0
"""Seconds after a loss for which packets are sent twice."""
_KEPT = 0.9
"""Of what was counted before, at each report: seconds differ, an intra picture comes every four."""


class Steering:
    """Holds the pilot of a sender. `heard` runs in the event loop, `steer` where frames are
    encoded."""

    def __init__(
        self,
        encoder: Encoder,
        bounds: Adaptation,
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
        self.pilot = Pilot(bounds, first, pixel_rate, encoder.preset)
        self._taken: Reception | None = None
        self._order: Order | None = None
        self._before = 0, 0
        self._dropped = self._reports = 0
        self._flight = Flight()
        self._held: float | None = None
        self._share, self._lost = 0.5, float("-inf")
        self._packets = self._sent = 0.0

    def heard(self, rtp: RtpSender, bits: Ledger, dropped: int) -> None:
        """Take what a receiver told, if it is a new report.

        `bits`: of all packets so far; `dropped`: frames so far that the encoder had no time for.
        """
        self.pilot.limit, self.pilot.pictures = rtp.limit, rtp.pictures
        if rtp.reports != self._reports:
            self._reports = rtp.reports
            if carried := self._flight.told(self._clock(), rtp.arrived):
                self.pilot.carried(carried)
        seen = rtp.reception
        if seen is None or seen is self._taken:
            return
        self._taken = seen
        now = sum(bits.values()), 8 * (rtp.bytes + IP_UDP_BYTES * rtp.datagrams)
        packets, sent = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        self._packets = _KEPT * self._packets + packets
        self._sent = _KEPT * self._sent + sent
        self._share = self._packets / max(1.0, self._sent)
        self.pilot.tried = self._flight.burst(self._clock(), _ROOM)
        if seen.lost:
            self._lost = self._clock()
        rtp.protects = self._clock() - self._lost < _WARY
        self._report(seen, self._share, dropped)
        self._flight.trip = self.pilot.shortest_trip or self._flight.trip

    def sent(self, rtp: RtpSender) -> None:
        """Take note of what was sent just now."""
        self._flight.sent(self._clock(), 8 * (rtp.bytes + IP_UDP_BYTES * rtp.datagrams))

    def measured(self, seen: Reception, dropped: int, announced: Announced) -> None:
        """Take what a connection told: all bits are of packets. `dropped`: as of `heard`."""
        self.pilot.limit, self.pilot.pictures = announced.limit, announced.pictures
        self._report(seen, 1.0, dropped)

    def _report(self, seen: Reception, share: float, dropped: int) -> None:
        since, self._dropped = dropped - self._dropped, dropped
        self.pilot.report(replace(seen, at=self._clock()), share, since)

    def steer(self) -> bool:
        """Let the encoder do what the pilot says; False: it is to leave this frame out."""
        now = self._clock()
        if self.pilot.is_paused(now):
            return False
        rate = self.pilot.estimate
        waits = self._flight.waiting(now, rate)
        is_held = waits > _HOLD
        self._held = (self._held or now) if is_held else None
        if self._held is not None and now - self._held > _LONGEST_HOLD:
            return False
        room = max(_LEAST_ROOM, _ROOM - waits)
        self._encoder.hold(is_held=is_held, intra_bits=room * rate * self._share)
        order = self.pilot.order(now)
        if order != self._order:
            self._order = order
            self._encoder.follow(order.bitrate, order.level, order.preset)
        return True
