"""Datagrams under a key: sealed and opened, each of them once, none of them late.

A sealed datagram is

    kind (1 byte), session (8 bytes), stamp (7 bytes), ciphertext, tag (16 bytes)

`kind` names the direction. `session` is random for each socket and salts its key. `stamp` is the
sender's time of day in microseconds; it increases with each datagram, is the nonce of AES-256-GCM,
and tells recordings from what is new: no handshake is needed, so that a receiver can join and a
sender can go on at any time. The first 16 bytes are authenticated too.
"""

import heapq
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gsvc.codec.network.wire_key import TAG_BYTES, WireKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HEAD_BYTES = 16
OVERHEAD_BYTES = HEAD_BYTES + TAG_BYTES
"""What sealing adds to a datagram."""
FRESH_SECONDS = 30.0
"""How far the clocks of both sides, and the time on the way, may lie apart."""

_SESSION_BYTES = 8
_STAMP_BYTES = HEAD_BYTES - 1 - _SESSION_BYTES
_NONCE_PADDING = bytes(12 - _STAMP_BYTES)
_KINDS = {True: b"\x01", False: b"\x02"}
"""First byte, by whether the sender of video seals; RTP and RTCP begin with 0x80 to 0xBF."""
_WINDOW = 1024
"""Stamps of a session that are remembered; what is older than all of them is refused."""
_SESSIONS = 16

_log = logging.getLogger(__name__)


class Sealer:
    """Seals the datagrams of one socket. `sends`: it is the sender of the video."""

    def __init__(
        self, key: WireKey, *, sends: bool, clock: Callable[[], float] = time.time
    ) -> None:
        self._head = _KINDS[sends] + secrets.token_bytes(_SESSION_BYTES)
        self._cipher = key.cipher(self._head, b"datagram")
        self._clock = clock
        self._stamp = 0

    def seal(self, datagram: bytes) -> bytes:
        """The sealed datagram, `OVERHEAD_BYTES` longer."""
        # Strictly increasing, also where the clock stands still or is set back: a nonce
        # that comes twice would give the key away.
        self._stamp = max(self._stamp + 1, int(self._clock() * 1_000_000))
        stamp = self._stamp.to_bytes(_STAMP_BYTES, "big")
        head = self._head + stamp
        return head + self._cipher.encrypt(_NONCE_PADDING + stamp, datagram, head)


class Opener:
    """Opens the datagrams of the other side; nothing else comes through.

    `refused` counts datagrams that were not sealed with the key, `replayed` those that came twice,
    or after a thousand later ones, and `stale` those that are sealed with the key and whose time
    is not now.
    """

    def __init__(
        self, key: WireKey, *, sends: bool, clock: Callable[[], float] = time.time
    ) -> None:
        """`sends`: the other side is the sender of the video."""
        self.refused = self.replayed = self.stale = 0
        self._key, self._kind, self._clock = key, _KINDS[sends], clock
        self._sessions: dict[bytes, tuple[AESGCM, _Window]] = {}

    @property
    def dropped(self) -> int:
        """Datagrams that did not come through."""
        return self.refused + self.replayed + self.stale

    def open(self, sealed: bytes) -> bytes | None:
        """The datagram; None for any other bytes, for one that came before, and for an old one."""
        from cryptography.exceptions import InvalidTag

        if len(sealed) < OVERHEAD_BYTES or sealed[:1] != self._kind:
            self.refused += 1
            return None
        head, stamp = sealed[:HEAD_BYTES], sealed[HEAD_BYTES - _STAMP_BYTES : HEAD_BYTES]
        session = head[:-_STAMP_BYTES]
        known = self._sessions.get(session)
        cipher, window = known or (self._key.cipher(session, b"datagram"), _Window())
        try:
            datagram = cipher.decrypt(_NONCE_PADDING + stamp, sealed[HEAD_BYTES:], head)
        except InvalidTag:
            self.refused += 1
            return None
        if not self._is_fresh(int.from_bytes(stamp, "big")):
            return None
        if not window.takes(int.from_bytes(stamp, "big")):
            self.replayed += 1
            return None
        if known is None:  # only who has the key can make us remember anything
            self._remember(session, cipher, window)
        return datagram

    def _is_fresh(self, stamp: int) -> bool:
        late = self._clock() - stamp / 1_000_000
        if abs(late) <= FRESH_SECONDS:
            return True
        if not self.stale:
            _log.warning(
                "a datagram with the right key is %.0f s %s and refused: "
                "a recording, or the clocks of both sides differ",
                abs(late),
                "old" if late > 0 else "ahead",
            )
        self.stale += 1
        return False

    def _remember(self, session: bytes, cipher: "AESGCM", window: "_Window") -> None:
        if len(self._sessions) == _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = cipher, window


class _Window:
    """The last stamps of a session: each is taken once, in any order."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._oldest_first: list[int] = []
        self._floor = -1

    def takes(self, stamp: int) -> bool:
        """Whether a stamp is new; it is not any more."""
        if stamp <= self._floor or stamp in self._seen:
            return False
        self._seen.add(stamp)
        heapq.heappush(self._oldest_first, stamp)
        if len(self._seen) > _WINDOW:
            self._floor = heapq.heappop(self._oldest_first)
            self._seen.remove(self._floor)
        return True
