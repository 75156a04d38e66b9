"""An encoder that follows a network: what reports say becomes its rate, level and spacing."""

import time
from collections.abc import Callable
from dataclasses import replace

from gsvc.codec.encoder import Encoder
from gsvc.codec.errors import ConfigError
from gsvc.codec.network.pilot import Adaptation, Order, Pilot, Reception
from gsvc.codec.network.rtp_sender import RtpSender
from gsvc.codec.network.stats import IP_UDP_BYTES
from gsvc.codec.stream.ledger import Ledger

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
        self._dropped = 0
        self._packets = self._sent = 0.0

    def heard(self, rtp: RtpSender, bits: Ledger, dropped: int) -> None:
        """Take what a receiver told, if it is a new report.

        `bits`: of all packets so far; `dropped`: frames so far that the encoder had no time for.
        """
        self.pilot.limit, self.pilot.pictures = rtp.limit, rtp.pictures
        seen = rtp.reception
        if seen is None or seen is self._taken:
            return
        self._taken = seen
        now = sum(bits.values()), 8 * (rtp.bytes + IP_UDP_BYTES * rtp.datagrams)
        packets, sent = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        self._packets = _KEPT * self._packets + packets
        self._sent = _KEPT * self._sent + sent
        self._report(seen, self._packets / max(1.0, self._sent), dropped)

    def measured(self, seen: Reception, dropped: int) -> None:
        """Take what a connection told: all bits are of packets. `dropped`: as of `heard`."""
        self._report(seen, 1.0, dropped)

    def _report(self, seen: Reception, share: float, dropped: int) -> None:
        since, self._dropped = dropped - self._dropped, dropped
        self.pilot.report(replace(seen, at=self._clock()), share, since)

    def steer(self) -> bool:
        """Let the encoder do what the pilot says; False: it is to leave this frame out."""
        now = self._clock()
        if self.pilot.is_paused(now):
            return False
        order = self.pilot.order(now)
        if order != self._order:
            self._order = order
            self._encoder.follow(order.bitrate, order.level, order.preset)
        return True
