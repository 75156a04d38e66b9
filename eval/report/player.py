"""The player of a clip as HTML: its versions in step, their differences over time, and a strip.

What the player needs takes long to make, so the run's folder keeps it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path

import numpy as np

from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.layout import write_text
from gsvc.eval.report import sheets
from gsvc.eval.report.exhibits import Exhibit, Pane, VersionChoice, facts_of, load_exhibit
from gsvc.eval.summary.summarise import Summary

_VERSION = 1
"""Raise it when a film of the same streams is to look otherwise."""
FOLDER = "exhibits"


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


_CHART = 1000, 120
"""Units of the chart, which is stretched over the player's width."""
_HEADROOM = 1.08
_MODES = ("Side by side", "Wipe", "Flicker")
_SPEEDS = ("0.25", "0.5", "1")


def player(name: str, film: Film, colours: Mapping[str, str]) -> str:
    """The player with the id `name`. `colours`: of the versions' lines."""
    left = min(1, len(film.versions) - 1)
    sides = _side(film, "left", left), _side(film, "right", len(film.versions))
    modes = "".join(
        f'<button type="button" data-mode="{mode}" aria-pressed="{_true(mode == _MODES[0])}">'
        f"{mode}</button>"
        for mode in _MODES
    )
    speeds = "".join(
        f'<button type="button" data-speed="{speed}" aria-pressed="{_true(speed == "1")}">'
        f"{speed}x</button>"
        for speed in _SPEEDS
    )
    return f"""<div class="film" id="{name}"><div class="viewer" tabindex="-1">
<script type="application/json">{json.dumps(_data(film))}</script>
<div class="bar"><div class="group" role="group" aria-label="how to compare">{modes}</div></div>
<div class="stage"><canvas></canvas><span class="tag left"></span><span class="tag right"></span>
<div class="edge" hidden></div><video muted playsinline loop preload="auto"></video></div>
<div class="sides">{sides[0]}<button class="swap" type="button" aria-label="swap the sides"
title="swap the sides">&#8644;</button>{sides[1]}</div>
<div class="bar"><div class="group"><button class="back" type="button" aria-label="one frame back"
title="one frame back">&#9664;&#xFE0E;</button><button class="play" type="button">Play</button
><button class="on" type="button" aria-label="one frame on" title="one frame on"
>&#9654;&#xFE0E;</button></div><div class="group" role="group" aria-label="speed">{speeds}</div
><button class="loop" type="button" aria-pressed="false">Loop worst second</button
><span class="counter"></span></div>
{_timeline(film, colours)}</div>{_strip(film)}</div>"""


def stills(film: Film) -> str:
    """The middle frame of the worst second, for paper and for browsers that play no H.264."""
    frame = sum(film.worst) // 2 + 1
    figures = (
        f'<figure><img src="{uri}" alt="{escape(f"{film.clip}, frame {frame}, {column}")}">'
        f"<figcaption>frame {frame}, {escape(column)}</figcaption></figure>"
        for column, uri in zip(film.columns, film.stills, strict=True)
    )
    return f'<div class="stills">{"".join(figures)}</div>'


def _data(film: Film) -> dict[str, object]:
    return {
        "video": film.video,
        "names": ["source", *(one.name for one in film.versions)],
        "facts": [film.source_facts, *(one.facts for one in film.versions)],
        "lines": [[], *(one.line for one in film.versions)],
        "width": film.width,
        "height": film.height,
        "pitch": sheets.pane_height(film.height),
        "rate": film.frame_rate,
        "frames": film.frames,
        "worst": film.worst,
    }


def _side(film: Film, side: str, chosen: int) -> str:
    names = ["source", *(one.name for one in film.versions)]
    options = "".join(
        f'<option value="{index}"{" selected" * (index == chosen)}>{escape(name)}</option>'
        for index, name in enumerate(names)
    )
    return (
        f'<label class="{side}"><select class="side" aria-label="{side} side">{options}</select>'
        '<span class="facts"></span></label>'
    )


def _timeline(film: Film, colours: Mapping[str, str]) -> str:
    """The lines over the maps; where it is touched, the player goes."""
    legend = "".join(
        f'<span><i style="background:{colours[one.name]}"></i>{escape(one.name)}</span>'
        for one in film.versions
    )
    maps = "".join(
        f'<figure class="map" data-version="{index}"><img src="{one.map}" alt="">'
        f"{_captions(one.name, film.rows)}</figure>"
        for index, one in enumerate(film.versions, start=1)
    )
    first, end = film.worst
    return f"""<div class="legend">{legend}<span class="worst"><i></i>worst second of {
        escape(film.versions[-1].name)
    }</span></div>
<div class="timeline" role="slider" tabindex="0" aria-label="frame" aria-valuemin="1"
aria-valuemax="{film.frames}" aria-valuenow="1">{_chart(film, colours)}{maps}<div class="cursor"
></div></div>
<p class="note">Over time, frames {first + 1} to {end} marked. Lines: {escape(film.measure)}.
Maps: {escape(film.order)}; black is none, white {film.most:.2g} and more.</p>"""


def _captions(name: str, rows: list[str]) -> str:
    """Of the parts of a map."""
    texts = [f"{name}, {row}" for row in rows]
    return "".join(
        f'<figcaption style="top:{100 * part / len(texts):g}%">{escape(text)}</figcaption>'
        for part, text in enumerate(texts)
    )


def _chart(film: Film, colours: Mapping[str, str]) -> str:
    width, height = _CHART
    most = _HEADROOM * max(max(one.line) for one in film.versions) or 1.0
    step = width / film.frames
    first, end = film.worst
    lines = "".join(
        f'<polyline points="{" ".join(_points(one.line, step, most))}" '
        f'stroke="{colours[one.name]}" data-version="{index}"/>'
        for index, one in enumerate(film.versions, start=1)
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect x="{first * step:.1f}" width="{(end - first) * step:.1f}" height="{height}"/>'
        f"{lines}</svg>"
    )


def _points(line: list[float], step: float, most: float) -> Iterator[str]:
    height = _CHART[1]
    for frame, value in enumerate(line):
        yield f"{(frame + 0.5) * step:.1f},{height * (1 - value / most):.1f}"


def _strip(film: Film) -> str:
    """Frames from the top down, a column a version; a touch on a row shows that frame."""
    heads = "".join(f"<span>{escape(column)}</span>" for column in film.columns)
    pictures = "".join(f'<img src="{uri}" alt="">' for uri in film.pictures)
    rows = "".join(
        f'<button type="button" data-frame="{frame}" aria-label="frame {frame + 1}">'
        f"<span>{frame + 1}</span></button>"
        for frame in film.strip
    )
    return (
        f'<figure class="strip"><figcaption>The worst moment, frame by frame'
        f'</figcaption><div class="heads">{heads}</div><div class="cells">{pictures}'
        f'<div class="rows">{rows}</div></div></figure>'
    )


def _true(value: bool) -> str:
    return "true" if value else "false"
