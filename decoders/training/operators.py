"""The operators: a source is surveyed; a clip is read, degraded, looked at and filed.

Beside a sample, masks, poses, faces and flow of the source may be extracted.
"""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from zlib import crc32

import cv2
import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from gsvc.codec.bitstream.frames import Picture
from gsvc.decoders.detection.people import PoseEstimator
from gsvc.decoders.interpolation.optical_flow import dense_flow, gray
from gsvc.decoders.training import pipeline, sources
from gsvc.decoders.training.crops import KINDS, Corner, StreamCoding, coded_stream
from gsvc.decoders.training.samples import LOSSLESS, Sample, picture_bytes, sample_files
from gsvc.decoders.training.sources import Settings
from gsvc.encoders.face_landmarks import FaceMesh
from gsvc.encoders.scaffold.segmentation_extractor import PersonSegmenter

FLOW_STRIDE = 4
"""Pixels from one vector to the next."""
_CERTAIN = 255


def _masks(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """Probability of people, 0 to 255, (H, W)."""
    return np.rint(_CERTAIN * _segmenter()(frames[number]))


def _flow(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """To the next frame, of the last one from the one before, in pixels, (H, W, 2)."""
    first = min(number, len(frames) - 2)
    return dense_flow(gray(frames[first]), gray(frames[first + 1]))


def _pose(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """Of each person 33 points: x, y, visibility, (n, 33, 3)."""
    found = _poses()(frames[number])
    rows = [np.column_stack([each.points, each.visibility]) for each in found]
    return np.array(rows, np.float32).reshape(-1, 33, 3)


def _face_points(frames: Sequence[Picture], number: int) -> NDArray[np.float32]:
    """Of each face 468 points: x, y, (n, 468, 2)."""
    picture = frames[number]
    found = [_faces().points(picture, square) for square in _faces().squares(picture)]
    return np.array([x for x in found if x is not None], np.float32).reshape(-1, 468, 2)


EXTRACTED: dict[str, Callable[[Sequence[Picture], int], NDArray[np.float32]]] = {
    "masks": _masks,
    "pose": _pose,
    "faces": _face_points,
    "flow": _flow,
}

_segmenter, _poses, _faces = cache(PersonSegmenter), cache(PoseEstimator), cache(FaceMesh)


def survey(settings: Settings) -> pipeline.Operator:
    """Looks through a source: its hash, its clips, their measures."""
    resources = pipeline.Resources(memory=500_000_000, seconds=3600.0)
    return pipeline.Operator("survey", partial(_survey, settings), resources)


def clip_operators(settings: Settings) -> list[pipeline.Operator]:
    """What clips pass, in order."""
    looks = [
        pipeline.Operator(name, partial(_extract, settings, name))
        for name in EXTRACTED
        if name in settings.extract
    ]
    file = pipeline.Operator("file", partial(_file, settings))
    read, degrade, release, *networks = training_operators(settings)
    return [read, degrade, *looks, release, *networks, file]


def training_operators(settings: Settings) -> list[pipeline.Operator]:
    """What clips pass whose samples are trained on at once, not filed."""
    read = pipeline.Operator("read", partial(_read, settings))
    degrade = pipeline.Operator("degrade", partial(_degrade, settings))
    release = pipeline.Operator("_release", _release)
    operators = [read, degrade, release]
    if "drawings" in settings.extract:
        from gsvc.decoders.training.networks import draw  # it needs torch

        resources = pipeline.Resources(device_memory=1_000_000_000)
        operators.append(pipeline.Operator("drawings", partial(draw, settings), resources))
    return operators


def _survey(settings: Settings, item: pipeline.SourceItem) -> None:
    """Raises InputError for a source that is damaged anywhere: none of it is taken."""
    cv2.setNumThreads(1)
    item.sha256, item.bytes = sources.sha256_at(item.address)
    rate = sources.frame_rate(item.address)
    for number, pts, frames in sources.scenes(item.address, settings.lines, settings.frames):
        clip = sources.Clip(item.address, item.sha256, number, pts, rate)
        item.found.append(sources.Found(clip, sources.measures(frames), sources.clip_hash(frames)))
    every = max(1, math.ceil(len(item.found) / settings.most_clips))
    item.found = item.found[::every]


def _read(settings: Settings, item: pipeline.ClipItem) -> None:
    """Read a clip's frames. Raises InputError where they are not what the survey saw."""
    assert item.clip is not None
    item.frames = sources.read_clip(item.clip, settings.lines, settings.frames)


def _degrade(settings: Settings, item: pipeline.ClipItem) -> None:
    """Encode the clip with every lambda, or the item's, and cut samples, drawn by its key."""
    cv2.setNumThreads(1)
    assert item.clip is not None
    kind, rate = KINDS[settings.kind], max(1, round(item.clip.rate))
    for number in item.lambdas or range(len(settings.lambdas)):
        lmbda = settings.lambdas[number]
        coding = StreamCoding(len(item.frames), lmbda, settings.preset, rate, flow=True)
        run = coded_stream(item.frames, coding)
        rng = default_rng((settings.seed, crc32(item.clip.key.encode()), number))
        for row, sample in enumerate(kind.samples(run, kind.side, rng)):
            key = f"{item.clip.key}-{f'{lmbda:g}'.replace('.', 'p')}-{row}"
            facts = {"lambda": lmbda, **sample.numbers}
            item.crops.append(pipeline.Crop(key, replace(sample, numbers=facts)))


def _extract(settings: Settings, name: str, item: pipeline.ClipItem) -> None:
    """Look for people or motion in the source where samples were cut: masks and flow go to the
    crops' files, poses and faces to their facts."""
    cv2.setNumThreads(1)
    look = cache(partial(EXTRACTED[name], item.frames))
    for crop in item.crops:
        known = crop.sample.numbers
        seen = [look(number) for number in known["frames"]]
        members, facts = _cut_out(name, seen, known["place"], KINDS[settings.kind].side)
        crop.members |= members
        crop.sample = replace(crop.sample, numbers={**known, **facts})


def _cut_out(
    name: str, seen: Sequence[NDArray[np.float32]], place: Corner, side: int
) -> tuple[dict[str, bytes], dict[str, object]]:
    """What was seen in frames, cut at a place: files, and entries of the JSON file."""
    top, left = place
    if name in ("masks", "flow"):
        cut = np.stack([each[top : top + side, left : left + side] for each in seen])
        if name == "masks":
            return {"mask.webp": picture_bytes(cut[..., None].astype(np.uint8))}, {}
        small = cut[:, ::FLOW_STRIDE, ::FLOW_STRIDE].astype(np.float16)
        np.save(file := io.BytesIO(), small, allow_pickle=False)
        return {"flow.npy": file.getvalue()}, {}
    corner = np.array((left, top), np.float32)
    moved = [np.concatenate([p[..., :2] - corner, p[..., 2:]], -1) for p in seen]
    return {}, {name: [each.round(2).tolist() for each in moved]}


def _release(item: pipeline.ClipItem) -> None:
    """Let go of the frames, most of an item's bytes: what comes after needs crops only."""
    item.frames = []


def _file(settings: Settings, item: pipeline.ClipItem) -> None:
    assert item.clip is not None
    origin = {
        "kind": settings.kind,
        "clip": item.clip.key,
        "source": item.clip.sha256,
        "measures": {name: round(value, 4) for name, value in item.measures.items()},
    }
    for crop in item.crops:
        numbers = {**origin, **crop.sample.numbers}
        crop.members |= sample_files(replace(crop.sample, numbers=numbers), LOSSLESS)
        crop.sample = Sample({})
