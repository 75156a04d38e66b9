"""The video of an analysis: the stream decoded at steps 0, with what was found drawn on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Frame
from gsvc.codec.input import STANDARD_INPUT
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.media.mapped_reader import open_any
from gsvc.codec.media.video_writer import open_writer
from gsvc.codec.stream.container import StreamReader
from gsvc.decoders.analysis.analyser import AnalysisSettings
from gsvc.decoders.analysis.drawing import Drawing
from gsvc.decoders.analysis.types import FrameAnalysis


@contextmanager
def open_drawing(
    source: str | Path,
    target: str | Path,
    settings: AnalysisSettings,
    limits: Limits = DEFAULT_LIMITS,
    *,
    overwrite: bool = False,
) -> Iterator[Callable[[FrameAnalysis], None]]:
    """What takes every frame's analysis, in order, and writes the frame to `target`.

    The target is as of `gsvc.decode` and appears at the end of the block. Raises ConfigError for
    standard input, which cannot be read twice, and what decoding raises.
    """
    if str(source) == STANDARD_INPUT:
        raise ConfigError("drawing reads the stream twice: save standard input to a file first")
    with open_any(source) as file:
        packets = StreamReader(file, limits)
        with (
            open_writer(target, packets.header.format, overwrite=overwrite) as writer,
            Decoder(packets.header, DecoderSettings(steps=0), limits) as decoder,
        ):
            frames = (frame for packet in packets for frame in decoder.frames(packet))
            drawing = Drawing(settings.lines, settings.zones)
            yield lambda found: writer.write(_drawn(drawing, next(frames), found))


def _drawn(drawing: Drawing, frame: Frame, found: FrameAnalysis) -> Frame:
    drawing.on(frame.pixels, found)
    return Frame(frame.pixels, frame.pts)
