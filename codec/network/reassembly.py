"""Reassembly of one picture packet from its fragments and their parity."""

from dataclasses import dataclass, field

from gsvc.codec.errors import BitstreamError
from gsvc.codec.network.parity import parity
from gsvc.codec.network.rtp_payload import Piece
from gsvc.codec.stream.packet import Packet

PIECE_COST = 128
"""Bytes of memory that a piece takes beside its data."""


@dataclass
class PendingPacket:
    """A picture packet in the jitter buffer, whole or in pieces."""

    since: float
    """When its last piece came, or, without any, when it was found missing."""
    timestamp: int = 0
    """Unwrapped RTP timestamp."""
    group: int = 0
    """Number of the INTRA packet that it builds on."""
    packet: Packet | None = None
    """The packet, once it is whole."""
    size: int = 0
    """Bytes of memory."""
    _count: int = 0
    _stripes: int = 0
    _fragments: dict[int, bytes] = field(default_factory=dict)
    _parities: dict[int, bytes] = field(default_factory=dict)

    def add(self, piece: Piece, data: bytes) -> bytes | None:
        """Add a piece and repair what it allows; gives the packet's bytes once all are there.

        Raises BitstreamError for a piece that contradicts those before it.
        """
        self._count = self._count or piece.count
        self._stripes = self._stripes or piece.stripes
        if piece.count != self._count or piece.stripes not in (0, self._stripes):
            raise BitstreamError("pieces of a packet do not fit together: one is damaged")
        self._keep(self._parities if piece.stripes else self._fragments, piece.index, data)
        if self._stripes:
            self._repair(piece.index % self._stripes)
        if len(self._fragments) < self._count:
            return None
        return b"".join(self._fragments[index] for index in range(self._count))

    def complete(self, packet: Packet, size: int) -> None:
        """Keep the whole packet of `size` bytes in place of its pieces."""
        self.packet, self.size = packet, size + PIECE_COST
        self._fragments, self._parities = {}, {}

    def _keep(self, pieces: dict[int, bytes], index: int, data: bytes) -> None:
        if index not in pieces:
            pieces[index] = data
            self.size += len(data) + PIECE_COST

    def _repair(self, stripe: int) -> None:
        """Restore the one fragment that a stripe lacks, if its parity came.

        The packet's last fragment may come back padded with zeros.
        """
        members = range(stripe, self._count, self._stripes)
        lost = [index for index in members if index not in self._fragments]
        if stripe in self._parities and len(lost) == 1:
            known = [self._fragments[index] for index in members if index != lost[0]]
            self._keep(self._fragments, lost[0], parity([*known, self._parities[stripe]]))
