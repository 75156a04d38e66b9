"""SRTP under a key: what is forged, changed, repeated, old or plain is refused."""

import asyncio
import random
import struct
from contextlib import suppress
from pathlib import Path

import pytest

import gsvc
from commands import USAGE, assert_one_line, run_gsvc
from gsvc import Frame, ReceiveSettings, SendSettings, VideoReceiver, VideoSender
from gsvc.codec.network.address import MOST_BYTES, TAG_BYTES, Srtp, WireKey, find_key
from live import (
    PATIENT,
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
need_package("pylibsrtp")

KEY, OTHER = WireKey(bytes(range(32))), WireKey(bytes(range(1, 33)))
"""Keys of tests alone."""
BYE = struct.pack("!BBHI", 0x81, 203, 1, 7)


class Clock:
    now = 1_000_000.0 * 60

    def __call__(self) -> float:
        return self.now


def rtp(number: int) -> bytes:
    return struct.pack("!BBHII", 0x80, 96, number % (1 << 16), 5, 7) + bytes(40)


def pair(clock: Clock | None = None) -> tuple[Srtp, Srtp]:
    """The sender of a video, and its receiver."""
    clock = clock or Clock()
    return Srtp(KEY, sends=True, clock=clock), Srtp(KEY, sends=False, clock=clock)


def test_datagrams_come_through_once_and_in_any_order() -> None:
    sender, receiver = pair()
    plain = [rtp(n) for n in range(900)]
    sealed = [sender.protect(datagram) for datagram in plain]
    assert {len(s) - len(p) for s, p in zip(sealed, plain, strict=True)} == {TAG_BYTES}
    order = list(range(900))
    random.Random(1).shuffle(order)
    assert [receiver.unprotect(sealed[n]) for n in order] == [plain[n] for n in order]
    assert receiver.refused == 0
    assert [receiver.unprotect(datagram) for datagram in sealed] == [None] * 900
    assert receiver.refused == 900


def test_reports_go_both_ways() -> None:
    sender, receiver = pair()
    assert receiver.unprotect(sender.protect(BYE)) == BYE
    assert sender.unprotect(receiver.protect(BYE)) == BYE
    assert len(sender.protect(BYE)) == len(BYE) + TAG_BYTES + 4
    assert sender.unprotect(sender.protect(BYE)) is None  # reflected


@pytest.mark.parametrize("plain", [rtp(3), BYE], ids=["rtp", "rtcp"])
def test_every_bit_is_protected(plain: bytes) -> None:
    sender, receiver = pair()
    sealed = sender.protect(plain)
    for bit in range(8 * len(sealed)):
        bent = bytearray(sealed)
        bent[bit // 8] ^= 1 << bit % 8
        assert receiver.unprotect(bytes(bent)) is None
    for size in range(len(sealed)):
        assert receiver.unprotect(sealed[:size]) is None
    assert receiver.unprotect(sealed + b"\0") is None
    assert receiver.unprotect(sealed) == plain


def test_other_keys_plain_datagrams_and_rubbish_are_refused() -> None:
    sender, receiver = pair()
    stranger = Srtp(OTHER, sends=True, clock=Clock())
    for bad in (b"", b"x", rtp(1), BYE, stranger.protect(rtp(1)), bytes(3000), b"\x01" + bytes(60)):
        assert receiver.unprotect(bad) is None
    assert receiver.refused == 7
    assert receiver.met_old_wire  # the last one
    assert receiver.unprotect(sender.protect(rtp(1))) == rtp(1)


def test_recordings_and_wrong_clocks_are_refused() -> None:
    clock = Clock()
    sender, _ = pair(clock)
    sealed = sender.protect(rtp(1))
    for minutes, opens in ((-2, False), (-1, True), (0, True), (1, True), (2, False)):
        then = Clock()
        then.now += 60 * minutes
        late = Srtp(KEY, sends=False, clock=then)  # a receiver that has seen nothing
        assert (late.unprotect(sealed) is not None) == opens


def test_a_session_goes_on_over_minutes_and_wraps() -> None:
    """Sequence numbers wrap around in a minute; who joins then, and who was there, hear all."""
    clock = Clock()
    sender, receiver = pair(clock)
    for number in range(65_500, 65_500 + 300):
        if number == 65_600:
            _, receiver = pair(clock)  # joins: it has not seen them wrap
        if number == 65_700:
            clock.now += 60
        assert receiver.unprotect(sender.protect(rtp(number))) == rtp(number)
    clock.now -= 3600  # set back: the key stream goes on, and never twice through one place
    assert sender.protect(rtp(264)) != sender.protect(rtp(265))


def test_the_longest_datagram_has_room() -> None:
    sender, receiver = pair()
    longest = rtp(1) + bytes(MOST_BYTES - TAG_BYTES - len(rtp(1)))
    sealed = sender.protect(longest)
    assert len(sealed) == MOST_BYTES and receiver.unprotect(sealed) == longest


@pytest.mark.parametrize(
    ("ours", "theirs", "shown"),
    [(KEY, KEY, True), (KEY, OTHER, False), (KEY, None, False), (None, KEY, False)],
    ids=["same key", "another key", "sender without", "receiver without"],
)
def test_only_the_same_key_shows(ours: WireKey | None, theirs: WireKey | None, shown: bool) -> None:
    async def main() -> None:
        port = free_port(socket_of("udp"))
        encoder = gsvc.Encoder(VIDEO, SETTINGS)
        sending = SendSettings(realtime=False, key=theirs)
        sender = VideoSender(f"udp://127.0.0.1:{port}", encoder, sending)
        receiver = VideoReceiver(
            f"udp://@127.0.0.1:{port}", ReceiveSettings(STILL, PATIENT, key=ours)
        )
        got: list[Frame] = []
        collecting = asyncio.create_task(collect(receiver, got))
        await listening(port, socket_of("udp"))
        task = asyncio.create_task(sender.run(frames(6)))
        if shown:
            await asyncio.gather(task, collecting)
            assert len(got) == 6 and receiver.stats().refused == 0
            assert sender.stats().refused == 0
            return
        await task
        while not (receiver.stats().refused or receiver.stats().damaged):
            await asyncio.sleep(0.01)
        receiver.stop()
        with pytest.raises(gsvc.InputError):
            await collecting
        assert not got
        if ours:
            assert receiver.stats().refused > 0
        with suppress(asyncio.CancelledError, gsvc.GsvcError):
            await task

    run(main())


@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws", "wss"])
def test_connections_take_no_key(scheme: str) -> None:
    address = f"{scheme}://127.0.0.1:5999"
    with pytest.raises(gsvc.ConfigError, match="use tls:// or wss:// with certificates"):
        VideoReceiver(address, ReceiveSettings(STILL, key=KEY))
    with (
        gsvc.Encoder(VIDEO, SETTINGS) as encoder,
        pytest.raises(gsvc.ConfigError, match="a key is for udp://"),
    ):
        VideoSender(address, encoder, SendSettings(key=KEY))


@pytest.mark.parametrize("mtu", [100, 1400])
def test_an_mtu_without_room_for_a_key_is_refused(mtu: int) -> None:
    settings = SendSettings(gsvc.WireSettings(mtu=mtu), key=KEY)
    with pytest.raises(gsvc.ConfigError, match="with a key 106 to 1366"):
        _ = settings.cut


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
