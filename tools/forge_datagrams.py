"""Forged datagrams by the million against a key, and what the key costs.

python tools/forge_datagrams.py [COUNT]: how many of them were taken (none), how fast they are
refused, what sealing and opening cost, and how late frames are with a key and without.
"""

import asyncio
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import gsvc
from gsvc.codec.network.address import Srtp, WireKey
from gsvc.codec.network.rtp import Packetizer, RtpPacket
from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver
from gsvc.codec.network.video_sender import SendSettings, VideoSender

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from live import SETTINGS, STILL, VIDEO, frames, free_port

_BATCH = 1000


def forgeries(rng: random.Random, key: WireKey) -> dict[str, Callable[[bytes, bytes], bytes]]:
    """Ways to forge, each from a genuine datagram: plain, and sealed as it was taken before."""
    stranger, mirror = Srtp(WireKey(os.urandom(32)), sends=True), Srtp(key, sends=False)
    old = Srtp(key, sends=True, clock=lambda: time.time() - 3600)

    def bent(plain: bytes, sealed: bytes) -> bytes:
        at = rng.randrange(8 * len(sealed))
        return sealed[: at // 8] + bytes([sealed[at // 8] ^ 1 << at % 8]) + sealed[at // 8 + 1 :]

    return {
        "noise": lambda plain, sealed: rng.randbytes(len(sealed)),
        "noise behind a true head": lambda plain, sealed: (
            sealed[:12] + rng.randbytes(len(sealed) - 12)
        ),
        "one bit changed": bent,
        "cut short": lambda plain, sealed: sealed[: rng.randrange(len(sealed))],
        "replayed": lambda plain, sealed: sealed,
        "another key": lambda plain, sealed: _anew(stranger, plain),
        "reflected": lambda plain, sealed: _anew(mirror, plain),
        "recorded an hour ago": lambda plain, sealed: _anew(old, plain),
        "plain RTP": lambda plain, sealed: plain,
    }


_numbers = count(1)


def _anew(side: Srtp, plain: bytes) -> bytes:
    """Sealed by another: SRTP seals no number twice."""
    return side.protect(plain[:2] + (next(_numbers) % (1 << 16)).to_bytes(2) + plain[4:])


def genuine() -> list[bytes]:
    """RTP datagrams of a small stream."""
    with gsvc.Encoder(VIDEO, SETTINGS) as encoder:
        packets = [packet for frame in frames(60) for packet in encoder.encode(frame)]
        packetizer = Packetizer(encoder.header, 7)
        return [d.to_bytes() for p in packets + encoder.flush() for d in packetizer.packetize([p])]


def reorder(total: int = 20_000) -> None:
    """Deliver genuine datagrams out of order and twice, within what the window remembers."""
    rng, key = random.Random(2), WireKey(os.urandom(32))
    sender, receiver = Srtp(key, sends=True), Srtp(key, sends=False)
    plain = [RtpPacket(n, 0, 7, n.to_bytes(4)).to_bytes() for n in range(total)]
    sealed = [sender.protect(each) for each in plain]
    late = [(n + rng.uniform(0, 500), each) for n, each in enumerate(sealed) for _ in range(2)]
    came = [receiver.unprotect(each) for _, each in sorted(late)]
    taken = [each for each in came if each is not None]
    twice = len(taken) - len(set(taken))
    print(f"{total} genuine datagrams, each sent twice and up to 500 places late:")
    print(
        f"  {len(set(taken))} taken, {twice} of them twice, {receiver.refused} repetitions dropped"
    )


def attack(total: int) -> None:
    """Have a receiver that hears its sender too refuse forgeries of every kind."""
    rng, key, plain = random.Random(1), WireKey(os.urandom(32)), genuine()
    sender, receiver = Srtp(key, sends=True), Srtp(key, sends=False)
    kinds = forgeries(rng, key)
    taken, spent = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0.0)
    heard = [(each, sender.protect(each)) for each in plain]
    assert all(receiver.unprotect(sealed) == each for each, sealed in heard)
    lost = done = 0
    while done < total:
        for name, forge in kinds.items():
            made = [forge(*rng.choice(heard)) for _ in range(min(_BATCH, total - done))]
            began = time.process_time()
            taken[name] += sum(receiver.unprotect(datagram) is not None for datagram in made)
            spent[name] += time.process_time() - began
            done += len(made)
        true = _following(plain)
        lost += receiver.unprotect(sender.protect(true)) != true
    print(f"{done} forged datagrams, {sum(taken.values())} taken; genuine ones lost: {lost}")
    print(f"refused {receiver.refused}")
    for name in kinds:
        each = 1e6 * spent[name] * len(kinds) / done
        print(f"  {name:<26} taken {taken[name]}, {each:.1f} us each")


def _following(plain: list[bytes]) -> bytes:
    """One more genuine datagram."""
    number = (int.from_bytes(plain[-1][2:4]) + 1) % (1 << 16)
    plain.append(plain[-1][:2] + number.to_bytes(2) + plain[-1][4:])
    return plain[-1]


def cost() -> None:
    """What sealing and opening take, and add."""
    key, size, total = WireKey(os.urandom(32)), 1168, 50_000
    sender, receiver = Srtp(key, sends=True), Srtp(key, sends=False)
    plain = [RtpPacket(n, 0, 7, os.urandom(size - 12)).to_bytes() for n in range(total)]
    began = time.process_time()
    sealed = [sender.protect(each) for each in plain]
    middle = time.process_time()
    assert [receiver.unprotect(each) for each in sealed] == plain
    ended = time.process_time()
    for name, seconds in (("seal", middle - began), ("open", ended - middle)):
        rate = 8 * size * total / seconds / 1e6
        print(
            f"{name}: {1e6 * seconds / total:.1f} us a datagram of {size} bytes, {rate:.0f} Mbit/s"
        )
    print(f"each datagram is {len(sealed[0]) - size} bytes longer")


async def show(key: WireKey | None, flood: int) -> None:
    """Send and receive in real time, with forgeries a second from a stranger."""
    port = free_port()
    endless: Iterator[gsvc.Frame] = (
        gsvc.Frame(frame.pixels, n) for n, frame in enumerate(frames(90) * 3)
    )
    sender = VideoSender(
        f"udp://127.0.0.1:{port}", gsvc.Encoder(VIDEO, SETTINGS), SendSettings(key=key)
    )
    receiver = VideoReceiver(f"udp://@127.0.0.1:{port}", ReceiveSettings(STILL, key=key))
    sending = asyncio.create_task(sender.run(endless))
    attacking = asyncio.create_task(_flood(port, flood))
    shown = [frame async for frame in receiver.frames()]
    await sending
    attacking.cancel()
    stats, sent = receiver.stats(), sender.stats()
    late = stats.latency
    assert late.p50 is not None and late.p95 is not None
    print(
        f"{'with' if key else 'without'} a key, {flood} forged a second: {len(shown)} frames, "
        f"{stats.concealed} concealed, {stats.refused} refused, late by {1000 * late.p50:.1f} ms "
        f"(median), {1000 * late.p95:.1f} ms (p95); sent {sent.bytes} bytes, "
        f"{sent.datagrams} datagrams"
    )


async def _flood(port: int, rate: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
        while rate:
            for _ in range(rate // 100):
                attacker.sendto(b"\x01" + os.urandom(200), ("127.0.0.1", port))
            await asyncio.sleep(0.01)


def main() -> None:
    """Attack, cost, and sessions with and without a key."""
    reorder()
    attack(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    cost()
    key = WireKey(os.urandom(32))
    for settings in ((None, 0), (key, 0), (key, 5000)):
        asyncio.run(show(*settings))


if __name__ == "__main__":
    main()
