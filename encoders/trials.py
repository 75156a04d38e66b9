"""Trials of plans: key pictures really coded, with a fast preset, and decoded; frames really drawn.

The other frames are drawn about as the decoder draws them without a scaffold. D is measured on a
few frames, spread so that no spacing of key pictures can hide behind them.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import cache, partial
from statistics import fmean

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.camera import CAMERA
from gsvc.codec.stream.group import picture_bits
from gsvc.decoders.motion.estimation import gray
from gsvc.decoders.pictures import decode_pictures
from gsvc.encoders.distortion import Judge, quarter
from gsvc.encoders.drawing import Drawer
from gsvc.encoders.emphasis import emphasised
from gsvc.encoders.freed import release_freed_memory
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.layers.camera import CameraPath
from gsvc.encoders.pictures import Planes, encode_planes, planes_of
from gsvc.encoders.plan import Drawing, Plan, PlannedInterval, Trial, planned_intervals
from gsvc.encoders.tuning import EMPHASIS_CRFS, TRIAL_PRESET, TRIAL_PRESET_AT_RATE

_GOLDEN = 0.6180339887


class Trials:
    """Makes trials over one group, each once."""

    def __init__(
        self,
        pictures: Sequence[Picture],
        recipe: Recipe,
        judge: Judge,
        pool: Executor,
        *,
        open_ended: bool,
    ) -> None:
        """`pictures`: of the group, RGB uint8 (H, W, 3); `pool`: runs trials side by side;
        `open_ended`: the last picture is the next group's first and not paid for here."""
        self._pictures, self._pool, self._open_ended = pictures, pool, open_ended
        self._geometry, self._color = recipe.header.geometry, recipe.header.format.color
        self._framing_bits, self._visual = recipe.framing_bits, recipe.tune.visual
        self._preset = TRIAL_PRESET_AT_RATE if recipe.exact else TRIAL_PRESET
        size, color = self._geometry.coded_size, self._color
        self._lean = recipe.lean

        def planes(key: int, scale: int) -> Planes:
            return planes_of(pictures[key], size(scale), color)

        self._planes = planes if recipe.lean else cache(planes)
        self.reference = cache(lambda index: judge.reference(pictures[index]))
        """Gives a frame to compare with."""
        self.made: dict[Plan, Trial] = {}
        """All trials so far."""
        count = recipe.effort.samples_of(len(pictures))
        spread = {int(len(pictures) * ((k + 0.5) * _GOLDEN % 1)) for k in range(count)}
        self._samples = {i: self.reference(i) for i in sorted(spread)}
        self._weight = fmean(one.weight for one in self._samples.values())
        self.thumbnails = [quarter(gray(picture)) for picture in pictures]
        """Luma of every frame at a quarter of the size."""
        path = CameraPath(pictures, pool) if CAMERA.name in recipe.header.tools else None
        self._drawer = Drawer(self.thumbnails, self._samples, self.reference, path)

    def make(self, lmbda: float, plans: Sequence[Plan]) -> None:
        """Make trials of the plans that have none, side by side.

        A trial is the same however many run at once. One that was made at another lambda keeps the
        camera's paths that paid then.
        """
        new = [plan for plan in dict.fromkeys(plans) if plan not in self.made]
        made = self._pool.map(lambda plan: self._try(plan, lmbda), new)
        self.made.update(zip(new, made, strict=True))

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

    def _try(self, plan: Plan, lmbda: float) -> Trial:
        units = encode_planes(
            [self._planes(key, plan.scale) for key in plan.keys],
            size=self._geometry.coded_size(plan.scale),
            crf=plan.crf,
            color=self._color,
            preset=self._preset,
            threads=1,
            visual=self._visual,
        )
        decoded = dict(zip(plan.keys, self._decoded(plan, units), strict=True))
        own, frames = len(self.own_keys(plan)), len(self._pictures)
        bits = picture_bits(units[:own])
        bits += self._framing_bits(frames, own, bits)
        parts = [self._samples[k].totals(decoded[k]) for k in plan.keys if k in self._samples]
        drawings: dict[PlannedInterval, Drawing] = {}
        for planned in planned_intervals(plan.keys, frames - 1):
            drawings[planned], found, path_bits = self._drawer.choose(planned, decoded, lmbda)
            parts += found
            bits += path_bits
        texture, misplaced = (
            frames / len(self._samples) * sum(p) for p in zip(*parts, strict=True)
        )
        pixels = float(self._geometry.width * self._geometry.height * frames)
        mean_texture = texture / (self._weight * pixels)
        if self._lean:
            release_freed_memory()
        return Trial(plan, units, bits, mean_texture, texture + misplaced, drawings)

    def _decoded(self, plan: Plan, units: Sequence[bytes]) -> list[Picture]:
        """Luma of the plan's first key pictures, as they come out."""
        return list(map(gray, decode_pictures(units, self._geometry, plan.scale, self._color)))
