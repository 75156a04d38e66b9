"""Addresses of streams on a network: udp://host:port, tcp://host:port, ws://host:port/path; @ listens."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from gsvc.codec.errors import ConfigError

SCHEMES = ("udp", "tcp", "ws")


@dataclass(frozen=True)
class Address:
    """Where a stream goes to or comes from.

    `listens`: wait for the other side at this port, written udp://@:5004 (any interface) or udp://@127.0.0.1:5004.
    `path` is that of a WebSocket, with its slash.
    """

    scheme: str
    host: str
    port: int
    listens: bool
    path: str = "/"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{'@' * self.listens}{host}:{self.port}{self.path.rstrip('/')}"


def parse_address(text: str) -> Address:
    """Read an address. Raises ConfigError for what is none."""
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
