"""Rules by which a sender chooses its rate: one that stays, a plain one, and gsvc's own."""

from collections.abc import Callable

from gsvc.codec.encoder import Encoder
from gsvc.codec.network.pilot import Adaptation, Reception
from gsvc.codec.network.rtp_sender import RtpSender
from gsvc.codec.network.stats import IP_UDP_BYTES, LayerMeter
from gsvc.codec.network.steering import Steering

BOUNDS = Adaptation(3_000, 60_000)


class Fixed:
    """A rate that stays."""

    def __init__(self, encoder: Encoder) -> None:
        """`encoder` has its rate."""

    def heard(self, rtp: RtpSender, meter: LayerMeter) -> None:
        """Take no notice."""

    def sent(self, rtp: RtpSender) -> None:
        """Take no notice."""

    def steer(self) -> bool:
        """Stay."""
        return True


class Throughput:
    """The plain rule: a tenth more than came in the last second, or a fifth less after loss."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._taken: Reception | None = None
        self._before = 0, 0
        self._rate: float | None = None

    def heard(self, rtp: RtpSender, meter: LayerMeter) -> None:
        """Take a new report."""
        seen = rtp.reception
        if seen is None or seen is self._taken:
            return
        self._taken = seen
        now = sum(meter.bits.values()), 8 * (rtp.bytes + IP_UDP_BYTES * rtp.datagrams)
        packets, sent = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        wanted = seen.bitrate * (0.8 if seen.lost else 1.1) * packets / max(1, sent)
        self._rate = min(BOUNDS.most, max(BOUNDS.least, wanted))

    def sent(self, rtp: RtpSender) -> None:
        """Take no notice."""

    def steer(self) -> bool:
        """Meet it."""
        if self._rate is not None and self._rate != self._encoder.target_bitrate:
            self._encoder.target_bitrate = self._rate
        return True


class Following:
    """What `gsvc send --adapt` does."""

    def __init__(self, encoder: Encoder, clock: Callable[[], float]) -> None:
        self._steering = Steering(encoder, BOUNDS, clock)

    def heard(self, rtp: RtpSender, meter: LayerMeter) -> None:
        """Take a new report."""
        self._steering.heard(rtp, meter.bits, 0)

    def sent(self, rtp: RtpSender) -> None:
        """Take note of what is under way."""
        self._steering.sent(rtp)

    def steer(self) -> bool:
        """Follow."""
        return self._steering.steer()


Rule = Fixed | Throughput | Following
