"""Encoding without look-ahead: key pictures at even distances, each coded when it arrives.

A frame waits for the next key picture, at most the level's `spacing`, and nothing is chosen by trial; pictures are
predicted from earlier ones only, which takes about half as many bits again as a group that is known whole.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.texture import TEXTURE, Texture
from gsvc.codec.scaffold.types import Interval
from gsvc.codec.stream.group import GroupWriter
from gsvc.codec.stream.header import Header
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.texture import raise_texture
from gsvc.encoders.distortion import Reference
from gsvc.encoders.extraction import Before, ScaffoldExtractor, SourceInterval
from gsvc.encoders.layers.texture import choose_texture
from gsvc.encoders.look_ahead import CodedPicture, packet_advice, packet_excess
from gsvc.encoders.pictures import MAX_CRF, PictureStream, can_code
from gsvc.encoders.rate import CRF_SLOPE, RateControl
from gsvc.encoders.search import usual_crf
from gsvc.encoders.tuning import GROUP_SECONDS, Effort, Level

_LEAST_CRF = 20.0
_SMALLEST = 4  # eighths
_USUAL_JUMP, _FREE_JUMP = 6.0, 40.0
"""By how much the quantiser may move from group to group, and where another rate was asked for."""


@dataclass
class _Group:
    """What lives as long as a group: coders with memory, and the quantiser and size of its key pictures."""

    stream: PictureStream
    decoder: PictureDecoder
    writer: GroupWriter
    crf: float
    eighths: int
    frames: int = 0


class LowDelayEncoder:
    """Takes one frame at a time. Raises MissingModelError when made, if a scaffold tool's model is not here."""

    def __init__(
        self,
        level: Level,
        header: Header,
        effort: Effort,
        rate: RateControl,
        *,
        semantics: bool,
        packet_bytes: int | None = None,
    ) -> None:
        """Arguments as of `GroupEncoder`; `rate` moves the quantiser from group to group."""
        self._header, self._level, self._effort, self._rate = header, level, effort, rate
        self._color, self._geometry = header.format.color, header.geometry
        self._packet_bytes = packet_bytes
        self.spacing = max(1, round(level.spacing * header.format.frame_rate))
        self._longest = max(self.spacing, round(GROUP_SECONDS * header.format.frame_rate))
        self._pool = ThreadPoolExecutor(1)
        self._extractor = ScaffoldExtractor(level, header, effort.anchors, self._pool)
        self._crf = usual_crf(level.lmbda)
        # How much coarser than the rate asks for packets have to be for the limit on their size, and how small.
        self._coarser, self._eighths = 0.0, 8
        self._jump = _USUAL_JUMP
        self._group: _Group | None = None
        self._ends_soon = False
        self._waiting: list[tuple[Picture, int]] = []
        self._scene: Before | None = None
        # Whether people and regions pay shows only when both were tried, and there is no time for that here.
        self._watching = semantics

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool = False
    ) -> list[CodedPicture]:
        """Take a frame, `ticks` after the one before; `is_cut`: it begins a scene; `opens_group`: it must be an
        intra picture."""
        coded = []
        if is_cut:
            self._ends_soon = False  # The new scene's group will do.
            coded = self.flush()
            self.drop()
        self._waiting.append((picture, ticks))
        is_full = (
            self._group is not None and self._group.frames + len(self._waiting) > self._longest
        )
        if opens_group or is_full:
            self._end_group()
        if self._group is None or len(self._waiting) >= self.spacing:
            coded.append(self._key())
        return coded

    def follow_rate(self, *, at_once: bool) -> None:
        """The rate was changed: the next group's quantiser goes where it has to; `at_once`: the next key picture
        opens that group."""
        self._jump, self._ends_soon = _FREE_JUMP, self._ends_soon or at_once

    def flush(self) -> list[CodedPicture]:
        """Code the last frame that waits as a key picture, if one does."""
        return [self._key()] if self._waiting else []

    def drop(self) -> None:
        """Drop what waits: the next frame begins a scene."""
        self._waiting, self._scene = [], None
        self._end_group()

    def close(self) -> None:
        """Drop what waits, let the threads go."""
        self.drop()
        self._pool.shutdown(cancel_futures=True)

    def _end_group(self) -> None:
        """The next key picture opens another."""
        if self._group is not None:
            self._group.stream.close()
        self._group, self._ends_soon = None, False

    def _key(self) -> CodedPicture:
        """Code the last frame that waits as a key picture, as coarse as it must be to fit into a packet."""
        if self._ends_soon:
            self._end_group()
        if self._group is None:
            self._follow()
        coded, scene = self._tried()
        most = self._packet_bytes
        while most and (excess := packet_excess([coded], most)) > 1:
            self._make_coarser(excess, most)
            coded, scene = self._tried()
        assert self._group is not None
        self._group.frames += coded.frames
        self._waiting, self._scene = [], scene
        self._rate.spent(coded.bits, coded.frames)
        return coded

    def _tried(self) -> tuple[CodedPicture, Before]:
        pictures, ticks = zip(*self._waiting, strict=True)
        is_intra = self._group is None
        group = self._group = self._group or self._opened()
        unit = group.stream.encode(pictures[-1])
        decoded = group.decoder.decode(unit, self._geometry.coded_size(group.eighths))
        texture = self._texture(pictures[-1], decoded)
        shown = raise_texture(decoded, texture)
        span = SourceInterval(pictures, shown)
        (samples,) = self._extractor.extract_group(
            [span], self._scene, self._level.lmbda, watching=self._watching
        )
        interval = Interval(ticks, samples, {TEXTURE: texture})
        payload = group.writer.write(interval, unit)
        coded = CodedPicture(len(ticks), sum(ticks), payload, is_intra)
        return coded, Before(pictures[-1], shown, (), interval.closing_sample)

    def _make_coarser(self, excess: float, most: int) -> None:
        """Coders remember what they coded: another quantiser means another group."""
        assert self._group is not None
        crf, eighths = self._group.crf, self._group.eighths
        self._end_group()
        if crf < MAX_CRF:
            more = max(1.0, math.log(excess) / CRF_SLOPE)
            self._coarser = min(MAX_CRF, crf + more) - self._crf
        elif eighths > _SMALLEST and can_code(self._geometry.coded_size(eighths - 2)):
            self._eighths = eighths - 2
        else:
            raise ConfigError(packet_advice(most))

    def _follow(self) -> None:
        """Before a new group: what earlier ones over- or underspent moves its quantiser."""
        excess = self._rate.excess()
        if excess is not None:
            self._crf += min(self._jump, max(-self._jump, math.log(excess) / CRF_SLOPE))
            self._crf = min(float(MAX_CRF), max(_LEAST_CRF, round(4 * self._crf) / 4))
            self._jump = _USUAL_JUMP
        # What did not fit into a packet may fit now: a hard scene may be over.
        self._coarser, self._eighths = max(0.0, self._coarser - 2), min(8, self._eighths + 2)

    def _opened(self) -> _Group:
        crf, eighths = (
            min(float(MAX_CRF), round(4 * (self._crf + self._coarser)) / 4),
            self._eighths,
        )
        size = self._geometry.coded_size(eighths)
        return _Group(
            PictureStream(size=size, crf=crf, color=self._color, preset=self._effort.svt),
            PictureDecoder((self._geometry.width, self._geometry.height), self._color),
            GroupWriter(self._header, round(crf), eighths),
            crf,
            eighths,
        )

    def _texture(self, source: Picture, decoded: Picture) -> Texture | None:
        if TEXTURE.name not in self._header.tools:
            return None
        level = self._level
        reference = Reference(source)
        return choose_texture(reference, decoded, level.texture_log2, self.spacing, level.lmbda)
