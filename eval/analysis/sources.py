"""Clips for the benchmark of analysis by name, with truth where there is some."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from gsvc.codec.errors import InputError
from gsvc.datasets.annotated.boxes import Boxes
from gsvc.datasets.annotated.clips import AnnotatedClip, AnnotatedVideo, MultiViewClip
from gsvc.datasets.annotated.coco import read_coco
from gsvc.datasets.annotated.mot import read_mot
from gsvc.datasets.annotated.synthetic.write import read_synthetic
from gsvc.datasets.annotated.vatic import read_vatic, vatic_files
from gsvc.datasets.annotated.visdrone import is_visdrone, read_visdrone
from gsvc.datasets.annotated.wildtrack import read_wildtrack
from gsvc.datasets.clips import TestClip
from gsvc.datasets.sets import ClipSource, find_clips
from gsvc.eval.analysis.measure_ground import GroundClip


@dataclass(frozen=True)
class Source:
    """A clip to load."""

    name: str
    """Unique among those found together."""
    load: Callable[[str, int | None], tuple[TestClip, Boxes | None]] = field(repr=False)
    """From a size of the evaluation protocol and a number of frames (None: all) to the clip and its
    truth, None where it has none."""


def find_sources(names: list[str]) -> list[Source]:
    """Clips of names: a sequence of MOT or VisDrone, a synthetic set, Wildtrack, a COCO file,
    VATIC's boxes beside videos (EPFL), or as `find_clips`.

    Raises ConfigError for a name of nothing, InputError for annotations that cannot be read.
    """
    found: list[Source] = []
    for source in (source for name in names for source in _of_name(name)):
        taken = sum(one.name.partition("#")[0] == source.name for one in found)
        found.append(replace(source, name=f"{source.name}#{taken + 1}") if taken else source)
    return found


def find_ground(name: str) -> MultiViewClip:
    """A set whose cameras see one piece of ground. Raises InputError without their homographies."""
    path = Path(name).expanduser()
    if any(path.glob("gt_*.txt")):
        raise InputError(
            f"{name}: EPFL tells where people stand in cells of a grid, and nowhere how wide these "
            "are in what its homographies map to: leave out --ground to judge boxes"
        )
    if not any(path.glob("C*/seqinfo.ini")):
        raise InputError(f"{name}: no set with homographies: give one of the synthetic set")
    return read_synthetic(path)


def load_ground(name: str, frames: int | None, labels: frozenset[str] | None) -> GroundClip:
    """The first `frames` frames (None: all) of such a set, and the places of things of some classes
    (None: of all). Raises InputError.
    """
    scene = find_ground(name)
    loaded = [view.load("native", frames) for view in scene.views]
    places = scene.places.chosen(scene.places.frame < loaded[0][0].format.frames)
    if labels is not None:
        wanted = [truth.id[np.isin(truth.label, list(labels))] for _, truth in loaded]
        places = places.chosen(np.isin(places.id, np.concatenate(wanted)))
    views = [clip for clip, _ in loaded]
    return GroundClip(Path(name).resolve().name, views, scene.homographies, places)


def _of_name(name: str) -> Iterator[Source]:
    path = Path(name).expanduser()
    if (path / "seqinfo.ini").is_file():
        yield _annotated(read_mot(path))
    elif is_visdrone(path):
        yield _annotated(read_visdrone(path))
    elif (path / "annotations_positions").is_dir():
        yield from (_annotated(view, path) for view in read_wildtrack(path).views)
    elif any(path.glob("C[0-9]*/seqinfo.ini")):
        yield from (_annotated(view, path) for view in read_synthetic(path).views)
    elif path.suffix.lower() == ".json":
        yield _annotated(read_coco(path))
    elif boxes := vatic_files(path):
        yield from (_annotated(read_vatic(one)) for one in boxes)
    else:
        yield from (Source(one.name, partial(_plain, one)) for one in find_clips([name]))


def _annotated(clip: AnnotatedClip | AnnotatedVideo, of_set: Path | None = None) -> Source:
    name = clip.name if of_set is None else f"{of_set.resolve().name}-{clip.name}"
    return Source(name, replace(clip, name=name).load)


def _plain(source: ClipSource, size: str, frames: int | None) -> tuple[TestClip, None]:
    return source.load(size, frames), None
