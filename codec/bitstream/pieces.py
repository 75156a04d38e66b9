"""Pieces: a stream cut into numbered messages for radio links, which arrive in any order or not.

`split` cuts, `gather` puts together whatever arrived. A first piece may hold a preview: a small
picture, a stream of its own, which is shown while the first picture of the stream is not whole.
What is here of that picture, from its top down, is decoded all the same, with made-up bytes behind
it. Pieces of parity may follow, of which each makes any lost piece good.
"""

import io
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile

from google_crc32c import value as crc32c

from gsvc.codec.bitstream import erasure, errors
from gsvc.codec.bitstream.container import (
    Cutter,
    Packet,
    PacketType,
    Salvage,
    StreamReader,
    read_head,
    read_packet,
    read_varint,
    varint,
)
from gsvc.codec.bitstream.header import HEADER_BYTES, MAGIC, VERSION, Header

_PLAIN, _PREVIEWED, _PARITY, _PREVIEWED_PARITY = MARKS = 0xB6, 0xB7, 0xB8, 0xB9
"""First byte of a piece, and of one of parity; where it is odd, piece 0 is a preview."""
_END = b"\x80"
"""After the body of a piece, in its parity, before zeros up to the longest one's length."""
_ID_BYTES = 2
MOST_PIECES, MOST_PIECE_BYTES = 4096, 1 << 20
_USUAL = bytes.fromhex("0000000004044210000400064000040070f1000098414e9a")
"""Fields of a header that are not sent where a stream has the same."""
_MADE_UP, _PIXELS_A_BYTE = (b"\0", b"\xff"), 8
"""Bytes that drafts go on with, one of them for so many pixels. A decoder reads such bytes beyond
the end of a picture (1/16 byte a pixel was enough for 190 cuts of eight photographs)."""
_WASTE = 8
"""A packet that fits into a piece is not divided where that leaves 1/8 of a piece empty at most."""


@dataclass(frozen=True)
class Gathered:
    """A stream gathered from pieces."""

    stream: bytes
    """A stream to decode: of all pieces the one that was split; of some, damaged."""
    count: int
    """How many pieces there are in all."""
    missing: tuple[int, ...]
    """Numbers of those that are not here."""
    is_preview: bool
    """Whether it is the preview, as the stream's first picture is not whole."""
    parity: int
    """How many pieces of parity are here."""
    size: int = 0
    """Bytes of all pieces that are here."""
    repaired: tuple[int, ...] = ()
    """Numbers of lost ones that parity made good."""
    drafts: tuple[bytes, ...] = field(default=(), repr=False)
    """Streams of a first picture that is here in part, followed in each by other made-up bytes:
    where their pictures are the same down from the top, both are right."""

    @property
    def shown(self) -> str:
        """What can be shown, in words."""
        if self.drafts:
            return "the upper part of a picture" + " over the preview" * self.is_preview
        return "the preview" if self.is_preview else "a part" if self.missing else "all"

    def without_drafts(self) -> "Gathered":
        """The same of drafts that agree nowhere. Raises BitstreamError where nothing is left."""
        if not self.is_preview:
            raise _shows_nothing(self.count, self.missing, self.parity)
        return replace(self, drafts=())


@dataclass(frozen=True)
class _Piece:
    previewed: bool
    is_parity: bool
    id: bytes
    number: int
    count: int
    body: bytes


def head_bytes(count: int, parity: int = 0) -> int:
    """Most bytes that one of `count` pieces, and `parity` more, takes beside its content."""
    own = len(varint(count)) + len(varint(max(count, parity)))
    return 1 + _ID_BYTES + own + (len(_END) if parity else 0)


def carried_bytes(stream: bytes) -> int:
    """Bytes that the pieces of a stream carry together, without its preview."""
    return len(_short(stream[:HEADER_BYTES])) + len(stream) - HEADER_BYTES


def preview_bytes(preview: bytes) -> int:
    """Bytes that the piece of a preview carries."""
    return len(_preview_body(preview, preview[:HEADER_BYTES]))


def split(
    stream: bytes, preview: bytes | None, count: int, size: int, parity: int = 0
) -> list[bytes]:
    """At most `count` pieces of at most `size` bytes each, and `parity` more.

    `preview`: a stream of one picture whose header has another size alone, or None. Raises
    ConfigError where they do not fit.
    """
    room, rest = size - head_bytes(count, parity), count - (preview is not None)
    packets = [packet.to_bytes() for packet in StreamReader(io.BytesIO(stream))]
    own = _short(stream[:HEADER_BYTES])
    bodies: list[bytes] = []
    for waste in (room // _WASTE, 0):
        if room > 0 and len(bodies := _bodies(own, packets, room, waste)) <= rest:
            break
    if preview is not None:
        bodies.insert(0, _preview_body(preview, stream[:HEADER_BYTES]))
    if not 0 < len(bodies) <= count or max(map(len, bodies)) > room:
        why = f"{carried_bytes(stream)} bytes do not fit {count} pieces of {size}"
        raise errors.ConfigError(why)
    longest, own, total = max(map(len, bodies)), _id(stream), varint(len(bodies))
    rows = [_row(body, longest) for body in bodies]
    more = erasure.parity_rows(rows, parity) if parity else []
    mark = _PLAIN if preview is None else _PREVIEWED
    return [
        bytes([kind]) + own + varint(number) + total + body
        for kind, some in ((mark, bodies), (mark + _PARITY - _PLAIN, more))
        for number, body in enumerate(some)
    ]


def _row(body: bytes, longest: int) -> bytes:
    return (body + _END).ljust(longest + len(_END), b"\0")


def is_piece(data: bytes) -> bool:
    """Whether these bytes begin as a piece does."""
    return data[:1] != b"" and data[0] in MARKS


@errors.typed
def pieces_needed(pieces: Collection[bytes]) -> int:
    """How many more pieces `decode` needs for all, whichever come; 0: enough are here.

    `pieces`: those here, in any order, some of them twice; of none, at least 1 more is needed.
    Raises BitstreamError for what is no piece, and for pieces of several streams.
    """
    parsed = [_parsed(data) for data in pieces]
    _refuse_mixed(parsed)
    here = {(one.is_parity, one.number) for one in parsed}
    return max(0, parsed[0].count - len(here)) if parsed else 1


def gather(pieces: Sequence[bytes], limits: errors.Limits = errors.DEFAULT_LIMITS) -> Gathered:
    """Put pieces together, given in any order, some of them missing or twice.

    Raises BitstreamError for what is no piece, for pieces of several streams, and where nothing can
    be shown of those that are here.
    """
    if not pieces:
        raise errors.BitstreamError("there is no piece: wait until one has come")
    parsed, size = [_parsed(data) for data in pieces], sum(map(len, set(pieces)))
    one = parsed[0]
    _refuse_mixed(parsed)
    found = {piece.number: piece.body for piece in parsed if not piece.is_parity}
    parities = {piece.number: piece.body for piece in parsed if piece.is_parity}
    repaired = _repaired(found, parities, one.count)
    found |= repaired
    missing = tuple(number for number in range(one.count) if number not in found)
    base = Gathered(b"", one.count, missing, False, len(parities), size, tuple(repaired))
    main = _main(found, one.previewed)
    found_in = Salvage(io.BytesIO(main), limits) if main is not None and missing else ()
    shows = any(one.is_intra and one.payload for one in found_in)
    if main is not None and (not missing or shows):
        if not missing and _id(main) != one.id:
            raise errors.BitstreamError("a piece is damaged: have all of them sent again")
        return replace(base, stream=main)
    drafts = _drafts(found, one, limits)
    if (is_preview := one.previewed and 0 in found) or drafts:
        stream = _preview(found[0]) if is_preview else main or b""
        return replace(base, stream=stream, is_preview=is_preview, drafts=drafts)
    raise _shows_nothing(one.count, missing, len(parities))


def _shows_nothing(count: int, missing: Sequence[int], parity: int) -> errors.TruncatedStreamError:
    here, (first, *others) = count - len(missing) + parity, map(str, missing[:20])
    then = f"have {first} sent again" + (f", then {', '.join(others)}" if others else "")
    if parity:  # with any of it, whatever comes is as good
        then = f"any {count - here} more show all"
    return errors.TruncatedStreamError(
        f"{here} of the {count} pieces that are needed show nothing yet: {then}"
    )


def _refuse_mixed(pieces: Sequence[_Piece]) -> None:
    """Raise BitstreamError for pieces of several streams, or for one that has two contents."""
    bodies = dict[tuple[bool, int], bytes]()
    for piece in pieces:
        other = pieces[0]
        place = piece.is_parity, piece.number
        shared = replace(other, is_parity=piece.is_parity, number=piece.number, body=piece.body)
        if piece != shared or bodies.setdefault(place, piece.body) != piece.body:
            raise errors.BitstreamError(
                f"pieces of different streams ({other.id.hex()} and {piece.id.hex()}, number "
                f"{piece.number}): put each stream's into a folder of its own"
            )


def _repaired(
    found: Mapping[int, bytes], parities: Mapping[int, bytes], count: int
) -> dict[int, bytes]:
    """The bodies that parity makes good: all that are lost, or none."""
    if not 0 < count - len(found) <= len(parities):
        return {}
    longest = max(map(len, parities.values())) - len(_END)
    rows = {number: _row(body, longest) for number, body in found.items()}
    lost = erasure.lost_rows(rows, parities, count)
    return {number: row.rstrip(b"\0").removesuffix(_END) for number, row in lost.items()}


def _parsed(data: bytes) -> _Piece:
    if not is_piece(data):
        raise errors.BitstreamError("not a piece of a stream: it begins otherwise")
    cut = Cutter(data[1:])
    own, number, count = cut.take(_ID_BYTES), read_varint(cut.take), read_varint(cut.take)
    is_parity = data[0] >= _PARITY
    fits = number + count < erasure.MOST_ROWS if is_parity else number < count
    if not (fits and 0 < count <= MOST_PIECES):
        raise errors.BitstreamError(f"piece {number} of {count}: it is damaged, have it sent again")
    previewed = data[0] in (_PREVIEWED, _PREVIEWED_PARITY)
    return _Piece(previewed, is_parity, own, number, count, cut.rest())


def _id(stream: bytes) -> bytes:
    return bytes(crc32c(stream).to_bytes(4, "little")[:_ID_BYTES])


def _short(header: bytes) -> bytes:
    """A header's fields without those that are usual: a bit for each byte, then the others."""
    fields = header[4:-4]
    differs = [mine != usual for mine, usual in zip(fields, _USUAL, strict=True)]
    mask = sum(one << place for place, one in enumerate(reversed(differs)))
    kept = bytes(mine for mine, is_own in zip(fields, differs, strict=True) if is_own)
    return mask.to_bytes(len(_USUAL) // 8, "big") + kept


def _whole_header(cut: Cutter) -> bytes:
    mask = int.from_bytes(cut.take(len(_USUAL) // 8), "big")
    places = range(len(_USUAL) - 1, -1, -1)
    fields = b"".join(
        cut.take(1) if mask >> place & 1 else bytes([usual])
        for place, usual in zip(places, _USUAL, strict=True)
    )
    body = MAGIC + bytes([VERSION]) + fields
    return body + bytes(crc32c(body).to_bytes(4, "little"))


def _bodies(header: bytes, packets: Sequence[bytes], room: int, waste: int) -> list[bytes]:
    bodies = [header]
    for packet in packets:
        left = room - len(bodies[-1])
        if left < len(packet) <= room and left <= waste:
            bodies.append(b"")
        while packet:
            if len(bodies[-1]) == room:
                bodies.append(b"")
            left = room - len(bodies[-1])
            bodies[-1], packet = bodies[-1] + packet[:left], packet[left:]
    return bodies


def _preview_body(preview: bytes, header: bytes) -> bytes:
    """The header of the stream, the preview's own size, and its picture."""
    form = Header.from_bytes(preview[:HEADER_BYTES]).format
    (picture,) = [one for one in StreamReader(io.BytesIO(preview)) if one.is_picture]
    return _short(header) + varint(form.width) + varint(form.height) + picture.to_bytes()


def _preview(body: bytes) -> bytes:
    cut = Cutter(body)
    header = Header.from_bytes(_whole_header(cut))
    width, height = read_varint(cut.take), read_varint(cut.take)
    if not (0 < width <= header.format.width and 0 < height <= header.format.height):
        raise errors.BitstreamError(f"a preview of {width}x{height}: the piece is damaged")
    header = replace(header, format=replace(header.format, width=width, height=height))
    return header.to_bytes() + cut.rest() + Packet(PacketType.END, 0, varint(1)).to_bytes()


def _main(found: Mapping[int, bytes], previewed: bool) -> bytes | None:
    """The stream as far as it is here; None without a header."""
    first = int(previewed)
    bodies = {number: body for number, body in found.items() if number >= first}
    if first in bodies:
        cut = Cutter(bodies[first])
        header, bodies[first] = _whole_header(cut), cut.rest()
    elif previewed and 0 in found:
        header = _whole_header(Cutter(found[0]))
    else:
        return None
    return header + b"".join(bodies[number] for number in sorted(bodies))


def _drafts(found: Mapping[int, bytes], one: _Piece, limits: errors.Limits) -> tuple[bytes, ...]:
    """`Gathered.drafts`, of the pieces before the first that is missing; `one`: any piece."""
    numbers = takewhile(found.__contains__, range(one.previewed, one.count))
    stream = _main({number: found[number] for number in numbers}, one.previewed)
    if stream is None or (begun := _begun(stream, limits)) is None:
        return ()
    header = Header.from_bytes(stream[:HEADER_BYTES], limits)
    made_up = 1 + header.format.width * header.format.height // _PIXELS_A_BYTE
    end = Packet(PacketType.END, 0, varint(1)).to_bytes()
    return tuple(
        header.to_bytes() + replace(begun, payload=begun.payload + made_up * byte).to_bytes() + end
        for byte in _MADE_UP
    )


def _begun(stream: bytes, limits: errors.Limits) -> Packet | None:
    """What there is of the first picture packet, where that is cut short."""
    file, start = io.BytesIO(stream[HEADER_BYTES:]), 0
    try:
        while not read_packet(file.read, limits).is_picture:
            start = file.tell()
    except errors.TruncatedStreamError:
        cut = Cutter(stream[HEADER_BYTES + start :])
        with suppress(errors.BitstreamError):
            kind, _, frames = read_head(cut.take, limits)
            return Packet(kind, frames, cut.rest()) if kind == PacketType.INTRA else None
    except errors.BitstreamError:
        pass
    return None
