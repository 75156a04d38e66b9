"""What the player of a clip needs: its versions in step, their differences over time, and a strip.

It takes long to make, so the run's folder keeps it. `parts.html` has the player itself.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.layout import write_text
from gsvc.eval.report import sheets
from gsvc.eval.report.exhibits import SOURCE, Exhibit, Pane, VersionChoice, facts_of, load_exhibit
from gsvc.eval.summary.summarise import Summary

_VERSION = 1
"""Raise it when a film of the same streams is to look otherwise."""
FOLDER = "exhibits"
_CHART = 1000, 120
"""Units of the chart, which is stretched over the player's width."""
_HEADROOM = 1.08


@dataclass(frozen=True)
class FilmVersion:
    """A decoded version beside its source."""

    name: str
    facts: str
    """For its caption: rate, quality."""
    line: list[float]
    """Its difference from the source, by frame."""
    map: str
    """A PNG as data URI: a column a frame."""


@dataclass(frozen=True)
class Film:
    """A clip with its versions as the page embeds them."""

    clip: str
    frame_rate: float
    width: int
    height: int
    frames: int
    source_facts: str
    versions: list[FilmVersion]
    """The judged one last."""
    measure: str
    """What the lines show."""
    rows: list[str]
    """What the maps show, in as many equal parts from the top."""
    order: str
    """Of the rows of each part."""
    most: float
    """The value that is white in the maps."""
    worst: tuple[int, int]
    """First frame, and the one after the last, of the judged version's worst second."""
    strip: list[int]
    """Frames of the strip."""
    pictures: list[str] = field(repr=False)
    """The strip as JPEG data URIs: a column for the source and for each version of `columns`."""
    columns: list[str]
    stills: list[str] = field(repr=False)
    """The worst second's middle frame as JPEGs, for the same columns."""
    video: str = field(repr=False)
    """An MP4 as data URI: the source and every version under each other."""
    troubles: list[str]
    """What could not be shown, and why."""

    @property
    def names(self) -> list[str]:
        """Of the source and the versions."""
        return [SOURCE, *(one.name for one in self.versions)]

    @property
    def data(self) -> dict[str, object]:
        """What the page's script is told."""
        return {
            "video": self.video,
            "names": self.names,
            "facts": [self.source_facts, *(one.facts for one in self.versions)],
            "lines": [[], *(one.line for one in self.versions)],
            "width": self.width,
            "height": self.height,
            "pitch": sheets.pane_height(self.height),
            "rate": self.frame_rate,
            "frames": self.frames,
            "worst": self.worst,
        }

    @property
    def chart(self) -> dict[str, object]:
        """Size of the chart, its worst second (left, width), the points of each version's line."""
        width, height = _CHART
        most = _HEADROOM * max(max(one.line) for one in self.versions) or 1.0
        step, (first, end) = width / self.frames, self.worst
        lines = [
            " ".join(
                f"{(frame + 0.5) * step:.1f},{height * (1 - value / most):.1f}"
                for frame, value in enumerate(one.line)
            )
            for one in self.versions
        ]
        worst = f"{first * step:.1f}", f"{(end - first) * step:.1f}"
        return {"width": width, "height": height, "worst": worst, "lines": lines}


def films(
    folder: Path,
    summary: Summary,
    chosen: Mapping[str, Sequence[VersionChoice]],
    places: Sequence[str],
) -> tuple[list[Film], dict[str, list[str]]]:
    """The films of a run, the one with the worst second first, and troubles of clips without one.

    A film is read from the run's `exhibits` where these pictures were filmed before.
    """
    found: list[Film] = []
    without: dict[str, list[str]] = {}
    for clip, choices in chosen.items():
        file = folder / FOLDER / f"{_key(choices)}.json"
        film = _kept(file)
        if film is None:
            exhibit = load_exhibit(folder, clip, choices, summary, places)
            if exhibit.source is None or len(exhibit.panes) < 2:
                without[clip] = exhibit.troubles
                continue
            film = _made(exhibit, exhibit.source)
            if not film.troubles:
                write_text(file, json.dumps(asdict(film)))
        found.append(_with_facts(film, clip, choices, summary))
    # By the mean difference of the judged version in its worst second.
    found.sort(key=lambda film: -np.mean(film.versions[-1].line[slice(*film.worst)]))
    return found, without


def _key(choices: Sequence[VersionChoice]) -> str:
    parts = [(one.curve, one.cell.source_sha256, one.decode.frames_sha256) for one in choices]
    return hashlib.sha256(repr((_VERSION, parts)).encode()).hexdigest()[:32]


def _kept(file: Path) -> Film | None:
    try:
        values = json.loads(file.read_bytes())
        versions = [FilmVersion(**one) for one in values.pop("versions")]
        return Film(**{**values, "versions": versions, "worst": tuple(values["worst"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none yet, or one to make again


def _with_facts(film: Film, clip: str, choices: Sequence[VersionChoice], summary: Summary) -> Film:
    """With what the run says of the versions now: metrics may have come since it was filmed."""
    judged = choices[-1]
    facts = {one.curve: facts_of(one, summary) + _ratio(one, judged) for one in choices}
    versions = [replace(one, facts=facts[one.name]) for one in film.versions]
    return replace(film, clip=clip, versions=versions)


def _ratio(one: VersionChoice, judged: VersionChoice) -> str:
    ratio = one.cell.bits / judged.cell.bits
    return "" if ratio == 1 else f", {ratio:.2f} times the bits of {judged.curve}"


def _made(exhibit: Exhibit, source: TestClip) -> Film:
    panes, rate = exhibit.panes, source.frame_rate
    height, width = source.height, source.width
    apart = sheets.differences(source, [pane.frames for pane in panes[1:]])
    worst = sheets.worst_second(apart.lines[-1], float(rate))
    shown = [panes[0], *panes[1:2], *panes[2:][-1:]]
    place = sheets.worst_place(panes[-1].frames, source.frames, *worst)
    strips = [place.cut(pane.frames) for pane in shown]
    return Film(
        clip=exhibit.clip,
        frame_rate=float(rate),
        width=width,
        height=height,
        frames=len(source.frames),
        source_facts=panes[0].facts,
        versions=_versions(panes[1:], apart),
        measure=apart.measure,
        rows=apart.rows,
        order=apart.order,
        most=apart.most,
        worst=worst,
        strip=[place.first + index for index in range(len(strips[0]))],
        pictures=[sheets.picture_uri(np.vstack(parts)) for parts in strips],
        columns=[pane.name for pane in shown],
        stills=[sheets.picture_uri(pane.frames[sum(worst) // 2]) for pane in shown],
        video=sheets.data_uri(
            "video/mp4", sheets.stacked_video([pane.frames for pane in panes], rate)
        ),
        troubles=exhibit.troubles,
    )


def _versions(panes: Sequence[Pane], apart: sheets.DifferenceTimeline) -> list[FilmVersion]:
    return [
        FilmVersion(
            pane.name,
            pane.facts,
            [round(value, 4) for value in line],
            sheets.data_uri("image/png", sheets.map_picture(values, apart.most)),
        )
        for pane, line, values in zip(panes, apart.lines, apart.maps, strict=True)
    ]
