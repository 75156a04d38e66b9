"""Decoding of packets one after another, to the end: for everybody who holds a decoder."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from gsvc.codec.frames import Frame
from gsvc.codec.stream.packet import Packet


class PacketDecoder(Protocol):
    """What the loop needs of `gsvc.Decoder`, which describes these."""

    def reset(self) -> None: ...

    def frames(self, packet: Packet) -> Iterator[Frame]: ...

    def skip(self, packet: Packet) -> None: ...

    def flush(self) -> Sequence[Frame]: ...


def next_frames(decoder: PacketDecoder, packet: Packet | None) -> Iterator[Frame]:
    """The frames of the next packet; of None, the end of the packets, those held back."""
    yield from decoder.flush() if packet is None else decoder.frames(packet)


def decoded_frames(
    decoder: PacketDecoder, packets: Iterable[tuple[Packet, bool]]
) -> Iterator[Frame]:
    """The frames of packets, each given with whether it is wanted; in the end those held back."""
    for packet, is_wanted in packets:
        if is_wanted:
            yield from next_frames(decoder, packet)
        else:
            decoder.skip(packet)
    yield from next_frames(decoder, None)
