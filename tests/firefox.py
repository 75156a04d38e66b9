"""A real Firefox, driven by WebDriver BiDi over its remote port."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from browsing import SECONDS
from needs import lack, need_package

FIREFOX = shutil.which("firefox") or shutil.which("firefox-esr")


class FirefoxPage:
    """One tab."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._count = connection, 0
        self.version = self._ask("session.new", capabilities={})["capabilities"]["browserVersion"]
        self._tab = self._ask("browsingContext.create", type="tab")["context"]

    def open(self, url: str) -> None:
        """Load a page."""
        self._ask("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        result = self._ask(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._tab},
            awaitPromise=True,
            userActivation=True,
        )
        if result["type"] == "exception":
            raise AssertionError(result["exceptionDetails"]["text"])
        text = result["result"].get("value")
        return None if text is None else json.loads(text)

    def screenshot(self, path: Path) -> None:
        """What is seen, as PNG."""
        shot = self._ask("browsingContext.captureScreenshot", context=self._tab)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        command = {"id": self._count, "method": method, "params": parameters}
        self._connection.send(json.dumps(command))
        while True:
            answer: dict[str, Any] = json.loads(self._connection.recv(timeout=SECONDS))
            if answer.get("id") != self._count:
                continue
            if answer["type"] == "error":
                raise AssertionError(f"{method}: {answer['message']}")
            result: dict[str, Any] = answer["result"]
            return result


@contextmanager
def firefox() -> Iterator[FirefoxPage]:
    """A tab of the browser; ends the test where there is none."""
    client = need_package("websockets.sync.client")
    if FIREFOX is None:
        lack("firefox", "no Firefox here: apt-get install firefox-esr")
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said.txt"
        profile = ("--no-remote", "--profile", folder)
        with open(said, "wb") as file:
            process = subprocess.Popen(
                [FIREFOX, "--headless", "--remote-debugging-port=0", *profile],
                stdout=file,
                stderr=file,
            )
        try:
            address = _address(said)
            with client.connect(address, max_size=None, open_timeout=SECONDS) as connection:
                yield FirefoxPage(connection)
        finally:
            process.terminate()
            process.wait(SECONDS)


def _address(said: Path) -> str:
    """Where Firefox listens, as soon as it says so."""
    end = monotonic() + SECONDS
    while monotonic() < end:
        if found := re.search(r"listening on (ws://\S+)\s", said.read_text(errors="replace")):
            return f"{found.group(1)}/session"
        sleep(0.05)
    lack("firefox", f"Firefox does not start: {said.read_text(errors='replace')}")
