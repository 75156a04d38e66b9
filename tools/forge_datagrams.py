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

import gsvc
from gsvc.codec.network.rtp import Packetizer
from gsvc.codec.network.sealing import Opener, Sealer
from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver
from gsvc.codec.network.video_sender import SendSettings, VideoSender
from gsvc.codec.network.wire_key import WireKey
from live import SETTINGS, STILL, VIDEO, frames, free_port

_BATCH = 1000


def forgeries(rng: random.Random, key: WireKey) -> dict[str, Callable[[bytes], bytes]]:
    """Ways to forge, each from a genuine sealed datagram that was taken before."""
    stranger, mirror = Sealer(WireKey(os.urandom(32)), sends=True), Sealer(key, sends=False)
    old = Sealer(key, sends=True, clock=lambda: time.time() - 3600)

    def bent(sealed: bytes) -> bytes:
        at = rng.randrange(8 * len(sealed))
        one = 1 << at % 8
        return sealed[: at // 8] + bytes([sealed[at // 8] ^ one]) + sealed[at // 8 + 1 :]

    return {
        "noise": lambda sealed: rng.randbytes(len(sealed)),
        "noise behind a true head": lambda sealed: sealed[:16] + rng.randbytes(len(sealed) - 16),
        "one bit changed": bent,
        "cut short": lambda sealed: sealed[: rng.randrange(len(sealed))],
        "replayed": lambda sealed: sealed,
        "another key": lambda sealed: stranger.seal(sealed[32:]),
        "reflected": lambda sealed: mirror.seal(sealed[32:]),
        "recorded an hour ago": lambda sealed: old.seal(sealed[32:]),
        "plain RTP": lambda sealed: b"\x80\x60" + sealed[2:],
    }


def genuine() -> list[bytes]:
    """RTP datagrams of a small stream."""
    with gsvc.Encoder(VIDEO, SETTINGS) as encoder:
        packets = [packet for frame in frames(60) for packet in encoder.encode(frame)]
        packetizer = Packetizer(encoder.header, 7)
        return [d.to_bytes() for p in packets + encoder.flush() for d in packetizer.packetize([p])]


def reorder(count: int = 20_000) -> None:
    """Deliver genuine datagrams out of order and twice, within what the window remembers."""
    rng, key = random.Random(2), WireKey(os.urandom(32))
    sealer, opener = Sealer(key, sends=True), Opener(key, sends=True)
    sealed = [sealer.seal(n.to_bytes(4)) for n in range(count)]
    late = [(n + rng.uniform(0, 500), each) for n, each in enumerate(sealed) for _ in range(2)]
    came = [opener.open(each) for _, each in sorted(late)]
    taken = [each for each in came if each is not None]
    twice = len(taken) - len(set(taken))
    print(f"{count} genuine datagrams, each sent twice and up to 500 places late:")
    print(
        f"  {len(set(taken))} taken, {twice} of them twice, {opener.replayed} repetitions dropped"
    )


def attack(count: int) -> None:
    """Push forgeries of every kind through an opener that also hears its sender."""
    rng, key, plain = random.Random(1), WireKey(os.urandom(32)), genuine()
    sealer, opener = Sealer(key, sends=True), Opener(key, sends=True)
    kinds = forgeries(rng, key)
    taken, spent = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0.0)
    heard = [sealer.seal(datagram) for datagram in plain]
    assert all(opener.open(sealed) is not None for sealed in heard)
    lost = done = 0
    while done < count:
        for name, forge in kinds.items():
            made = [forge(rng.choice(heard)) for _ in range(min(_BATCH, count - done))]
            began = time.perf_counter()
            taken[name] += sum(opener.open(datagram) is not None for datagram in made)
            spent[name] += time.perf_counter() - began
            done += len(made)
        true = rng.choice(plain)
        lost += opener.open(sealer.seal(true)) != true
    print(f"{done} forged datagrams, {sum(taken.values())} taken; genuine ones lost: {lost}")
    print(f"refused {opener.refused}, replayed {opener.replayed}, stale {opener.stale}")
    each = count / len(kinds)
    for name in kinds:
        print(f"  {name:<26} taken {taken[name]}, {1e6 * spent[name] / each:.1f} us each")


def cost() -> None:
    """What sealing and opening take, and add."""
    key, size, count = WireKey(os.urandom(32)), 1168, 50_000
    sealer, opener = Sealer(key, sends=True), Opener(key, sends=True)
    datagram = os.urandom(size)
    began = time.perf_counter()
    sealed = [sealer.seal(datagram) for _ in range(count)]
    middle = time.perf_counter()
    assert all(opener.open(one) == datagram for one in sealed)
    ended = time.perf_counter()
    for name, seconds in (("seal", middle - began), ("open", ended - middle)):
        rate = 8 * size * count / seconds / 1e6
        print(
            f"{name}: {1e6 * seconds / count:.1f} us a datagram of {size} bytes, {rate:.0f} Mbit/s"
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
