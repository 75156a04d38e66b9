"""Pieces over UDP, one way: each piece is a datagram, and the receiver ends when it has enough.

    gsvc encode video.mp4 -o pieces --packets 14 --packet-bytes 240 --loss 10%
    python examples/pieces_udp.py receive PORT FOLDER
    python examples/pieces_udp.py send FOLDER HOST PORT [RATE]
    gsvc decode FOLDER -o again.mp4

RATE: bits per second, IP and UDP headers included (4000). The receiver takes datagrams in any order
and twice; it leaves out those that are no pieces of the stream whose piece came first.
"""

import random
import socket
import sys
import time
from pathlib import Path

import gsvc

IP_UDP = 28
SILENCE = 60.0
"""Seconds without a datagram after which the receiver no longer waits."""


def send(folder: Path, address: tuple[str, int], rate: float) -> None:
    """Send each file of `folder`, mixed: a burst of losses meets no neighbours."""
    pieces = [path.read_bytes() for path in folder.iterdir()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for piece in random.sample(pieces, len(pieces)):
            out.sendto(piece, address)
            time.sleep(8 * (len(piece) + IP_UDP) / rate)


def receive(port: int, folder: Path) -> int:
    """Gather pieces in `folder`; how many are still needed when the link is silent, else 0."""
    folder.mkdir(parents=True)
    pieces: set[bytes] = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as come:
        come.bind(("", port))
        come.settimeout(SILENCE)
        while needed := gsvc.pieces_needed(pieces):
            try:
                piece = come.recv(1 << 16)
                gsvc.pieces_needed({*pieces, piece})  # raises for what is none of this stream
            except TimeoutError:
                return needed
            except gsvc.BitstreamError:
                continue
            if piece not in pieces:
                (folder / f"{len(pieces)}.piece").write_bytes(piece)
                pieces.add(piece)
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["send", source, host, port, *rate]:
            send(Path(source), (host, int(port)), float(rate[0]) if rate else 4000.0)
        case ["receive", port, target]:
            needed = receive(int(port), Path(target))
            sys.exit(f"{needed} more pieces are needed" if needed else 0)
        case _:
            sys.exit(__doc__)
