"""`gsvc info`: what is in a stream."""

import sys
from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager
from typing import BinaryIO

from gsvc.codec.command.arguments import add_json, add_untrusted, limits_of
from gsvc.codec.command.parser import FAILED, complain
from gsvc.codec.command.progress import JsonLines, json_lines
from gsvc.codec.command.show_mark import show_mark
from gsvc.codec.errors import BitstreamError, GsvcError
from gsvc.codec.input import display_name
from gsvc.codec.inspection import open_to_inspect
from gsvc.codec.stream.file import open_stream
from gsvc.codec.stream.info import StreamInfo, read_info
from gsvc.codec.stream.info_text import info_lines

DESCRIPTION = """Show what is in streams and how many bits each layer takes; of decoded videos and
images, whether trained models drew them. - reads standard input."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc info`."""
    add = parser.add_argument
    add("sources", metavar="FILE", nargs="+")
    add("--packets", action="store_true", help="a row for each packet")
    add("--verbose", action="store_true", help="and for each element of scaffold and header")
    trusted = "PEM: certificates that you trust, to verify content credentials"
    add("--anchors", metavar="FILE", help=trusted)
    add_untrusted(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Show what is in each stream, as far as it can be read."""
    code = 0
    for source in options.sources:
        try:
            _show_any(source, options)
        except GsvcError as error:
            code = FAILED
            if options.json:
                lines = json_lines(options)
                lines.put("error", error=type(error).__name__, message=str(error), exit=code)
            complain(str(error))
    return code


def _show_any(source: str, options: Namespace) -> None:
    """Show a stream, or the mark of what was decoded from one."""
    try:
        _show(source, options)
    except BitstreamError:
        lines = json_lines(options) if options.json else None
        # FFmpeg opens what is no stream: nothing for strangers' files.
        if options.untrusted or not show_mark(source, options.anchors, lines):
            raise


def _show(source: str, options: Namespace) -> None:
    """Show one stream. Raises what it suffers from, damage after all that was shown."""
    limits, elements = limits_of(options), options.verbose
    with _opened(source, options) as file:
        found = read_info(file, elements=elements, limits=limits, partial=True)
    packets = options.packets or elements
    if found.damage is not None and not found.frames:
        raise _named(source, found.damage)
    if options.json:
        _put(source, found, json_lines(options), packets=packets, elements=elements)
    else:
        if len(options.sources) > 1:
            print(f"{display_name(source)}:")
        for line in info_lines(found, packets=packets, fields=elements):
            print(line)
        sys.stdout.flush()
    if found.damage is not None:
        raise _named(source, found.damage, f"; above are the {found.frames} frames before that")


def _opened(source: str, options: Namespace) -> AbstractContextManager[BinaryIO]:
    """A stream, or the one in a video file; FFmpeg opens no strangers' files."""
    return open_stream(source) if options.untrusted else open_to_inspect(source)


def _named(source: str, damage: BitstreamError, more: str = "") -> BitstreamError:
    return type(damage)(f"{display_name(source)}: {damage}{more}")


def _put(
    source: str, found: StreamInfo, lines: JsonLines, *, packets: bool, elements: bool
) -> None:
    lines.put(
        "stream",
        source=source,
        header=found.header.fields(),
        size=found.size,
        packets=len(found.packets),
        frames=found.frames,
        duration=found.duration,
        frame_rate=float(found.header.format.frame_rate),
        bpp=found.bpp,
        bitrate=found.bitrate,
        ledger=found.bits,
        scaffold_hash=found.scaffold_hash,
    )
    for packet in found.packets if packets else ():
        lines.put(
            "packet",
            name=packet.name,
            frame=packet.time,
            size=packet.size,
            bits=packet.bits,
            crf=packet.crf,
            eighths=packet.scale,
            key_pictures=packet.key_frames,
            **({"elements": packet.elements} if elements else {}),
        )
