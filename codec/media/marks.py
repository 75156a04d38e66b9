"""Marks: what a video that trained models drew says of its making, in one line with IPTC's term.

Containers have it in the tag "comment", PNG and JPEG images as XMP.
"""

import re
import struct
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from zlib import crc32

from gsvc.codec.bitstream.header import MAGIC

SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""IPTC's digital source type of media that trained models drew in part."""

NO_ROOM = "%s: this format cannot say that trained models drew it: use .mp4, .mkv, .png or .jpg"
"""A warning, of the target."""
_MOST = 16  # marks that are read of a text
_LINE = re.compile(
    r"gsvc (?P<version>[\w.+-]{1,40}) decoded this: synthetic=yes steps=(?P<steps>\d{1,3}) "
    r"backend=(?P<backend>[\w.:-]{1,80}) motion=(?P<motion>\w{1,20}) digitalSourceType=",
    re.ASCII,
)


@dataclass(frozen=True)
class Mark:
    """Which trained models drew the frames of a video."""

    version: str
    """Of gsvc."""
    steps: int
    """Steps of the refiner; 0 for none."""
    backend: str
    """Name of the refiner; "none" without steps."""
    motion: str
    """What drew the frames between pictures: "dis", which is not trained, or "rife"."""

    def __str__(self) -> str:
        """The line, of letters, digits and a few signs, which `find_marks` reads again."""
        return (
            f"gsvc {self.version} decoded this: synthetic=yes steps={self.steps} "
            f"backend={self.backend} motion={self.motion} digitalSourceType={SOURCE_TYPE}"
        )


def find_marks(text: str) -> tuple[Mark, ...]:
    """The marks in a text, the last decoder's first: a video may have been decoded repeatedly."""
    return tuple(
        Mark(found["version"], int(found["steps"]), found["backend"], found["motion"])
        for found in islice(_LINE.finditer(text), _MOST)
    )


def marked_comment(mark: Mark, comment: str) -> str:
    """A mark before the comment that the source had, whose own marks thus stay."""
    return str(mark) if comment in ("", str(mark)) else f"{mark} | {comment}"


PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
"""The first bytes of such images."""

_PNG_HEAD_BYTES = 33  # signature and IHDR, which comes first
_JFIF = b"\xff\xe0"
_XMP = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\
<x:xmpmeta xmlns:x="adobe:ns:meta/">\
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\
<rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/" \
xmlns:dc="http://purl.org/dc/elements/1.1/" \
xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" \
xmp:CreatorTool="gsvc {version}" Iptc4xmpExt:DigitalSourceType="{source_type}">\
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{line}</rdf:li></rdf:Alt></dc:description>\
</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="r"?>"""


def with_xmp(image: bytes, mark: Mark) -> bytes:
    """A PNG or JPEG image with the mark as XMP; an image of another kind as it is."""
    fields = {"version": mark.version, "source_type": SOURCE_TYPE, "line": str(mark)}
    xmp, at = _XMP.format(**fields).encode(), len(JPEG)
    if image.startswith(PNG):  # an iTXt chunk that is not compressed, of no language
        at, body = _PNG_HEAD_BYTES, b"iTXt" + b"XML:com.adobe.xmp" + bytes(5) + xmp
        inserted = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", crc32(body))
    elif image.startswith(JPEG):
        if image[at : at + 2] == _JFIF:  # its segment must be the first
            at = int(4 + struct.unpack(">H", image[4:6])[0])
        body = b"http://ns.adobe.com/xap/1.0/\0" + xmp
        inserted = b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    else:
        return image
    return image[:at] + inserted + image[at:]


_HEAD_BYTES = 1 << 18  # where the XMP of an image is looked for


def is_other_file(source: str | Path) -> bool:
    """Whether this is a file, and no stream, not even a damaged one."""
    path = Path(source)
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) != MAGIC


def read_marks(source: str | Path) -> tuple[Mark, ...]:
    """The marks in a file, the last decoder's first; none in what is no file, or no video.

    A mark can be removed, and anyone can write one: it proves nothing.
    """
    if not is_other_file(source):
        return ()
    with open(source, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith((PNG, JPEG)):
        xmp = head[head.find(b"<x:xmpmeta") : head.find(b"</x:xmpmeta>")]
        return find_marks(xmp.decode("latin-1"))
    import av  # late: `gsvc info` of a stream needs no FFmpeg

    try:
        with av.open(str(source)) as container:
            # Ogg has its tags at its streams.
            tagged = [container.metadata, *(stream.metadata for stream in container.streams)]
    except (av.FFmpegError, ValueError):
        return ()
    comments = (tags[name] for tags in tagged for name in tags if name.lower() == "comment")
    return find_marks(" | ".join(comments))
