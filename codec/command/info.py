"""`gsvc info`, `mux`, `demux` and `sign`: files as they are, of which no picture is decoded."""

import sys
from argparse import Namespace
from contextlib import suppress
from dataclasses import asdict

from gsvc.codec.api.inspection import Credentials, info_lines, read_credentials, sign_file
from gsvc.codec.api.reports import JsonLines, shown_time
from gsvc.codec.bitstream.errors import BitstreamError, ForeignFileError, GsvcError, one_line
from gsvc.codec.bitstream.pieces import Gathered
from gsvc.codec.bitstream.stream_info import StreamInfo, read_info
from gsvc.codec.command import arguments, main
from gsvc.codec.media.marks import SOURCE_TYPE, is_other_file, read_marks
from gsvc.codec.media.places import SUFFIX, PieceStream, display_name, open_any, open_stream
from gsvc.codec.weights.extras import EXTRAS

_NONE = "none: a mark can be removed, and anyone can write one"


def show_mark(source: str, anchors: str | None, lines: JsonLines | None) -> bool:
    """Show marks and credentials of a file, as text or as JSON `lines`; whether there are any."""
    if not is_other_file(source):
        return False
    marks = read_marks(source)
    asked = anchors is not None or not EXTRAS["c2pa"].missing
    signed = read_credentials(source, anchors) if asked else None
    if not marks and signed is None:
        return False
    if lines is not None:
        fields = [{**asdict(mark), "source_type": SOURCE_TYPE} for mark in marks]
        lines.put("decoded", source=source, marks=fields, credentials=signed and asdict(signed))
        return True
    for mark in marks:
        models = [f"{mark.backend}, steps {mark.steps}"] * bool(mark.steps)
        models += [mark.motion] * (mark.motion != "dis")
        print(f"{one_line(source)}: decoded by gsvc {mark.version}")
        print(f"  {'synthetic':<18} yes: in part drawn by trained models ({'; '.join(models)})")
        print(f"  {'source type':<18} {SOURCE_TYPE}")
    if not marks:
        print(f"{one_line(source)}: no mark of gsvc")
    print(f"  {'proof':<18} {_NONE if signed is None else _proof(signed)}")
    return True


def _proof(signed: Credentials) -> str:
    if not signed.intact:
        return f"FORGED or changed since it was signed ({', '.join(signed.problems)})"
    says = "synthetic" if signed.synthetic else "not that it is synthetic"
    known = "whom your anchors vouch for" if signed.trusted else "whom nobody here vouches for"
    return f"signed as {says} by {signed.signer}, {known}; unchanged since"


USAGE = """Show what streams contain and how many bits each layer takes. For decoded videos
and images, show whether trained models drew them. - reads standard input.

sources FILE...         a stream, video or image
--packets               also list each packet
--verbose               also list each element of header and scaffold
--anchors FILE          PEM file of the authorities whose content credentials you trust
--untrusted --json
"""


def run(options: Namespace) -> int:
    """Show what is in each stream, as far as it can be read."""
    code = 0
    for source in options.sources:
        try:
            _show_any(source, options)
        except GsvcError as error:
            code = main.FAILED
            if options.json:
                lines = arguments.json_lines(options)
                lines.put("error", error=type(error).__name__, message=str(error), exit=code)
            main.complain(str(error))
    return code


def _show_any(source: str, options: Namespace) -> None:
    try:
        _show(source, options)
    except BitstreamError as error:
        lines = arguments.json_lines(options) if options.json else None
        # FFmpeg opens what is no stream: nothing for strangers' files.
        if options.untrusted:
            raise
        if show_mark(source, options.anchors, lines):
            return
        if not isinstance(error, ForeignFileError) or not _show_video(source, lines):
            raise


def _show_video(source: str, lines: JsonLines | None) -> bool:
    """Show what a video or image is that carries no stream; False: this file is neither."""
    if not is_other_file(source):
        return False
    from gsvc.codec.media.video_reader import open_video  # late: streams need no FFmpeg

    with suppress(GsvcError), open_video(source) as video:
        form = video.format
        size, rate = (form.width, form.height), float(form.frame_rate)
        seconds = None if video.seconds is None else float(video.seconds)
        if lines is not None:
            told = {"size": size, "frame_rate": rate, "duration": seconds, "sound": video.has_sound}
            lines.put("video", source=source, **told)
            return True
        length = "" if seconds is None else f", {rate:.4g} frames/s, {shown_time(seconds)}"
        length = ", a still" if video.frame_count == 1 else length
        length += ", with sound" if video.has_sound else ", without sound"
        shown = f"{size[0]}x{size[1]}{length}"
        print(f"{one_line(source)}: no gsvc stream, no mark; {shown}", flush=True)
        return True
    return False


def _show(source: str, options: Namespace) -> None:
    """Show one stream. Raises what it suffers from, damage after all that was shown."""
    limits, elements = arguments.limits_of(options), options.verbose
    # FFmpeg opens no strangers' files.
    with (open_stream if options.untrusted else open_any)(source) as file:
        pieces, lack = (file.found, file.lack) if isinstance(file, PieceStream) else (None, None)
        found = read_info(file, elements=elements, limits=limits, partial=True)
    packets = options.packets or elements
    if len(options.sources) > 1 and not options.json:
        print(f"{one_line(display_name(source))}:")
    if pieces is not None:
        _show_pieces(source, pieces, options)
    if found.damage is not None and not found.frames:
        raise _named(source, lack or found.damage)  # of a part of a picture this says all
    if options.json:
        _put(source, found, arguments.json_lines(options), packets=packets, elements=elements)
    else:
        for line in info_lines(found, packets=packets, fields=elements):
            print(line)
        sys.stdout.flush()
    if damage := lack or found.damage:
        before = "" if lack else f"; above are the {found.frames} frames before that"
        raise _named(source, damage, before)


def _show_pieces(source: str, found: Gathered, options: Namespace) -> None:
    if options.json:
        streams = "stream", "drafts"
        fields = {name: value for name, value in vars(found).items() if name not in streams}
        arguments.json_lines(options).put("pieces", source=source, **fields)
        return
    print("pieces")
    here = found.count - len(found.missing) - len(found.repaired)
    beside = f", and {found.parity} of parity" if found.parity else ""
    print(f"  {'here':<18} {here} of {found.count} (0 to {found.count - 1}){beside}")
    print(f"  {'size':<18} {found.size} bytes of pieces")
    for name, numbers in (("missing", found.missing), ("made good", found.repaired)):
        print(f"  {name:<18} {', '.join(map(str, numbers)) or 'none'}")
    is_described = found.is_preview or not found.drafts
    print(f"  {'can be shown':<18} {found.shown}{', described below' * is_described}")


def _named(source: str, damage: BitstreamError, more: str = "") -> BitstreamError:
    return type(damage)(f"{display_name(source)}: {damage}{more}")


def _put(
    source: str, found: StreamInfo, lines: JsonLines, *, packets: bool, elements: bool
) -> None:
    same = "size", "frames", "duration", "bpp", "bitrate", "scaffold_hash"
    told = {name: getattr(found, name) for name in same}
    told |= {"total_bitrate": found.total_bitrate, "startup_delay": found.startup_delay()}
    told |= {"ledger": found.bits, "frame_rate": float(found.header.format.frame_rate)}
    header = found.header.fields()
    lines.put("stream", source=source, header=header, packets=len(found.packets), **told)
    for packet in found.packets if packets else ():
        told = {name: getattr(packet, name) for name in ("name", "size", "bits", "crf")}
        told |= {"frame": packet.time, "eighths": packet.scale, "key_pictures": packet.key_frames}
        lines.put("packet", **told, **({"elements": packet.elements} if elements else {}))


_MUX = """Put a stream into .mp4, .mkv or .webm. Any player shows its coded pictures, with sound and
subtitles. gsvc decode shows the whole video, and gsvc demux gets the stream back.

source IN               the stream
target [OUT]            the video file (default: IN with .mp4)
others
-o -y --quiet
--json                  the result as one JSON object a line
"""


def _mux(options: Namespace) -> int:
    from gsvc.codec.media.mapping import mux  # late: --help does not wait for FFmpeg

    target = arguments.target_of(options, ".mp4")
    with arguments.without_warnings(options.quiet):
        report = mux(options.source, target, overwrite=options.overwrite)
    told = f"{report.target}: {report.pictures} pictures of {report.frames} frames, "
    told += f"{shown_time(report.duration)}, {report.size} bytes ({report.stream_size} in IN)"
    arguments.tell_done(options, told, **asdict(report))
    return 0


_DEMUX = """Get the stream back from a file of gsvc mux, byte for byte.

source IN               what gsvc mux wrote
target [OUT]            the stream (default: IN with .gsv)
others
-o -y --quiet
--json                  the result as one JSON object a line
"""


def _demux(options: Namespace) -> int:
    from gsvc.codec.media.mapping import demux  # late: --help does not wait for FFmpeg

    target = arguments.target_of(options, SUFFIX)
    size = demux(options.source, target, overwrite=options.overwrite)
    arguments.tell_done(options, f"{target}: {size} bytes", target=target, size=size)
    return 0


_SIGN = """Sign a video or image of gsvc decode, which marked it as synthetic, by C2PA content
credentials with your key. gsvc info verifies them. Needs gsvc[c2pa].

source IN               a file of gsvc decode: .mp4, .mov, .avi, .png or .jpg
-o OUT! -> output       the signed copy
--cert FILE! -> certificates  PEM file of your certificate, then those of its issuers
--key FILE!             PEM file of its private key, readable only by you
-y
"""


def _sign(options: Namespace) -> int:
    arguments.with_options(sign_file, options, options.source, options.output)
    return 0


MUX = main.Verb(_MUX, _mux)
DEMUX = main.Verb(_DEMUX, _demux)
SIGN = main.Verb(_SIGN, _sign)
