"""The audio that goes into a stream: Opus chunks in step with the pictures."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from gsvc.codec.bitstream.audio import SAMPLE_RATE
from gsvc.codec.bitstream.frames import AudioChunk
from gsvc.codec.media.opus_encoder import check_bitrate, encode_audio
from gsvc.codec.media.places import STANDARD_INPUT, is_glob
from gsvc.codec.media.video_reader import open_video


class Sound:
    """Gives out a source's audio chunks in order; false when none is left."""

    def __init__(self, chunks: Iterator[AudioChunk]) -> None:
        self._chunks = chunks
        self._next = next(chunks, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def until(self, time: Fraction) -> Iterator[AudioChunk]:
        """The chunks that end by `time` seconds."""
        while self._next is not None and self._next.end <= time * SAMPLE_RATE:
            chunk, self._next = self._next, next(self._chunks, None)
            yield chunk

    def rest(self, end: Fraction | None) -> Iterator[AudioChunk]:
        """The chunks that are left, without packets that begin at `end` seconds or later."""
        while self._next is not None:
            chunk, self._next = self._next, next(self._chunks, None)
            if end is not None:
                ticks = end * SAMPLE_RATE - chunk.pts
                if ticks <= 0:
                    return
                kept = -int(-ticks // chunk.packet_samples)
                chunk = replace(chunk, packets=chunk.packets[:kept])
            yield chunk


def open_sound(source: str | Path, start: float, bitrate: int | None) -> Sound:
    """The audio of what `open_video` reads; none of images or pipes, which are read once."""
    is_pipe = Path(source).is_fifo()
    return Sound(iter(()) if is_pipe else read_audio(source, start=start, bitrate=bitrate))


def read_audio(
    source: str | Path, *, start: float = 0.0, bitrate: int | None = None
) -> Iterator[AudioChunk]:
    """Code the best audio stream as Opus, in chunks of about a second, timed by the first frame.

    Stereo stays stereo, and more channels become stereo. `start` is as given to `open_video`;
    `bitrate` is 6000-510000 bit/s, mono below 18000; None takes 16000 for mono and 24000 for
    stereo. Images, standard input and silent files give nothing. Raises InputError when the source
    cannot be read, ConfigError for a bit rate out of range.
    """
    check_bitrate(bitrate)
    if str(source) == STANDARD_INPUT or is_glob(source):
        return iter(())
    with open_video(source, start=start, frames=1) as video:
        origin = video.origin
    return encode_audio(source, origin, bitrate)
