"""The keyframes of a group: coded, brought to a goal in bits, decoded, with texture and guides.

Each probe of the search codes its own with a fast preset (`probes.py`). Those of the chosen plan
are coded here with the preset's own settings (`encode_keyframes`), and again until they take what
the scaffold is likely to leave of the budget (`fit_quantizer`). Then texture gains and guides are
chosen. The packer codes them again where the scaffold or a limit leaves less; the scaffold stays,
for the decoder corrects for it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream import group, scaffold
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.guide import MIXTURES
from gsvc.codec.bitstream.layers.texture import MAX_GAIN, TEXTURE, Texture
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.decoders.keyframes import keyframe
from gsvc.decoders.keyframes.restorer.runtime import RestorerNetwork
from gsvc.encoders import frame_buffer, plans, svt_av1, tuning
from gsvc.encoders.config import CodingConfig
from gsvc.encoders.distortion import Reference, block_sums, local_mean, log_energy, quarter, sampled

Openings = Mapping[int, int | None]
"""Numbers of the intervals that open a shot, with its slot, None for a group's first."""


def encode_keyframes(
    plan: plans.GroupPlan, prepared: Sequence[Picture], config: CodingConfig, openings: Openings
) -> "Keyframes":
    """Code the pictures of a plan, which takes most of the time; arguments as of `Keyframes`."""
    units = svt_av1.encode_pictures(
        prepared,
        size=config.header.geometry.coded_size(plan.scale),
        crf=plan.crf,
        color=config.header.format.color,
        preset=config.effort.preset_of(plan.keys),
        visual=config.tune.visual,
        companded=plan.companded,
        threads=1 if config.low_memory else 2,
    )
    bits = group.picture_bits(units, plan.crf)
    return Keyframes(plan, prepared, config, openings, units, bits)


@dataclass(eq=False)
class Keyframes:
    """The coded pictures that a group pays for."""

    plan: plans.GroupPlan
    """Without the next group's coded picture."""
    prepared: Sequence[Picture]
    """The pictures to code, RGB uint8 (H, W, 3)."""
    config: CodingConfig
    openings: Openings
    units: list[bytes]
    """Their temporal units."""
    bits: float
    """Bits of the units in packets, without framing."""
    textures: Sequence[Texture | None] = ()
    """What is raised in each when it is shown."""
    guides: Sequence[int | None] = ()
    """How each is to be restored."""
    _decoded: Sequence[Picture] | None = field(default=None, init=False)

    def recode(self, *, crf: float, scale: int | None = None) -> "Keyframes":
        """Code them again at another quantiser and size."""
        plan = replace(self.plan, crf=crf, scale=scale or self.plan.scale)
        again = encode_keyframes(plan, self.prepared, self.config, self.openings)
        return replace(again, textures=self.textures, guides=self.guides)

    def decode(self) -> Sequence[Picture]:
        """The keyframes before texture is raised; decoded at the first call and kept."""
        if self._decoded is None:
            header, low_memory = self.config.header, self.config.low_memory
            given = self.units, header.geometry, self.plan.scale, header.format.color
            self._decoded = frame_buffer.FrameBuffer(
                keyframe.decode_keyframes(*given, companded=self.plan.companded),
                low_memory=low_memory,
            )
        return self._decoded

    def choose_textures(
        self,
        references: Sequence[Callable[[], Reference]],
        frames: int,
        lmbda: float,
        pool: Executor,
    ) -> None:
        """Choose what is raised in each, for a group of `frames` frames; later codings keep it.

        `references`: give the pictures to compare with.
        """
        if TEXTURE.name not in self.config.header.tools:
            self.textures = [None] * len(self.units)
            return
        each, block = max(1.0, frames / len(self.units)), self.config.level.texture_log2
        decoded = self.decode()

        def choose(number: int) -> Texture | None:
            given = references[number](), decoded[number]
            return choose_texture(*given, block_log2=block, frames=each, lmbda=lmbda)

        self.textures = list(pool.map(choose, range(len(decoded))))

    def choose_guides(
        self,
        references: Sequence[Callable[[], Reference]],
        sources: Iterable[Picture],
        frames: int,
        lmbda: float,
        restorer: RestorerNetwork,
        pool: Executor,
    ) -> None:
        """Choose how each is to be restored, for a group of `frames` frames; after the textures.

        `sources`: what the references were made of, taken one at a time. Tries some pictures,
        samples of large ones; the others copy the guide of the last one tried.
        """
        each, guides = max(1.0, frames / len(self.units)), list[int | None]()
        weight = self.config.level.guide_structure_weight
        step = max(1.0, len(references) / self.config.effort.guides_of(frames))
        for number, (reference, source) in enumerate(zip(references, sources, strict=True)):
            if guides and int(number / step) == int((number - 1) / step):
                guides.append(guides[-1])
                continue
            decoded, texture = self.decode()[number], self.textures[number]
            key = keyframe.Keyframe.of(
                decoded, texture, self.plan.crf, self.plan.scale, keyframe.temporal_layer(number)
            )
            key = replace(key, picture=sampled(key.picture), gain=sampled(key.gain))
            distortion = partial(
                _restored_distortion,
                reference().sampled(source),
                weight,
                gray(key.picture),
                restorer.restorations(key).drawn_luma(len(MIXTURES[0])),
            )
            stand_for = each * decoded.size / key.picture.size
            costs = [
                stand_for * error + lmbda * (_GUIDE_BITS if guides[-1:] != [guide] else 0)
                for guide, error in enumerate(pool.map(distortion, MIXTURES))
            ]
            guides.append(costs.index(min(costs)))
        self.guides = guides

    def are_faded(self) -> bool:
        """Whether little of the source's colour is left in them."""
        step = math.ceil(len(self.units) / _LOOKED_AT)
        given = self.prepared[::step], self.decode()[::step]
        own, kept = (np.stack(list(map(_chroma, pictures))) for pictures in given)
        energy = float((own**2).mean())
        return energy > _PALE**2 and float((own * kept).mean()) < _FADED * energy

    def textured(self, number: int) -> Picture:
        """One of them with its texture raised."""
        return keyframe.raise_texture(self.decode()[number], self.textures[number])[0]


_LOOKED_AT = 8  # pictures of a group at most
_PALE, _FADED = 1.5, 0.5
"""Chroma, root mean square, from which on a video has colour; and the share of it, at the least,
that is to be left. By eye: at level 0 streets were grey, which CVVDP hardly minds."""


def _chroma(picture: Picture) -> NDArray[np.float32]:
    """Chroma of an RGB picture at an eighth of its size, at least one pixel, around 0."""
    share = 1 / min(8, *picture.shape[:2])
    small = cv2.resize(picture, None, fx=share, fy=share, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2YCrCb)[..., 1:], np.float32) - 128


_LEAST_CRF = 10.0
_CLOSE = 0.015
"""Logarithm of the bits by which the goal may be missed; under a limit four times that."""
_FAR = 0.03
_ROUNDS = 6
_STEP = 0.25  # step of the quantiser: SVT-AV1 knows quarters


def fit_quantizer(keys: Keyframes, goal: float, *, exact: bool) -> Keyframes:
    """Coded pictures that take `goal` bits or, unless `exact`, at most so many, or the smallest:
    the quantiser is moved first, then the size."""
    if not exact and keys.bits <= goal:
        return keys
    rank = partial(_rank, goal=goal, exact=exact)
    best = max(_walk(keys, goal, exact), key=rank)
    # Of few pictures a step of the quantiser can take a tenth: another size has other steps.
    other = best.plan.scale - 1
    is_off = abs(math.log(best.bits / max(goal, 1.0))) > _FAR
    if not (exact and is_off and best.config.can_scale(other)):
        return best
    finer = best.recode(crf=max(_LEAST_CRF, best.plan.crf - 2), scale=other)
    return max(best, *_walk(finer, goal, exact), key=rank)


def _walk(keys: Keyframes, goal: float, exact: bool) -> Iterator[Keyframes]:
    """`keys`, and others nearer and nearer to the goal: the quantiser is moved, then the size."""
    yield keys
    misses: dict[float, float] = {}
    for _ in range(_ROUNDS):
        plan, miss = keys.plan, math.log(keys.bits / max(goal, 1.0))
        if abs(miss) < _CLOSE if exact else -4 * _CLOSE < miss <= 0:
            return
        if miss > 0 and plan.crf >= svt_av1.MAX_CRF:
            if not keys.config.can_scale(plan.scale - 2):
                return
            keys, misses = keys.recode(crf=64.0, scale=plan.scale - 2), {}
        else:
            misses[plan.crf] = miss if exact else miss + 2 * _CLOSE
            crf = _next_crf(misses)
            if crf is None:
                return
            keys = keys.recode(crf=crf)
        yield keys


def _rank(keys: Keyframes, goal: float, exact: bool) -> tuple[bool, float]:
    """Higher where the bits are nearer to the goal."""
    bits, fits = keys.bits, keys.bits <= goal
    if not exact:
        return fits, bits if fits else -bits
    return True, -abs(math.log(bits / goal)) if goal > 0 else -bits


def _next_crf(misses: Mapping[float, float]) -> float | None:
    """The quantiser to try after some that missed the goal by so much; None where none is left."""
    low = max((crf for crf, miss in misses.items() if miss > 0), default=None)
    high = min((crf for crf, miss in misses.items() if miss <= 0), default=None)
    usual = tuning.log_bits_of_crf
    near, *others = sorted(misses, key=lambda crf: abs(misses[crf]))
    slope = (misses[others[0]] - misses[near]) / (usual(others[0]) - usual(near)) if others else 1
    guess = tuning.crf_of_log_bits(usual(near) - misses[near] / min(max(slope, 0.5), 2.0))
    first = _LEAST_CRF if low is None else low + _STEP
    last = float(svt_av1.MAX_CRF) if high is None else high - _STEP
    return min(max(_STEP * round(guess / _STEP), first), last) if first <= last else None


_GAINS = range(MAX_GAIN + 1)
_BITS = [[0.7 if gain == guess else 2.0 + abs(gain - guess) for gain in _GAINS] for guess in _GAINS]
"""Approximate bits of a gain, by the guess and the gain."""


def choose_texture(
    source: Reference, decoded: Picture, block_log2: int, frames: float, lmbda: float
) -> Texture | None:
    """The gains with the least D + lambda R on blocks of 2^block_log2 cells; None if none pays.

    `source`: of a coded picture; `decoded`: the picture as it comes out, RGB uint8 (H, W, 3);
    `frames`: how many frames are drawn from it; `lmbda`: the distortion, summed over pixels and
    frames, that a bit must save.
    """
    lmbda *= tuning.TEXTURE_LMBDA
    height, width = decoded.shape[:2]
    geometry = scaffold.Geometry(width, height)
    maps = _distortions(source, gray(decoded), geometry.cell)
    costs = frames * np.stack([block_sums(each, geometry, block_log2) for each in maps])
    gains = np.zeros(costs.shape[1:], np.uint8)
    # Each block depends on those before it; plain numbers are much faster than small arrays.
    offered = np.moveaxis(costs, 0, -1).tolist()
    paid = saved = 0.0
    for row, column in np.ndindex(*gains.shape):
        block, bits = offered[row][column], _BITS[_guess(gains, row, column)]
        totals = [cost + lmbda * spent for cost, spent in zip(block, bits, strict=True)]
        chosen = totals.index(min(totals))
        gains[row, column] = chosen
        paid += bits[chosen]
        saved += block[0] - block[chosen]
    return Texture(block_log2, gains) if saved > lmbda * paid else None


def _guess(gains: NDArray[np.uint8], row: int, column: int) -> int:
    """Mean of the gains left and above."""
    known = [int(gains[row, column - 1])] if column else []
    known += [int(gains[row - 1, column])] if row else []
    return round(sum(known) / len(known)) if known else 0


def _distortions(source: Reference, luma: Picture, cell: int) -> list[NDArray[np.float32]]:
    """The distortion map under each gain. Detail is added linearly, so the energy of gradients
    under a gain is a quadratic in the gain."""
    plain = luma.astype(np.float32)
    detail = keyframe.blur_detail(plain, cell)
    small, added = quarter(plain), quarter(detail)
    terms = []
    for axis in (1, 0), (0, 1):
        a, b = (cv2.Sobel(x, cv2.CV_32F, *axis) for x in (plain, detail))
        terms.append([local_mean(x * y) for x, y in ((a, a), (a, b), (b, b))])
    aa, ab, bb = np.stack(terms, axis=1)
    gains = np.float32(keyframe.STRENGTH) * np.array(_GAINS, np.float32)
    return [
        source.weighted(
            source.texture(log_energy(aa + 2 * g * ab + g * g * bb)),
            source.structure.misplaced(small + g * added),
        )
        for g in gains
    ]


_GUIDE_BITS = 4  # approximate bits of a guide that differs from the one before


def _restored_distortion(
    reference: Reference,
    structure_weight: float,
    luma: Picture,
    drawn: NDArray[np.float32],
    weights: Sequence[float],
) -> float:
    """Distortion of a mixture. Structure weighs more here: the restorer invents texture."""
    mixture = np.tensordot(np.asarray(weights, np.float32), drawn, 1)
    restored = np.asarray(cv2.add(luma, mixture, dtype=cv2.CV_8U), np.uint8)
    texture, misplaced = reference.totals(restored)
    return texture + structure_weight * misplaced
