"""One group: the search, its key pictures, texture and scaffold, and the rate that they must come to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gsvc.codec.frames import Picture, VideoFormat
from gsvc.codec.levels import Level
from gsvc.codec.scaffold import Geometry, Interval, Sample, Texture
from gsvc.codec.scaffold_syntax import Prediction, Tools, code_interval, code_picture
from gsvc.codec.syntax import Coder
from gsvc.decoders.pictures import PictureDecoder
from gsvc.decoders.texture import raise_texture
from gsvc.encoders.effort import Effort
from gsvc.encoders.pictures import encode_pictures
from gsvc.encoders.rate import Budget, fit_pictures
from gsvc.encoders.scaffold import ScaffoldExtractor
from gsvc.encoders.search import GroupSearch, Plan
from gsvc.encoders.texture import choose_gains

_PACKET_BITS = 72
"""What a packet's framing and the rounding of its entropy coder take, about."""
_PRICE_ROUNDS = 4
_TEXTURE_PRICE = 3.0
"""A key picture's gain in texture reaches the frames drawn from it only in part."""


@dataclass(frozen=True)
class Scene:
    """What goes on from one group to the next: the last key picture as it was and as shown, the frames after
    it that are not sent yet, and the sample on it."""

    source: Picture
    shown: Picture
    after: tuple[Picture, ...]
    closing: Sample | None


@dataclass(frozen=True)
class CodedGroup:
    """`plan`: what was chosen; `units`: an AV1 temporal unit a key picture; `intervals`: the scaffold up to each
    of them; `scene`: for the next group."""

    plan: Plan
    units: Sequence[bytes]
    intervals: Sequence[Interval]
    scene: Scene


class GroupEncoder:
    """Encodes groups in order. Raises MissingModelError when made, if a scaffold tool's model is not here."""

    def __init__(
        self,
        level: Level,
        tools: Tools,
        format: VideoFormat,
        frame_ticks: Fraction,
        effort: Effort,
        *,
        semantics: bool,
    ) -> None:
        """`frame_ticks`: as in the header; `semantics`: send people and regions whether they pay or not."""
        self._level, self._tools, self._color = level, tools, format.color
        self._geometry = geometry = Geometry(format.width, format.height)
        self._frame_ticks = frame_ticks
        self._effort = effort
        self._extractor = ScaffoldExtractor(level, tools, geometry, effort.anchors, semantics)
        self._plan: Plan | None = None
        self._price = level.price
        self._scaffold_share = 0.1

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
        """
        search = GroupSearch(
            pictures,
            self._color,
            open_ended=open_ended,
            samples=self._effort.samples,
            longest=longest,
        )
        self._plan = self._searched(search, budget)
        keys = self._plan.keys[:-1] if open_ended else self._plan.keys
        chosen = [pictures[k] for k in keys]
        goal = (1 - self._scaffold_share) * budget.bits - _PACKET_BITS * len(keys)
        plan, units = self._fit(replace(self._plan, keys=keys), chosen, goal, budget)
        shown, textures = self._raised(plan, units, chosen)
        intervals = self._intervals(plan, pictures, ticks, scene, shown, textures)
        rest = self._scaffold_bits(plan, intervals) + _PACKET_BITS * len(keys)
        self._scaffold_share = 0.5 * (self._scaffold_share + min(0.5, rest / budget.bits))
        coded = plan
        plan, units = self._fit(plan, chosen, budget.bits - rest, budget)
        if plan != coded:
            decoded = self._decode(plan, units)
            shown = [raise_texture(p, t) for p, t in zip(decoded, textures, strict=True)]
        after = pictures[keys[-1] + 1 : -1] if open_ended else ()
        closing = intervals[-1].closing_sample
        return CodedGroup(
            plan, units, intervals, Scene(chosen[-1], shown[-1], tuple(after), closing)
        )

    def _searched(self, search: GroupSearch, budget: Budget) -> Plan:
        """The best plan at the price that brings its pictures near the budget."""
        goal = budget.bits * (1 - self._scaffold_share)
        price = self._price if budget.exact else self._level.price
        plan = search.best(price, self._plan, self._effort.trials)
        for _ in range(_PRICE_ROUNDS):
            excess = (search.trial(plan).bits + _PACKET_BITS * len(plan.keys)) / goal
            if excess < 1.15 and (excess > 0.85 or not budget.exact):
                break
            price *= min(4.0, max(0.25, excess))
            price = price if budget.exact else max(price, self._level.price)
            plan = search.best(price, plan, self._effort.trials)
        self._price = price
        return plan

    def _fit(
        self, plan: Plan, chosen: Sequence[Picture], goal: float, budget: Budget
    ) -> tuple[Plan, Sequence[bytes]]:
        def code(trial: Plan) -> list[bytes]:
            return encode_pictures(
                chosen,
                size=self._geometry.coded_size(trial.eighths),
                crf=trial.crf,
                color=self._color,
                preset=self._effort.svt,
            )

        return fit_pictures(plan, goal, code, exact=budget.exact, geometry=self._geometry)

    def _decode(self, plan: Plan, units: Sequence[bytes]) -> list[Picture]:
        size = self._geometry.coded_size(plan.eighths)
        decoder = PictureDecoder((self._geometry.width, self._geometry.height), self._color)
        return [decoder.decode(unit, size) for unit in units]

    def _raised(
        self, plan: Plan, units: Sequence[bytes], chosen: Sequence[Picture]
    ) -> tuple[list[Picture], list[Texture | None]]:
        """The key pictures as shown, and the texture gains that make them so."""
        decoded = self._decode(plan, units)
        if not self._tools.texture:
            return decoded, [None] * len(decoded)
        frames = max(1.0, plan.keys[-1] / max(1, len(plan.keys) - 1))
        block = self._level.texture_log2
        textures: list[Texture | None] = []
        for source, picture in zip(chosen, decoded, strict=True):
            gains = choose_gains(source, picture, block, frames, _TEXTURE_PRICE * self._price)
            textures.append(None if gains is None else Texture(block, gains))
        return [raise_texture(p, t) for p, t in zip(decoded, textures, strict=True)], textures

    def _intervals(
        self,
        plan: Plan,
        pictures: Sequence[Picture],
        ticks: Sequence[int],
        scene: Scene | None,
        shown: Sequence[Picture],
        textures: Sequence[Texture | None],
    ) -> list[Interval]:
        intervals: list[Interval] = []
        start = first = 0
        for key, picture, texture in zip(plan.keys, shown, textures, strict=True):
            sources = list(pictures[start : key + 1])
            if scene is None:
                samples = self._extractor.begin_scene(sources[0])
            else:
                sources = [*scene.after, *sources]
                samples = self._extractor.extract(
                    [scene.source, *sources],
                    scene.shown,
                    picture,
                    scene.closing,
                    plan.crf,
                    self._price,
                )
            intervals.append(Interval(tuple(ticks[first : first + len(sources)]), samples, texture))
            start, first = key + 1, first + len(sources)
            scene = Scene(sources[-1], picture, (), intervals[-1].closing_sample)
        return intervals

    def _scaffold_bits(self, plan: Plan, intervals: Sequence[Interval]) -> float:
        coder, prediction = Coder(), Prediction(self._frame_ticks)
        code_picture(coder, round(plan.crf), plan.eighths)
        for interval in intervals:
            code_interval(
                coder, prediction, self._geometry, self._tools, interval.length, interval
            )
        return sum(coder.bits.values())
