"""The player in real browsers, against Python's decoder."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import gsvc
from browsers import BROWSERS, Page, decoded, served
from browsing import SECONDS
from gsvc.codec.network.player_server import LiveSource
from test_player import made_for_the_restorer

GOLDEN = sorted(Path(__file__).parent.glob("golden/*.gsv"))
STATE = """(() => {
    const screen = document.getElementById("screen");
    return {
        message: document.getElementById("message").textContent,
        time: Number(document.getElementById("seek").value),
        label: document.getElementById("play").getAttribute("aria-label"),
        pixel: [...screen.getContext("2d").getImageData(5, 5, 1, 1).data],
        note: document.getElementById("note").textContent,
        restore: document.getElementById("restore").textContent,
        said: window.said ?? [],
        size: [screen.width, screen.height],
    };
})()"""
LISTEN = """(() => {
    const message = document.getElementById("message");
    window.said = [];
    new MutationObserver(() => window.said.push(message.textContent)).observe(
        message, { childList: true, characterData: true, subtree: true });
    return null;
})()"""
"""From then on the state has all that was said, also for a moment."""


@pytest.fixture(params=sorted(BROWSERS), scope="module")
def page(request: pytest.FixtureRequest) -> Any:
    with BROWSERS[request.param]() as opened:
        yield opened


def frames_of(path: Path, steps: int = 0) -> list[gsvc.Frame]:
    """Python's."""
    with open(path, "rb") as file:
        reader = gsvc.StreamReader(file)
        with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=steps)) as decoder:
            return [frame for packet in reader for frame in decoder.decode(packet)]


def until(page: Page, is_so: Callable[[dict[str, Any]], bool]) -> None:
    """Ends as soon as the page's state is so."""
    end = monotonic() + SECONDS
    while not is_so(state := page.evaluate(STATE)):
        assert monotonic() < end, state
        sleep(0.05)


def press(page: Page, key: str) -> None:
    page.evaluate(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}}}))")


def seek(page: Page, frame: gsvc.Frame) -> None:
    """Moves the bar to a frame; ends as soon as its picture is there too."""
    seconds, color = frame.pts / 25, frame.pixels[5, 5].astype(int)
    page.evaluate(
        f"document.getElementById('seek').value = {seconds}, "
        "document.getElementById('seek').dispatchEvent(new Event('input')), null"
    )
    until(page, lambda s: abs(s["time"] - seconds) < 1e-6)
    until(page, lambda s: np.abs(s["pixel"][:3] - color).max() <= 12)


def test_browsers_decode_golden_streams_as_python_does(page: Page) -> None:
    for path in GOLDEN:
        with served(path) as server:
            shown = list(decoded(page, server))
        expected = frames_of(path)
        assert [one.pts for one in shown] == [frame.pts for frame in expected], path.stem
        pairs = zip(shown, expected, strict=True)
        differences = [np.abs(one.pixels.astype(int) - frame.pixels) for one, frame in pairs]
        assert np.mean(differences) <= 0.3, path.stem
        # Single pixels between lips that open, and at the edge of what leaps, differ by more.
        assert np.max(differences) <= 24 or path.stem in ("speaking", "leaping", "appearing"), (
            path.stem
        )


def test_browsers_restore_as_python_does(page: Page, tmp_path: Path) -> None:
    """By the same network, with a guide of every value and with none, at odd sizes too."""
    page.open("about:blank")
    if not page.evaluate("'Suspending' in WebAssembly"):
        pytest.skip("this browser lacks WebAssembly's JSPI")
    paths = {path.stem: path for path in GOLDEN}
    guided = made_for_the_restorer(paths["guided"], tmp_path / "guided.gsv")
    for path in (guided, paths["cut_and_odd_times"], paths["raised_texture"]):
        with served(path) as server:
            shown = list(decoded(page, server, restored=True))
        pairs = list(zip(shown, frames_of(path, steps=1), strict=True))
        differences = [np.abs(one.pixels.astype(int) - frame.pixels) for one, frame in pairs]
        assert np.mean(differences) <= 0.3, path.stem
        assert np.max(differences) <= 24, path.stem


def test_restoring_is_switched_and_its_lack_is_told(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(path for path in GOLDEN if path.stem == "several_a_packet")
    switch = "document.getElementById('restore')"
    with served(path) as server, monkeypatch.context() as without:
        without.setattr("gsvc.codec.network.player_server.NETWORK", Path("none.onnx"))
        page.open(server.address)
        until(page, lambda s: "shown as decoded" in s["note"] and s["time"] > 0.2)
        assert page.evaluate(f"{switch}.textContent") == "restore: off"
        page.open(f"{server.address}?restore=off")
        until(page, lambda s: not s["note"] and s["time"] > 0.2)
    if page.evaluate("'Suspending' in WebAssembly"):
        with served(path) as server:
            page.open(f"{server.address}?restore=on")
            until(page, lambda s: s["restore"] == "restore: on" and not s["note"])
            press(page, "r")
            until(page, lambda s: s["restore"] == "restore: off" and not s["note"])
            press(page, "r")
            until(page, lambda s: s["restore"] == "restore: on" and not s["note"])


def test_playing_seeking_and_the_end(page: Page) -> None:
    path = next(path for path in GOLDEN if path.stem == "several_a_packet")
    expected = frames_of(path)
    with served(path) as server:
        page.open(f"{server.address}?restore=off")
        until(page, lambda s: s["time"] > 0.2 and not s["message"] and s["size"] == [64, 48])
        press(page, "k")
        until(page, lambda s: s["label"] == "Play")
        press(page, "Home")
        until(page, lambda s: s["time"] == 0)
        for frame in (expected[17], expected[3], expected[-1]):
            seek(page, frame)
        press(page, "ArrowRight")  # beyond the end: the last frame stays
        until(page, lambda s: abs(s["time"] - expected[-1].pts / 25) < 1e-6)


def test_a_damaged_stream_is_told_and_hangs_nothing(page: Page, tmp_path: Path) -> None:
    data = bytearray(GOLDEN[0].read_bytes())
    data[200] ^= 255
    (tmp_path / "damaged.gsv").write_bytes(data)
    with served(tmp_path / "damaged.gsv") as server:
        page.open(server.address)
        until(page, lambda s: "cannot be played" in s["message"] and "CRC-32C" in s["message"])


@contextmanager
def sending(clip: Path, port: int) -> Iterator[None]:
    """A live sender, which is killed at the end."""
    command = [sys.executable, "-m", "gsvc", "send", str(clip), f"ws://@127.0.0.1:{port}", "--loop"]
    sender = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        sender.kill()
        sender.wait(30)


def test_what_is_sent_is_seen_and_a_lost_sender_is_called_again(page: Page, clip: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with served(LiveSource(f"ws://127.0.0.1:{port}")) as server:
        page.open(server.address)
        until(page, lambda s: "gone" in s["message"] and "again in" in s["message"])
        for _ in range(2):
            with sending(clip, port):
                until(page, lambda s: s["size"] == [64, 48] and not s["message"])
                assert page.evaluate("document.getElementById('live').hidden") is False
                page.evaluate(LISTEN)
            until(page, lambda s: any("gone" in one and "in 1 s" in one for one in s["said"]))


def test_a_page_without_webcodecs_plays_the_servers_video(page: Page) -> None:
    """Browsers offer WebCodecs on localhost and over https, not at an address of the network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but localhost")
        host = probe.getsockname()[0]
    path = next(path for path in GOLDEN if path.stem == "several_a_packet")
    with served(path, host) as server:
        page.open(server.address)
        width, end = None, monotonic() + SECONDS
        while not width and monotonic() < end:
            sleep(0.1)
            width = page.evaluate("document.querySelector('video')?.videoWidth")
        assert width == 64
