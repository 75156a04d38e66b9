"""Addresses of live streams: udp://host:port, tcp://, ws:// or wss://host:port/path; @ listens."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from gsvc.codec.errors import ConfigError

SCHEMES = ("udp", "tcp", "ws", "wss")


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
