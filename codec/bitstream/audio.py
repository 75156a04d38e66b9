"""Audio in a stream: runs of Opus packets (RFC 6716) as the payload of one gsvc packet.

Layout, every number a varint (see `gsvc.codec.bitstream.container`):
channels; packet duration / 120; pre-skip; pts, zigzag (0, -1, 1, -2, ... as 0, 1, 2, 3, ...);
number of packets; length of each packet in bytes; then the packets.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from gsvc.codec.bitstream.container import read_varint, varint
from gsvc.codec.bitstream.errors import (
    BitstreamError,
    ConfigError,
    LimitError,
    TruncatedStreamError,
)
from gsvc.codec.bitstream.frames import AudioChunk

AUDIO_CODINGS = ("opus", "none")
"""How a stream may carry sound."""
SAMPLE_RATE = 48_000
"""Unit of Opus times, 1/48000 s, at every sample rate of the source."""

_SHORTEST = 120  # 2.5 ms, the unit of all Opus packet durations
_LONGEST = 5760  # 120 ms
_MAX_PACKETS = 4096
_MAX_PACKET_BYTES = 1275 * 48
_MAX_PRE_SKIP = 65_535
_MAX_PTS = (1 << 34) - 1  # 99 hours: the largest whose zigzag value fits a varint


def packet_samples(packet: bytes) -> int:
    """Duration of an Opus packet in 1/48000 s, from its first bytes (RFC 6716, section 3.1).

    Raises BitstreamError when they are missing.
    """
    if not packet:
        raise BitstreamError("an audio packet is empty: the stream is damaged")
    config, code = packet[0] >> 3, packet[0] & 3
    if config < 12:
        frame = (480, 960, 1920, 2880)[config & 3]
    elif config < 16:
        frame = (480, 960)[config & 1]
    else:
        frame = (120, 240, 480, 960)[config & 3]
    if code == 3 and len(packet) < 2:
        raise BitstreamError("an audio packet is cut short: the stream is damaged")
    return frame * (packet[1] & 63 if code == 3 else (1, 2, 2)[code])


def pack_audio(chunk: AudioChunk) -> bytes:
    """Serialise a chunk. Raises ConfigError for one that `unpack_audio` would refuse."""
    try:
        _check(chunk)
    except BitstreamError as error:
        raise ConfigError(str(error)) from error
    numbers = [
        chunk.channels,
        chunk.packet_samples // _SHORTEST,
        chunk.pre_skip,
        chunk.pts << 1 if chunk.pts >= 0 else (-chunk.pts << 1) - 1,
        len(chunk.packets),
        *map(len, chunk.packets),
    ]
    return b"".join(map(varint, numbers)) + b"".join(chunk.packets)


def unpack_audio(data: bytes) -> AudioChunk:
    """Parse what `pack_audio` wrote. Raises BitstreamError, TruncatedStreamError or LimitError."""
    position = 0

    def take(size: int) -> bytes:
        nonlocal position
        if size > len(data) - position:
            raise TruncatedStreamError("an audio packet ends early: the stream is damaged")
        position += size
        return data[position - size : position]

    channels, units, pre_skip, zigzag, count = (read_varint(take) for _ in range(5))
    if count > _MAX_PACKETS:
        raise LimitError(f"{count} Opus packets in one chunk: at most {_MAX_PACKETS} are permitted")
    lengths = [read_varint(take) for _ in range(count)]
    packets = tuple(take(length) for length in lengths)
    if position != len(data):
        raise BitstreamError("an audio packet is longer than it says: the stream is damaged")
    pts = zigzag >> 1 if zigzag & 1 == 0 else -((zigzag + 1) >> 1)
    chunk = AudioChunk(pts, channels, units * _SHORTEST, pre_skip, packets)
    _check(chunk)
    return chunk


def _check(chunk: AudioChunk) -> None:
    if chunk.channels not in (1, 2):
        raise LimitError(f"audio with {chunk.channels} channels: 1 or 2 are permitted")
    if not _SHORTEST <= chunk.packet_samples <= _LONGEST or chunk.packet_samples % _SHORTEST:
        raise LimitError(
            f"audio packets of {chunk.packet_samples} samples: "
            f"multiples of {_SHORTEST} up to {_LONGEST} are permitted"
        )
    if not 0 <= chunk.pre_skip <= _MAX_PRE_SKIP or abs(chunk.pts) > _MAX_PTS:
        raise LimitError(f"audio time {chunk.pts} or pre-skip {chunk.pre_skip} is out of range")
    if len(chunk.packets) > _MAX_PACKETS or any(len(p) > _MAX_PACKET_BYTES for p in chunk.packets):
        raise LimitError(f"audio chunk beyond {_MAX_PACKETS} packets of {_MAX_PACKET_BYTES} bytes")
    if any(packet_samples(packet) != chunk.packet_samples for packet in chunk.packets):
        raise BitstreamError("an audio packet lasts longer or shorter than its chunk says")


_PREROLL = 3840
"""Samples that an Opus decoder needs to converge: 80 ms (RFC 7845, section 4.6)."""


def cut(chunks: Iterable[AudioChunk], start: Fraction, end: Fraction) -> Iterator[AudioChunk]:
    """The audio from `start` to `end`, in seconds, with `start` as the new time 0.

    The 80 ms before `start` are kept as pre-skip, which lets the Opus decoder converge.
    """
    begin, over = start * SAMPLE_RATE, end * SAMPLE_RATE
    is_first = True
    for chunk in chunks:
        samples = chunk.packet_samples
        skipped = max(0, int((begin - _PREROLL - chunk.pts) // samples))
        kept = chunk.packets[skipped : max(0, -int(-(over - chunk.pts) // samples))]
        if not kept:
            continue
        pts = round(chunk.pts + skipped * samples - begin)
        pre_skip = max(0, -pts) if is_first else chunk.pre_skip
        yield replace(chunk, pts=pts, pre_skip=pre_skip, packets=kept)
        is_first = False
