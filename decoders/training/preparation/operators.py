"""The operators: a source is surveyed; a clip is read, degraded, looked at and filed."""

import math
from dataclasses import dataclass
from zlib import crc32

import cv2
from numpy.random import default_rng

from gsvc.decoders.training.packing.kinds import KINDS, Sample
from gsvc.decoders.training.packing.streams import StreamCoding, coded_stream
from gsvc.decoders.training.preparation.clips import Clip, frame_rate, read_clip, scenes
from gsvc.decoders.training.preparation.extraction import EXTRACTED, Looks
from gsvc.decoders.training.preparation.items import (
    ClipItem,
    Crop,
    Operator,
    Resources,
    SourceItem,
)
from gsvc.decoders.training.preparation.measures import clip_hash, measures
from gsvc.decoders.training.preparation.members import sample_members
from gsvc.decoders.training.preparation.selection import Found
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.sources import sha256_at

NETWORKS = "drawings", "features"
"""What `networks` makes operators of."""


@dataclass
class Survey:
    """Looks through a source: its hash, its clips, their measures."""

    settings: Settings
    name = "survey"
    resources = Resources(memory=500_000_000, seconds=3600.0)

    def __call__(self, item: SourceItem) -> None:
        """Raises InputError for a source that is damaged anywhere: none of it is taken."""
        cv2.setNumThreads(1)
        settings = self.settings
        item.sha256, item.bytes = sha256_at(item.address)
        rate = frame_rate(item.address)
        for number, pts, frames in scenes(item.address, settings.lines, settings.frames):
            clip = Clip(item.address, item.sha256, number, pts, rate)
            item.found.append(Found(clip, measures(frames), clip_hash(frames)))
        every = max(1, math.ceil(len(item.found) / settings.most_clips))
        item.found = item.found[::every]


@dataclass
class Read:
    """Reads a clip's frames."""

    settings: Settings
    name = "read"
    resources = Resources()

    def __call__(self, item: ClipItem) -> None:
        """Raises InputError where they are not what the survey saw."""
        assert item.clip is not None
        item.frames = read_clip(item.clip, self.settings.lines, self.settings.frames)


@dataclass
class Degrade:
    """Encodes the clip as streams are, with each lambda, and cuts samples."""

    settings: Settings
    name = "degrade"
    resources = Resources()

    def __call__(self, item: ClipItem) -> None:
        """The crops of every lambda, or of the item's, drawn by the clip's key."""
        cv2.setNumThreads(1)
        assert item.clip is not None
        settings, kind = self.settings, KINDS[self.settings.kind]
        rate = max(1, round(item.clip.rate))
        for number in item.lambdas or range(len(settings.lambdas)):
            lmbda = settings.lambdas[number]
            coding = StreamCoding(len(item.frames), lmbda, settings.preset, rate, flow=True)
            run = coded_stream(item.frames, coding)
            rng = default_rng((settings.seed, crc32(item.clip.key.encode()), number))
            for row, sample in enumerate(kind.samples(run, kind.side, rng)):
                key = f"{item.clip.key}-{f'{lmbda:g}'.replace('.', 'p')}-{row}"
                facts = {"lambda": lmbda, "place": sample.place, "frames": sample.numbers}
                item.crops.append(Crop(key, sample, facts))


@dataclass
class Extract:
    """Looks for people or motion in the source where samples were cut."""

    settings: Settings
    name: str
    """Of `extraction.EXTRACTED`."""
    resources = Resources()

    def __call__(self, item: ClipItem) -> None:
        """Adds masks and flow to the crops' files, poses and faces to their facts.

        Raises MissingModelError where a model is not on the node.
        """
        cv2.setNumThreads(1)
        looks = Looks(item.frames, KINDS[self.settings.kind].side)
        for crop in item.crops:
            members, facts = looks.at(self.name, crop.sample.numbers, crop.sample.place)
            crop.members |= members
            crop.facts |= facts


@dataclass
class Release:
    """Lets go of the frames: what comes after needs crops only, and may run elsewhere."""

    name = "_release"
    resources = Resources()

    def __call__(self, item: ClipItem) -> None:
        """Frames are most of an item's bytes."""
        item.frames = []


@dataclass
class File:
    """Turns samples into the bytes of their files; pictures go no further."""

    settings: Settings
    name = "file"
    resources = Resources()

    def __call__(self, item: ClipItem) -> None:
        """Replaces samples by files."""
        assert item.clip is not None
        origin = {
            "kind": self.settings.kind,
            "clip": item.clip.key,
            "source": item.clip.sha256,
            "measures": {name: round(value, 4) for name, value in item.measures.items()},
        }
        for crop in item.crops:
            crop.members |= sample_members(crop.sample, {**origin, **crop.facts})
            crop.sample = Sample({}, {})


def clip_operators(settings: Settings) -> list[Operator]:
    """What clips pass, in order."""
    looks = [Extract(settings, name) for name in EXTRACTED if name in settings.extract]
    networks = network_operators(settings)
    return [Read(settings), Degrade(settings), *looks, Release(), *networks, File(settings)]


def training_operators(settings: Settings) -> list[Operator]:
    """What clips pass whose samples are trained on at once, not filed."""
    return [Read(settings), Degrade(settings), Release(), *network_operators(settings)]


def network_operators(settings: Settings) -> list[Operator]:
    """Those with a network that `settings` ask for."""
    asked = [name for name in NETWORKS if name in settings.extract]
    if not asked:
        return []
    from gsvc.decoders.training.preparation.networks import network_operator  # it needs torch

    return [network_operator(name, settings) for name in asked]
