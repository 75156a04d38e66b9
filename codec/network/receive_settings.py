"""`ReceiveSettings`: the choices of a receiver."""

from dataclasses import dataclass, field
from math import inf

from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.limits import Limits
from gsvc.codec.network.depacketizer import ReorderLimits
from gsvc.codec.network.tls import TlsSettings
from gsvc.codec.network.wire_key import WireKey
from gsvc.codec.typed import typed


@typed
@dataclass(frozen=True)
class ReceiveSettings:
    """How to receive. Raises ConfigError for a `silence`, `bandwidth` or `load` that is not
    positive."""

    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    """The decoder's settings; `conceal` is always on."""
    reorder: ReorderLimits = field(default_factory=ReorderLimits)
    """Bounds of the jitter buffer (UDP)."""
    feedback: bool = True
    """Send NACK, PLI and receiver reports (UDP)."""
    bandwidth: float | None = None
    """The most bits per second that the sender is told to send, headers included; it keeps them
    if its rate follows the network. None: no limit is told."""
    load: float | None = None
    """Share of the time that decoding may take, above 0: refiner and learned motion are left out
    where there is no time for them. None: they are always used."""
    silence: float | None = None
    """Seconds without a packet after which the stream has ended; None waits for ever."""
    limits: Limits = field(default_factory=Limits.restrictive)
    """Limits on the stream: restrictive by default, because senders are not trusted."""
    key: WireKey | None = None
    """Nothing is taken that is not sealed with it."""
    tls: TlsSettings = field(default_factory=TlsSettings)
    """Certificates of a wss:// address."""

    def __post_init__(self) -> None:
        if self.silence is not None and self.silence <= 0:
            raise ConfigError(f"silence of {self.silence} s: choose a positive time")
        if self.bandwidth is not None and not 0 < self.bandwidth < inf:
            raise ConfigError(f"bandwidth {self.bandwidth:g}: choose a positive rate, as 12k")
        if self.load is not None and not 0 < self.load < inf:
            raise ConfigError(f"load {self.load:g}: choose a positive share, as 0.8")
