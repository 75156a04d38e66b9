"""Audio in a stream: runs of Opus packets (RFC 6716) as the payload of one gsvc packet.

Layout, every number a varint (LEB128: seven bits a byte, least significant first):
channels; packet duration / 120; pre-skip; pts, zigzag (0, -1, 1, -2, ... as 0, 1, 2, 3, ...);
number of packets; each packet's length; then the packets' bytes.
"""

from collections.abc import Iterator

from gsvc.codec.errors import BitstreamError, ConfigError, LimitError, TruncatedStreamError
from gsvc.codec.frames import AudioChunk

SAMPLE_RATE = 48_000
"""Opus times count in samples of 1/48000 s, whatever the source had."""

_SHORTEST = 120  # 2.5 ms, the unit of all Opus packet durations
_LONGEST = 5760  # 120 ms
_MAX_PACKETS = 4096
_MAX_PACKET_BYTES = 1275 * 48
_MAX_PRE_SKIP = 65_535
_MAX_PTS = 1 << 48
_MAX_VARINT_BYTES = 8


def packet_samples(packet: bytes) -> int:
    """Duration of an Opus packet in 1/48000 s, from its first bytes (RFC 6716, section 3.1).

    Raises BitstreamError when it has none.
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
    """Serialise a chunk. Raises ConfigError for one beyond the limits that `unpack_audio` sets."""
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
    return b"".join(map(_varint, numbers)) + b"".join(chunk.packets)


def unpack_audio(data: bytes) -> AudioChunk:
    """Parse what `pack_audio` wrote. Raises BitstreamError (or its LimitError, TruncatedStreamError)."""
    parser = _Parser(data)
    channels, units, pre_skip, zigzag, count = (parser.varint() for _ in range(5))
    if count > _MAX_PACKETS:
        raise LimitError(
            f"{count} audio packets in one chunk, at most {_MAX_PACKETS} are permitted"
        )
    lengths = [parser.varint() for _ in range(count)]
    packets = tuple(parser.take(lengths))
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


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Parser:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def varint(self) -> int:
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            if self._position >= len(self._data):
                raise TruncatedStreamError("an audio chunk is cut short: the stream is damaged")
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 127) << 7 * index
            if byte < 128:
                return value
        raise LimitError("a number in an audio chunk is too long: the stream is damaged")

    def take(self, lengths: list[int]) -> Iterator[bytes]:
        """The rest of the data in pieces of these lengths, which must fill it exactly."""
        if sum(lengths) != len(self._data) - self._position:
            raise TruncatedStreamError("an audio chunk has not the size it says: it is damaged")
        for length in lengths:
            yield self._data[self._position : self._position + length]
            self._position += length
