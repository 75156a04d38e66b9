"""Encoding without look-ahead: coded pictures at even distances, each coded when it arrives.

A frame waits for the next coded picture, at most the level's `spacing`, and nothing but faces is
chosen by probe; pictures are predicted from earlier ones only, which takes 13 to 48 % more bits at
equal CVVDP than a group that is known whole, and ten times as many in fast pans (docs/limits.md).
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gsvc.codec.bitstream import container, errors, scaffold
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import Coding, GroupWriter
from gsvc.codec.bitstream.layers.faces import FACES, Faces
from gsvc.codec.bitstream.layers.texture import TEXTURE
from gsvc.decoders.keyframes.keyframe import KeyframeDecoder, raise_texture
from gsvc.encoders import tuning
from gsvc.encoders.coding.face_rdo import live_faces
from gsvc.encoders.coding.group_coder import GroupCoder, Target
from gsvc.encoders.coding.keyframes import choose_texture
from gsvc.encoders.config import CodedPacket, CodingConfig
from gsvc.encoders.scaffold import extraction
from gsvc.encoders.search.rate_control import RateControl
from gsvc.encoders.svt_av1 import MAX_CRF, MOST_COARSER, PictureStream

_LEAST_CRF = 20.0
_MOST_FRAMES = 1 << 15
"""Most frames of a group: a datagram counts the packets before its own in 16 bits."""
_MISSED = 0.15
"""Logarithm of the rate from which a group without a limit ends for another quantiser."""
_IDLE = 0.7
"""Share of the rate: if groups of the level's quantiser would take less, the first one ends after a
second, or where what it overspent is made up for. By hand."""
_FILLING = 8
"""A link with room takes coded pictures up to this many times as often as the level. By hand."""
_GAP = 5  # nominal distances of frames from which on a frame is late: none is drawn before it
_LEFT_OUT = 1.5  # seconds of waiting from which on a gap is a full link's, not a camera's
_PAUSE = 500  # seconds after which a group begins: receivers take far times for damage
_WORTH, _TOO_RARE = 7.0, 15.0
"""Change of crf, or half as many again of the bits, that is worth an intra picture; towards coarser
pictures, which only come more often, twice as many. By hand."""
_INTRA_PART = 0.25  # of a group's bits, for its intra picture: with more, the group goes on
_SHARED, _LEAST_SHARED, _THIN = 3.0, 0.7, 2_300.0
"""A link with room: pictures are to be the level's spacing divided by this apart; bits per second
for which it is 1: the headers of a picture count more on a thin link. By hand."""
_MOST_INTRA, _FOLLOW = 80.0, 0.45
"""Its coarsest quantiser, and bits of a second after it in proportion to its own. By hand."""
_LATE = 16  # coded pictures over which the bits of one are averaged
_FINER, _EMPTY = 8.0, 12.0
"""How much finer a new scene over a thin link may begin than the one before, unless its first
picture takes less than this part of what it may."""
_LARGE, _SUDDEN = 1.2, 2.0
"""Multiples of what an intra picture may take from which one is coded again, and from which one
takes the place of an inter picture over a link."""
_OF_PACKET = 8 * 0.8
"""Bits that an intra picture may take, or is coded again, for each byte of the largest packet."""


@dataclass
class _OpenGroup:
    """State that lives as long as a group."""

    stream: PictureStream
    decoder: KeyframeDecoder
    writer: GroupWriter
    crf: float
    """Quantiser of its coded pictures."""
    intra: float
    """The same for its intra picture, which may be coarser: as of `PictureStream`."""
    sends_faces: bool
    """Whether it has the layer of faces."""
    faces: Faces | None = None
    """Faces of its last interval."""
    frames: int = 0


class LowDelay(GroupCoder):
    """Codes a coded picture when it arrives."""

    def __init__(self, config: CodingConfig) -> None:
        self._config, self._level = config, config.level
        self._geometry = config.header.geometry
        self._rate = RateControl(config)
        self._spacing = self._spacing_of(self._level)
        self._longest = self._usual = round(tuning.LIVE_GOP * config.header.format.frame_rate)
        self.regroup(config.gop)
        self._pool = ThreadPoolExecutor(1)
        self._distortion = config.distortion()
        self._extractor = extraction.ScaffoldExtractor(config, self._distortion, self._pool)
        self._faces = live_faces(config, self._distortion, self._pool)
        self._patience = 1 if config.is_gop_asked else 3
        self._effort = config.effort
        self._crf = tuning.usual_crf(self._level.lmbda)
        # How much coarser than the rate asks for, and how small, packets' limit makes pictures.
        self._coarser, self._scale = 0.0, 8
        self._jump = tuning.USUAL_JUMP
        self._group: _OpenGroup | None = None
        self._ends_soon = self._is_judged = self._is_new_scene = False
        self._packet_bits = _OF_PACKET * (config.packet_bytes or math.inf)
        self.hold(is_held=False)
        self._inter, self._inters, self._frames = 0.0, 0, 0
        self._last_intra: tuple[float, int] | None = None  # quantiser and bits of the last one
        self._waiting: list[tuple[Picture, int]] = []
        self._before: extraction.KeyBefore | None = None

    @property
    def delay(self) -> int:
        return self._spacing - 1

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        is_late = not self._is_held and ticks > _GAP * self._config.header.frame_ticks
        coded, base = [], self._config.header.format.time_base
        waited = sum(one for _, one in self._waiting)
        if is_late and not (self._fills and waited * base > _LEFT_OUT):
            coded = self.flush()
        opens_group |= ticks * base > _PAUSE
        if is_cut and self._group is None:  # what waited for room to begin is over: not sent
            self._before = None
        elif is_cut:
            self._ends_soon = False  # The new scene's group will do.
            coded += self.flush()
            self.drop()
            self._is_new_scene = True
        self._waiting.append((picture, ticks))
        if opens_group or self._is_full():
            self._end_group()
        enough = math.ceil(self._spacing / _FILLING) if self._fills else self._spacing
        enough = 1 if is_late else enough
        if not self._is_held and (self._group is None or len(self._waiting) >= enough):
            coded.append(self._key())
        return coded

    def flush(self) -> list[CodedPacket]:
        return [self._key()] if self._waiting else []

    def drop(self) -> None:
        self._waiting, self._before = [], None
        self._end_group()

    def retarget(self, target: Target) -> None:
        # The next group's quantiser goes where it has to; a rate that falls by a fifth or rises by
        # half opens that group with the next coded picture.
        change = target.bpp / self._rate.bpp
        self._rate.retarget(target.bpp, exact=target.exact)
        if target.level is not None:
            self._level = target.level
            self._spacing = self._spacing_of(target.level)
        self._effort = target.effort or self._effort
        self._jump = tuning.FREE_JUMP
        self._ends_soon = self._ends_soon or not (self._fills or 0.8 <= change <= 1.5)

    def hold(self, *, is_held: bool, intra_bits: float | None = None, fills: bool = False) -> None:
        self._is_held, self._fills, self._is_linked = is_held, fills, intra_bits is not None
        most = min(self._packet_bits, intra_bits or math.inf)
        self._most_bits = most if most < math.inf else None

    def hurry(self) -> bool:
        sent, self._faces = self._faces is not None, None
        return sent

    def close(self) -> None:
        self.drop()
        self._pool.shutdown(cancel_futures=True)

    def regroup(self, gop: float) -> None:
        frames = min(_MOST_FRAMES, gop * float(self._config.header.format.frame_rate))
        self._longest = max(self._spacing, round(frames))

    def _is_full(self) -> bool:
        """Whether the group has its most frames; or misses a rate that was asked for, which only a
        new group with another quantiser can fix: one as long as all before it, to keep them few."""
        if self._group is None:
            return False
        frames, coded = self._group.frames + len(self._waiting), self._rate.frames
        if frames > self._longest:
            # Unless an intra picture, as small as a link wants it, would be far poorer, or take
            # too much of the group's bits.
            poor = self._small(self._group.intra) - self._group.intra > _WORTH
            if self._fills and self._last_intra:
                due = self._bits_a_second * frames / float(self._config.header.format.frame_rate)
                poor |= self._last_intra[1] > _INTRA_PART * due
            return not poor or frames > self._patience * self._longest
        if self._fills:
            is_settled = frames > self._usual and 2 * frames > self._frames
            is_settled &= not self._usual < self._longest < _MOST_FRAMES  # one asked for holds
            coarser = self._crf_after(self._take_excess()) - self._group.crf
            return is_settled and not -_WORTH < coarser < _TOO_RARE
        is_young = min(frames, coded) <= self._usual or frames < coded / 2
        if is_young or not self._rate.exact:
            return False
        excess = self._rate.take_excess()
        return excess is not None and abs(math.log(excess)) > _MISSED

    def _spacing_of(self, level: tuning.Level) -> int:
        """Frames from a coded picture to the next."""
        return max(1, round(level.spacing * self._config.header.format.frame_rate))

    def _end_group(self) -> None:
        """The next coded picture opens another."""
        if self._group is not None:
            self._group.stream.close()
        self._group, self._ends_soon = None, False

    def _key(self) -> CodedPacket:
        """Code the last frame that waits as a coded picture, coarse enough to fit into a packet."""
        if self._ends_soon:
            self._end_group()
        if self._group is None:
            self._follow()
        coded, now = self._tried()
        while (is_large := self._is_large(coded)) or self._config.packet_excess([coded]) > 1:
            if not is_large:
                self._make_coarser(self._config.packet_excess([coded]))
            self._end_group()
            coded, now = self._tried()
        assert self._group is not None
        self._group.frames += coded.frames
        self._waiting, self._before = [], now
        self._rate.spent(coded.bits, coded.frames, is_intra=coded.is_intra)
        self._frames += coded.frames
        if not coded.is_intra:
            self._inters = min(_LATE, self._inters + 1)
            self._inter += (coded.bits - self._inter) / self._inters
        if not self._is_judged and self._rate.debt <= 0:
            self._judge()
        return coded

    def _judge(self) -> None:
        """After a second, once what was overspent is made up for: begin again where the level's
        quantiser leaves much of a rate unused, and no link limits an intra picture's size."""
        if not self._config.header.format.frame_rate <= self._frames <= self._usual:
            return
        foreseen, self._is_judged = self._rate.foreseen(), True
        if foreseen is not None and foreseen < _IDLE and not self._is_linked:
            self._rate.retarget(self._rate.bpp, exact=True)
            self._ends_soon = True

    def _is_large(self, coded: CodedPacket) -> bool:
        """Whether an intra picture takes more than it may, and would take less if coarser; is the
        first of a scene over a link with room, whose quantiser it tells; or whether an inter
        picture takes so much of a link that an intra picture in its place comes sooner."""
        if not coded.is_intra or self._group is None:
            return self._fills and coded.bits > _SUDDEN * (self._most_bits or math.inf)
        is_first, self._last_intra = self._last_intra is None, (self._group.intra, coded.bits)
        is_new, self._is_new_scene = is_first or self._is_new_scene, False
        most = self._most_bits or math.inf
        if is_new and self._fills:
            # A nearly empty picture, as where a scene fades in, tells little of what follows.
            finest = self._crf - _FINER * (coded.bits > most / _EMPTY)
            wanted = self._first_crf(self._group.intra, coded.bits, most)
            self._crf = max(wanted, _LEAST_CRF if is_first else finest)
            return True
        return coded.bits > _LARGE * most and self._group.intra < _MOST_INTRA

    def _first_crf(self, crf: float, bits: int, most: float) -> float:
        """The first quantiser of a link with room, after an intra picture of `bits` at `crf`: that
        which has `most` bits, or a finer one where those after it would leave the rate."""
        least = self._bits_a_second / _FOLLOW
        excess = math.log(bits) - math.log(max(most, least))  # either may be infinite
        return min(float(MAX_CRF), max(_LEAST_CRF, crf + excess / tuning.CRF_SLOPE))

    def _small(self, wanted: float) -> float:
        """The quantiser, coarser where the last intra picture would take more than it may."""
        if not (self._last_intra and self._most_bits):
            return wanted
        crf, bits = self._last_intra
        small = math.ceil(crf + math.log(bits / self._most_bits) / tuning.CRF_SLOPE)
        return min(_MOST_INTRA, max(wanted, small))

    def _tried(self) -> tuple[CodedPacket, extraction.KeyBefore]:
        pictures, ticks = zip(*self._waiting, strict=True)
        is_intra = self._group is None
        group = self._group = self._group or self._opened(pictures[-1])
        unit = group.stream.encode(pictures[-1])
        decoded = group.decoder.decode(unit, self._geometry.coded_size(self._scale))
        texture, level = None, self._level
        if TEXTURE.name in self._config.header.tools:
            block_log2, reference = level.texture_log2, self._distortion.reference(pictures[-1])
            texture = choose_texture(reference, decoded, block_log2, self._spacing, level.lmbda)
        shown, _ = raise_texture(decoded, texture)
        source = extraction.SourceInterval(pictures, shown)
        # Whether people and regions pay shows only when both are tried: there is no time for that.
        (samples,) = self._extractor.extract_group(
            [source], self._before, level.lmbda, semantics=self._config.semantics
        )
        place = scaffold.Place.BETWEEN if self._before or len(ticks) == 1 else scaffold.Place.BEFORE
        interval = scaffold.Interval(ticks, samples, {TEXTURE: texture}, place)
        interval = self._faced(group, source, interval)
        kind = container.PacketType.INTRA if is_intra else container.PacketType.INTER
        coded = CodedPacket(len(ticks), sum(ticks), group.writer.write([interval], [unit]), kind)
        return coded, extraction.KeyBefore(pictures[-1], shown, closing=interval.closing_sample)

    def _faced(
        self, group: _OpenGroup, source: extraction.SourceInterval, interval: scaffold.Interval
    ) -> scaffold.Interval:
        """The interval with its faces, where they pay."""
        if self._faces is not None and self._before is not None and group.sends_faces:
            view = extraction.RenderedInterval(source, self._before, interval, self._before.closing)
            interval = self._faces.judged(view, self._before, group.faces, self._level.lmbda)
        group.faces = interval[FACES]
        return interval

    def _make_coarser(self, excess: float) -> None:
        """Coders remember what they coded: another quantiser means another group."""
        assert self._group is not None
        crf, scale = self._group.crf, self._scale - 2
        if crf < MAX_CRF:
            more = max(1.0, math.log(excess) / tuning.CRF_SLOPE)
            self._coarser = min(MAX_CRF, crf + more) - self._crf
        elif self._config.can_scale(scale):
            self._scale = scale
        else:
            raise errors.ConfigError(self._config.packet_advice)

    def _follow(self) -> None:
        """Before a new group: what earlier ones over- or underspent moves its quantiser."""
        excess = self._take_excess()
        wanted = self._crf_after(excess)
        more = tuning.log_bits_of_crf(wanted) - tuning.log_bits_of_crf(self._crf)
        self._rate.requantized(math.exp(more))
        self._inter *= math.exp(more)
        self._crf = wanted
        if excess is not None:  # else what another rate asks for is yet to be known
            self._jump = tuning.USUAL_JUMP
        # What did not fit into a packet may fit now: a hard scene may be over.
        self._coarser, self._scale = max(0.0, self._coarser - 2), min(8, self._scale + 2)

    def _crf_after(self, excess: float | None) -> float:
        """The quantiser that the next group is to have."""
        if excess is None:
            return self._crf
        jump = tuning.FREE_JUMP if self._most_bits else self._jump
        wanted = tuning.crf_of_log_bits(tuning.log_bits_of_crf(self._crf) - math.log(excess))
        wanted = min(self._crf + jump, max(self._crf - jump, wanted))
        return min(float(MAX_CRF), max(_LEAST_CRF, round(4 * wanted) / 4))

    def _take_excess(self) -> float | None:
        """Bits spent in proportion to those that are due; None if that is unknown."""
        if not self._fills:
            return self._rate.take_excess()
        rate = self._bits_a_second
        due = rate * self._spacing / float(self._config.header.format.frame_rate)
        due /= min(_SHARED, max(_LEAST_SHARED, rate / _THIN))
        return max(0.1, self._inter / due) if self._inters else None

    @property
    def _bits_a_second(self) -> float:
        form = self._config.header.format
        return self._rate.bpp * form.width * form.height * float(form.frame_rate)

    def _opened(self, first: Picture) -> _OpenGroup:
        sends_faces = self._faces is not None and self._faces.in_sight(first)
        self._crf = max(self._crf, self._small(self._crf) - MOST_COARSER)
        crf = min(float(MAX_CRF), round(4 * (self._crf + self._coarser)) / 4)
        intra = self._small(crf) if self._most_bits else None
        header, size = self._config.header, self._geometry.coded_size(self._scale)
        color, visual = header.format.color, self._config.tune.visual
        layers = frozenset({FACES.name} if sends_faces else ())
        return _OpenGroup(
            PictureStream(size, crf, color, self._effort.live, visual, intra),
            KeyframeDecoder((self._geometry.width, self._geometry.height), color),
            # Whoever codes without delay may send over a network that loses packets.
            GroupWriter(header, Coding(round(crf), self._scale, alone=True, layers=layers)),
            crf,
            intra or crf,
            sends_faces,
        )
