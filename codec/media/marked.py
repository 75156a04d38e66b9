"""Reading the mark of a video or image that trained models drew."""

from pathlib import Path

import av

from gsvc.codec.marks import Mark, find_marks
from gsvc.codec.media.xmp import JPEG, PNG
from gsvc.codec.stream.header import MAGIC

_HEAD_BYTES = 1 << 18
"""Where the XMP of an image is looked for."""


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
    try:
        with av.open(str(source)) as container:
            # Ogg has its tags at its streams.
            tagged = [container.metadata, *(stream.metadata for stream in container.streams)]
    except (av.FFmpegError, ValueError):
        return ()
    comments = (tags[name] for tags in tagged for name in tags if name.lower() == "comment")
    return find_marks(" | ".join(comments))
