"""A source as a file: opened by FFmpeg (PyAV), and where it ends by what it says itself.

What cannot be read gives a line that says what to do. A container's durations and counts are often
wrong in files that are whole; its sizes hardly ever: one that ends elsewhere is cut off.
"""

import errno
import io
import os
import re
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, cast

import av
from av.codec.context import Flags
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from gsvc.codec.bitstream.errors import SHORTAGES, InputError
from gsvc.codec.media import places

# These demuxers draw any text file as an animation.
_TEXT_ART = {"tty", "bin", "xbin", "adf", "idf"}

# Tags of old files may not be UTF-8: PyAV 18 would fail there, 19 never does.
_LENIENT: dict[str, Any] = (
    {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
)


class InputPipe:
    """Standard input as a file for FFmpeg, without seeking.

    An exception must not travel through FFmpeg: it ends the stream and is kept for `check`.
    """

    name = places.display_name(places.STANDARD_INPUT)

    size = 0
    """Bytes read so far."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None

    def read(self, size: int) -> bytes:
        try:
            data = cast(io.BufferedReader, sys.stdin.buffer).read1(size)
        except BaseException as error:  # noqa: BLE001 - raised again by `check`
            self.failure = error
            return b""
        self.size += len(data)
        return data

    def check(self) -> None:
        """Raise what reading failed with, if it did; an I/O error as InputError."""
        if isinstance(self.failure, OSError):
            raise InputError(
                f"standard input cannot be read ({self.failure.strerror}): "
                "check the program before it"
            ) from self.failure
        if self.failure is not None:
            raise self.failure


_SILENCE: Any = 10.0  # seconds after which what sends nothing is gone


def open_media(source: str | Path, options: dict[str, str] | None = None) -> InputContainer:
    """Open a file, device or URL by FFmpeg. Raises InputError when it cannot read it."""
    name, live, how = str(source), places.is_live(source), dict(options or {})
    if not places.is_url(name):
        _check_file(Path(source))
        # FFmpeg takes the text before a colon for a protocol.
        name = f"file:{name}" if ":" in name else name
    if name.startswith(("rtsp:", "rtsps:")):
        how["rtsp_flags"] = "prefer_tcp"
    elif Path(source).suffix == places.SDP:
        how["protocol_whitelist"] = "file,rtp,udp"
    more = {**_LENIENT, **({"timeout": _SILENCE} if live else {})}
    try:
        kind = "v4l2" if name.startswith(places.DEVICE) else None
        container: InputContainer = av.open(name, "r", format=kind, options=how, **more)
    except av.FFmpegError as error:
        is_stream = Path(source).suffix == places.SUFFIX
        why = "this is a stream: run gsvc decode first" if is_stream else reason(error)
        if live:
            why = f"nothing comes ({error.strerror}): {_advice(name, error)}"
        raise InputError(f"{places.display_name(source)}: {why}") from error
    if container.format.name in _TEXT_ART:
        container.close()
        told = f"{source}: this is text, not a video: give a video file or a glob of images"
        raise InputError(told)
    return container


def _advice(name: str, error: av.FFmpegError) -> str:
    """What to do where a camera or a sender gives nothing."""
    if not name.startswith(places.DEVICE):
        return "is it on, are name and password right?"
    if isinstance(error, PermissionError):
        return "sudo usermod -aG video $USER, then log in again"
    return "does another program have it? v4l2-ctl --list-devices names the cameras"


def refuse_tiles(container: InputContainer, stream: VideoStream, name: str) -> None:
    """Raise InputError for a picture in tiles, as phones write HEIC: PyAV cannot join them."""
    parts = sum(bool(one.disposition & Disposition.dependent) for one in container.streams.video)
    if parts and not stream.disposition & Disposition.default:
        why = f"{name}: a picture in {parts} tiles: join them first with ffmpeg -i INPUT OUTPUT.png"
        raise InputError(why)


Crop = tuple[slice, slice]
"""The rows and columns of a decoded picture that are shown."""
_SIZE = rb"(\x81.|\x82..)"
_CROP = re.compile(
    rb"\xba%b(?:[\x9a\x9d]\x81.)*(?:\x54\xaa%b)?(?:\x54\xbb%b)?(?:\x54\xcc%b)?(?:\x54\xdd%b)?"
    % (5 * (_SIZE,)),
    re.DOTALL,
)
"""In Matroska: height, scan; pixels to cut off below, above, left and right (RFC 9559)."""
_CLEAN = re.compile(rb"clap(.{32})", re.DOTALL)
"""In MOV: sides of what is shown and where its middle is, as fractions (ISO/IEC 14496-12)."""


def stated_crop(stream: VideoStream) -> Crop:
    """What the container asks to show. PyAV does not tell, but FFmpeg writes it to Matroska, or to
    MOV for codecs that Matroska refuses."""
    if found := _CROP.search(_head(stream, "matroska")):
        _, below, above, left, right = (int.from_bytes(one[1:]) for one in found.groups(b""))
        return slice(above, -below or None), slice(left, -right or None)
    if found := _CLEAN.search(_head(stream, "mov", movflags="empty_moov+frag_keyframe")):
        sides = struct.unpack(">8i", found[1])
        width, height, x, y = map(Fraction, sides[::2], sides[1::2])
        x, y = x + (stream.width - width) / 2, y + (stream.height - height) / 2
        return slice(int(y), int(y + height)), slice(int(x), int(x + width))
    return slice(None), slice(None)


def _head(stream: VideoStream, form: str, **options: str) -> bytes:
    """What FFmpeg writes before the first packet; b"" where this container refuses the codec."""
    memory = io.BytesIO()
    with suppress(ValueError, av.FFmpegError), av.open(memory, "w", form, options=options) as copy:
        copy.add_stream_from_template(stream)
        copy.start_encoding()
    return memory.getvalue()


def refuse_tiff_of_jpeg(path: Path, name: str) -> None:
    """Raise InputError for a TIFF whose tag 259, compression, says so: FFmpeg shows it black."""
    if path.is_file() and _TIFF_OF_JPEG.search(path.read_bytes()):
        raise InputError(f"{name}: a TIFF with JPEG inside: convert it to PNG first")


_TIFF_OF_JPEG = re.compile(
    rb"\x03\x01\x03\0\x01\0\0\0[\x06\x07]\0|\x01\x03\0\x03\0\0\0\x01\0[\x06\x07]"
)


def open_pipe(pipe: InputPipe) -> InputContainer:
    """Open y4m on standard input. Raises InputError when it carries anything else."""
    advice = "pipe y4m into it: ffmpeg -i INPUT -f yuv4mpegpipe -pix_fmt yuv420p - | gsvc ..."
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise InputError(f"standard input is not connected to a video: {advice}")
    try:
        return av.open(pipe, "r", format="yuv4mpegpipe")
    except av.FFmpegError as error:
        pipe.check()
        why = f": {reason(error)}" if error.errno == errno.EBUSY else f" is not y4m video: {advice}"
        raise InputError(f"standard input{why}") from error


def reason(error: av.FFmpegError) -> str:
    """FFmpeg's error in plain words, with what to do."""
    if error.errno in SHORTAGES:
        return SHORTAGES[error.errno]
    if isinstance(error, PermissionError):
        return "no permission to read it: check its mode and owner"
    if error.errno == errno.EBUSY:  # FFmpeg adds 6 to "invalid"
        return "its header states an impossible size: check what wrote this y4m"
    if isinstance(error, av.error.InvalidDataError):
        return "not a video that FFmpeg can read: check that the file is whole and really a video"
    return f"FFmpeg cannot read it ({error.strerror}): try to convert it with ffmpeg first"


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            told = f"{path}: this is a folder: give a video, or images as {quote(f'{path}/*.png')}"
            raise InputError(told)
        if not path.exists():
            is_device = str(path).startswith(places.DEVICE)
            why = "device: ls /dev/video* names those" if is_device else "file: check the name"
            raise InputError(f"{path}: no such {why}")
        if path.is_file() and path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty: copy or download it again")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it: check its mode and owner")


_MP4 = "mov"
_JUNK = bytes(range(256)) * 4096
_RAW, _BARE = ("h264", "hevc", "vvc"), ("yuv4mpegpipe", "obu")
_JPEGS = "jpeg_pipe", "image2", "mjpeg", "mpjpeg"
"""Containers that are nothing but pictures: one, of unknown size, of a known one, with a mark."""
_TS_PACKETS, _TS_MARK = {188: 188, 192: 188, 204: 204}, 0x47
"""Bytes of an MPEG-TS packet, as broadcast, with time code, with parity, and from its mark on."""
_PS_SECTORS = 2048, 2324
"""Bytes of a sector of MPEG-PS: of DVDs and recorders, of video CDs."""
_ASF_FILE = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
"""The mark of the object that tells of the file; its size stands 40 bytes later."""
_EBML, _SEGMENT = bytes.fromhex("1a45dfa3"), bytes.fromhex("18538067")
_NUT_INDEX = bytes.fromhex("4e58dd672f23e64e")
_LONGEST_PAGE, _HOLLOW = 65_307, 64


class End:
    """How a file of `size` bytes ends; 0 or less: that is unknown."""

    def __init__(
        self, container: InputContainer, stream: VideoStream, source: str | Path, size: int
    ) -> None:
        self._name, self._stream, self._size = container.format.name, stream, size
        self.stated = 0
        """The byte at which it says that it ends, or where its last part would; 0: it says none."""
        self.is_joined = False
        """Whether another file begins there."""
        self._is_hollow = False  # as of a download that reserved its place
        if container.size > 0:  # no pipe, which is not to be opened again
            with suppress(OSError, IndexError), open(source, "rb") as file:  # a URL, or not so
                for name, end in _ENDS.items():
                    if name in self._name.split(","):
                        self.stated = end(file, size)
                file.seek(max(0, size - _HOLLOW))
                self._is_hollow = not any(file.read())
                self.is_joined = 0 < self.stated < size and _is_file_at(file, self.stated)

    def breaks_off(self, in_trouble: bool) -> bool:
        """Whether it ends in trouble, or before an end that is never stated wrongly."""
        if in_trouble and self._name != "mpjpeg":  # whose last border FFmpeg takes for a picture's
            return True
        return 0 < self._size < (self.stated - 1 if "matroska" in self._name else self._indexed())

    def _indexed(self) -> int:
        """The byte after the last packet that the index of an MP4 names."""
        entries = self._stream.index_entries if _MP4 in self._name else ()
        return max((each.pos + each.size for each in entries), default=0)

    def is_cut(self, key: bytes, last: bytes, read_to: int, is_short: bool) -> bool:
        """Whether it ends within the last packet, which ends at the byte `read_to`, or before the
        end that it states, which some cameras do wrongly; where it states none or
        is hollow there, if `is_short`."""
        if self._name in _RAW:
            shown = _pictures(self._stream, key, last)
            return not shown or shown != _pictures(self._stream, key, last + _JUNK)
        if self._name in _JPEGS and self._stream.codec_context.name == "mjpeg":
            return b"\xff\xd9" not in last
        if self._name in _BARE and self._size > 0:
            return self._size != read_to
        end = max(self.stated, self._indexed())
        return 0 < self._size < end or (is_short and (self._is_hollow or not end))


def _is_file_at(file: BinaryIO, end: int) -> bool:
    file.seek(0)
    first = file.read(8)
    file.seek(end)
    then = file.read(8)
    return then[:4] == first[:4] or then[4:] in (first[4:], b"moov")


def _pictures(stream: VideoStream, key: bytes, last: bytes) -> list[bytes]:
    """What a packet shows by itself: what comes behind a whole one changes nothing. It needs the
    parameters of the last key picture."""
    decoder = av.CodecContext.create(stream.codec_context.name, "r")
    assert isinstance(decoder, av.VideoCodecContext)
    decoder.extradata = stream.codec_context.extradata
    decoder.flags |= Flags.output_corrupt
    shown = list[av.VideoFrame]()
    with suppress(av.FFmpegError):
        shown += [*decoder.decode(av.Packet(key)), *decoder.decode(None)]
        decoder.flush_buffers()
        shown = [*decoder.decode(av.Packet(last)), *decoder.decode(None)]
    return [bytes(plane) for frame in shown for plane in frame.planes]


def _mp4(file: BinaryIO, size: int) -> int:
    """Boxes of a size in four bytes and four letters; of size 1: in the eight bytes behind these,
    0: up to the end (ISO/IEC 14496-12, section 4.2)."""
    end, is_live, known = 0, False, set[bytes]()
    while len(head := file.read(16)) >= 8:
        length, kind = int.from_bytes(head[:4]), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:])
        if length == 0 and kind == b"mdat":
            return size
        if length < 8 or kind in known or not re.fullmatch(rb"[ -~\xa9]{4}", kind):
            break
        known |= {kind} & {b"ftyp", b"moov"}
        is_live |= kind == b"moof"
        end += length
        file.seek(end)
    return end if is_live else min(end, size)  # of others, the index tells


def _matroska(file: BinaryIO, size: int) -> int:
    """Elements: a mark whose first byte has as many leading zero bits as bytes follow it, then a
    size likewise (RFC 9559, section 4). A segment and its parts are of unknown size where they were
    sent live: then the last part of known size tells."""
    end = 0
    while end < size:
        file.seek(end)
        head = file.read(12)
        if head.startswith(_EBML) and end:
            break
        mark = 9 - head[0].bit_length()
        length = 9 - head[mark].bit_length()
        value = int.from_bytes(head[mark : mark + length]) - (1 << 7 * length)
        is_unknown = value == (1 << 7 * length) - 1
        end += mark + length + (0 if is_unknown else value)
        if head.startswith(_SEGMENT) and not is_unknown:
            return end
    return min(end, size + 1)


def _avi(file: BinaryIO, _: int) -> int:
    """Its outermost chunks have four letters, RIFF, and their size in four bytes."""
    end = 0
    while (head := file.read(12)).startswith(b"RIFF"):
        size = int.from_bytes(head[4:8], "little")
        if end and head.endswith(b"AVI "):  # another file
            break
        end += 8 + size
        file.seek(end + size % 2)
        if not 0 < size < 0xFFFF_0000:  # never finished
            return 0
    return end


def _asf(file: BinaryIO, _: int) -> int:
    return int.from_bytes(file.read(_LONGEST_PAGE).partition(_ASF_FILE)[2][24:32], "little")


def _ogg(file: BinaryIO, size: int) -> int:
    """Its last page is marked as a track's end (RFC 3533, section 6); else one more follows."""
    file.seek(max(0, size - _LONGEST_PAGE))
    page = b"OggS" + file.read().rpartition(b"OggS")[2]
    if len(page) < 27 or not page[5] & 4:
        return size + 1
    return size - len(page) + 27 + page[26] + sum(page[27 : 27 + page[26]])


def _ts(file: BinaryIO, size: int) -> int:
    """Each of its last packets begins with a mark; the first may come behind something else."""
    file.seek(max(0, size - 3 * max(_TS_PACKETS)))
    data = file.read()
    for length, mark in _TS_PACKETS.items():
        if {*data[-mark::-length]} == {_TS_MARK}:
            return size
    return size + 1


def _ps(file: BinaryIO, size: int) -> int:
    """In sectors, if a part begins with the second one."""
    data = file.read(max(_PS_SECTORS) + 4)
    for sector in _PS_SECTORS:
        if data[sector : sector + 3] == b"\0\0\1" and data[sector + 3] >= 0xB9:
            return size + -size % sector
    return 0


def _dv(file: BinaryIO, size: int) -> int:
    """In frames of ten or twelve sequences, by its first block."""
    return size + -size % (144_000 if file.read(4)[3] & 0x80 else 120_000)


def _flv(file: BinaryIO, _: int) -> int:
    """Tags of eleven bytes, the first of which tells the kind and three their size, and of four."""
    end = 13
    file.seek(end)
    while (head := file.read(11)) and head[0] in (8, 9, 18):
        end += 15 + int.from_bytes(head[1:4])
        file.seek(end)
    return end


def _nut(file: BinaryIO, size: int) -> int:
    """Its index comes last, and ends in its length and a checksum."""
    file.seek(max(0, size - 12))
    file.seek(max(0, size - int.from_bytes(file.read(8))))
    return size if file.read(8) == _NUT_INDEX else size + 1


def _gif(file: BinaryIO, size: int) -> int:
    """A mark comes last, behind the end of a part; padding may follow."""
    file.seek(max(0, size - 80))
    return size if b"\0;" in file.read() else size + 1


_ENDS: dict[str, Callable[[BinaryIO, int], int]] = {
    _MP4: _mp4,
    "matroska": _matroska,
    "avi": _avi,
    "asf": _asf,
    "ogg": _ogg,
    "mpegts": _ts,
    "mpeg": _ps,
    "dv": _dv,
    "flv": _flv,
    "nut": _nut,
    "gif": _gif,
}
"""By FFmpeg's name of the container."""
