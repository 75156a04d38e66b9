"""Encoding with look-ahead: a group is known whole before its keyframes are chosen.

Its frames wait as they came, or packed where memory is short. Packed, each is coded without loss
and decoded anew whenever it is looked at: about a third of the memory, for the time that this
takes.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import islice, repeat
from threading import Lock
from typing import Final, overload

import av
import numpy as np

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.camera import CAMERA
from gsvc.codec.bitstream.layers.guide import GUIDE
from gsvc.codec.bitstream.layers.pose import POSE
from gsvc.codec.bitstream.layers.segmentation import SEGMENTATION
from gsvc.codec.bitstream.layers.texture import TEXTURE
from gsvc.codec.bitstream.scaffold import Interval, Place, Values
from gsvc.decoders.keyframes.backends import RESTORER
from gsvc.decoders.keyframes.compact.restorer_backend import RestorerBackend
from gsvc.encoders.coding.face_rdo import FaceRdo, WaysToPack
from gsvc.encoders.coding.group_coder import CodedPacket, CodingConfig, GroupCoder
from gsvc.encoders.coding.keyframes import Keyframes, fit_quantizer
from gsvc.encoders.coding.packer import PackedGroup, Packer
from gsvc.encoders.scaffold.extraction import (
    Before,
    JoinedFrames,
    RenderedInterval,
    ScaffoldExtractor,
    SourceInterval,
    distortion_between,
    rendered_intervals,
)
from gsvc.encoders.scaffold.face_extractor import FaceExtractor
from gsvc.encoders.search.candidates import PLAIN, PlannedInterval, Probe
from gsvc.encoders.search.group_search import GroupPlanner, GroupSearch
from gsvc.encoders.search.rate_control import RateControl
from gsvc.encoders.tuning import DISTORTION_OF_BITS, Effort, Level

_AT_ONCE = 2
_READ, _TRIED, _CODED = 0.1, 0.7, 0.95
"""Shares of the work on a group that are done before its probes, after them, and after its key
pictures, about, at 1080 lines."""
_CODEC: Final = "magicyuv"
_RAW_BYTES = 1 << 28
"""Of frames that wait as they came; those beyond are packed."""
_FORMAT = "gbrp"
"""Of FFmpeg's lossless coders of RGB that pack each frame by itself, the fastest: 10 ns to pack a
pixel into .8 to 1.3 bytes, 7 to unpack it. FFV1 packs to .5 to .9, in 40 and 40."""


class _FramePacker:
    """Packs frames of one size. May be used from several threads."""

    def __init__(self, height: int, width: int) -> None:
        self._size, self._lock, self._count = (width, height), Lock(), 0
        self._coder = self._set_up(av.CodecContext.create(_CODEC, "w"))
        self._coder.time_base = Fraction(1, 25)
        self._decoder = self._set_up(av.CodecContext.create(_CODEC, "r"))

    def packed(self, picture: Picture) -> bytes:
        frame = av.VideoFrame.from_ndarray(picture, _FORMAT)
        with self._lock:
            frame.pts, self._count = self._count, self._count + 1
            (packet,) = self._coder.encode(frame)
        return bytes(packet)

    def unpacked(self, data: bytes) -> Picture:
        with self._lock:
            (frame,) = self._decoder.decode(av.Packet(data))
        return np.asarray(frame.to_ndarray(), np.uint8)

    def _set_up(self, context: av.CodecContext) -> av.VideoCodecContext:
        assert isinstance(context, av.VideoCodecContext)
        context.width, context.height = self._size
        context.pix_fmt, context.thread_count = _FORMAT, 1
        return context


class _Packed:
    """A packed frame."""

    def __init__(self, picture: Picture, packer: _FramePacker) -> None:
        self._data, self._packer = packer.packed(picture), packer

    def picture(self) -> Picture:
        """It, unpacked."""
        return self._packer.unpacked(self._data)


class LookaheadBuffer(Sequence[Picture]):
    """Source frames in order, RGB uint8 (H, W, 3) of one size. A slice of packed ones is packed."""

    def __init__(self, *, packs: bool = False) -> None:
        """`packs`: whether all are packed; else those are that would take too much memory."""
        self._packs = packs
        self._packer: _FramePacker | None = None
        self._held: list[Picture | _Packed] = []

    def append(self, picture: Picture) -> None:
        """Another frame."""
        if not self._packs and len(self._held) * picture.nbytes < _RAW_BYTES:
            self._held.append(picture)
            return
        self._packer = self._packer or _FramePacker(*picture.shape[:2])
        self._held.append(_Packed(picture, self._packer))

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> Picture: ...

    @overload
    def __getitem__(self, index: slice) -> "LookaheadBuffer": ...

    def __getitem__(self, index: int | slice) -> "Picture | LookaheadBuffer":
        if isinstance(index, slice):
            some = copy(self)
            some._held = self._held[index]
            return some
        held = self._held[index]
        return held.picture() if isinstance(held, _Packed) else held


class Lookahead(GroupCoder):
    """Holds a group back, at most `CodingConfig.longest_group` frames."""

    def __init__(self, config: CodingConfig) -> None:
        self._config = config
        # One pool for good: threads that come and go leave the allocator's memory behind.
        self._pool = ThreadPoolExecutor(1 if config.lean else _AT_ONCE)
        self._distortion = config.distortion()
        self._extractor = ScaffoldExtractor(config, self._distortion, self._pool)
        find = config.face_points(self._distortion)
        self._faces = None
        if find is not None:
            parts = config.header.geometry, self._distortion, find, self._pool
            self._faces, self._face_rdo = FaceExtractor(*parts), FaceRdo(*parts)
        is_guided = GUIDE.name in config.header.tools
        self._restorer = RestorerBackend(RESTORER) if is_guided else None
        self._planner, self._packer = GroupPlanner(config), Packer(config)
        self._rate = RateControl(config)
        self._longest = config.longest_group
        self._report: Callable[[float], None] | None = None
        self._before: Before | None = None
        self._group = self._waiting()
        # Of every frame that is not sent yet: those of `_before.after`, then the group's.
        self._ticks: list[int] = []

    def _waiting(self) -> LookaheadBuffer:
        return LookaheadBuffer(packs=self._config.lean)

    def watch(self, report: Callable[[float], None]) -> None:
        self._report = report

    def _tell(self, share: float) -> None:
        """A share of the work on the group is done."""
        if self._report:
            self._report(share * len(self._group))

    def _tell_probes(self, made: int) -> None:
        share = min(1.0, made / self._config.effort.probes)
        self._tell(_READ + share * (_TRIED - _READ))

    @property
    def delay(self) -> int:
        # A group and, for frames after its last key picture, the next one.
        return 2 * self._longest - 1

    @property
    def quality(self) -> float | None:
        return self._planner.quality

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        coded = self.flush() if is_cut else []
        self._group.append(picture)
        self._ticks.append(ticks)
        if len(self._group) > self._longest or (opens_group and len(self._group) > 1):
            coded += self._code(open_ended=True)
        return coded

    def flush(self) -> list[CodedPacket]:
        return self._code(open_ended=False) if self._group else []

    def drop(self) -> None:
        self._group, self._ticks, self._before = self._waiting(), [], None

    def retarget(
        self,
        bpp: float,
        *,
        exact: bool,
        level: Level | None = None,
        effort: Effort | None = None,
    ) -> None:
        self._rate.retarget(bpp, exact=exact)

    def regroup(self, gop: float) -> None:
        self._longest = replace(self._config, gop=gop).longest_group

    def close(self) -> None:
        self.drop()
        self._pool.shutdown(cancel_futures=True)

    def _code(self, *, open_ended: bool) -> list[CodedPacket]:
        """Code the group. Open-ended: its last frame is the next group's intra picture."""
        pictures, own = self._group, len(self._group) - open_ended
        budget = self._rate.budget(own)
        search = GroupSearch(
            pictures,
            self._config,
            self._distortion,
            self._pool,
            begins=self._before is None,
            open_ended=open_ended,
            tell=self._tell_probes,
        )
        self._tell(_READ)
        goal = self._packer.picture_bits(budget)
        probe = self._planner.best(search, goal, exact=self._rate.exact)
        self._tell(_TRIED)
        keys = self._keyframes(search, probe, goal)
        self._tell(_CODED)
        group, plain = self._packed(probe, keys, budget, open_ended=open_ended)
        # Nobody asked later groups what they lose by coarser key pictures: faces are on top.
        counted = plain if self._rate.exact else group
        self._packer.sent(group, counted.rest, budget)
        self._rate.spent(counted.bits, own)
        self._before = None
        if open_ended:
            self._before = self._continued(probe, group.keys, group.intervals[-1])
        self._group = pictures[own:]
        self._ticks = self._ticks[sum(packet.frames for packet in group.packets) :]
        return group.packets

    def _packed(
        self, probe: Probe, keys: Keyframes, budget: float, *, open_ended: bool
    ) -> tuple[PackedGroup, PackedGroup]:
        """The group with its scaffold, with faces where they pay, and without."""
        sources_of = partial(self._sources, probe, open_ended=open_ended)
        intervals = self._intervals(keys, sources_of(keys))
        packed = partial(self._packer.packed, budget=budget, exact=self._rate.exact)
        group = packed(keys, intervals)
        if self._faces is None:
            return group, group

        def views(made: PackedGroup) -> list[RenderedInterval]:
            return rendered_intervals(sources_of(made.keys), self._before, made.intervals)

        # Where a rate is to be met lambda steps widely: what bits save at this rate is nearer.
        price = min(self._planner.lmbda, DISTORTION_OF_BITS * probe.distortion / group.bits)
        repacked = partial(self._packer.repacked, budget=budget, exact=self._rate.exact)
        faced = self._faces.added(views(group), self._before, price)
        ways = WaysToPack(packed, repacked, views)
        return self._face_rdo.chosen(group, faced, ways, price), group

    def _keyframes(self, search: GroupSearch, probe: Probe, goal: float) -> Keyframes:
        """The key pictures, near to `goal` bits with their framing."""
        probes = search.probes
        plan = replace(probe.plan, keys=probes.own_keys(probe.plan))
        keys = Keyframes(plan, probes.emphasised(probe), self._config)
        framing = self._config.framing_bits(len(self._group), len(plan.keys), goal)
        keys = fit_quantizer(keys, goal - framing, exact=self._rate.exact)
        references = [probes.reference(k) for k in plan.keys]
        keys.choose_textures(references, len(self._group), self._planner.lmbda, self._pool)
        if self._restorer is not None:
            keys.choose_guides(references, len(self._group), self._planner.lmbda, self._restorer)
        return keys

    def _sources(self, probe: Probe, keys: Keyframes, *, open_ended: bool) -> list[SourceInterval]:
        """The frames of each of the group's intervals."""
        pictures, first = self._group, keys.plan.keys[0]
        shown = [keys.textured(number) for number in range(len(keys.units))]
        lead = pictures[: first + 1]
        if self._before is not None:
            sources = [
                SourceInterval(
                    JoinedFrames(self._before.after, lead), shown[0], drawing=self._before.drawing
                )
            ]
        else:
            held = PlannedInterval(0, first, Place.BEFORE if first else Place.BETWEEN)
            drawing = probe.drawings.get(held, PLAIN)
            sources = [SourceInterval(lead, shown[0], held.place, drawing)]
        later = [one for one in probe.drawings if one.place is not Place.BEFORE]
        # The last of an open-ended group is carried by the next one's first packet.
        for planned, picture in zip(
            later[:-1] if open_ended else later, [*shown[1:], shown[-1]], strict=False
        ):
            frames = pictures[planned.start + 1 : planned.end + 1]
            sources.append(SourceInterval(frames, picture, planned.place, probe.drawings[planned]))
        return sources

    def _intervals(self, keys: Keyframes, sources: Sequence[SourceInterval]) -> list[Interval]:
        """The scaffold of each interval: with people and regions where they pay."""
        watched = self._scaffold(keys, sources, watching=True)
        names = self._config.header.tools.names
        if self._config.semantics or not names & {SEGMENTATION.name, POSE.name}:
            return watched
        plain = self._scaffold(keys, sources, watching=False)

        def cost(intervals: Sequence[Interval]) -> float:
            drawn = distortion_between(sources, self._before, intervals, self._distortion)
            return drawn + self._planner.lmbda * self._packer.scaffold_bits(keys, intervals)

        return min(plain, watched, key=cost)

    def _scaffold(
        self, keys: Keyframes, sources: Sequence[SourceInterval], *, watching: bool
    ) -> list[Interval]:
        found = self._extractor.extract_group(
            sources, self._before, self._planner.lmbda, watching=watching
        )
        times = iter(self._ticks)
        layers = zip(keys.textures, keys.guides or repeat(None), strict=False)
        shown: Iterator[Values] = ({TEXTURE: texture, GUIDE: guide} for texture, guide in layers)
        return [
            Interval(
                tuple(islice(times, len(source.sources))),
                samples,
                {
                    CAMERA: source.drawing.camera,
                    **({} if source.place is Place.AFTER else next(shown)),
                },
                source.place,
                source.drawing.dissolves,
            )
            for source, samples in zip(sources, found, strict=True)
        ]

    def _continued(self, probe: Probe, keys: Keyframes, last: Interval) -> Before:
        """What the next group goes on from, when `last` was the last interval of this one."""
        start, end = probe.plan.keys[-2:]
        return Before(
            self._group[start],
            keys.textured(-1),
            self._group[start + 1 : end],
            last.closing_sample,
            probe.drawings[PlannedInterval(start, end)],
        )
