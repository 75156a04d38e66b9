"""Encoding without look-ahead: key pictures at even distances, each coded when it arrives.

A frame waits for the next key picture, at most the level's `spacing`, and nothing is chosen by trial; pictures are
predicted from earlier ones only, which takes about half as many bits again as a group that is known whole.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

from gsvc.codec.frames import Picture, VideoFormat
from gsvc.codec.levels import GROUP_SECONDS, Level
from gsvc.codec.payload import join_payload
from gsvc.codec.scaffold import Geometry, Interval, Texture
from gsvc.codec.scaffold_syntax import Prediction, Tools, code_interval, code_picture
from gsvc.codec.syntax import Writer
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.texture import raise_texture
from gsvc.encoders.effort import Effort
from gsvc.encoders.group import CodedPicture
from gsvc.encoders.pictures import MAX_CRF, PictureStream
from gsvc.encoders.rate import CRF_SLOPE, RateControl
from gsvc.encoders.scaffold import ScaffoldExtractor, Scene, Span
from gsvc.encoders.search import usual_crf
from gsvc.encoders.texture import choose_texture

_LEAST_CRF = 20.0


@dataclass
class _Group:
    """What lives as long as a group: coders with memory."""

    stream: PictureStream
    decoder: PictureDecoder
    writer: Writer
    prediction: Prediction
    frames: int = 0


class LowDelayEncoder:
    """Takes one frame at a time. Raises MissingModelError when made, if a scaffold tool's model is not here."""

    def __init__(
        self,
        level: Level,
        tools: Tools,
        video: VideoFormat,
        frame_ticks: Fraction,
        effort: Effort,
        rate: RateControl,
        *,
        semantics: bool,
    ) -> None:
        """Arguments as of `GroupEncoder`; `rate` moves the quantiser from group to group."""
        self._level, self._tools, self._color = level, tools, video.color
        self._geometry = Geometry(video.width, video.height)
        self._frame_ticks, self._effort, self._rate = frame_ticks, effort, rate
        self._spacing = max(1, round(level.spacing * video.frame_rate))
        self._longest = max(self._spacing, round(GROUP_SECONDS * video.frame_rate))
        self._pool = ThreadPoolExecutor(1)
        self._extractor = ScaffoldExtractor(
            level, tools, self._geometry, effort.anchors, self._pool
        )
        self._crf = usual_crf(level.price)
        self._group: _Group | None = None
        self._waiting: list[tuple[Picture, int]] = []
        self._scene: Scene | None = None
        # Whether people and regions pay shows only when both were tried, and there is no time for that here.
        self._watching = semantics

    def push(self, picture: Picture, ticks: int, *, is_cut: bool) -> list[CodedPicture]:
        """Take a frame, `ticks` after the one before; `is_cut`: it begins a scene."""
        coded = self.flush() if is_cut else []
        if is_cut:
            self._end_group()
            self._scene = None
        self._waiting.append((picture, ticks))
        is_full = (
            self._group is not None and self._group.frames + len(self._waiting) > self._longest
        )
        if self._group is None or is_full or len(self._waiting) >= self._spacing:
            if is_full:
                self._end_group()
            coded.append(self._key())
        return coded

    def flush(self) -> list[CodedPicture]:
        """Code the last frame that waits as a key picture, if one does."""
        return [self._key()] if self._waiting else []

    def close(self) -> None:
        """Drop what waits, let the threads go."""
        self._waiting = []
        self._end_group()
        self._pool.shutdown(cancel_futures=True)

    def _end_group(self) -> None:
        """The next key picture opens another."""
        if self._group is not None:
            self._group.stream.close()
        self._group = None

    def _key(self) -> CodedPicture:
        pictures, ticks = zip(*self._waiting, strict=True)
        self._waiting = []
        is_intra = self._group is None
        group = self._group = self._group or self._opened()
        size = self._geometry.coded_size(8)
        unit = group.stream.encode(pictures[-1])
        decoded = group.decoder.decode(unit, size)
        texture = self._texture(pictures[-1], decoded)
        shown = raise_texture(decoded, texture)
        span = Span(pictures, shown)
        (samples,) = self._extractor.extract_group(
            [span], self._scene, self._level.price, watching=self._watching
        )
        interval = Interval(ticks, samples, texture)
        code_interval(
            group.writer, group.prediction, self._geometry, self._tools, len(ticks), interval
        )
        self._scene = Scene(pictures[-1], shown, (), interval.closing_sample)
        group.frames += len(ticks)
        payload = join_payload(group.writer.finish(), unit)
        coded = CodedPicture(len(ticks), sum(ticks), payload, is_intra)
        self._rate.spent(coded.bits, len(ticks))
        return coded

    def _opened(self) -> _Group:
        """A new group; what earlier ones over- or underspent moves its quantiser."""
        size = self._geometry.coded_size(8)
        excess = self._rate.excess()
        if excess is not None:
            self._crf += min(6.0, max(-6.0, math.log(excess) / CRF_SLOPE))
            self._crf = min(float(MAX_CRF), max(_LEAST_CRF, round(4 * self._crf) / 4))
        writer = Writer()
        code_picture(writer, round(self._crf), 8)
        return _Group(
            PictureStream(size=size, crf=self._crf, color=self._color, preset=self._effort.svt),
            PictureDecoder((self._geometry.width, self._geometry.height), self._color),
            writer,
            Prediction(self._frame_ticks, holds=True),
        )

    def _texture(self, source: Picture, decoded: Picture) -> Texture | None:
        if not self._tools.texture:
            return None
        level = self._level
        return choose_texture(source, decoded, level.texture_log2, self._spacing, level.price)
