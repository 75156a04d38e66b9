"""A blind pairwise test for people: `page/` for the voters, `key.json` for who scores their votes.

Our version of every clip and level stands beside others at its rate. The page knows ids and sizes
of the videos, and nothing of what they are.
"""

import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import cv2

from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.output import atomic_folder, make_folder
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.eval.bench.store import BenchRun, CellRecord
from gsvc.eval.layout import write_text
from gsvc.eval.report import exhibits, sheets
from gsvc.eval.summary.curves import ABLATION, OURS, by_curve, settings_label
from gsvc.eval.summary.summarise import Summary, load_summary

SCHEMA = 1
FILE = "key.json"
PAGE = "page"
"""The folder that voters get, beside the key."""

DAMAGED, EQUAL = "damaged", "equal"
"""Kinds of catch trials: the source against a badly damaged one; a video against itself."""
SOURCE, DAMAGED_SOURCE = "source", "damaged source"


@dataclass(frozen=True)
class StudyVersion:
    """One of the two videos of a trial."""

    name: str
    """Of its curve, "gsvc, steps 1", or of what a catch trial shows."""
    settings: str = ""
    bits: int = 0
    """Of the clip; 0 in a catch trial."""


@dataclass(frozen=True)
class StudyTrial:
    """Two versions of a clip. "a" is the upper picture of its video, "b" the lower one."""

    id: str
    """What the page and the votes call it: it tells nothing."""
    clip: str
    level: str
    """Of our stream; "" in a catch trial."""
    a: StudyVersion
    b: StudyVersion
    catch: str = ""
    """`DAMAGED` or `EQUAL`, "" where the answer is not known."""

    def version(self, place: str) -> StudyVersion:
        """The version at "a" or "b"."""
        return {"a": self.a, "b": self.b}[place]


@dataclass(frozen=True)
class Key:
    """A study."""

    study: str
    """Its id, which every vote carries."""
    run: str
    zero: str
    """The version whose score is 0."""
    trials: list[StudyTrial]

    def write(self, folder: Path) -> None:
        """Replace the key in a study's folder. Raises OutputError."""
        write_text(folder / FILE, json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n")

    def trial(self, name: str) -> StudyTrial | None:
        """The trial of that id."""
        return next((trial for trial in self.trials if trial.id == name), None)


def read_key(folder: Path) -> Key:
    """The key in a study's folder. Raises InputError when there is none, or a damaged one."""
    file = folder / FILE
    try:
        values = json.loads(file.read_text())
        if values.pop("schema") != SCHEMA:
            raise InputError(f"{file} is of another gsvc: score with the one that made it")
        trials = []
        for one in values["trials"]:
            shown = {place: StudyVersion(**one[place]) for place in ("a", "b")}
            trials.append(StudyTrial(**{**one, **shown}))
        return Key(**{**values, "trials": trials})
    except OSError as error:
        why = f"{folder} holds no study: make one with gsvc bench study make RUN {folder}"
        raise InputError(why) from error
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} is damaged ({error}): the votes need the key as made") from error


class StudyPair(NamedTuple):
    """Two decoded streams of a clip."""

    clip: str
    level: str
    """Of our stream."""
    ours: exhibits.VersionChoice
    other: exhibits.VersionChoice

    @property
    def bits_ratio(self) -> float:
        """The other's bits as a multiple of ours."""
        return self.other.cell.bits / self.ours.cell.bits


def find_pairs(
    summary: Summary, cells: Sequence[CellRecord], ours: str = "", others: Sequence[str] = ()
) -> list[StudyPair]:
    """By clip and level: the curve `ours` against each of the curves `others`, nearest in rate.

    By default ours is gsvc with the most steps, the other is AV1. Raises ConfigError for a curve
    that the run lacks, InputError when it has no stream of gsvc or none to compare it with.
    """
    names = exhibits.CurveStyle(summary.codecs).in_order(
        name for cell in cells if cell.codec != ABLATION for name in by_curve(cell)
    )
    own = [name for name in names if name.split(",")[0] == OURS]
    if not (ours or own):
        raise InputError("the run has no stream of gsvc: run the benchmark with it")
    ours, others = ours or own[-1], list(dict.fromkeys(others)) or [exhibits.BEST_KNOWN]
    for name in (ours, *others):
        if name not in names:
            known = ", ".join(f'"{one}"' for one in names)
            raise ConfigError(f'"{name}" is not in the run: choose from {known}')
    if ours in others:
        raise ConfigError(f'"{ours}" cannot be compared with itself: choose others')
    if pairs := list(_pairs(summary, cells, ours, others)):
        return pairs
    raise InputError(f'no clip has both "{ours}" and another version: run the benchmark')


def _pairs(
    summary: Summary, cells: Sequence[CellRecord], ours: str, others: Sequence[str]
) -> Iterator[StudyPair]:
    levels = dict.fromkeys(_level(cell) for cell in cells if cell.codec == OURS)
    for level in sorted(levels, key=str):
        used = [cell for cell in cells if cell.codec != OURS or _level(cell) == level]
        for clip, choices in exhibits.near_rate(summary, used).items():
            found = {choice.curve: choice for choice in choices}
            for other in others:
                if ours in found and other in found:
                    yield StudyPair(clip, str(level), found[ours], found[other])


def _level(cell: CellRecord) -> int | float | str:
    """The level, or the rate asked for."""
    return cell.settings.get("level", cell.settings.get("bpp", ""))


_HERE = Path(__file__).parent


def page(study: str, shown: Sequence[tuple[StudyTrial, ClipFormat]]) -> str:
    """The whole page; the videos lie beside it, named by the ids of their trials."""
    data = {
        "study": study,
        "trials": [
            {
                "id": trial.id,
                "catch": int(bool(trial.catch)),
                "width": form.width,
                "height": form.height,
                "pitch": sheets.pane_height(form.height),
                "seconds": float(form.frame_count / form.frame_rate),
            }
            for trial, form in shown
        ],
    }
    text = (_HERE / "study.html").read_text()
    for name in ("study.css", "study.js"):
        text = text.replace(f"[{name}]", (_HERE / name).read_text())
    return text.replace("[data]", json.dumps(data))


_DAMAGED_CLIPS, _EQUAL_CLIPS = 3, 2
"""Catch trials: on how many clips, where there are so many."""
_COARSE, _SLOW = 12, 6
"""The damaged source has one pixel for so many and one frame for so many."""

_Frames = Sequence[Picture]
_Shown = tuple[StudyVersion, _Frames]


def make_study(
    run: Path,
    folder: Path,
    *,
    ours: str = "",
    others: Sequence[str] = (),
    within: float = 1.5,
    tell: Callable[[str], None] = lambda line: None,
) -> list[StudyPair]:
    """Write a study of the streams of a run; returns the pairs that it shows.

    `ours`, `others`: names of curves, as `find_pairs` takes them. `within`: the most that the bits
    of a pair differ by, a factor. `tell` hears of each clip decoded, and what is left out or wrong.

    Raises ConfigError where `folder` holds a study, a curve is unknown or `within` is below 1,
    InputError where nothing can be compared or a clip or stream is not as measured, OutputError.
    """
    if not within >= 1:
        raise ConfigError(f"within {within}: a factor between bits is at least 1")
    if (folder / FILE).exists():
        raise ConfigError(f"{folder} holds a study, which votes may refer to: take another folder")
    found, summary = load_summary(run)
    pairs = _near(find_pairs(summary, found.cells, ours, others), within, tell)
    key = Key(secrets.token_hex(4), str(run), pairs[0].other.curve, [])
    make_folder(folder)
    shutil.rmtree(folder / PAGE, ignore_errors=True)  # of one that was interrupted
    with atomic_folder(folder / PAGE) as target:
        shown = []
        for trial, videos, clip in _trials(run, found, pairs, tell):
            data = sheets.stacked_video(videos, clip.frame_rate, sheets.LOSSLESS_TO_THE_EYE)
            (target / f"{trial.id}.mp4").write_bytes(data)
            key.trials.append(trial)
            shown.append((trial, clip.format))
        shown.sort(key=lambda one: one[0].id)  # which tells nothing
        (target / "index.html").write_text(page(key.study, shown))
    key.write(folder)
    return pairs


def _near(
    pairs: Sequence[StudyPair], within: float, tell: Callable[[str], None]
) -> list[StudyPair]:
    """Those whose bits are near enough. Raises InputError without any."""
    near = []
    for pair in pairs:
        apart = max(pair.bits_ratio, 1 / pair.bits_ratio)
        near += [pair] if apart <= within else []
        if apart > min(within, 1.1):
            what = "far apart" if apart <= within else "left out"
            times = f"the nearest {pair.other.curve} takes {pair.bits_ratio:.2f} times our bits"
            tell(f"{what}: {pair.clip}, level {pair.level}: {times}")
    if near:
        return near
    least = min(max(pair.bits_ratio, 1 / pair.bits_ratio) for pair in pairs)
    told = f"run more rates, or take --within {least + 0.005:.2f}"
    raise InputError(f"no two streams have nearly the same bits: {told}")


def _trials(
    run: Path, found: BenchRun, pairs: Sequence[StudyPair], tell: Callable[[str], None]
) -> Iterator[tuple[StudyTrial, tuple[_Frames, _Frames], TestClip]]:
    """Every trial with its two videos, clip by clip; catch trials on the first clips."""
    clips = list(dict.fromkeys(pair.clip for pair in pairs))
    for number, name in enumerate(clips):
        mine = [pair for pair in pairs if pair.clip == name]
        source = exhibits.source_of(mine[0].ours.cell, found.settings.get("places", ()))
        pictures = _decoded_once(run, mine, source, tell)
        for pair in mine:
            both = pictures[_identity(pair.ours)], pictures[_identity(pair.other)]
            yield *_shuffled(name, pair.level, both), source
        if number < _DAMAGED_CLIPS:
            good = StudyVersion(SOURCE), source.frames
            bad = StudyVersion(DAMAGED_SOURCE), damaged(source.frames)
            yield *_shuffled(name, "", (good, bad), DAMAGED), source
        if len(clips) - number <= _EQUAL_CLIPS:
            ours = pictures[_identity(mine[0].ours)]
            yield *_shuffled(name, "", (ours, ours), EQUAL), source


def damaged(frames: _Frames) -> list[Picture]:
    """A clip that anyone sees is bad: coarse, and moving by jerks."""
    height, width = frames[0].shape[:2]
    small = max(1, width // _COARSE), max(1, height // _COARSE)
    held = (frames[index - index % _SLOW] for index in range(len(frames)))
    coarse = (cv2.resize(frame, small, interpolation=cv2.INTER_AREA) for frame in held)
    return [cv2.resize(frame, (width, height)).astype(frames[0].dtype) for frame in coarse]


def _decoded_once(
    run: Path, pairs: Sequence[StudyPair], source: TestClip, tell: Callable[[str], None]
) -> dict[tuple[str, str], _Shown]:
    found: dict[tuple[str, str], _Shown] = {}
    for choice in (choice for pair in pairs for choice in (pair.ours, pair.other)):
        if _identity(choice) not in found:
            settings = settings_label(choice.cell.settings)
            tell(f"{pairs[0].clip}: {choice.curve}, {settings}")
            frames, trouble = exhibits.decoded(run, choice, source)
            version = StudyVersion(choice.curve, settings, choice.cell.bits)
            found[_identity(choice)] = version, frames
            if trouble:
                tell(f"warning: {pairs[0].clip}: {trouble}")
    return found


def _identity(choice: exhibits.VersionChoice) -> tuple[str, str]:
    return choice.cell.key, choice.curve


def _shuffled(
    clip: str, level: str, shown: tuple[_Shown, _Shown], catch: str = ""
) -> tuple[StudyTrial, tuple[_Frames, _Frames]]:
    one, other = shown[::-1] if secrets.randbelow(2) else shown
    trial = StudyTrial(secrets.token_hex(6), clip, level, one[0], other[0], catch)
    return trial, (one[1], other[1])
