"""The payload of a picture packet: length of the scaffold (varint), scaffold, AV1 temporal unit."""

from gsvc.codec.stream.varint import Cutter, read_varint, varint


def join_payload(scaffold: bytes, unit: bytes) -> bytes:
    """Put a scaffold and a temporal unit together."""
    return varint(len(scaffold)) + scaffold + unit


def split_payload(payload: bytes) -> tuple[bytes, bytes]:
    """Take them apart. Raises BitstreamError when the lengths do not add up."""
    cutter = Cutter(payload)
    return cutter.take(read_varint(cutter.take)), cutter.rest()
