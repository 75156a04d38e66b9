"""The last datagrams sent, kept for retransmission."""

from collections.abc import Iterable
from dataclasses import dataclass

_DATAGRAMS, _BYTES = 512, 2 << 20
_REPEATS = 3


@dataclass
class _Sent:
    data: bytes
    repeats: int = 0
    repeated: float = float("-inf")
    """When it was sent again."""


class RetransmissionBuffer:
    """Keeps at most 512 datagrams and 2 MiB.

    Each is sent again at most 3 times, so that forged requests cause little traffic, and once in a
    round trip: a request that comes earlier was made before the repetition could arrive.
    """

    def __init__(self) -> None:
        self._sent: dict[int, _Sent] = {}
        self._bytes = 0

    def add(self, sequence: int, data: bytes) -> None:
        """Keep a datagram and drop the oldest ones."""
        self._drop(sequence)
        self._sent[sequence] = _Sent(data)
        self._bytes += len(data)
        while len(self._sent) > _DATAGRAMS or self._bytes > _BYTES:
            self._drop(next(iter(self._sent)))

    def again(self, sequences: Iterable[int], now: float, round_trip: float) -> list[bytes]:
        """The datagrams of these sequence numbers, as far as they may be sent again.

        `now`, `round_trip`: in seconds.
        """
        found = []
        for sequence in sequences:
            sent = self._sent.get(sequence)
            if sent and sent.repeats < _REPEATS and now - sent.repeated >= round_trip:
                sent.repeats, sent.repeated = sent.repeats + 1, now
                found.append(sent.data)
        return found

    def _drop(self, sequence: int) -> None:
        old = self._sent.pop(sequence, None)
        if old:
            self._bytes -= len(old.data)
