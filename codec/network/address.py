"""Addresses of live streams, and what secures them: certificates (TLS) and shared keys (SRTP).

udp://host:port, tcp://, tls://, ws:// or wss://host:port/path; @ before the host listens there.

SRTP (RFC 3711) by `pylibsrtp` seals what is sent over UDP: docs/wire.md, section 10. Keys change
each minute, so no two sessions count through one key stream, and no handshake is needed.
"""

import os
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, typed
from gsvc.codec.media.places import read_secret
from gsvc.codec.network.rtcp import is_rtcp
from gsvc.codec.weights.extras import need

if TYPE_CHECKING:
    from pylibsrtp import Session

SCHEMES = ("udp", "tcp", "tls", "ws", "wss")
"""tls:// is TCP under TLS, as wss:// is a WebSocket under it."""


@dataclass(frozen=True)
class Address:
    """Where a stream goes to or comes from."""

    scheme: str
    host: str
    """Name or address; "" to listen at all interfaces."""
    port: int
    listens: bool
    """Wait here for the other side: udp://@:5004 or udp://@127.0.0.1:5004."""
    path: str = "/"
    """Path of a WebSocket, with its leading slash."""

    @property
    def is_multicast(self) -> bool:
        """Whether it is a group of receivers."""
        try:
            return ip_address(self.host).is_multicast
        except ValueError:  # a name
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{'@' * self.listens}{host}:{self.port}{self.path.rstrip('/')}"


def parse_address(text: str) -> Address:
    """Parse an address. Raises ConfigError for any other text."""
    with suppress(ValueError):  # urlsplit's
        parts = urlsplit(text)
        host, port, listens = parts.hostname or "", parts.port, "@" in parts.netloc
        if parts.scheme in SCHEMES and port and (host or listens) and not parts.username:
            return Address(parts.scheme, host, port, listens, parts.path or "/")
    raise ConfigError(
        f"{text!r} is no address: write udp://host:port, tcp://host:port or ws://host:port, with @ "
        "before the host to listen"
    )


@typed
@dataclass(frozen=True)
class TlsSettings:
    """Files in PEM. Raises ConfigError for a certificate without its key or a key without it."""

    certificate: str | Path | None = None
    """Certificate of this side and those above it: who listens needs one, who connects if asked."""
    private_key: str | Path | None = None
    """Its key."""
    authorities: str | Path | None = None
    """Certificates that vouch for the other side. None: the system's; who listens asks for none."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise ConfigError("a certificate and its key go together: give both or none")


def tls_context(address: Address, settings: TlsSettings) -> ssl.SSLContext | None:
    """The context of a tls:// or wss:// address, TLS 1.2 or newer; None for any other scheme.

    Raises ConfigError for files that cannot be used, for an address that listens without a
    certificate, and for certificates with another scheme.
    """
    if address.scheme not in ("tls", "wss"):
        if settings != TlsSettings():
            raise ConfigError(f"{address}: certificates are for tls:// and wss:// addresses")
        return None
    if address.listens and settings.certificate is None:
        why = f"{address}: to listen, {address.scheme}:// needs certificate= and private_key="
        raise ConfigError(why)
    try:
        if address.listens:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            if settings.authorities is not None:
                context.load_verify_locations(settings.authorities)
                context.verify_mode = ssl.CERT_REQUIRED
        else:
            context = ssl.create_default_context(cafile=settings.authorities)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.certificate is not None:
            # An empty password: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(settings.certificate, settings.private_key, password="")
        return context
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = f"{address}: its certificate or key cannot be used ({error}): are they PEM?"
        raise ConfigError(why) from error


@contextmanager
def refused(what: str, kind: type[GsvcError], advice: str) -> Iterator[None]:
    """What the system will not do with an address, as an error of this kind with advice."""
    try:
        yield
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise kind(f"cannot {what} ({why}): {advice}") from error


KEY_BYTES = 32
VARIABLE = "GSVC_KEY"
"""Environment variable that holds a key where no file is given."""
TAG_BYTES = 10
"""What sealing adds to an RTP datagram; to an RTCP one four more."""
MOST_BYTES = 1366
"""Of a sealed RTP datagram: what pylibsrtp has room for."""

_HOW = f"a key is {2 * KEY_BYTES} hexadecimal digits; make one with: openssl rand -hex {KEY_BYTES}"
_MASTER_BYTES = 16 + 14
_WINDOW = 1024  # datagrams that may come late: a sender repeats one of the last 512 at most
_MINUTE = 60.0
"""Seconds for which a master key is used, and by which the clocks of both sides may differ."""


@dataclass(frozen=True)
class WireKey:
    """A key for UDP, the same on both sides, in no message and no `repr`.

    Raises ConfigError for another length than 32 bytes and for a key of equal bytes,
    MissingDependencyError without the extra.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ConfigError(f"a key of {len(self.secret)} bytes: {_HOW}")
        if len(set(self.secret)) == 1:
            raise ConfigError(f"a key of equal bytes protects nothing: {_HOW}")
        need("secure", "a key")

    def session(self, minute: int, *, sends: bool, opens: bool) -> "Session":
        """The SRTP session of one minute since 1970 and one direction.

        `sends`: what the sender of the video sends; `opens`: this side opens it.
        """
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from pylibsrtp import Policy, Session

        use = b"gsvc srtp 1 from " + (b"sender " if sends else b"receiver ")
        master = HKDF(SHA256(), _MASTER_BYTES, None, use + minute.to_bytes(8)).derive(self.secret)
        policy = Policy(master, Policy.SSRC_ANY_INBOUND if opens else Policy.SSRC_ANY_OUTBOUND)
        policy.window_size = _WINDOW
        return Session(policy)


class Srtp:
    """One side of a session under a key: seals what it sends, and opens what the other side sent.

    `refused` counts datagrams that do not open: not sealed with the key, opened before, or sealed
    another minute than now, the one before or the next.
    """

    def __init__(
        self, key: WireKey, *, sends: bool, clock: Callable[[], float] = time.time
    ) -> None:
        """`sends`: this is the sender of the video; `clock`: gives the time of day."""
        self.refused = 0
        self.met_old_wire = False
        """Whether a datagram looked like those of gsvc before SRTP."""
        self._key, self._sends, self._clock = key, sends, clock
        self._minute = self._sequence = -1
        self._out: Session
        self._into: dict[int, Session] = {}

    def protect(self, datagram: bytes) -> bytes:
        """Seal an RTP or RTCP datagram. RTP ones come by rising sequence numbers, each once."""
        now = int(self._clock() / _MINUTE)
        if now > self._minute:
            self._begin(now)
        if is_rtcp(datagram):
            return bytes(self._out.protect_rtcp(datagram))
        sequence = int.from_bytes(datagram[2:4])
        # Who joins cannot know how often the numbers wrapped around: they do not within a key.
        if sequence < self._sequence and self._minute == now:
            self._begin(now + 1)
        self._sequence = sequence
        return bytes(self._out.protect(datagram))

    def unprotect(self, datagram: bytes) -> bytes | None:
        """The datagram that was sealed; None for any other bytes."""
        from pylibsrtp import Error

        now = int(self._clock() / _MINUTE)
        self._into = {at: one for at, one in self._into.items() if abs(at - now) <= 1}
        for minute in (now, now - 1, now + 1):
            if minute not in self._into:
                self._into[minute] = self._key.session(minute, sends=not self._sends, opens=True)
            session = self._into[minute]
            with suppress(Error, ValueError):  # ValueError: longer than anything it seals
                opens = session.unprotect_rtcp if is_rtcp(datagram) else session.unprotect
                return bytes(opens(datagram))
        self.refused += 1
        self.met_old_wire |= datagram[:1] in (b"\x01", b"\x02") and len(datagram) > 32
        return None

    def _begin(self, minute: int) -> None:
        self._minute, self._sequence = minute, -1
        self._out = self._key.session(minute, sends=self._sends, opens=False)


def srtp_of(address: Address, key: WireKey | None, *, sends: bool) -> Srtp | None:
    """What protects an address, None without a key. Raises ConfigError where that is not SRTP."""
    if key is not None and address.scheme != "udp":
        why = f"{address}: a key is for udp:// addresses: use tls:// or wss:// with certificates"
        raise ConfigError(why)
    return None if key is None else Srtp(key, sends=sends)


def find_key(
    path: str | Path | None, environment: Mapping[str, str] = os.environ
) -> WireKey | None:
    """The key in a file, else that in the environment variable GSVC_KEY, else None.

    Raises ConfigError for what is no key, and for a file that others than its owner can read.
    """
    if path is not None:
        return _parsed(read_secret(path), str(path))
    if VARIABLE in environment:
        return _parsed(environment[VARIABLE].encode(), VARIABLE)
    return None


def _parsed(text: bytes, where: str) -> WireKey:
    digits = text.strip()
    if re.fullmatch(rb"(?:[0-9a-fA-F]{2})+", digits) is None:
        raise ConfigError(f"{where} holds no key: {_HOW}")  # without a word of what it holds
    try:
        return WireKey(bytes.fromhex(digits.decode()))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
