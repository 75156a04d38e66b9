"""Makes a study's folder: `page/` for the voters, `key.json` for who scores their votes."""

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2

from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.frames import Picture
from gsvc.codec.output import atomic_folder, explain_failure
from gsvc.datasets.clips import TestClip
from gsvc.eval.bench.store import Run, load_run
from gsvc.eval.report.choice import Choice
from gsvc.eval.report.decoding import decoded, source_of
from gsvc.eval.report.media import LOSSLESS_TO_THE_EYE, stacked_video
from gsvc.eval.study.key import (
    DAMAGED,
    DAMAGED_SOURCE,
    EQUAL,
    FILE,
    PAGE,
    SOURCE,
    Key,
    Trial,
    Version,
)
from gsvc.eval.study.page import Shown, page
from gsvc.eval.study.pairs import Pair, find_pairs
from gsvc.eval.summary.curves import settings_label
from gsvc.eval.summary.summarise import summarise

_DAMAGED_CLIPS, _EQUAL_CLIPS = 3, 2
"""Catch trials: on how many clips, where there are so many."""
_COARSE, _SLOW = 12, 6
"""The damaged source has one pixel for so many and one frame for so many."""

_Frames = Sequence[Picture]


@dataclass(frozen=True)
class StudySettings:
    """What a study compares."""

    ours: str = ""
    """Name of a curve; "": gsvc with the most steps."""
    others: tuple[str, ...] = ()
    """Names of curves; none: AV1."""
    within: float = 1.5
    """Pairs are shown whose bits differ by at most this factor. Raises ConfigError below 1."""
    tell: Callable[[str], None] = field(default=lambda line: None, compare=False)
    """Is told of each clip as it is decoded, of what is left out and of what is wrong."""

    def __post_init__(self) -> None:
        if not self.within >= 1:
            raise ConfigError(f"within {self.within}: a factor between bits is at least 1")


def make_study(run: Path, folder: Path, settings: StudySettings = StudySettings()) -> list[Pair]:
    """Write a study of the streams of a run; returns the pairs that it shows.

    Raises ConfigError when `folder` holds a study or a curve is unknown, InputError when the run
    has nothing to compare or a clip or stream is not as it was measured, OutputError.
    """
    if (folder / FILE).exists():
        raise ConfigError(f"{folder} holds a study, which votes may refer to: take another folder")
    found = load_run(run)
    summary = summarise(found.settings, found.cells)
    pairs = _near(find_pairs(summary, found.cells, settings.ours, settings.others), settings)
    key = Key(secrets.token_hex(4), str(run), pairs[0].other.curve, [])
    with explain_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / PAGE, ignore_errors=True)  # of one that was interrupted
    with atomic_folder(folder / PAGE) as target:
        shown = []
        for trial, videos, clip in _trials(run, found, pairs, settings.tell):
            data = stacked_video(videos, clip.frame_rate, LOSSLESS_TO_THE_EYE)
            (target / f"{trial.id}.mp4").write_bytes(data)
            key.trials.append(trial)
            shown.append(Shown(trial.id, bool(trial.catch), clip.format))
        shown.sort(key=lambda one: one.trial)  # by id, which tells nothing
        (target / "index.html").write_text(page(key.study, shown))
    key.write(folder)
    return pairs


def _near(pairs: Sequence[Pair], settings: StudySettings) -> list[Pair]:
    """Those whose bits are near enough. Raises InputError without any."""
    near = []
    for pair in pairs:
        if 1 / settings.within <= pair.bits_ratio <= settings.within:
            near.append(pair)
            continue
        times = f"the nearest {pair.other.curve} takes {pair.bits_ratio:.2f} times our bits"
        settings.tell(f"left out: {pair.clip}, level {pair.level}: {times}")
    if near:
        return near
    raise InputError("no two streams have nearly the same bits: run more rates, or widen --within")


def _trials(
    run: Path, found: Run, pairs: Sequence[Pair], tell: Callable[[str], None]
) -> Iterator[tuple[Trial, tuple[_Frames, _Frames], TestClip]]:
    """Every trial with its two videos, clip by clip; catch trials on the first clips."""
    clips = list(dict.fromkeys(pair.clip for pair in pairs))
    for number, name in enumerate(clips):
        mine = [pair for pair in pairs if pair.clip == name]
        source = source_of(mine[0].ours.cell, found.settings.get("places", ()))
        pictures = _decoded_once(run, mine, source, tell)
        for pair in mine:
            ours, other = pictures[_identity(pair.ours)], pictures[_identity(pair.other)]
            versions = _version(pair.ours), _version(pair.other)
            yield *_shuffled(name, pair.level, versions, (ours, other)), source
        if number < _DAMAGED_CLIPS:
            bad = damaged(source.frames)
            versions = Version(SOURCE), Version(DAMAGED_SOURCE)
            both = source.frames, bad
            yield *_shuffled(name, "", versions, both, DAMAGED), source
        if len(clips) - number <= _EQUAL_CLIPS:
            ours = pictures[_identity(mine[0].ours)]
            versions = _version(mine[0].ours), _version(mine[0].ours)
            yield *_shuffled(name, "", versions, (ours, ours), EQUAL), source


def damaged(frames: _Frames) -> list[Picture]:
    """A clip that anyone sees is bad: coarse, and moving by jerks."""
    height, width = frames[0].shape[:2]
    small = max(1, width // _COARSE), max(1, height // _COARSE)
    held = (frames[index - index % _SLOW] for index in range(len(frames)))
    coarse = (cv2.resize(frame, small, interpolation=cv2.INTER_AREA) for frame in held)
    return [cv2.resize(frame, (width, height)).astype(frames[0].dtype) for frame in coarse]


def _decoded_once(
    run: Path, pairs: Sequence[Pair], source: TestClip, tell: Callable[[str], None]
) -> dict[tuple[str, str], _Frames]:
    """The pictures of every version of one clip."""
    found: dict[tuple[str, str], _Frames] = {}
    for choice in (choice for pair in pairs for choice in (pair.ours, pair.other)):
        if _identity(choice) not in found:
            tell(f"{pairs[0].clip}: {choice.curve}, {settings_label(choice.cell.settings)}")
            frames, trouble = decoded(run, choice, source)
            found[_identity(choice)] = frames
            if trouble:
                tell(f"warning: {pairs[0].clip}: {trouble}")
    return found


def _identity(choice: Choice) -> tuple[str, str]:
    return choice.cell.key, choice.curve


def _version(choice: Choice) -> Version:
    return Version(choice.curve, settings_label(choice.cell.settings), choice.cell.bits)


def _shuffled(
    clip: str,
    level: str,
    versions: tuple[Version, Version],
    videos: tuple[_Frames, _Frames],
    catch: str = "",
) -> tuple[Trial, tuple[_Frames, _Frames]]:
    """A trial with its versions in random places, and its videos in the same."""
    if secrets.randbelow(2):
        versions, videos = versions[::-1], videos[::-1]
    return Trial(secrets.token_hex(6), clip, level, *versions, catch), videos
