"""Addresses of live streams, and the certificates of tls:// and wss:// ones.

udp://host:port, tcp://, tls://, ws:// or wss://host:port/path; @ before the host listens there.
"""

import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.typed import typed

SCHEMES = ("udp", "tcp", "tls", "ws", "wss")
"""tls:// is TCP under TLS, as wss:// is a WebSocket under it."""


@dataclass(frozen=True)
class Address:
    """Where a stream goes to or comes from."""

    scheme: str
    """One of SCHEMES."""
    host: str
    """Name or address; "" to listen at all interfaces."""
    port: int
    """1-65535."""
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
    how = (
        "write udp://host:port, tcp://host:port or ws://host:port, with @ before the host to listen"
    )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError(f"{text!r} is no address: {how}") from error
    listens = "@" in parts.netloc
    if parts.scheme not in SCHEMES or not port or not (host or listens) or parts.username:
        raise ConfigError(f"{text!r} is no address: {how}")
    return Address(parts.scheme, host, port, listens, parts.path or "/")


@typed
@dataclass(frozen=True)
class TlsSettings:
    """Files in PEM. Raises ConfigError for a certificate without its key or a key without it."""

    certificate: str | Path | None = None
    """Certificate of this side and those above it; who listens needs one, who connects where the
    other side asks for it."""
    private_key: str | Path | None = None
    """Its key."""
    authorities: str | Path | None = None
    """Certificates that vouch for the other side. None takes the system's when connecting, and asks
    for none when listening."""

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
        raise ConfigError(
            f"{address}: to listen, {address.scheme}:// needs certificate= and private_key="
        )
    try:
        return _context(address, settings)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"{address}: its certificate or key cannot be used ({error}): are they PEM?"
        ) from error


def _context(address: Address, settings: TlsSettings) -> ssl.SSLContext:
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
