"""`info`: one call from a file to what is in it; and that as text for people."""

from collections.abc import Iterator
from fractions import Fraction

from gsvc.codec.api.reports import shown_rate, shown_time
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, Limits, typed
from gsvc.codec.bitstream.frames import UNSPECIFIED, Color
from gsvc.codec.bitstream.header import TOOLS, Header
from gsvc.codec.bitstream.layers.faces import FACES
from gsvc.codec.bitstream.scaffold import Place
from gsvc.codec.bitstream.stream_info import IntervalInfo, PacketInfo, StreamInfo, read_info
from gsvc.codec.media.places import PathOrFile, open_any


@typed
def info(
    source: PathOrFile,
    *,
    elements: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    partial: bool = False,
) -> StreamInfo:
    """Describe a stream without decoding a picture.

    Args:
        source: A path, of a stream or of what `mux` wrote, "-" for standard input, or an open
            binary file, of which all that is left is read.
        elements: List every scaffold element of each packet too.
        limits: What the stream may ask for.
        partial: Describe what comes before damage, which `StreamInfo.damage` tells, instead of
            raising BitstreamError. A damaged header raises it all the same.

    Raises:
        InputError: The source cannot be read.
        BitstreamError: The stream is damaged or beyond `limits`.
    """
    with open_any(source) as file:
        return read_info(file, elements=elements, limits=limits, partial=partial)


_PRIMARIES = {1: "BT.709", 5: "BT.470BG", 6: "BT.601", 7: "SMPTE 240M", 9: "BT.2020", 12: "P3"}
_TRANSFERS = {1: "BT.709", 4: "gamma 2.2", 5: "gamma 2.8", 6: "BT.601", 8: "linear", 13: "sRGB"}
_MATRICES = {0: "RGB", 1: "BT.709", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M", 9: "BT.2020"}


def info_lines(info: StreamInfo, *, packets: bool = False, fields: bool = False) -> Iterator[str]:
    """`info` as text: video, stream, ledger.

    Args:
        info: A stream, described.
        packets: Also each packet, and its elements where they are listed.
        fields: Also each field of the header.
    """
    header = info.header
    yield "video"
    yield f"  {'size':<18} {_size(header)}"
    yield f"  {'frame rate':<18} {_number(header.format.frame_rate)} frames/s"
    yield f"  {'frames':<18} {info.frames} in {shown_time(info.duration)}"
    yield f"  {'colour':<18} {_color(header.format.color)}"
    yield f"  {'sound':<18} {'Opus' if header.audio else 'none'}"
    yield "stream"
    yield f"  {'size':<18} {info.size} bytes in {len(info.packets)} packets"
    yield f"  {'rate':<18} {shown_rate(info.mean_rate, info.bitrate, info.bpp)}"
    if info.frames:
        wait = f"{info.startup_delay():.1f} s over a link of {info.mean_rate / 1000:.2f} kbit/s"
        yield f"  {'start-up delay':<18} {wait}, the mean of all"
    yield f"  {'level':<18} {header.level}"
    yield f"  {'scaffold layers':<18} {', '.join(_layers(info)) or 'none'}"
    made_for = f"weights {header.model_id.hex()}" if any(header.model_id) else "any"
    yield f"  {'made for refiner':<18} {made_for}, seed {header.seed}"
    yield f"  {'scaffold hash':<18} {info.scaffold_hash}"
    yield from _ledger_lines(info)
    if fields:
        yield "header"
        for name, value in header.fields().items():
            yield f"  {name:<18} {f'{value:08x}' if name == 'model_id' else value}"
    if packets:
        yield "packets"
        for packet in info.packets:
            yield from _packet_lines(packet)


def _layers(info: StreamInfo) -> Iterator[str]:
    """Names of the layers that the header switches on, and of faces, which groups do."""
    yield from (name for name in TOOLS if name in info.header.tools)
    if info.bits.get(FACES.name):
        yield f"{FACES.name} (in some groups)"


def _size(header: Header) -> str:
    video = header.format
    text = f"{video.width}x{video.height}"
    if video.pixel_aspect == 1:
        return text
    aspect = video.pixel_aspect
    wide = round(video.width * aspect)
    shape = f"{aspect.numerator}:{aspect.denominator}"
    return f"{text}, pixels of {shape}, shown as {wide}x{video.height}"


def _number(value: Fraction) -> str:
    return f"{float(value):.3f}".rstrip("0").rstrip(".")


def _color(color: Color) -> str:
    named = {
        "primaries": (color.primaries, _PRIMARIES),
        "transfer": (color.transfer, _TRANSFERS),
        "matrix": (color.matrix, _MATRICES),
    }
    told = [
        f"{what} {names.get(code, f'H.273 code {code}')}"
        for what, (code, names) in named.items()
        if code != UNSPECIFIED
    ]
    return (
        f"{', '.join(told) or 'not specified'}, {'full' if color.full_range else 'limited'} range"
    )


def _ledger_lines(info: StreamInfo) -> Iterator[str]:
    yield "ledger"
    for layer, bits in info.bits.items():
        yield f"  {layer:<18} {bits:>12} bits {bits / (8 * info.size):>7.1%}"
    where = "read" if info.damage else "in the file"
    yield f"  {'sum':<18} {sum(info.bits.values()):>12} bits {8 * info.size:>12} {where}"


def _packet_lines(packet: PacketInfo) -> Iterator[str]:
    coding = "" if packet.crf is None else f"  crf {packet.crf}, size {packet.scale}/8"
    layers = ", ".join(f"{layer} {bits}" for layer, bits in packet.bits.items() if bits)
    sizes = f"to frame {packet.time:>6} {packet.size:>7} bytes{coding}  bits: {layers}"
    yield f"  {packet.name:<6} {sizes}"
    for interval in packet.intervals:
        yield f"    frame {interval.time - 1:>6} {_interval_text(interval)}"
    for name, value in packet.elements:
        yield f"    {name:<20} {value}"


def _interval_text(interval: IntervalInfo) -> str:
    if interval.place is Place.AFTER:
        return "held: shows the last key picture"
    text = f"key picture, {interval.size} bytes of AV1"
    if interval.place is Place.BEFORE:
        text += "; those before it hold it"
    return text + "; those before it dissolve" * interval.dissolves
