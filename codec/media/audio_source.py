"""The sound that goes into a stream: chunks in step with the pictures, none beyond the last of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from gsvc.codec.frames import AudioChunk
from gsvc.codec.input import STANDARD_INPUT, is_glob
from gsvc.codec.media.opus_encoder import check_bitrate, encode_audio
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.stream.audio import SAMPLE_RATE

_PREROLL = 3840
"""Samples that an Opus decoder should have heard before what it plays is right: 80 ms (RFC 7845, section 4.6)."""


class Sound:
    """Gives out a source's audio chunks in order; false when there is none."""

    def __init__(self, chunks: Iterator[AudioChunk]) -> None:
        self._chunks = chunks
        self._next = next(chunks, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def until(self, time: Fraction) -> Iterator[AudioChunk]:
        """The chunks that are over at `time` seconds: longer ones may have to be cut."""
        while self._next is not None and _end(self._next) <= time * SAMPLE_RATE:
            chunk, self._next = self._next, next(self._chunks, None)
            yield chunk

    def rest(self, end: Fraction | None) -> Iterator[AudioChunk]:
        """What is left; with `end`, nothing that begins at `end` seconds or later."""
        while self._next is not None:
            chunk, self._next = self._next, next(self._chunks, None)
            if end is not None:
                ticks = end * SAMPLE_RATE - chunk.pts
                if ticks <= 0:
                    return
                kept = -int(-ticks // chunk.packet_samples)
                chunk = replace(chunk, packets=chunk.packets[:kept])
            yield chunk


def cut(chunks: Iterable[AudioChunk], start: Fraction, end: Fraction) -> Iterator[AudioChunk]:
    """What is heard from `start` to `end`, in seconds, with `start` as the new time 0.

    Opus needs some packets before the first one that is heard: they stay, and are dropped as pre-skip.
    """
    begin, over = start * SAMPLE_RATE, end * SAMPLE_RATE
    is_first = True
    for chunk in chunks:
        samples = chunk.packet_samples
        skipped = max(0, int((begin - _PREROLL - chunk.pts) // samples))
        kept = chunk.packets[skipped : max(0, -int(-(over - chunk.pts) // samples))]
        if not kept:
            continue
        pts = round(chunk.pts + skipped * samples - begin)
        pre_skip = max(0, -pts) if is_first else chunk.pre_skip
        yield replace(chunk, pts=pts, pre_skip=pre_skip, packets=kept)
        is_first = False


def _end(chunk: AudioChunk) -> int:
    return chunk.pts + len(chunk.packets) * chunk.packet_samples


def open_sound(source: str | Path, start: float) -> Sound:
    """The sound of what `open_video` reads; none of images and pipes, which cannot be read twice."""
    if str(source) == STANDARD_INPUT or is_glob(source) or Path(source).is_fifo():
        return Sound(iter(()))
    return Sound(read_audio(source, start=start))


def read_audio(
    source: str | Path, *, start: float = 0.0, duration: float | None = None, bitrate: int = 12_000
) -> Iterator[AudioChunk]:
    """Code the first audio stream as Opus, in chunks of about a second, aligned to the video's first frame.

    `start` is that given to `open_video`, `duration` the seconds wanted (None: all), `bitrate` 6000-510000
    bit/s; stereo from 32000 on, else mono. Empty where there is no sound: images, standard input, silent
    files. Raises InputError when the source cannot be read and ConfigError for a bit rate out of range.
    """
    check_bitrate(bitrate)
    if str(source) == STANDARD_INPUT or is_glob(source):
        return iter(())
    with open_video(source, start=start, frames=1) as video:
        origin = video.origin
    return encode_audio(source, origin, None if duration is None else Fraction(duration), bitrate)
