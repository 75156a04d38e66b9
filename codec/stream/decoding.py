"""The loop of everybody who decodes packets one after another."""

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


def decoded_frames(
    decoder: PacketDecoder, packets: Iterable[tuple[Packet, bool]]
) -> Iterator[Frame]:
    """The frames of packets, each given with whether it is wanted; in the end those held back."""
    for packet, is_wanted in packets:
        if is_wanted:
            yield from decoder.frames(packet)
        else:
            decoder.skip(packet)
    yield from decoder.flush()
