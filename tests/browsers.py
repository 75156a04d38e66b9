"""Real browsers with the player's page, and what they show."""

import base64
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from browsing import chromium, new_page
from firefox import firefox
from gsvc.codec.network.player_server import FileSource, PlayerServer, Source

_FRAMES = (Path(__file__).parent / "player/frames_in_page.js").read_text()


class Page(Protocol):
    """A tab."""

    version: str

    def open(self, url: str) -> None:
        """Load a page."""

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""

    def screenshot(self, path: Path) -> None:
        """What is seen, as PNG."""


class _ChromiumPage:
    def __init__(self, browser: Any) -> None:
        self._page, self.version = new_page(browser), browser.version

    def open(self, url: str) -> None:
        self._page.goto(url)

    def evaluate(self, expression: str) -> Any:
        return self._page.evaluate(f"async () => ({expression})")

    def screenshot(self, path: Path) -> None:
        self._page.screenshot(path=path)


@contextmanager
def _chromium_page() -> Iterator[Page]:
    with chromium() as browser:
        yield _ChromiumPage(browser)


BROWSERS: dict[str, Callable[[], AbstractContextManager[Page]]] = {
    "chromium": _chromium_page,
    "firefox": firefox,
}


@contextmanager
def served(source: Source | Path, host: str = "127.0.0.1") -> Iterator[PlayerServer]:
    """A server of a stream."""
    given = FileSource(source) if isinstance(source, Path) else source
    with PlayerServer(given, host, 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class Shown(NamedTuple):
    """A frame as a browser decodes it."""

    pts: int
    pixels: NDArray[np.uint8]
    """RGB (H, W, 3); empty where only the time is measured."""
    seconds: float
    """What it took."""


def decoded(
    page: Page,
    server: PlayerServer,
    *,
    pixels: bool = True,
    faces: bool = True,
    restored: bool = False,
) -> Iterator[Shown]:
    """The frames of the server's stream, as a browser decodes them one by one."""
    page.open(f"{server.address}player.css")  # nothing else runs in this page
    header = page.evaluate(_FRAMES)
    if not faces:
        page.evaluate("window.leaveOutFaces()")
    if restored:
        page.evaluate("window.restore()")
    shape = header["height"], header["width"], 4
    while frame := page.evaluate(f"window.nextFrame({str(pixels).lower()})"):
        data = np.frombuffer(base64.b64decode(frame["pixels"]), np.uint8)
        image = data.reshape(shape)[..., :3] if pixels else data
        yield Shown(frame["pts"], image, frame["took"] / 1000)
