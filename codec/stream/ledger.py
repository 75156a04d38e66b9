"""The ledger: the bits of each layer of a stream, which sum to the stream's size exactly."""

from collections.abc import Iterable, Mapping

from gsvc.codec.scaffold.layers.faces import FACES
from gsvc.codec.scaffold.tools import TOOLS
from gsvc.codec.stream.group import ParsedPacket
from gsvc.codec.stream.header import HEADER_BYTES
from gsvc.codec.stream.packet import Packet, PacketType

LEDGER = (
    "header",
    "key pictures",
    *TOOLS,
    FACES.name,
    "timing",
    "objects",
    "audio",
    "text",
    "overhead",
)
"""Layers of the ledger; "overhead" is packet framing and the rounding of the coder to bytes."""

Ledger = dict[str, int]
"""Bits by layer of `LEDGER`."""

HEADER_LEDGER: Mapping[str, int] = {"header": 8 * HEADER_BYTES}


def packet_ledger(packet: Packet, size: int, parsed: ParsedPacket | None = None) -> Ledger:
    """Split a packet of `size` bytes, framing included.

    `parsed`: the packet, if it has frames and could be parsed; without it the payload is all
    pictures. The fractional bits of the entropy coder are rounded to integers that fit the
    scaffold's size; framing and the rest are overhead, and so are packets of unknown types.
    """
    bits: Ledger = {}
    if parsed is not None:
        bits = whole_bits(parsed.bits, 8 * parsed.scaffold_size)
        bits["key pictures"] = bits.get("key pictures", 0) + 8 * parsed.plain_size
    elif packet.is_picture:
        bits = {"key pictures": 8 * len(packet.payload)}
    elif packet.type == PacketType.AUDIO:
        bits = {"audio": 8 * len(packet.payload)}
    elif packet.type == PacketType.TEXT:
        bits = {"text": 8 * len(packet.payload)}
    elif packet.type == PacketType.OBJECTS:
        bits = {"objects": 8 * len(packet.payload)}
    return {**bits, "overhead": 8 * size - sum(bits.values())}


def total(ledgers: Iterable[Mapping[str, int]]) -> Ledger:
    """The sum of ledgers, with every layer present."""
    result = dict.fromkeys(LEDGER, 0)
    for ledger in ledgers:
        for layer, bits in ledger.items():
            result[layer] += bits
    return result


def whole_bits(spent: Mapping[str, float], available: int) -> Ledger:
    """Round fractional bits by layer to integers by largest remainder.

    They sum to the rounded total, at most `available` (the coder drops trailing zero bytes).
    """
    wanted = sum(spent.values())
    budget = min(round(wanted), available)
    if budget <= 0:
        return dict.fromkeys(spent, 0)
    exact = {layer: bits * budget / wanted for layer, bits in spent.items()}
    whole = {layer: int(bits) for layer, bits in exact.items()}
    by_remainder = sorted(exact, key=lambda layer: (whole[layer] - exact[layer], layer))
    for layer in by_remainder[: budget - sum(whole.values())]:
        whole[layer] += 1
    return whole
