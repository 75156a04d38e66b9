"""Sound of a live stream: cut to fit datagrams, and put in order again with losses concealed."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from gsvc.codec.bitstream.audio import SAMPLE_RATE, pack_audio, packet_samples, unpack_audio
from gsvc.codec.bitstream.container import Packet, PacketType
from gsvc.codec.bitstream.errors import BitstreamError
from gsvc.codec.bitstream.frames import AudioChunk

_LONGEST = SAMPLE_RATE // 5
"""Of a piece, in samples: what is lost with a datagram at most."""
_CONCEALED = 2 * SAMPLE_RATE
"""Longest loss that is concealed, in samples; a longer one stays a gap."""
_KEPT = 256
"""Pieces that wait to be taken; beyond, the oldest are dropped."""

_log = logging.getLogger(__name__)


def sound_packet(chunk: AudioChunk) -> Packet:
    """The packet of a chunk."""
    return Packet(PacketType.AUDIO, 0, pack_audio(chunk))


def cut_to_fit(chunks: Iterable[AudioChunk], most: int) -> Iterator[AudioChunk]:
    """Pieces of at most a fifth of a second, each of at most `most` bytes as a packet.

    What does not fit by itself is left out; a warning tells of the first.
    """
    is_told = False
    for chunk in chunks:
        count = max(1, _LONGEST // chunk.packet_samples)
        first = 0
        while first < len(chunk.packets):
            piece = _part(chunk, first, count)
            while len(piece.packets) > 1 and len(sound_packet(piece).to_bytes()) > most:
                piece = _part(chunk, first, len(piece.packets) - 1)
            first += len(piece.packets)
            if len(sound_packet(piece).to_bytes()) <= most:
                yield piece
            elif not is_told:
                is_told = True
                _log.warning("sound is left out that fits no datagram: lower its rate")


class ArrivedSound:
    """The sound of streams that come one after another, in order, until it is taken.

    A loss of up to two seconds is filled with packets by which an Opus decoder conceals one (RFC
    6716, section 3.2.1: a frame of no bytes was not received).
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, AudioChunk]] = deque(maxlen=_KEPT)
        self._last: tuple[int, AudioChunk] | None = None

    def add(self, stream: int, packet: Packet) -> bool:
        """Take an AUDIO packet of the stream of this number; False for one that is damaged."""
        try:
            chunk = unpack_audio(packet.payload)
        except BitstreamError:
            return False
        if chunk.packets:
            self._put(stream, chunk)
        return True

    def take(self, stream: int, shift: Fraction) -> list[AudioChunk]:
        """What came of a stream, `shift` seconds later; that of older streams is dropped."""
        taken = [chunk for number, chunk in self._waiting if number == stream]
        later = [one for one in self._waiting if one[0] > stream]
        self._waiting = deque(later, maxlen=_KEPT)
        ticks = round(shift * SAMPLE_RATE)
        return [replace(chunk, pts=chunk.pts + ticks) for chunk in taken]

    def _put(self, stream: int, chunk: AudioChunk) -> None:
        if self._last is not None and self._last[0] == stream:
            before = self._last[1]
            lost = chunk.pts - before.end
            if lost < 0:
                return  # late: its place is taken
            if 0 < lost <= _CONCEALED:
                self._waiting.append((stream, _in_place_of(before, lost)))
        self._last = stream, chunk
        self._waiting.append((stream, chunk))


def _part(chunk: AudioChunk, first: int, count: int) -> AudioChunk:
    pts = chunk.pts + first * chunk.packet_samples
    return replace(chunk, pts=pts, packets=chunk.packets[first : first + count])


def _in_place_of(before: AudioChunk, lost: int) -> AudioChunk:
    """Packets of one frame without bytes, of the kind that came before."""
    empty = bytes([before.packets[-1][0] & 0xFC])
    samples = packet_samples(empty)
    packets = (empty,) * (lost // samples)
    return replace(before, pts=before.end, packet_samples=samples, packets=packets)
