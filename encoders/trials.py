"""Trials of plans: key pictures really coded, with a fast preset, and decoded; frames really drawn.

The other frames are drawn about as the decoder draws them without a scaffold. D is measured on a
few frames, spread so that no spacing of key pictures can hide behind them.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.camera import CAMERA
from gsvc.decoders.motion.estimation import gray
from gsvc.decoders.pictures import decode_pictures
from gsvc.encoders.distortion import Reference, quarter
from gsvc.encoders.drawing import Drawer, Parts, TrialRenderer
from gsvc.encoders.emphasis import emphasised
from gsvc.encoders.group_coder import FRAMING_BITS, Recipe
from gsvc.encoders.layers.camera import CameraPath
from gsvc.encoders.pictures import Planes, encode_planes, planes_of
from gsvc.encoders.plan import Drawing, Plan, PlannedInterval, Trial, planned_intervals
from gsvc.encoders.tuning import EMPHASIS_CRFS, TRIAL_PRESET

_JUDGED = 3
"""Key pictures whose own distortion is measured, at least, where there are so many."""
_GOLDEN = 0.6180339887


class Trials:
    """Makes trials over one group, each once."""

    def __init__(
        self, pictures: Sequence[Picture], recipe: Recipe, pool: Executor, *, open_ended: bool
    ) -> None:
        """`pictures`: of the group, RGB uint8 (H, W, 3); `pool`: runs trials side by side;
        `open_ended`: the last picture is the next group's first and not paid for here."""
        self._pictures, self._pool, self._open_ended = pictures, pool, open_ended
        self._geometry, self._color = recipe.header.geometry, recipe.header.format.color
        self._planes: dict[tuple[int, int], Planes] = {}
        self._references: dict[int, Reference] = {}
        self._made: dict[Plan, Trial] = {}
        count = recipe.effort.samples_of(len(pictures))
        spread = {int(len(pictures) * ((k + 0.5) * _GOLDEN % 1)) for k in range(count)}
        self._samples = {i: self.reference(i) for i in sorted(spread)}
        self.thumbnails = [quarter(gray(picture)) for picture in pictures]
        """Luma of every frame at a quarter of the size."""
        path = CameraPath(pictures, pool) if CAMERA.name in recipe.header.tools else None
        self._drawer = Drawer(self.thumbnails, self._samples, self.reference, path)

    def of(self, lmbda: float, plans: Sequence[Plan]) -> list[Trial]:
        """Trials of `plans`, new ones side by side; each is the same however many run at once.

        A trial that was made at another lambda keeps the camera's paths that paid then.
        """
        new = [plan for plan in dict.fromkeys(plans) if plan not in self._made]
        made = self._pool.map(lambda plan: self._try(plan, lmbda), new)
        self._made.update(zip(new, made, strict=True))
        return [self._made[plan] for plan in plans]

    def one(self, lmbda: float, plan: Plan) -> Trial:
        """The trial of a plan."""
        return self.of(lmbda, [plan])[0]

    def reference(self, index: int) -> Reference:
        """A frame to compare with, made once."""
        if index not in self._references:
            self._references[index] = Reference(self._pictures[index])
        return self._references[index]

    def own_keys(self, plan: Plan) -> tuple[int, ...]:
        """Its key pictures but for the next group's."""
        return plan.keys[:-1] if self._open_ended else plan.keys

    def emphasised(self, trial: Trial) -> list[Picture]:
        """The trial's own key pictures as they are to be coded: what they lacked raised (see
        `gsvc.encoders.emphasis`)."""
        keys = self.own_keys(trial.plan)
        sources = [self._pictures[k] for k in keys]
        if trial.plan.crf >= EMPHASIS_CRFS[1]:
            return sources  # Nothing would be raised.
        references = [self.reference(k) for k in keys]
        # Decoded once more: pictures of all trials would take much memory, their units take none.
        decoded = self._decoded(trial.plan, trial.units[: len(keys)])
        raised = partial(emphasised, crf=trial.plan.crf)
        return list(self._pool.map(raised, sources, references, decoded))

    def mean_texture(self, trial: Trial) -> float:
        """Its distortion in texture per pixel and frame."""
        height, width = self._pictures[0].shape[:2]
        return trial.texture / float(height * width * len(self._pictures))

    def _try(self, plan: Plan, lmbda: float) -> Trial:
        units = self._coded(plan)
        decoded = dict(zip(plan.keys, self._decoded(plan, units), strict=True))
        own, last = len(self.own_keys(plan)), len(self._pictures) - 1
        bits: float = sum(8 * len(unit) + FRAMING_BITS for unit in units[:own])
        parts = [self._samples[k].totals(decoded[k]) for k in plan.keys if k in self._samples]
        drawings: dict[PlannedInterval, Drawing] = {}
        for planned in planned_intervals(plan.keys, last):
            renderer = TrialRenderer(planned, decoded)
            drawings[planned], found, path_bits = self._drawer.choose(renderer, lmbda)
            parts += found
            bits += path_bits
        bits += FRAMING_BITS * (plan.keys[-1] < last)
        texture, misplaced = self._totals(parts)
        total = texture + misplaced
        own_part = self._own_distortion(decoded) * len(self._pictures)
        share = 1 - own_part / total if total else 0.0
        return Trial(plan, units, bits, texture, total, drawings, share)

    def _totals(self, parts: Parts) -> tuple[float, float]:
        """Both parts of the group's distortion, from those of the samples."""
        frames = len(self._pictures) / len(self._samples)
        texture, misplaced = (frames * sum(one) for one in zip(*parts, strict=True))
        return texture, misplaced

    def _coded(self, plan: Plan) -> list[bytes]:
        return encode_planes(
            [self._planes_of(k, plan.scale) for k in plan.keys],
            size=self._geometry.coded_size(plan.scale),
            crf=plan.crf,
            color=self._color,
            preset=TRIAL_PRESET,
            threads=1,
        )

    def _planes_of(self, index: int, scale: int) -> Planes:
        """A frame as it is coded, made once."""
        if (index, scale) not in self._planes:
            size = self._geometry.coded_size(scale)
            self._planes[index, scale] = planes_of(self._pictures[index], size, self._color)
        return self._planes[index, scale]

    def _decoded(self, plan: Plan, units: Sequence[bytes]) -> list[Picture]:
        """Luma of the plan's first key pictures, as they come out."""
        return list(map(gray, decode_pictures(units, self._geometry, plan.scale, self._color)))

    def _own_distortion(self, decoded: Mapping[int, Picture]) -> float:
        """Mean distortion of a few of the key pictures."""
        seen = list(decoded)[:: -(-len(decoded) // _JUDGED)]
        return sum(self.reference(k).total(decoded[k]) for k in seen) / len(seen)
