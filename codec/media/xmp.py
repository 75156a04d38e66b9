"""XMP in PNG and JPEG images: the digital source type, where image tools look for it."""

import struct
from zlib import crc32

from gsvc.codec.marks import SOURCE_TYPE, Mark

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
    xmp = _XMP.format(**fields).encode()
    if image.startswith(PNG):
        at, inserted = _PNG_HEAD_BYTES, _text_chunk(xmp)
    elif image.startswith(JPEG):
        at, inserted = _after_jfif(image), _application_segment(xmp)
    else:
        return image
    return image[:at] + inserted + image[at:]


def _text_chunk(xmp: bytes) -> bytes:
    """The iTXt chunk that XMP's specification asks for: not compressed, no language."""
    body = b"iTXt" + b"XML:com.adobe.xmp" + bytes(5) + xmp
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", crc32(body))


def _application_segment(xmp: bytes) -> bytes:
    body = b"http://ns.adobe.com/xap/1.0/\0" + xmp
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def _after_jfif(image: bytes) -> int:
    """Where XMP goes: behind JFIF's segment, which must be the first."""
    if image[2:4] != _JFIF:
        return 2
    return int(4 + struct.unpack(">H", image[4:6])[0])
