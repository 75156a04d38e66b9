"""`info`: one call from a file to what is in it."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from gsvc.codec.bitstream.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.bitstream.stream_info import StreamInfo, read_info
from gsvc.codec.bitstream.typed import typed
from gsvc.codec.media.places import PathOrFile
from gsvc.codec.media.stream_files import is_container, open_stream


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
    with open_to_inspect(source) as file:
        return read_info(file, elements=elements, limits=limits, partial=partial)


def open_to_inspect(source: PathOrFile) -> AbstractContextManager[BinaryIO]:
    """A stream, also out of what `mux` wrote."""
    if isinstance(source, str | Path) and not is_container(source):
        return open_stream(source)
    from gsvc.codec.media.mapped_reader import open_any  # late: a stream needs no FFmpeg

    return open_any(source)
