"""What a player's page is given to play: a stream in a file, or one that is being sent."""

import tempfile
from pathlib import Path
from threading import Lock

from gsvc.codec.api.decode_file import decode
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.container import StreamReader
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.media.mapped_reader import demux
from gsvc.codec.media.places import is_container, open_stream
from gsvc.codec.network.address import parse_address


class FileSource:
    """A stream in a file, or in what `mux` wrote. Close it at the end."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        """Check the file's header. Raises InputError, BitstreamError."""
        self.path, self._name, self._limits = path, path.name, limits
        self._folder = tempfile.TemporaryDirectory(prefix="gsvc-serve-")
        self._lock = Lock()
        try:
            if is_container(path):
                self.path = Path(self._folder.name) / "stream.gsv"
                demux(path, self.path)
            with open_stream(self.path) as file:
                StreamReader(file, limits)
        except BaseException:
            self.close()
            raise

    @property
    def about(self) -> dict[str, str | None]:
        """What the page is told."""
        return {"name": self._name, "live": None}

    def video(self) -> Path:
        """The video, decoded when it is first asked for. Raises GsvcError."""
        target = Path(self._folder.name) / "video.mp4"
        with self._lock:  # Whoever asks meanwhile waits for it.
            if not target.exists():
                settings = DecoderSettings(steps=0)
                decode(self.path, target, settings=settings, limits=self._limits)
        return target

    def close(self) -> None:
        """Remove the decoded video and the stream of a mapped one."""
        self._folder.cleanup()


class LiveSource:
    """What `gsvc send` sends to all who connect to its WebSocket; browsers do so themselves."""

    path = None

    def __init__(self, address: str) -> None:
        """Raises ConfigError for an address that browsers cannot connect to."""
        parsed = parse_address(address)
        if parsed.scheme not in ("ws", "wss") or parsed.listens:
            raise ConfigError(
                f"{address}: a browser connects to ws://host:port or wss://host:port; "
                "run gsvc send IN ws://@:port there"
            )
        self._address = str(parsed)

    @property
    def about(self) -> dict[str, str | None]:
        """What the page is told."""
        return {"name": self._address, "live": self._address}

    def video(self) -> None:
        """There is no file to decode."""

    def close(self) -> None:
        """Nothing is held."""


Source = FileSource | LiveSource
