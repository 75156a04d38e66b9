"""The player's parser and renderer, in node, against Python's; and the server of its page."""

import gzip
import hashlib
import http.client
import io
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import gsvc
from commands import run_gsvc
from fuzz_bytes import golden_streams, join_stream
from gsvc import StreamReader
from gsvc.codec.bitstream.coded_pictures import check_temporal_unit, parted
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.scaffold import Interval
from gsvc.codec.media import color
from gsvc.codec.network.player_server import (
    PAGE,
    FileSource,
    LiveSource,
    PlayerServer,
    _is_loopback,
)
from gsvc.codec.weights.model_files import weights_id
from gsvc.decoders.keyframes import keyframe as pictures
from gsvc.decoders.keyframes.restorer.backend import RESTORER, RestorerBackend
from gsvc.decoders.keyframes.restorer.runtime import FILE as NETWORK, RestorerNetwork
from needs import lack, need_node
from scaffolds import scaffold_hash

ROOT = Path(__file__).parent.parent
GOLDEN = sorted(Path(__file__).parent.glob("golden/*.gsv"))
SCRIPTS = Path(__file__).parent / "player"


def parsed(streams: Sequence[bytes]) -> list[dict[str, str]]:
    """What the player's parser says of streams."""
    given = b"".join(len(data).to_bytes(4, "big") + data for data in streams)
    command = [need_node(), str(SCRIPTS / "scaffold.mjs")]
    result = subprocess.run(command, input=given, capture_output=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def expected(data: bytes) -> dict[str, str] | None:
    """What Python's parser says of a stream; None if it refuses it."""
    try:
        reader = StreamReader(io.BytesIO(data))
        groups, units = GroupReader(reader.header), hashlib.sha256()
        intervals: list[Interval] = []
        for packet in reader:
            if not packet.is_picture:
                continue
            found = groups.read(packet)
            intervals += found.intervals
            for unit in found.units:
                check_temporal_unit(unit, reader.header.geometry.coded_size(found.coding.scale))
                units.update(_whole(unit))
    except gsvc.BitstreamError:
        return None
    return {"scaffold": scaffold_hash(intervals), "units": units.hexdigest()}


def _whole(stripped: bytes) -> bytes:
    """A temporal unit as the stream format gives it to an AV1 decoder."""
    unit = parted(stripped)
    parts = [(1, unit.sequence)] if unit.sequence else []
    parts += [(6, frame) for frame in unit.frames]
    if unit.slot is not None:
        parts.append((3, bytes([0x88 | unit.slot << 4])))
    return b"\x12\0" + b"".join(bytes([k << 3 | 2]) + varint(len(d)) + d for k, d in parts)


def test_the_player_reads_the_same_scaffold_and_pictures(stream: Path) -> None:
    streams = [path.read_bytes() for path in (*GOLDEN, stream)]
    assert parsed(streams) == [expected(data) for data in streams]


def damaged() -> Iterator[bytes]:
    """Golden streams with wrong bytes behind right checksums, and some cut short."""
    rng = np.random.default_rng(31)
    for header, parts in golden_streams():
        yield join_stream(header, parts)[: int(rng.integers(1, 200))]
        for _ in range(40):
            changed = []
            for part in parts:
                payload = bytearray(part.payload)
                for _ in range(int(rng.integers(0, 3)) if payload else 0):
                    payload[int(len(payload) * rng.random() ** 3)] = int(rng.integers(256))
                changed.append(replace(part, payload=bytes(payload)))
            yield join_stream(header, changed)


def test_the_player_refuses_what_python_refuses() -> None:
    """Whatever is damaged: the same integers, or an error on both sides."""
    streams = list(damaged())
    answers = [None if "error" in found else found for found in parsed(streams)]
    assert answers == [expected(data) for data in streams]
    assert answers.count(None) > len(streams) / 4


def test_a_few_bytes_order_no_minutes_of_parsing() -> None:
    """The range coder never runs dry: limits end it."""
    header = gsvc.Header(gsvc.VideoFormat(16384, 288, Fraction(1, 25), Fraction(25)), level=1)
    for fill in (0x00, 0xFF, 0x5A):
        payload = varint(40) + bytes([fill]) * 40 + b"unit"
        packet = gsvc.Packet(gsvc.PacketType.INTRA, 16, payload)
        (answer,) = parsed([header.to_bytes() + packet.to_bytes()])
        assert "error" in answer


def made_for_the_restorer(path: Path, target: Path) -> Path:
    """A stream whose guides are for the restorer that is here."""
    data = path.read_bytes()
    header = replace(StreamReader(io.BytesIO(data)).header, model_id=weights_id(NETWORK)).to_bytes()
    target.write_bytes(header + data[len(header) :])
    return target


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_player_draws_the_same_frames(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the same decoded pictures: levels of 0-255."""
    differences = drawn_by_both(path, tmp_path, monkeypatch, steps=0)
    assert differences.mean() <= 0.2
    # Single pixels between lips that open, and at edges of what leaps or appears, differ by more.
    assert differences.max() <= 6 or path.stem in ("speaking", "leaping", "appearing")


@pytest.mark.parametrize("name", ["guided", "cut_and_odd_times", "raised_texture"])
def test_the_player_restores_the_same_frames(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the network's work done by Python's runtime: what surrounds it is the player's own."""
    runs: list[tuple[NDArray[np.float32], ...]] = []
    session = RestorerNetwork("cpu").session

    class Watched:
        def run(self, _: None, given: dict[str, NDArray[np.float32]]) -> list[Any]:
            found: list[Any] = session.run(None, given)
            runs.append((given["conditions"], given["picture"], found[0]))
            return found

    monkeypatch.setattr(RestorerNetwork, "session", Watched())
    path = made_for_the_restorer(GOLDEN[0].parent / f"{name}.gsv", tmp_path / "made.gsv")
    differences = drawn_by_both(path, tmp_path, monkeypatch, steps=1, runs=runs)
    assert differences.mean() <= 0.2 and differences.max() <= 6
    given = np.fromfile(tmp_path / "given.raw", np.float32)
    expected = np.concatenate([part.ravel() for run in runs for part in run[:2]])
    assert np.abs(given - expected).max() <= 6 / 127  # levels of its pictures


def drawn_by_both(
    path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    steps: int,
    runs: Sequence[tuple[NDArray[np.float32], ...]] = (),
) -> NDArray[np.int_]:
    """By how much the player's frames differ from Python's; `runs`: of the network."""
    node = need_node()
    seen: list[gsvc.Picture] = []
    real = color.rgb_from_yuv

    def watched(frame: av.VideoFrame, how: gsvc.Color) -> gsvc.Picture:
        seen.append(real(frame, how))
        return seen[-1]

    monkeypatch.setattr(pictures, "rgb_from_yuv", watched)
    reader = StreamReader(io.BytesIO(path.read_bytes()))
    decoder = gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=steps))
    frames = [frame for packet in reader for frame in decoder.decode(packet)]
    given, drawn = folder / "pictures.raw", folder / "frames.raw"
    opaque = (np.pad(one, ((0, 0), (0, 0), (0, 1)), constant_values=255) for one in seen)
    given.write_bytes(b"".join(one.tobytes() for one in opaque))
    command: list[str | Path] = [node, SCRIPTS / "frames.mjs", path, given, drawn]
    if runs:
        (folder / "drawn.raw").write_bytes(b"".join(run[2].tobytes() for run in runs))
        named = int.from_bytes(weights_id(NETWORK), "big"), RestorerBackend(RESTORER).usual
        command += [*map(str, named), folder / "drawn.raw", folder / "given.raw"]
    result = subprocess.run(command, capture_output=True, check=True)
    assert list(map(int, result.stdout.split())) == [frame.pts for frame in frames]
    shape = len(frames), *frames[0].pixels.shape[:2], 4
    ours = np.fromfile(drawn, np.uint8).reshape(shape)[..., :3].astype(int)
    return np.asarray(np.abs(ours - [frame.pixels for frame in frames]))


def test_the_page_is_what_its_sources_make(tmp_path: Path) -> None:
    """With the tools of its lock file: npm ci in decoders/browser/web."""
    node, web = need_node(), ROOT / "decoders/browser/web"
    if not (web / "node_modules").exists():
        lack("npm", "the player's tools are not here: npm ci in decoders/browser/web")
    subprocess.run([node, "build.mjs", tmp_path], cwd=web, check=True, timeout=120)
    for path in PAGE.iterdir():
        made = tmp_path / path.name
        # Packed bytes depend on the version of zlib.
        read = (
            (lambda one: gzip.decompress(one.read_bytes()))
            if path.suffix == ".gz"
            else Path.read_bytes
        )
        assert read(path) == read(made), f"{path}: make player"
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in PAGE.iterdir()}


def test_the_page_is_small_and_its_runtime_is_packed() -> None:
    sizes = {path.name: path.stat().st_size for path in PAGE.iterdir()}
    assert sizes.pop("ort.wasm.gz") < 5_000_000
    assert sum(sizes.values()) < 300_000


@pytest.fixture
def connection(stream: Path) -> Iterator[http.client.HTTPConnection]:
    with PlayerServer(FileSource(stream), "127.0.0.1", 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        made = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
        yield made
        made.close()
        server.shutdown()


def answer(
    connection: http.client.HTTPConnection, path: str, span: str | None = None
) -> tuple[int, bytes, dict[str, str]]:
    connection.request("GET", path, headers={} if span is None else {"Range": span})
    got = connection.getresponse()
    return got.status, got.read(), dict(got.headers)


def test_what_mux_wrote_is_served_as_its_stream(stream: Path, tmp_path: Path) -> None:
    gsvc.mux(stream, tmp_path / "video.mp4")
    source = FileSource(tmp_path / "video.mp4")
    assert source.about["name"] == "video.mp4" and source.path.read_bytes() == stream.read_bytes()
    source.close()
    assert not source.path.exists()


def test_ranges_of_a_stream(connection: http.client.HTTPConnection, stream: Path) -> None:
    data = stream.read_bytes()
    assert answer(connection, "/stream.gsv")[:2] == (200, data)
    for span, first, end in (
        ("bytes=0-31", 0, 32),
        ("bytes=5-", 5, len(data)),
        ("bytes=-7", len(data) - 7, len(data)),
        (f"bytes=9-{10 * len(data)}", 9, len(data)),
    ):
        status, body, headers = answer(connection, "/stream.gsv", span)
        assert (status, body) == (206, data[first:end])
        assert headers["Content-Range"] == f"bytes {first}-{end - 1}/{len(data)}"
    for span in (f"bytes={len(data)}-", "bytes=5-2", "bytes=-0", "lines=1-2", "bytes=0-1,3-4"):
        status, body, headers = answer(connection, "/stream.gsv", span)
        assert (status, body, headers["Content-Range"]) == (416, b"", f"bytes */{len(data)}")


def test_nothing_but_the_page_and_the_stream(connection: http.client.HTTPConnection) -> None:
    for path in ("/../server.py", "/%2e%2e/server.py", "/page/index.html", "/etc/passwd", "//"):
        assert answer(connection, path)[0] == (200 if path == "//" else 404), path
    status, body, headers = answer(connection, "/")
    assert status == 200 and b"<canvas" in body
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert json.loads(answer(connection, "/source.json")[1])["live"] is None


def status_of(port: int, *hosts: str) -> int:
    """What the server says to a request with these Host fields."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    asked.putrequest("GET", "/stream.gsv", skip_host=True)
    for host in hosts:
        asked.putheader("Host", host)
    asked.endheaders()
    got = asked.getresponse()
    body = got.read()
    asked.close()
    assert got.status == 200 or body.count(b"\n") == 1
    return got.status


def test_no_other_name_leads_to_a_server_of_this_machine(
    connection: http.client.HTTPConnection, stream: Path
) -> None:
    """DNS rebinding: a page's own name, made to resolve to 127.0.0.1."""
    port = connection.port
    assert _is_loopback("::ffff:127.0.0.1") and not _is_loopback("::ffff:192.0.2.7")
    for name in ("localhost", "LocalHost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"):
        assert status_of(port, name) == status_of(port, f"{name}:{port}") == 200, name
        assert status_of(port, f"{name}:443") == 200, "a forwarded port"
    for name in (
        *(
            "evil.example",
            f"evil.example:{port}",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ),
        *("localhost@evil.example", "192.0.2.7", "[::2]", "[localhost]", "", "127.0.0.1:80:80"),
    ):
        assert status_of(port, name) == 421, name
    assert status_of(port) == status_of(port, "localhost", "evil.example") == 421
    with PlayerServer(FileSource(stream), "0.0.0.0", 0) as server:  # for a network, under any name
        Thread(target=server.serve_forever, daemon=True).start()
        assert status_of(server.server_address[1], "video.example") == 200
        server.shutdown()


def test_two_players_are_served_at_once(
    connection: http.client.HTTPConnection, stream: Path
) -> None:
    connection.request("GET", "/stream.gsv")  # the first one takes its time to read
    other = http.client.HTTPConnection("127.0.0.1", connection.port, timeout=30)
    assert answer(other, "/stream.gsv")[:2] == (200, stream.read_bytes())
    other.close()
    assert connection.getresponse().read() == stream.read_bytes()


def test_a_browser_without_av1_gets_a_video(connection: http.client.HTTPConnection) -> None:
    status, body, _ = answer(connection, "/video.mp4")
    assert status == 200
    with av.open(io.BytesIO(body)) as video:
        assert video.streams.video[0].frames > 0


def test_a_port_that_is_taken_and_streams_that_are_none(
    connection: http.client.HTTPConnection, stream: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.gsv"
    bad.write_bytes(b"no stream at all, but long enough")
    for arguments, words in (
        ((stream, "--port", connection.port), b"choose another"),
        ((bad,), b"not a gsvc stream"),
        ((tmp_path / "none.gsv",), b"no such file"),
        (("udp://localhost:5004",), b"ws://"),
    ):
        result = run_gsvc("serve", *arguments)
        assert result.returncode and words in result.stderr and result.stderr.count(b"\n") == 1


def test_a_live_source_names_its_address() -> None:
    assert LiveSource("ws://localhost:9000").about["live"] == "ws://localhost:9000"
    for wrong in ("ws://@:9000", "tcp://localhost:9000"):
        with pytest.raises(gsvc.ConfigError):
            LiveSource(wrong)
