"""The HTTP server of the browser decoder: its page (decoders/browser) and a stream to play.

The stream is in a file, served with ranges (RFC 9110, section 14), or one that is being sent.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET, AF_INET6
from threading import Lock
from typing import BinaryIO, cast
from urllib.parse import urlsplit

from gsvc.codec.api.decode_file import decode
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.container import StreamReader
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, GsvcError, InputError, Limits
from gsvc.codec.media import mapping, places
from gsvc.codec.network.address import Address, parse_address, refused
from gsvc.decoders.keyframes.restorer.runtime import FILE as NETWORK

PAGE = Path(str(files("gsvc.decoders") / "browser" / "page"))
_TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8", ".wasm": "application/wasm", ".gz": "application/gzip",
    ".json": "application/json", ".onnx": "application/octet-stream",
    ".gsv": "application/octet-stream", ".mp4": "video/mp4", ".txt": "text/plain; charset=utf-8",
}  # fmt: skip
_POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self' ws: wss:; "
    "img-src data:; object-src 'none'; frame-ancestors 'self'; base-uri 'none'"
)
_ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Browsers share memory between threads, which the restorer takes, on isolated pages alone."""
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:\d*)?")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_SECONDS = 60  # after which a connection that says nothing is closed


class FileSource:
    """A stream in a file, or in what `mux` wrote. Close it at the end."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        """Check the file's header. Raises InputError, BitstreamError."""
        self.path, self._name, self._limits = path, path.name, limits
        self._folder = tempfile.TemporaryDirectory(prefix="gsvc-serve-")
        self._lock = Lock()
        try:
            if places.is_container(path):
                self.path = Path(self._folder.name) / "stream.gsv"
                mapping.demux(path, self.path)
            with places.open_stream(self.path) as file:
                StreamReader(file, limits)
        except BaseException:
            self.close()
            raise

    @property
    def about(self) -> dict[str, str | float | None]:
        """What the page is told."""
        return {"name": self._name, "live": None}

    def video(self) -> Path:
        """The video, decoded when it is first asked for. Raises GsvcError."""
        target = Path(self._folder.name) / "video.mp4"
        with self._lock:  # Whoever asks meanwhile waits for it.
            if not target.exists():
                decode(self.path, target, settings=DecoderSettings(steps=0), limits=self._limits)
        return target

    def close(self) -> None:
        """Remove the decoded video and the stream of a mapped one."""
        self._folder.cleanup()


class LiveSource:
    """What `gsvc send` sends to all who connect to its WebSocket; browsers do so themselves."""

    path = None

    def __init__(self, address: str, late: Callable[[], float | None] | None = None) -> None:
        """`late`: gives how old pictures are when they come here, in seconds, None: not known.

        Raises ConfigError for an address that browsers cannot connect to."""
        parsed = parse_address(address)
        if parsed.scheme not in ("ws", "wss") or parsed.listens:
            raise ConfigError(
                f"{address}: a browser connects to ws://host:port or wss://host:port; "
                "run gsvc send IN ws://@:port there"
            )
        self._address, self._late = str(parsed), late

    @property
    def about(self) -> dict[str, str | float | None]:
        """What the page is told: `late` only where it may be asked again."""
        late = {"late": self._late()} if self._late else {}
        return {"name": self._address, "live": self._address, **late}

    def video(self) -> None:
        """There is no file to decode."""

    def close(self) -> None:
        """Nothing is held."""


Source = FileSource | LiveSource


class PlayerServer(ThreadingHTTPServer):
    """Serves one source to any number of players; closes it at the end of its `with` block."""

    daemon_threads = True

    def __init__(self, source: Source, host: str, port: int) -> None:
        """Listen. Raises InputError when the address cannot be used; port 0 takes a free one."""
        self._source, self.address_family = source, AF_INET6 if ":" in host else AF_INET
        with refused(f"serve at {host}:{port}", InputError, "choose another --host or --port"):
            super().__init__((host, port), partial(_Handler, source))
            self.is_local = _is_loopback(str(self.server_address[0]))

    def server_close(self) -> None:
        """Stop to listen, and close the source."""
        super().server_close()
        self._source.close()

    @property
    def address(self) -> str:
        """The page's."""
        host, port = self.server_address[:2]
        return f"{Address('http', str(host), port, listens=False)}/"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gsvc", ""
    timeout = _SECONDS

    def __init__(self, source: Source, *arguments: object) -> None:
        self._source = source
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """A file of the page, the source's description, the stream, or its decoded video."""
        with suppress(ConnectionError, TimeoutError):  # who does not want the rest
            if not self._is_meant():
                why = "this server answers to localhost only: open http://localhost:PORT/"
                self._refuse(HTTPStatus.MISDIRECTED_REQUEST, why)
                return
            self._answer(urlsplit(self.path).path.lstrip("/") or "index.html")

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Players are not worth a line each."""

    def _is_meant(self) -> bool:
        """Whether a server of this machine alone is asked by a name of this machine. Any page of
        the web could otherwise read the stream, by a name of its own that it makes resolve to
        127.0.0.1 (DNS rebinding)."""
        if not cast(PlayerServer, self.server).is_local:
            return True
        hosts = self.headers.get_all("Host", [])
        return len(hosts) == 1 and _is_local(hosts[0].strip())

    def _answer(self, name: str) -> None:
        if name == "source.json":
            self._tell(HTTPStatus.OK, "application/json", json.dumps(self._source.about))
            return
        try:
            path = self._path_of(name)
            if path is None:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such file")
                return
            with open(path, "rb") as file:
                self._send(file, _TYPES[Path(name).suffix])
        except GsvcError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except FileNotFoundError:
            self._refuse(HTTPStatus.NOT_FOUND, "the stream was moved or removed")

    def _path_of(self, name: str) -> Path | None:
        if name == "stream.gsv":
            return self._source.path
        if name == "video.mp4":
            return self._source.video()
        beside = NETWORK, NETWORK.with_suffix(".json")
        files = {path.name: path for path in (*PAGE.iterdir(), *beside)}
        return files.get(name)

    def _send(self, file: BinaryIO, kind: str) -> None:
        """All of a file, or the range that is asked for."""
        size = os.fstat(file.fileno()).st_size
        wanted = self.headers.get("Range")
        part = None if wanted is None else _part(wanted, size)
        if wanted is not None and part is None:
            self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, kind, 0, f"bytes */{size}")
            return
        first, end = part or (0, size)
        status, span = HTTPStatus.OK, None
        if part is not None:
            status, span = HTTPStatus.PARTIAL_CONTENT, f"bytes {first}-{end - 1}/{size}"
        self._head(status, kind, end - first, span)
        if self.command != "HEAD":
            file.seek(first)
            while data := file.read(min(end - first, 1 << 16)):  # no more, even if it has grown
                self.wfile.write(data)
                first += len(data)

    def _head(self, status: HTTPStatus, kind: str, size: int, span: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Accept-Ranges", "bytes")
        if span is not None:
            self.send_header("Content-Range", span)
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in _ISOLATED.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._tell(status, _TYPES[".txt"], f"{why}\n")

    def _tell(self, status: HTTPStatus, kind: str, text: str) -> None:
        self._head(status, kind, len(text.encode()))
        if self.command != "HEAD":
            self.wfile.write(text.encode())


def _is_loopback(address: str) -> bool:
    try:
        found = ip_address(address)
        mapped = getattr(found, "ipv4_mapped", None)  # ::ffff:127.0.0.1, before Python 3.13
        return (mapped or found).is_loopback
    except ValueError:  # a name
        return False


def _is_local(host: str) -> bool:
    """Whether a Host field names this machine: localhost, 127.0.0.1, [::1] ... at any port."""
    match = _HOST.fullmatch(host)
    name = match.group(1).lower() if match else ""
    is_bare = ":" in name and not name.startswith("[")
    return name == "localhost" or (not is_bare and _is_loopback(name.strip("[]")))


def _part(wanted: str, size: int) -> tuple[int, int] | None:
    """First byte and end of a range; None where the file has none of it, or of several ranges."""
    match = _RANGE.fullmatch(wanted.strip())
    first, last = match.groups() if match else ("", "")
    if first == last == "":
        return None
    if first == "":
        return (max(size - int(last), 0), size) if int(last) and size else None
    end = min(int(last) + 1, size) if last else size
    return (int(first), end) if int(first) < end else None
