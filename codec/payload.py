"""The payload of a picture packet: length of the scaffold (varint), scaffold, AV1 temporal unit."""

from gsvc.codec.errors import BitstreamError
from gsvc.codec.varint import read_varint, varint


def join_payload(scaffold: bytes, unit: bytes) -> bytes:
    """Put a scaffold and a temporal unit together."""
    return varint(len(scaffold)) + scaffold + unit


def split_payload(payload: bytes) -> tuple[bytes, bytes]:
    """Take them apart. Raises BitstreamError when the lengths do not add up."""
    position = 0

    def take(count: int) -> bytes:
        nonlocal position
        data = payload[position : position + count]
        if len(data) < count:
            raise BitstreamError("a picture packet is shorter than it says: the stream is damaged")
        position += count
        return data

    scaffold = take(read_varint(take))
    return scaffold, payload[position:]
