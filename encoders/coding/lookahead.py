"""Encoding with look-ahead: a group is known whole before its keyframes are chosen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, pairwise, repeat

from gsvc.codec.bitstream.container import PacketType
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers import BRIGHTNESS, CAMERA, GUIDE, POSE, SEGMENTATION, TEXTURE
from gsvc.codec.bitstream.scaffold import Interval, Place, Values
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.keyframes.restorer.runtime import RestorerNetwork
from gsvc.encoders.coding.cuts import Flicker, Thumbnail, lasting_changes, thumbnail
from gsvc.encoders.coding.face_rdo import FaceRdo, WaysToPack
from gsvc.encoders.coding.group_coder import GroupCoder, Target
from gsvc.encoders.coding.keyframes import Keyframes, encode_keyframes, fit_quantizer
from gsvc.encoders.coding.packer import PackedGroup, Packer
from gsvc.encoders.coding.returning_shots import in_slots, shared_sequences
from gsvc.encoders.config import CodedPacket, CodingConfig
from gsvc.encoders.distortion import Reference
from gsvc.encoders.frame_buffer import FrameBuffer, JoinedFrames, return_freed_memory
from gsvc.encoders.plans import PLAIN, GroupPlan, PlannedInterval, Probe
from gsvc.encoders.scaffold import extraction
from gsvc.encoders.scaffold.extraction import KeyBefore, SourceInterval
from gsvc.encoders.search.group_search import GroupPlanner, GroupSearch
from gsvc.encoders.search.rate_control import RateControl
from gsvc.encoders.tuning import DISTORTION_OF_BITS

_AT_ONCE = 2
_READ, _TRIED, _CODED = 0.1, 0.7, 0.95
"""Shares of the work on a group that are done before its probes, after them, and after its key
pictures, about, at 1080 lines."""


@dataclass(frozen=True)
class _Shot:
    """A shot, or what a group has of one."""

    pictures: Sequence[Picture]
    thumbnails: Sequence[Thumbnail]
    ticks: Sequence[int]
    """Durations of all frames that its packets complete: it may go on from another group."""
    slot: int | None = None
    """None where it opens a group."""


@dataclass(frozen=True)
class _PlannedShot:
    """A shot, and what is known of it before its coded pictures are coded."""

    shot: _Shot
    probe: Probe
    keys: tuple[int, ...]
    """The plan's key indices, without the one that belongs to the next group."""
    prepared: Sequence[Picture]
    """Source pictures of its coded pictures, prepared for coding."""
    reference: Callable[[int], Reference]
    """Gives a frame of the shot to compare with."""


class Lookahead(GroupCoder):
    """Holds a group back, at most `CodingConfig.longest_group` frames."""

    def __init__(self, config: CodingConfig) -> None:
        self._config = config
        return_freed_memory(1 << (16 if config.low_memory else 21))
        # One pool for good: threads that come and go leave the allocator's memory behind.
        self._pool = ThreadPoolExecutor(1 if config.low_memory else _AT_ONCE)
        self._distortion = config.distortion()
        self._extractor = extraction.ScaffoldExtractor(config, self._distortion, self._pool)
        self._faces: FaceRdo | None = None
        if find := config.face_points(self._distortion):
            given = config.header.geometry, self._distortion, find, self._pool
            self._faces = FaceRdo(*given, is_rough=config.effort.is_rough)
        is_guided = GUIDE.name in config.header.tools
        self._restorer = RestorerNetwork(low_memory=config.low_memory) if is_guided else None
        self._planner, self._packer = GroupPlanner(config), Packer(config)
        self._rate = RateControl(config)
        self._longest = config.longest_group
        self._report: Callable[[float], None] | None = None
        self._done, self._frames = 0.0, 0  # frames' worth of work, and frames that are worked on
        self.drop()

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        """Keep a frame; at a cut or where the group is full, code what waits."""
        coded: list[CodedPacket] = []
        if is_cut and self._group:
            self._cuts.append(len(self._group))
            # A shot that goes on from another group does not come back in this one.
            if self._before is not None or not self._config.header.returns:
                coded = self._code_shots()
        self._group.append(picture)
        self._thumbnails.append(thumbnail(picture))  # before it is packed
        self._ticks.append(ticks)
        most = 1 if opens_group else self._longest
        if len(self._group) > most:
            coded += self._code_shots()
        if len(self._group) > most:
            coded += self._code_full_group()
        return coded

    def flush(self) -> list[CodedPacket]:
        if self._group:
            self._cuts.append(len(self._group))
        return self._code_shots()

    def drop(self) -> None:
        self._group = FrameBuffer(low_memory=self._config.low_memory)
        self._thumbnails: list[Thumbnail] = []
        self._before: KeyBefore | None = None
        # Of every frame that is not sent yet: those of `_before.unsent`, then the group's.
        self._ticks: list[int] = []
        self._cuts: list[int] = []

    def retarget(self, target: Target) -> None:
        self._rate.retarget(target.bpp, exact=target.exact)

    def regroup(self, gop: float) -> None:
        self._longest = replace(self._config, gop=gop).longest_group

    def close(self) -> None:
        self.drop()
        self._pool.shutdown(cancel_futures=True)

    def watch(self, report: Callable[[float], None]) -> None:
        self._report = report

    @property
    def delay(self) -> int:
        # A group and, for frames after its last coded picture, the next one.
        return 2 * self._longest - 1

    @property
    def quality(self) -> float | None:
        return self._planner.quality

    def _code_shots(self) -> list[CodedPacket]:
        """Code what waits up to the last cut: one shot, or several where shots may come back."""
        shots = [self._take(end - start) for start, end in pairwise([0, *self._cuts])]
        self._cuts = []
        if self._config.header.returns:
            coded = self._code_returning(shots)
        else:
            coded = [packet for shot in shots for packet in self._code_sequence([shot])]
        self._done = 0.0
        return coded

    def _code_returning(self, shots: Sequence[_Shot]) -> list[CodedPacket]:
        """Code shots, those that show the same as one sequence; packets in order of shots."""
        sequences, slots = in_slots(shared_sequences([one.pictures for one in shots], self._config))
        coded: dict[int, list[CodedPacket]] = {}
        for numbers in sequences:
            packets = self._code_sequence([replace(shots[n], slot=slots[n]) for n in numbers])
            starts = [n for n, one in enumerate(packets) if one.type != PacketType.INTER]
            parts = (packets[start:end] for start, end in pairwise([*starts, len(packets)]))
            coded |= zip(numbers, parts, strict=True)
        return [packet for _, packets in sorted(coded.items()) for packet in packets]

    def _code_full_group(self) -> list[CodedPacket]:
        """Code all that waits; its last frame is the next group's intra picture."""
        # That frame keeps its brightness, so frames before a lasting change are coded apart.
        self._cuts = lasting_changes(self._thumbnails)[-1:]
        packets = self._code_shots()
        shot = _Shot(self._group, self._thumbnails, self._ticks)
        rest = self._code_sequence([shot], open_ended=True)
        self._group, self._thumbnails, self._done = self._group[-1:], self._thumbnails[-1:], 0.0
        self._ticks = self._ticks[sum(packet.frames for packet in rest) :]
        return [*packets, *rest]

    def _take(self, frames: int) -> _Shot:
        """The first frames of the group, which wait no longer, as a shot."""
        # Its packets carry the frames of `_before.unsent`, too.
        count = len(self._ticks) - len(self._group) + frames
        shot = _Shot(self._group[:frames], self._thumbnails[:frames], self._ticks[:count])
        self._group, self._ticks = self._group[frames:], self._ticks[count:]
        del self._thumbnails[:frames]
        return shot

    def _code_sequence(
        self, shots: Sequence[_Shot], *, open_ended: bool = False
    ) -> list[CodedPacket]:
        """Code shots as one AV1 sequence; `open_ended`: the last frame is the next group's first.
        Budgets and goals are bits, of all packets and of the coded pictures in them."""
        begun, frames = self._done, sum(len(shot.pictures) for shot in shots)
        own = frames - open_ended
        budget = self._rate.budget(own)
        goal = self._packer.picture_bits(budget)
        planned = [
            self._planned(shot, goal * len(shot.pictures) / frames, open_ended) for shot in shots
        ]
        self._done, self._frames = begun, frames
        keys = self._keyframes(planned, goal)
        self._tell(_CODED)
        group, plain = self._packed(planned, keys, budget)
        # Do not charge faces to later groups: at an exact rate their bits come on top of it.
        counted = plain if self._rate.exact else group
        self._packer.sent(group, counted.rest, budget)
        self._rate.spent(counted.bits, own)
        last = planned[-1], group.keys, group.intervals[-1]
        self._before = self._continued(*last) if open_ended else None
        self._done += own
        return group.packets

    def _planned(self, shot: _Shot, goal: float, open_ended: bool) -> _PlannedShot:
        """The shot with the plan of its coded pictures, of about `goal` bits."""
        self._frames = len(shot.pictures)
        flicker = Flicker(shot.thumbnails, open_ended=open_ended)
        steady = flicker.steady(shot.pictures, low_memory=self._config.low_memory)
        shot = replace(shot, pictures=steady)
        given, begins = (self._config, self._distortion, self._pool), self._before is None

        def tell(made: int) -> None:
            share = min(1.0, made / self._config.effort.probes)
            self._tell(_READ + share * (_TRIED - _READ))

        search = GroupSearch(shot.pictures, *given, begins=begins, open_ended=open_ended, tell=tell)
        self._tell(_READ)
        probe = flicker.signalled(self._planner.plan_group(search, goal, exact=self._rate.exact))
        self._tell(_TRIED)
        self._done += _TRIED * self._frames
        probes, keys = search.probes, search.probes.own_keys(probe.plan)
        prepared = FrameBuffer(probes.emphasised(probe), low_memory=self._config.low_memory)
        return _PlannedShot(shot, probe, keys, prepared, probes.reference)

    def _keyframes(self, planned: Sequence[_PlannedShot], goal: float) -> Keyframes:
        """The coded pictures, near to `goal` bits with their framing."""
        plan, openings = _joined(planned)  # and the intervals that shots open
        prepared = JoinedFrames(*(one.prepared for one in planned))
        framing = self._config.framing_bits(self._frames, len(plan.keys), goal)
        encode = partial(
            encode_keyframes, prepared=prepared, config=self._config, openings=openings
        )
        fit = partial(fit_quantizer, goal=goal - framing, exact=self._rate.exact)
        keys = fit(encode(plan))
        if keys.are_faded():
            keys = fit(encode(replace(keys.plan, companded=True)))
        references = [partial(one.reference, key) for one in planned for key in one.keys]
        keys.choose_textures(references, self._frames, self._planner.lmbda, self._pool)
        if self._restorer is not None:
            sources = (one.shot.pictures[key] for one in planned for key in one.keys)
            given = self._frames, self._planner.lmbda, self._restorer, self._pool
            keys.choose_guides(references, sources, *given)
        return keys

    def _packed(
        self, planned: Sequence[_PlannedShot], keys: Keyframes, budget: float
    ) -> tuple[PackedGroup, PackedGroup]:
        """The shots with their scaffold, with faces where they pay, and without."""
        sources_of = partial(self._sources, planned)
        ticks = [tick for one in planned for tick in one.shot.ticks]
        known = sources_of(keys)
        intervals = self._intervals(keys, known, ticks)
        packed = partial(self._packer.packed, budget=budget, exact=self._rate.exact)
        group = packed(keys, intervals)
        if self._faces is None:
            return group, group

        def views(made: PackedGroup) -> list[extraction.RenderedInterval]:
            sources = list(chain(*(known if made.keys is keys else sources_of(made.keys))))
            given = sources, self._before, made.intervals
            return list(extraction.rendered_intervals(*given, quick=self._config.effort.is_rough))

        # Where a rate is to be met lambda steps widely: what bits save at this rate is nearer.
        distortion = sum(one.probe.distortion for one in planned)
        price = min(self._planner.lmbda, DISTORTION_OF_BITS * distortion / group.bits)
        repacked = partial(self._packer.repacked, budget=budget, exact=self._rate.exact)
        seen = views(group)
        faced = self._faces.added(seen, self._before, price)
        ways = WaysToPack(packed, repacked, views)
        return self._faces.chosen(group, seen, faced, ways, price), group

    def _sources(
        self, planned: Sequence[_PlannedShot], keys: Keyframes
    ) -> list[list[SourceInterval]]:
        # Luma is enough to judge by.
        shown = (gray(keys.textured(number)) for number in range(len(keys.units)))
        return [self._sources_of(one, {key: next(shown) for key in one.keys}) for one in planned]

    def _sources_of(
        self, planned: _PlannedShot, shown: Mapping[int, Picture]
    ) -> list[SourceInterval]:
        """`shown`: the shot's coded pictures as displayed, by their indices."""
        pictures, drawings, first = planned.shot.pictures, planned.probe.drawings, planned.keys[0]
        frames, place = pictures[: first + 1], Place.BETWEEN
        if self._before is not None:
            frames, drawing = JoinedFrames(self._before.unsent, frames), self._before.drawing
        else:
            place = Place.BEFORE if first else Place.BETWEEN
            drawing = drawings.get(PlannedInterval(0, first, place), PLAIN)
        sources = [SourceInterval(frames, shown[first], place, drawing)]
        for interval, drawing in drawings.items():
            key = interval.start if interval.place is Place.AFTER else interval.end
            # One that ends with the next group's picture is carried by that one's packet.
            if interval.place is not Place.BEFORE and key in shown:
                frames = pictures[interval.start + 1 : interval.end + 1]
                sources.append(SourceInterval(frames, shown[key], interval.place, drawing))
        return sources

    def _intervals(
        self, keys: Keyframes, sources: Sequence[Sequence[SourceInterval]], ticks: Sequence[int]
    ) -> list[Interval]:
        """The scaffold of each interval: with people and regions where they pay."""
        watched = self._scaffold(keys, sources, ticks, semantics=True)
        names = self._config.header.tools.names
        if self._config.semantics or not names & {SEGMENTATION.name, POSE.name}:
            return watched
        plain = self._scaffold(keys, sources, ticks, semantics=False)

        def cost(intervals: Sequence[Interval]) -> float:
            given = list(chain(*sources)), self._before, intervals
            drawn = extraction.distortion_between(*given, self._distortion)
            return drawn + self._planner.lmbda * self._packer.scaffold_bits(keys, intervals)

        return min(plain, watched, key=cost)

    def _scaffold(
        self,
        keys: Keyframes,
        sources: Sequence[Sequence[SourceInterval]],
        ticks: Sequence[int],
        *,
        semantics: bool,
    ) -> list[Interval]:
        """The intervals with their layers, with people and regions (`semantics`) or without."""
        times = iter(ticks)
        layers = zip(keys.textures, keys.guides or repeat(None), strict=False)
        shown: Iterator[Values] = ({TEXTURE: texture, GUIDE: guide} for texture, guide in layers)
        intervals: list[Interval] = []
        for shot in sources:
            before = None if intervals else self._before
            found = self._extractor.extract_group(
                shot, before, self._planner.lmbda, semantics=semantics
            )
            intervals += [
                Interval(
                    tuple(islice(times, len(source.sources))),
                    samples,
                    {
                        CAMERA: source.drawing.camera,
                        BRIGHTNESS: source.drawing.brightness,
                        **({} if source.place is Place.AFTER else next(shown)),
                    },
                    source.place,
                    source.drawing.dissolves,
                )
                for source, samples in zip(shot, found, strict=True)
            ]
        return intervals

    def _continued(self, planned: _PlannedShot, keys: Keyframes, last: Interval) -> KeyBefore:
        """The context in which the next group goes on; `last`: the last interval of this one."""
        start, end = planned.probe.plan.keys[-2:]
        return KeyBefore(
            planned.shot.pictures[start],
            keys.textured(-1),
            planned.shot.pictures[start + 1 : end],
            last.closing_sample,
            planned.probe.drawings[PlannedInterval(start, end)],
        )

    def _tell(self, share: float) -> None:
        """A share of the work on what is worked on is done."""
        if self._report:
            self._report(self._done + share * self._frames)


def _joined(planned: Sequence[_PlannedShot]) -> tuple[GroupPlan, dict[int, int | None]]:
    """The plan of shots that are one sequence, and the openings of `Keyframes`."""
    keys: list[int] = []
    openings: dict[int, int | None] = {}
    frames = intervals = 0
    for one in planned:
        openings[intervals] = one.shot.slot
        keys += [frames + key for key in one.keys]
        frames += len(one.shot.pictures)
        # The first one, of a picture alone or with those that it holds, and those after it.
        intervals += 1 + sum(each.place is not Place.BEFORE for each in one.probe.drawings)
    crf = sum(len(one.shot.pictures) * one.probe.plan.crf for one in planned) / frames
    longest = max(planned, key=lambda one: len(one.shot.pictures))
    return GroupPlan(tuple(keys), round(4 * crf) / 4, longest.probe.plan.scale), openings
