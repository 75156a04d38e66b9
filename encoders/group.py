"""One group: the search, its key pictures, texture and scaffold, and the rate that they must come to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, islice

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import Picture, VideoFormat
from gsvc.codec.levels import Level
from gsvc.codec.payload import join_payload
from gsvc.codec.scaffold import Geometry, Interval, Texture
from gsvc.codec.scaffold_syntax import Prediction, Tools, code_interval, code_picture
from gsvc.codec.syntax import Writer
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.texture import raise_texture
from gsvc.encoders.distortion import distortion_of
from gsvc.encoders.effort import Effort
from gsvc.encoders.pictures import encode_pictures
from gsvc.encoders.rate import Budget, WindowCap, fit_pictures
from gsvc.encoders.scaffold import ScaffoldExtractor, Scene, Span
from gsvc.encoders.search import GroupSearch, Plan
from gsvc.encoders.texture import choose_gains

FRAMING_BYTES = 8
"""What a packet takes beside its payload: type, length, frames and CRC-32C, at most."""
_FRAMING_BITS = 8 * (FRAMING_BYTES + 1)
_PRICE_ROUNDS = 4
_USUAL_FRAMES = 100
_LEAST_TRIALS, _LEAST_SAMPLES = 5, 4
_QUALITY_ROUNDS = 6
_BOTH_WAYS = 6
"""Trials that see better and worse plans, rarer and closer key pictures."""
TEXTURE_PRICE = 3.0
"""A key picture's gain in texture reaches the frames drawn from it only in part."""


@dataclass(frozen=True)
class CodedPicture:
    """What goes into a picture packet: the number of frames that it completes, its payload, and whether it
    opens a group."""

    frames: int
    payload: bytes
    is_intra: bool

    @property
    def bits(self) -> int:
        """Size of the packet, framing included."""
        return 8 * (len(self.payload) + FRAMING_BYTES)


@dataclass(frozen=True)
class CodedGroup:
    """The pictures of a group, the first one intra, and what the next group goes on from."""

    pictures: Sequence[CodedPicture]
    scene: Scene


class GroupEncoder:
    """Encodes groups in order. Raises MissingModelError when made, if a scaffold tool's model is not here."""

    def __init__(
        self,
        level: Level,
        tools: Tools,
        video: VideoFormat,
        frame_ticks: Fraction,
        effort: Effort,
        *,
        semantics: bool = False,
        quality: float | None = None,
        cap: WindowCap | None = None,
    ) -> None:
        """`frame_ticks`: as in the header; `semantics`: send people and regions whether they pay or not;
        `quality`: ST-LPIPS to come to, in place of the level's price; `cap`: bits that any second may take."""
        self._level, self._tools, self._color = level, tools, video.color
        self._geometry = Geometry(video.width, video.height)
        self._frame_ticks, self._tick = frame_ticks, float(video.time_base)
        self._effort = effort
        self._extractor = ScaffoldExtractor(level, tools, self._geometry, effort.anchors)
        self._semantics = semantics
        self._quality, self._cap = quality, cap
        self._plan: Plan | None = None
        self._price = level.price
        self._scaffold_share = 0.1
        self._clock = 0
        self._trials = effort.trials

    def encode(
        self,
        pictures: Sequence[Picture],
        ticks: Sequence[int],
        scene: Scene | None,
        budget: Budget,
        *,
        open_ended: bool,
        longest: int,
    ) -> CodedGroup:
        """Encode a group.

        `ticks`: of every frame that is not sent yet, those of `scene.after` first; `open_ended`: the last
        picture opens the next group and is not sent; `longest`: most frames from one key picture to the next.
        Raises ConfigError when the cap cannot be kept.
        """
        self._trials = max(
            _LEAST_TRIALS, round(self._effort.trials * len(pictures) / _USUAL_FRAMES)
        )
        search = GroupSearch(
            pictures,
            self._color,
            open_ended=open_ended,
            samples=max(
                _LEAST_SAMPLES, round(self._effort.samples * len(pictures) / _USUAL_FRAMES)
            ),
            longest=longest,
        )
        self._plan = self._searched(search, budget)
        keys = self._plan.keys[:-1] if open_ended else self._plan.keys
        chosen = [pictures[k] for k in keys]
        goal = (1 - self._scaffold_share) * budget.bits - _FRAMING_BITS * len(keys)
        plan = replace(self._plan, keys=keys)
        units: Sequence[bytes] = self._coded(plan, chosen)
        plan, units = self._fit(plan, units, chosen, goal, budget)
        decoded = self._decode(plan, units)
        textures = self._textures(plan, chosen, decoded)
        shown = [raise_texture(p, t) for p, t in zip(decoded, textures, strict=True)]
        intervals = self._intervals(plan, pictures, ticks, scene, shown, textures)
        first = plan
        rest = sum(c.bits for c in self._written(plan, [b""] * len(keys), intervals))
        self._scaffold_share = 0.5 * (self._scaffold_share + min(0.5, rest / budget.bits))
        goal = budget.bits - rest
        plan, units = self._fit(plan, units, chosen, goal, budget)
        coded = self._written(plan, units, intervals)
        while self._cap and not self._cap.fits(self._timed(coded, intervals)):
            size = 8 * sum(map(len, units))
            smaller = Budget(0.85 * size, exact=False)
            plan, units = self._fit(plan, units, chosen, smaller.bits, smaller)
            if 8 * sum(map(len, units)) >= size:
                raise ConfigError(self._cap.advice)
            coded = self._written(plan, units, intervals)
        if self._cap:
            self._cap.add(self._timed(coded, intervals))
        self._clock += sum(sum(interval.ticks) for interval in intervals)
        if plan != first:
            shown[-1] = raise_texture(self._decode(plan, units)[-1], textures[-1])
        after = tuple(pictures[keys[-1] + 1 : -1]) if open_ended else ()
        return CodedGroup(coded, Scene(chosen[-1], shown[-1], after, intervals[-1].closing_sample))

    def _searched(self, search: GroupSearch, budget: Budget) -> Plan:
        """The best plan at the price that brings its pictures near the budget."""
        if self._quality is not None:
            return self._good_enough(search, self._quality)
        goal = budget.bits * (1 - self._scaffold_share)
        price = self._price if budget.exact else self._level.price
        plan = search.best(price, self._plan, self._trials)
        # A cap needs a walk to fewer bits only, which is tried first; a target may lie either way.
        again = max(_BOTH_WAYS, self._trials) if budget.exact else self._trials // 2
        for _ in range(_PRICE_ROUNDS):
            excess = (search.trial(plan).bits + _FRAMING_BITS * len(plan.keys)) / goal
            if excess < 1.15 and (excess > 0.85 or not budget.exact):
                break
            price *= min(4.0, max(0.25, excess))
            price = price if budget.exact else max(price, self._level.price)
            plan = search.best(price, plan, again)
        self._price = price
        return plan

    def _good_enough(self, search: GroupSearch, quality: float) -> Plan:
        """The best plan at the price that brings the rendering near `quality`."""
        goal = distortion_of(quality)
        price, plan = self._price, search.best(self._price, self._plan, self._trials)
        for _ in range(_QUALITY_ROUNDS):
            excess = search.mean_distortion(plan) / goal
            if 0.97 < excess < 1.03:
                break
            price /= min(8.0, max(0.125, excess**4))
            plan = search.best(price, plan, max(_BOTH_WAYS, self._trials))
        self._price = price
        return plan

    def _fit(
        self,
        plan: Plan,
        units: Sequence[bytes],
        chosen: Sequence[Picture],
        goal: float,
        budget: Budget,
    ) -> tuple[Plan, Sequence[bytes]]:
        return fit_pictures(
            plan,
            units,
            goal,
            lambda trial: self._coded(trial, chosen),
            exact=budget.exact,
            geometry=self._geometry,
        )

    def _coded(self, plan: Plan, chosen: Sequence[Picture]) -> list[bytes]:
        return encode_pictures(
            chosen,
            size=self._geometry.coded_size(plan.eighths),
            crf=plan.crf,
            color=self._color,
            preset=self._effort.svt,
        )

    def _decode(self, plan: Plan, units: Sequence[bytes]) -> list[Picture]:
        size = self._geometry.coded_size(plan.eighths)
        decoder = PictureDecoder((self._geometry.width, self._geometry.height), self._color)
        return [decoder.decode(unit, size) for unit in units]

    def _textures(
        self, plan: Plan, chosen: Sequence[Picture], decoded: Sequence[Picture]
    ) -> list[Texture | None]:
        if not self._tools.texture:
            return [None] * len(decoded)
        frames = max(1.0, plan.keys[-1] / max(1, len(plan.keys) - 1))
        block, price = self._level.texture_log2, TEXTURE_PRICE * self._price
        gains = [
            choose_gains(source, picture, block, frames, price)
            for source, picture in zip(chosen, decoded, strict=True)
        ]
        return [None if g is None else Texture(block, g) for g in gains]

    def _intervals(
        self,
        plan: Plan,
        pictures: Sequence[Picture],
        ticks: Sequence[int],
        scene: Scene | None,
        shown: Sequence[Picture],
        textures: Sequence[Texture | None],
    ) -> list[Interval]:
        waiting = [] if scene is None else list(scene.after)
        spans, start = [], 0
        for key, picture in zip(plan.keys, shown, strict=True):
            spans.append(Span((*waiting, *pictures[start : key + 1]), picture))
            waiting, start = [], key + 1

        def scaffold(*, watching: bool) -> list[Interval]:
            found = self._extractor.extract_group(spans, scene, self._price, watching=watching)
            times = iter(ticks)
            return [
                Interval(tuple(islice(times, len(span.sources))), samples, texture)
                for span, samples, texture in zip(spans, found, textures, strict=True)
            ]

        watched = scaffold(watching=True)
        if self._semantics or not (self._tools.segmentation or self._tools.pose):
            return watched
        plain = scaffold(watching=False)

        def cost(intervals: Sequence[Interval]) -> float:
            coded = self._written(plan, [b""] * len(spans), intervals)
            drawn = self._extractor.distortion(spans, scene, intervals)
            return drawn + self._price * sum(picture.bits for picture in coded)

        return min(plain, watched, key=cost)

    def _written(
        self, plan: Plan, units: Sequence[bytes], intervals: Sequence[Interval]
    ) -> list[CodedPicture]:
        writer, prediction = Writer(), Prediction(self._frame_ticks)
        code_picture(writer, round(plan.crf), plan.eighths)
        coded: list[CodedPicture] = []
        for interval, unit in zip(intervals, units, strict=True):
            code_interval(
                writer, prediction, self._geometry, self._tools, interval.length, interval
            )
            payload = join_payload(writer.finish(), unit)
            coded.append(CodedPicture(interval.length, payload, is_intra=not coded))
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
