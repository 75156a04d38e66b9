"""The wire under a key: what is forged, changed, repeated, old or plain never comes through."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import gsvc
from commands import USAGE, assert_one_line, run_gsvc
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.network.sealing import FRESH_SECONDS, OVERHEAD_BYTES, Opener, Sealer
from gsvc.codec.network.secure_channel import secured
from gsvc.codec.network.tcp_websocket import Channel
from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver
from gsvc.codec.network.video_sender import SendSettings, VideoSender
from gsvc.codec.network.wire_key import WireKey, find_key
from live import (
    PATIENT,
    SECONDS,
    SETTINGS,
    STILL,
    VIDEO,
    collect,
    frames,
    free_port,
    listening,
    run,
    socket_of,
)
from needs import need_package

need_package("cryptography")

KEY, OTHER = WireKey(bytes(range(32))), WireKey(bytes(range(1, 33)))
"""Keys of tests alone."""


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def pair(**more: Any) -> tuple[Sealer, Opener]:
    return Sealer(KEY, sends=True, **more), Opener(KEY, sends=True, **more)


def test_datagrams_come_through_once_and_in_any_order() -> None:
    sealer, opener = pair()
    plain = [bytes([n]) * n for n in range(40)]
    sealed = [sealer.seal(datagram) for datagram in plain]
    assert {len(s) - len(p) for s, p in zip(sealed, plain, strict=True)} == {OVERHEAD_BYTES}
    order = list(range(40))
    random.Random(1).shuffle(order)
    assert [opener.open(sealed[n]) for n in order] == [plain[n] for n in order]
    assert [opener.open(datagram) for datagram in sealed] == [None] * 40
    assert (opener.replayed, opener.refused, opener.stale) == (40, 0, 0)


def test_every_bit_is_protected() -> None:
    sealer, opener = pair()
    sealed = sealer.seal(b"\x80\x60 a datagram")
    for bit in range(8 * len(sealed)):
        bent = bytearray(sealed)
        bent[bit // 8] ^= 1 << bit % 8
        assert opener.open(bytes(bent)) is None
    for size in range(len(sealed)):
        assert opener.open(sealed[:size]) is None
    assert opener.open(sealed + b"\0") is None
    assert opener.open(sealed) == b"\x80\x60 a datagram"


def test_other_keys_plain_datagrams_and_reflections_are_refused() -> None:
    _, opener = pair()
    stranger, reflected = Sealer(OTHER, sends=True), Sealer(KEY, sends=False)
    for bad in (b"", b"\x80\x60 plain RTP" * 9, stranger.seal(b"x"), reflected.seal(b"x")):
        assert opener.open(bad) is None
    assert (opener.refused, opener.dropped) == (4, 4)


def test_recordings_and_wrong_clocks_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    sealer, _ = pair(clock=clock)
    sealed = sealer.seal(b"x")
    clock.now += FRESH_SECONDS + 1
    late = Opener(KEY, sends=True, clock=clock)  # a receiver that began later has seen nothing
    assert late.open(sealed) is None and late.stale == 1
    assert "31 s old and refused" in caplog.text
    ahead = Opener(KEY, sends=True, clock=lambda: clock.now - 2 * FRESH_SECONDS - 2)
    assert ahead.open(sealed) is None and ahead.stale == 1


def test_stamps_never_repeat_and_the_window_is_bounded() -> None:
    clock = Clock()
    sealer, opener = pair(clock=clock)
    first = sealer.seal(b"first")
    held = sealer.seal(b"held back")
    clock.now -= 10  # set back: nonces go on
    many = [sealer.seal(b"x") for _ in range(1100)]
    assert len({datagram[:16] for datagram in many}) == 1100
    assert opener.open(first) == b"first"
    assert all(opener.open(datagram) == b"x" for datagram in many)
    assert opener.open(held) is None  # too old to know whether it came
    assert opener.open(first) is None and opener.replayed == 2


@pytest.mark.parametrize(
    ("ours", "theirs", "shown"),
    [(KEY, KEY, True), (KEY, OTHER, False), (KEY, None, False), (None, KEY, False)],
    ids=["same key", "another key", "sender without", "receiver without"],
)
@pytest.mark.parametrize("scheme", ["udp", "tcp", "ws"])
def test_only_the_same_key_shows(
    scheme: str, ours: WireKey | None, theirs: WireKey | None, shown: bool
) -> None:
    if scheme == "ws":
        need_package("websockets")

    async def main() -> None:
        port = free_port(socket_of(scheme))
        settings = SendSettings(realtime=False, key=theirs)
        encoder = gsvc.Encoder(VIDEO, SETTINGS)
        sender = VideoSender(f"{scheme}://127.0.0.1:{port}", encoder, settings)
        # Over TCP, each waits for the other's first word.
        silence = 0.5 if ours is None and scheme != "udp" else None
        receiving = ReceiveSettings(STILL, PATIENT, key=ours, silence=silence)
        receiver = VideoReceiver(f"{scheme}://@127.0.0.1:{port}", receiving)
        got: list[Frame] = []
        collecting = asyncio.create_task(collect(receiver, got))
        await listening(port, socket_of(scheme))
        sending = asyncio.create_task(sender.run(frames(6)))
        if shown:
            await asyncio.gather(sending, collecting)
            assert len(got) == 6 and receiver.stats().refused == 0
            return
        while not (silence or receiver.stats().refused or receiver.stats().damaged):
            await asyncio.sleep(0.01)
        if scheme == "udp":
            await sending
        if not silence:
            receiver.stop()
        with pytest.raises(gsvc.InputError):
            await collecting
        assert not got
        if ours:
            assert receiver.stats().refused > 0
        sending.cancel()
        with suppress(asyncio.CancelledError, gsvc.GsvcError):
            await sending

    run(main())


@pytest.mark.parametrize("meddle", ["bend", "repeat", "swap", "cut"])
def test_a_connection_that_is_meddled_with_ends(meddle: str) -> None:
    sent = [b"one", b"two", b"three", b"four"]
    got: list[bytes] = []

    async def give(channel: Channel) -> None:
        for message in sent:
            await channel.write_message(message)

    async def take(channel: Channel) -> None:
        while True:
            got.append(await channel.read_message(100))

    async def main() -> None:
        a, b = _Pipe.pair()
        b.meddle = meddle
        giving = asyncio.ensure_future(secured(give, KEY, sends=True, refused=_never)(b))
        with pytest.raises(gsvc.BitstreamError):
            await asyncio.wait_for(secured(take, KEY, sends=False, refused=_never)(a), SECONDS)
        await giving

    asyncio.run(main())
    assert got == [b"one"]


def _never() -> None:
    raise AssertionError("a connection was refused")


class _Pipe:
    """One end of a connection in memory; its second sealed message may suffer."""

    meddle = ""

    def __init__(self, out: asyncio.Queue[bytes], into: asyncio.Queue[bytes]) -> None:
        self._out, self._into, self._count = out, into, 0
        self._held = b""

    @classmethod
    def pair(cls) -> tuple[Any, Any]:
        one, two = asyncio.Queue[bytes](), asyncio.Queue[bytes]()
        return cls(one, two), cls(two, one)

    async def write_message(self, data: bytes) -> None:
        self._count += 1
        is_hit = self._count == 3  # after the greeting and the first
        match self.meddle if is_hit else "":
            case "bend":
                data = data[:-1] + bytes([data[-1] ^ 1])
            case "repeat":
                data = self._held
            case "cut":
                return
            case "swap":
                self._swapped = data
                return
        await self._out.put(data)
        if self.meddle == "swap" and self._count == 4:
            await self._out.put(self._swapped)
        self._held = data

    async def read_message(self, most: int) -> bytes:
        data = await self._into.get()
        assert len(data) <= most
        return data


def test_keys_come_from_a_private_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY.secret.hex() + "\n")
    file.chmod(0o600)
    assert find_key(file, {"GSVC_KEY": OTHER.secret.hex()}) == KEY
    assert find_key(None, {"GSVC_KEY": OTHER.secret.hex()}) == OTHER
    assert find_key(None, {}) is None
    assert KEY.secret.hex() not in repr(ReceiveSettings(key=KEY)) and "secret" not in repr(KEY)
    for mode in (0o640, 0o604, 0o620):
        file.chmod(mode)
        with pytest.raises(gsvc.ConfigError, match="chmod 600"):
            find_key(file, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "64 hexadecimal digits"),
        ("00" * 31, "31 bytes"),
        ("ab" * 33, "33 bytes"),
        ("0" * 63, "holds no key"),
        ("my password", "openssl rand -hex 32"),
        ("00" * 32, "equal bytes"),
    ],
)
def test_what_is_no_key_is_refused_and_not_shown(text: str, said: str) -> None:
    with pytest.raises(gsvc.ConfigError, match=said) as caught:
        find_key(None, {"GSVC_KEY": text})
    assert not text or text not in str(caught.value)


def test_the_command_says_what_is_wrong_with_a_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY.secret.hex())
    file.chmod(0o644)
    recv = "recv", "udp://@127.0.0.1:5999", "-o", tmp_path / "a.mp4"
    assert_one_line(run_gsvc(*recv, "--key-file", file), USAGE, "chmod 600")
    assert_one_line(run_gsvc(*recv, env={"GSVC_KEY": "short"}), USAGE, "holds no key")
    send = "send", tmp_path / "in.mp4", "udp://127.0.0.1:5999", "--sdp", tmp_path / "a.sdp"
    told = run_gsvc(*send, env={"GSVC_KEY": KEY.secret.hex()})
    assert_one_line(told, USAGE, "--sdp describes plain RTP")
