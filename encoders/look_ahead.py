"""One group: the search, its key pictures, texture and scaffold, and the rate that they must come to."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice, pairwise

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.camera import CAMERA
from gsvc.codec.scaffold.layers.pose import POSE
from gsvc.codec.scaffold.layers.segmentation import SEGMENTATION
from gsvc.codec.scaffold.layers.texture import TEXTURE, Texture
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.types import Interval
from gsvc.codec.stream.group import GroupWriter
from gsvc.codec.stream.header import Header
from gsvc.decoders.pictures import decode_pictures
from gsvc.decoders.texture import raise_texture
from gsvc.encoders.distortion import Reference, texture_distortion_of
from gsvc.encoders.extraction import Before, ScaffoldExtractor, SourceInterval, distortion_between
from gsvc.encoders.layers.texture import choose_texture
from gsvc.encoders.pictures import encode_pictures
from gsvc.encoders.rate import Budget, WindowCap, fit_pictures
from gsvc.encoders.search import (
    FRAMING_BITS,
    FRAMING_BYTES,
    GroupSearch,
    Plan,
    Stretch,
    Trial,
)
from gsvc.encoders.tuning import Effort, Level

_AT_ONCE = 2
_PRICE_ROUNDS = 4
_QUALITY_ROUNDS = 6
_LEAST_TRIALS = 4
"""At another price: the usual plan, the one before, and two leaps from the better of them."""
_EASIER = 0.7
"""What a group that needed a higher price than its level's leaves the next one of it."""


@dataclass(frozen=True)
class CodedPicture:
    """What goes into a picture packet: the number of frames that it completes and their ticks, its payload, and
    whether it opens a group."""

    frames: int
    ticks: int
    payload: bytes
    is_intra: bool

    @property
    def bits(self) -> int:
        """Size of the packet, framing included."""
        return 8 * (len(self.payload) + FRAMING_BYTES)


def packet_excess(pictures: Sequence[CodedPicture], most: int) -> float:
    """Size of the largest packet in proportion to `most` bytes."""
    # Framing takes a byte more where a large packet completes 128 frames.
    return (max(len(picture.payload) for picture in pictures) + FRAMING_BYTES + 1) / most


def packet_advice(most: int) -> str:
    """What to tell a user whose limit on packets cannot be kept."""
    return f"no key picture of this video fits into packets of {most} bytes: raise max_packet_bytes or shrink the video"


@dataclass(frozen=True)
class CodedGroup:
    """The pictures of a group, the first one intra, and what the next group goes on from, if it does."""

    pictures: Sequence[CodedPicture]
    scene: Before | None


@dataclass(frozen=True)
class _Keys:
    """The key pictures of a group that it pays for: their plan, as they go into the coder, and coded."""

    plan: Plan
    prepared: Sequence[Picture]
    units: Sequence[bytes]

    @property
    def bits(self) -> int:
        return 8 * sum(map(len, self.units))


class GroupEncoder:
    """Encodes groups in order. Raises MissingModelError when made, if a scaffold tool's model is not here."""

    def __init__(
        self,
        level: Level,
        header: Header,
        effort: Effort,
        *,
        semantics: bool = False,
        quality: float | None = None,
        cap: WindowCap | None = None,
        packet_bytes: int | None = None,
    ) -> None:
        """`header`: of the stream; `semantics`: send people and regions whether they pay or not;
        `quality`: ST-LPIPS to come to, in place of the level's price; `cap`: bits that any second may take;
        `packet_bytes`: that any packet may take, framing included."""
        self._header, self._level, self._tools = header, level, header.tools
        self._color, self._geometry = header.format.color, header.geometry
        self._tick = float(header.format.time_base)
        self._effort = effort
        # One pool for good: threads that come and go leave the allocator's memory behind.
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._extractor = ScaffoldExtractor(level, header, effort.anchors, self._pool)
        self._semantics = semantics
        self._quality, self._cap, self._packet_bytes = quality, cap, packet_bytes
        self._plan: Plan | None = None
        self._price = level.lmbda
        self._scaffold_share = 0.1
        self._clock = 0

    def encode(
        self,
        pictures: Sequence[Picture],
        ticks: Sequence[int],
        scene: Before | None,
        budget: Budget,
        *,
        open_ended: bool,
        longest: int,
    ) -> CodedGroup:
        """Encode a group.

        `ticks`: of every frame that is not sent yet, those of `scene.after` first; `scene`: what comes before, None
        when a scene begins; `open_ended`: the last picture opens the next group and is not sent; `longest`: most
        frames from one key picture to the next. Raises ConfigError when the cap cannot be kept.
        """
        search = GroupSearch(
            pictures,
            self._color,
            self._pool,
            begins=scene is None,
            open_ended=open_ended,
            samples=self._effort.samples_of(len(pictures)),
            longest=longest,
            with_camera=CAMERA.name in self._tools,
        )
        if scene is None:
            self._plan = None  # Another scene moves otherwise.
        trial = self._searched(search, budget)
        self._plan = trial.plan
        indices = trial.plan.keys[:-1] if open_ended else trial.plan.keys
        prepared = search.emphasised(trial)
        plan = replace(trial.plan, keys=indices)
        # The pictures first come near what the scaffold is likely to leave of the budget, then to what it does.
        goal = (1 - self._scaffold_share) * budget.bits - FRAMING_BITS * len(indices)
        keys = _Keys(plan, prepared, self._coded(plan, prepared))
        keys = self._fitted(keys, goal, budget)
        decoded = self._decoded(keys)
        references = [search.reference(k) for k in indices]
        textures = self._textures(references, decoded, len(pictures))
        shown = [raise_texture(p, t) for p, t in zip(decoded, textures, strict=True)]
        spans = self._spans(pictures, scene, trial, indices, shown, open_ended=open_ended)
        intervals = self._intervals(keys, spans, ticks, scene, textures)
        final, coded = self._written_within(keys, intervals, budget)
        self._clock += sum(sum(interval.ticks) for interval in intervals)
        if not open_ended:
            return CodedGroup(coded, None)
        if final.plan != keys.plan:
            shown[-1] = raise_texture(self._decoded(final)[-1], textures[-1])
        start, end = trial.plan.keys[-2:]
        after = tuple(pictures[start + 1 : end])
        way = trial.ways[Stretch(start, end)]
        closing = intervals[-1].closing_sample
        return CodedGroup(coded, Before(pictures[indices[-1]], shown[-1], after, closing, way))

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(cancel_futures=True)

    def _searched(self, search: GroupSearch, budget: Budget) -> Trial:
        """The best plan at the price that brings its pictures near the budget."""
        if self._quality is not None:
            return self._good_enough(search, self._quality)
        goal = budget.bits * (1 - self._scaffold_share)
        price = self._price if budget.exact else max(self._level.lmbda, _EASIER * self._price)
        plan = search.best(price, self._plan, self._effort.trials_of(self._plan is None, price))
        again = max(_LEAST_TRIALS, self._effort.trials) if budget.exact else _LEAST_TRIALS
        for _ in range(_PRICE_ROUNDS):
            excess = search.trial(price, plan).bits / goal
            if excess < 1.15 and (excess > 0.85 or not budget.exact):
                break
            price *= min(4.0, max(0.25, excess))
            plan = search.best(price, plan, again)
        self._price = price
        return search.trial(price, plan)

    def _good_enough(self, search: GroupSearch, quality: float) -> Trial:
        """The best plan at the price that brings the rendering near `quality`."""
        goal = texture_distortion_of(quality)
        price, plan = self._price, search.best(self._price, self._plan, self._effort.trials)
        for _ in range(_QUALITY_ROUNDS):
            excess = search.mean_texture_distortion(price, plan) / goal
            if 0.97 < excess < 1.03:
                break
            price /= min(8.0, max(0.125, excess**4))
            plan = search.best(price, plan, max(_LEAST_TRIALS, self._effort.trials))
        self._price = price
        return search.trial(price, plan)

    def _fitted(self, keys: _Keys, goal: float, budget: Budget) -> _Keys:
        """The key pictures at the quantiser and size that come to `goal` bits."""
        plan, units = fit_pictures(
            keys.plan,
            keys.units,
            goal,
            lambda plan: self._coded(plan, keys.prepared),
            exact=budget.exact,
            geometry=self._geometry,
        )
        return replace(keys, plan=plan, units=units)

    def _coded(self, plan: Plan, pictures: Sequence[Picture]) -> list[bytes]:
        return encode_pictures(
            pictures,
            size=self._geometry.coded_size(plan.eighths),
            crf=plan.crf,
            color=self._color,
            preset=self._effort.preset_of(plan.keys),
        )

    def _decoded(self, keys: _Keys) -> list[Picture]:
        return decode_pictures(keys.units, self._geometry, keys.plan.eighths, self._color)

    def _textures(
        self, sources: Sequence[Reference], decoded: Sequence[Picture], frames: int
    ) -> list[Texture | None]:
        if TEXTURE.name not in self._tools:
            return [None] * len(decoded)
        each, block = max(1.0, frames / len(decoded)), self._level.texture_log2
        choose = partial(choose_texture, block_log2=block, frames=each, price=self._price)
        return list(self._pool.map(choose, sources, decoded))

    def _spans(
        self,
        pictures: Sequence[Picture],
        scene: Before | None,
        trial: Trial,
        indices: Sequence[int],
        shown: Sequence[Picture],
        *,
        open_ended: bool,
    ) -> list[SourceInterval]:
        """What each packet of the group completes."""
        first, last = indices[0], len(pictures) - 1
        lead = pictures[: first + 1]
        if scene is not None:
            spans = [SourceInterval((*scene.after, *lead), shown[0], way=scene.way)]
        elif first:
            before = trial.ways[Stretch(0, first, Place.BEFORE)]
            spans = [SourceInterval(lead, shown[0], Place.BEFORE, before)]
        else:
            spans = [SourceInterval(lead, shown[0])]
        for (start, end), picture in zip(pairwise(indices), shown[1:], strict=True):
            way = trial.ways[Stretch(start, end)]
            spans.append(SourceInterval(pictures[start + 1 : end + 1], picture, way=way))
        if not open_ended and indices[-1] < last:
            after = trial.ways[Stretch(indices[-1], last, Place.AFTER)]
            spans.append(SourceInterval(pictures[indices[-1] + 1 :], shown[-1], Place.AFTER, after))
        return spans

    def _intervals(
        self,
        keys: _Keys,
        spans: Sequence[SourceInterval],
        ticks: Sequence[int],
        scene: Before | None,
        textures: Sequence[Texture | None],
    ) -> list[Interval]:
        def scaffold(*, watching: bool) -> list[Interval]:
            found = self._extractor.extract_group(spans, scene, self._price, watching=watching)
            times, gains = iter(ticks), iter(textures)
            return [
                Interval(
                    tuple(islice(times, len(span.sources))),
                    samples,
                    {
                        TEXTURE: None if span.place is Place.AFTER else next(gains),
                        CAMERA: span.way.camera,
                    },
                    span.place,
                    span.way.dissolves,
                )
                for span, samples in zip(spans, found, strict=True)
            ]

        watched = scaffold(watching=True)
        if self._semantics or not self._tools.names & {SEGMENTATION.name, POSE.name}:
            return watched
        plain = scaffold(watching=False)

        def cost(intervals: Sequence[Interval]) -> float:
            drawn = distortion_between(spans, scene, intervals)
            return drawn + self._price * self._scaffold_bits(keys, intervals)

        return min(plain, watched, key=cost)

    def _written_within(
        self, keys: _Keys, intervals: Sequence[Interval], budget: Budget
    ) -> tuple[_Keys, Sequence[CodedPicture]]:
        """The packets, with key pictures that bring them to the budget and under the cap."""
        rest = self._scaffold_bits(keys, intervals)
        self._scaffold_share = 0.5 * (self._scaffold_share + min(0.5, rest / budget.bits))
        keys = self._fitted(keys, budget.bits - rest, budget)
        keys, coded = self._within_packets(keys, intervals)
        while self._cap and not self._cap.fits(self._timed(coded, intervals)):
            smaller = Budget(0.85 * keys.bits, exact=False)
            fewer = self._fitted(keys, smaller.bits, smaller)
            if fewer.bits >= keys.bits:
                raise ConfigError(self._cap.advice)
            keys, coded = fewer, self._written(fewer, intervals)
        if self._cap:
            self._cap.add(self._timed(coded, intervals))
        return keys, coded

    def _within_packets(
        self, keys: _Keys, intervals: Sequence[Interval]
    ) -> tuple[_Keys, list[CodedPicture]]:
        """The packets, with key pictures that bring the largest of them under the limit."""
        coded = self._written(keys, intervals)
        while self._packet_bytes and (excess := packet_excess(coded, self._packet_bytes)) > 1:
            smaller = Budget(0.95 * keys.bits / excess, exact=False)
            fewer = self._fitted(keys, smaller.bits, smaller)
            if fewer.bits >= keys.bits:
                raise ConfigError(packet_advice(self._packet_bytes))
            keys, coded = fewer, self._written(fewer, intervals)
        return keys, coded

    def _scaffold_bits(self, keys: _Keys, intervals: Sequence[Interval]) -> int:
        """What the packets take beside key pictures."""
        empty = replace(keys, units=[b""] * len(keys.units))
        return sum(picture.bits for picture in self._written(empty, intervals))

    def _written(self, keys: _Keys, intervals: Sequence[Interval]) -> list[CodedPicture]:
        writer = GroupWriter(self._header, round(keys.plan.crf), keys.plan.eighths)
        units = iter(keys.units)
        coded: list[CodedPicture] = []
        for interval in intervals:
            unit = b"" if interval.place is Place.AFTER else next(units)
            payload = writer.write(interval, unit)
            coded.append(
                CodedPicture(interval.length, sum(interval.ticks), payload, is_intra=not coded)
            )
        return coded

    def _timed(
        self, coded: Sequence[CodedPicture], intervals: Sequence[Interval]
    ) -> list[tuple[float, int]]:
        """The time of each packet, when its last frame is shown, in seconds, and its bits."""
        ends = accumulate(sum(interval.ticks) for interval in intervals)
        return [
            ((self._clock + end) * self._tick, picture.bits)
            for end, picture in zip(ends, coded, strict=True)
        ]
