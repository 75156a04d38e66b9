"""Pictures for people: sheets, maps of differences, strips, captions, videos, data URIs.

A sheet shows every clip beside AV1 at our rate, and its worst moment frame by frame. A strip shows
successive frames of the part of a clip where its motion differs most, or where a mouth moves most.
"""

import base64
import io
import logging
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import log
from pathlib import Path
from typing import NamedTuple

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import GsvcError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media.color import yuv_from_rgb
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.encoders import face_landmarks, svt_av1
from gsvc.eval.baselines.conventional import BT709
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.layout import write_bytes
from gsvc.eval.metrics.cvvdp import differences_over_time
from gsvc.eval.metrics.semantic import SPEAKS, main_faces, opening
from gsvc.eval.report.exhibits import Exhibit, VersionChoice, exhibits, few, load_exhibit, near_rate
from gsvc.eval.summary.curves import OURS, clip_label
from gsvc.eval.summary.rate_tables import ANCHOR
from gsvc.eval.summary.summarise import Summary, check_codecs, load_summary

_BAR = 26
_INK, _CAPTION_PAPER = (240, 240, 240), 24


def captioned(picture: Picture, text: str) -> Picture:
    """The picture, RGB uint8 (H, W, 3), over a bar of 26 lines with `text`, cut at its width."""
    bar = np.full((_BAR, picture.shape[1], 3), _CAPTION_PAPER, np.uint8)
    cv2.putText(bar, text, (6, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.42, _INK, 1, cv2.LINE_AA)
    return np.vstack([picture, bar])


def image_file(picture: Picture, suffix: str, *options: int) -> bytes:
    """An RGB picture (H, W, 3) uint8 as an image file; `options`: of `cv2.imencode`."""
    _, coded = cv2.imencode(suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), options)
    return coded.tobytes()


NEAR_TRANSPARENT = 19
LOSSLESS_TO_THE_EYE = 10
"""Of H.264, at a preset that keeps detail."""
_SEEKABLE = 48  # frames between key frames: a page jumps to a frame at once
_JPEG_QUALITY = 88
_BLOCK = 16
"""Panes of a stack begin on a macroblock, so that none is coded with parts of its neighbour."""


def picture_uri(picture: Picture) -> str:
    """An RGB picture (H, W, 3) uint8 as a JPEG."""
    return data_uri(
        "image/jpeg", image_file(picture, ".jpg", cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY)
    )


def pane_height(height: int) -> int:
    """Lines from one pane of a stack to the next."""
    return -(-height // _BLOCK) * _BLOCK


def stacked_video(
    clips: Sequence[Sequence[Picture]], frame_rate: Fraction, crf: int = NEAR_TRANSPARENT
) -> bytes:
    """Clips of one size and length, one under the other, as one H.264 MP4.

    One video cannot fall out of step with itself: that is what keeps the panes synchronised.
    """
    panes = len(clips)
    height, width = clips[0][0].shape[:2]
    size = pane_height(width), panes * pane_height(height)
    target = io.BytesIO()
    with av.open(target, mode="w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=frame_rate)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": str(crf), "preset": "medium", "g": str(_SEEKABLE), "threads": "2"}
        with svt_av1.quiet_and_ordinary():
            stream.codec_context.open()
        for index in range(len(clips[0])):
            stack = np.vstack([_padded(clip[index], size[0]) for clip in clips])
            frame = yuv_from_rgb(stack, BT709, "yuv420p")
            frame.pts, frame.time_base = index, 1 / frame_rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return target.getvalue()


def _padded(picture: Picture, width: int) -> Picture:
    height = pane_height(picture.shape[0])
    edges = ((0, height - picture.shape[0]), (0, width - picture.shape[1]), (0, 0))
    return np.pad(picture, edges, mode="edge")


def data_uri(kind: str, data: bytes) -> str:
    """A file of that media type."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


WINDOW, LENGTH = 112, 8
"""Side of the part of a frame, in pixels, and how many frames."""


class StripPlace(NamedTuple):
    """Where and when a strip is cut."""

    first: int
    top: int
    left: int
    side: int = WINDOW
    """Of the square that is cut out, in pixels."""

    def cut(self, frames: Sequence[Picture]) -> list[Picture]:
        """The parts of the frames, at most `LENGTH` of them; smaller ones enlarged."""
        rows = slice(self.top, self.top + self.side)
        columns = slice(self.left, self.left + self.side)
        parts = [frame[rows, columns] for frame in frames[self.first : self.first + LENGTH]]
        if self.side == WINDOW:
            return parts
        shape, how = (WINDOW, WINDOW), cv2.INTER_CUBIC
        return [np.asarray(cv2.resize(one, shape, interpolation=how), np.uint8) for one in parts]


def worst_place(
    ours: Sequence[Picture], source: Sequence[Picture], start: int = 0, end: int | None = None
) -> StripPlace:
    """Where changes of luma between these frames differ most from the source's."""
    end = len(source) if end is None else end
    worst, place = -1.0, StripPlace(start, 0, 0)
    height, width = source[0].shape[:2]
    window = min(WINDOW, height), min(WINDOW, width)
    both = zip(_changes(ours[start:end]), _changes(source[start:end]), strict=True)
    for index, (change, true_change) in enumerate(both, start=start + 1):
        means = cv2.boxFilter(cv2.absdiff(change, true_change), -1, window[::-1], anchor=(0, 0))
        inside = means[: height - window[0] + 1, : width - window[1] + 1]
        _, value, _, (x, y) = cv2.minMaxLoc(inside)
        if value > worst:
            first = max(start, min(index - LENGTH // 2, end - LENGTH))
            worst, place = value, StripPlace(first, y, x)
    return place


def _changes(video: Sequence[Picture]) -> Iterator[NDArray[np.float32]]:
    luma = (gray(frame).astype(np.float32) for frame in video)
    return (after - before for before, after in pairwise(luma))


_SHARE = 0.75
"""Side of the square about the lips, in widths of the face: from the nose to below the chin."""
_LEAST_SIDE = 32


def speaking_place(source: TestClip) -> StripPlace | None:
    """Where the lips are while the mouth moves most, None where none does. As `main_faces`."""
    faces = main_faces(source)
    points = [faces[t].points if t in faces else None for t in range(len(source.frames))]
    openings = np.array([opening(one) for one in points])
    starts = range(max(1, len(openings) - LENGTH + 1))
    # Of NaN, where the face is not found on all frames, no span is known.
    spans = np.nan_to_num([np.ptp(openings[k : k + LENGTH]) for k in starts])
    first = int(np.argmax(spans))
    if spans[first] < SPEAKS:
        return None
    shown = np.array([one for one in points[first : first + LENGTH] if one is not None])
    height, width = source.frames[0].shape[:2]
    across = float(np.ptp(shown[..., 0], axis=1).mean())
    side = min(max(_LEAST_SIDE, round(_SHARE * across)), height, width)
    x, y = shown[:, face_landmarks.LIPS].mean(axis=(0, 1))
    top, left = np.clip(np.rint((y - side / 2, x - side / 2)), 0, (height - side, width - side))
    return StripPlace(first, int(top), int(left), side)


_BY_EYE = "ColorVideoVDP: JOD that are lost"
_BY_LIGHT = "mean difference of luma, 0 to 255, as ColorVideoVDP cannot tell"
_EYE_ROWS, _EYE_ORDER = ["still", "changing"], "each half from fine detail down to coarse"
_LIGHT_ROWS, _LIGHT_ORDER = ["light"], "from the top of the picture to its bottom"
_MOST_SHARE = 99.5
"""Percentile of all values that is white in the maps: a cut must not darken the rest."""
_LIGHT_SLICES = 18


class DifferenceTimeline(NamedTuple):
    """Of several versions of one clip, in one measure."""

    measure: str
    """What the lines show; greater is worse."""
    rows: list[str]
    """What the maps show, in as many equal parts from the top."""
    order: str
    """Of the rows of each part."""
    lines: list[list[float]]
    """Of each version, by frame."""
    maps: list[NDArray[np.float64]]
    """Of each version, shape (rows, frames)."""

    @property
    def most(self) -> float:
        """The value that is white in the maps."""
        return float(np.percentile(np.concatenate(self.maps), _MOST_SHARE))


def differences(source: TestClip, versions: Sequence[Sequence[Picture]]) -> DifferenceTimeline:
    """Of each version from the source, all in the same measure."""
    if len(source.frames) < 2:
        return _by_light(source, versions, "one picture is no video")
    try:
        found = [differences_over_time(source, frames) for frames in versions]
    except GsvcError as error:
        return _by_light(source, versions, str(error))
    # Light and colour that stand, then light that changes.
    maps = [np.vstack([one.bands[:3].max(axis=0).T, one.bands[3].T]) for one in found]
    return DifferenceTimeline(
        _BY_EYE, _EYE_ROWS, _EYE_ORDER, [list(map(float, one.frames)) for one in found], maps
    )


def worst_second(line: Sequence[float], frame_rate: float) -> tuple[int, int]:
    """First frame, and the one after the last, of the second with the greatest sum."""
    length = max(1, min(len(line), round(frame_rate)))
    first = int(np.convolve(line, np.ones(length), "valid").argmax())
    return first, first + length


def map_picture(values: NDArray[np.float64], most: float) -> bytes:
    """A map as a PNG with a pixel a value: from black over red to white at `most`."""
    shades = np.clip(255 * values / (most or 1.0), 0, 255).astype(np.uint8)
    coloured = cv2.applyColorMap(shades, cv2.COLORMAP_INFERNO)
    return image_file(np.asarray(coloured[..., ::-1], np.uint8), ".png")


def _by_light(
    source: TestClip, versions: Sequence[Sequence[Picture]], why: str
) -> DifferenceTimeline:
    maps = []
    for frames in versions:
        pairs = zip(source.frames, frames, strict=True)
        apart = [cv2.absdiff(gray(a), gray(b)).mean(axis=1) for a, b in pairs]
        slices = [np.array_split(one, min(_LIGHT_SLICES, len(one))) for one in apart]
        maps.append(np.array([[float(part.mean()) for part in one] for one in slices]).T)
    lines = [list(map(float, one.mean(axis=0))) for one in maps]
    return DifferenceTimeline(f"{_BY_LIGHT} ({why})", _LIGHT_ROWS, _LIGHT_ORDER, lines, maps)


_PAPER = 255
_SHEETS_JPEG_QUALITY = 85


def strip_rows(exhibit: Exhibit, place: StripPlace) -> Picture:
    """Successive frames of a part of the clip, a row a version, with rate and quality."""
    rows = []
    for pane in exhibit.panes:
        parts = place.cut(pane.frames)
        span = f"frames {place.first + 1} to {place.first + len(parts)}"
        text = f"{exhibit.clip}, {span}: {pane.name}, {pane.facts}"
        rows.append(captioned(np.hstack(parts), text))
    return np.vstack(rows)


def write_sheet(path: Path, rows: Sequence[Picture]) -> Path:
    """The rows under each other, as a JPEG or, lossless, as a PNG. Raises OutputError."""
    width = max(row.shape[1] for row in rows)
    padded = [
        np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=_PAPER)
        for row in rows
    ]
    options = (cv2.IMWRITE_JPEG_QUALITY, _SHEETS_JPEG_QUALITY) if path.suffix == ".jpg" else ()
    write_bytes(path, image_file(np.vstack(padded), path.suffix, *options))
    return path


_PANE = 480  # width of a frame on a sheet, in pixels
_FACES = "-faces"

_log = logging.getLogger(__name__)


def write_sheets(folder: Path, *, faces: bool = False, codecs: Collection[str] = ()) -> list[Path]:
    """Draw `sheets/level0.jpg`, `sheets/level0-strips.jpg` and so on in the run's folder.

    `faces`: also `sheets/level0-faces.jpg`, of the clips whose mouths move; `codecs`: shown beside
    ours and AV1. Returns the paths. Raises ConfigError for a codec that the run lacks, InputError
    for no run, no stream of ours at these levels, or one that decodes otherwise; OutputError.
    """
    run, summary = load_summary(folder)
    check_codecs(codecs, run.cells)
    written: list[Path] = []
    for level in range(3):
        rows, strips, mouths = [], [], []
        chosen = _chosen(summary, run.cells, level, codecs)
        for exhibit in exhibits(folder, summary, chosen, run.settings.get("places", ())):
            if exhibit.troubles:
                raise InputError(f"{exhibit.clip}: {exhibit.troubles[0]}")
            rows.append(_row(exhibit))
            place = worst_place(exhibit.panes[-1].frames, exhibit.panes[0].frames)
            strips.append(strip_rows(exhibit, place))
            if faces and exhibit.source and (mouth := speaking_place(exhibit.source)):
                mouths.append(strip_rows(exhibit, mouth))
        path = folder / "sheets" / f"level{level}.jpg"
        kinds = (path.stem, rows), (f"{path.stem}-strips", strips), (path.stem + _FACES, mouths)
        written += [write_sheet(path.with_stem(stem), shown) for stem, shown in kinds if shown]
    if not written:
        raise InputError(f"{folder} has no stream of gsvc at level 0, 1 or 2: run the benchmark")
    if faces and not any(path.stem.endswith(_FACES) for path in written):
        _log.warning("no clip of %s shows a mouth that moves", folder)
    return written


def _chosen(
    summary: Summary, cells: Sequence[CellRecord], level: int, codecs: Collection[str]
) -> dict[str, list[VersionChoice]]:
    """By clip: AV1 or another anchor, then ours at the level with least and most compute."""
    used = [
        cell
        for cell in cells
        if summary.codecs[cell.codec].is_anchor
        or cell.codec in {*codecs} - {OURS}
        or summary.codecs[cell.codec].family
        or (cell.codec == OURS and cell.settings.get("level") == level)
    ]
    return {
        clip: few(choices, summary, codecs)
        for clip, choices in near_rate(summary, used, level).items()
        if any(one.cell.codec == OURS for one in choices)
    }


def _row(exhibit: Exhibit) -> Picture:
    shown = []
    for pane in exhibit.panes:
        frame = pane.frames[exhibit.worst]
        height, width = frame.shape[:2]
        size = _PANE, round(height * _PANE / width)
        resized = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
        shown.append(captioned(resized, f"{pane.name}: {pane.facts}"))
    return np.hstack(shown)


_JUDGE = "face_cvvdp"  # what says which of AV1's streams of about our bits is its best
_CLOSE = 0.1  # log ratio of bits that count as equal


def write_people_strips(folder: Path) -> list[Path]:
    """Draw `strips/CLIP-RATE.png` in the run's folder, for each clip whose mouth moves.

    Rows: the source, AV1's best near our bits, ours without the layer of faces and with it.
    Returns the paths. Raises InputError when the folder holds no run, or a clip or stream of it is
    missing; OutputError, MissingModelError and MissingDependencyError.
    """
    run, summary = load_summary(folder)
    written, places = [], run.settings.get("places", ())
    for clip, rate, choices in _chosen_mouths(run.cells):
        # The first row's facts are those of the first choice.
        exhibit = load_exhibit(folder, clip, choices, summary, places)
        if exhibit.troubles or exhibit.source is None:
            raise InputError(f"{clip}: {exhibit.troubles[0]}")
        place = speaking_place(exhibit.source)
        if place is None:
            _log.warning("%s shows no mouth that moves", clip)
            continue
        name = f"{clip.replace('/', '-').replace(' ', '-')}-{rate:g}.png"
        written.append(write_sheet(folder / "strips" / name, [strip_rows(exhibit, place)]))
    return written


def _chosen_mouths(cells: Sequence[CellRecord]) -> Iterator[tuple[str, float, list[VersionChoice]]]:
    """Each clip and rate: AV1 if it is there, ours without the layer, ours with it."""
    done = [cell for cell in cells if cell.bits and cell.decodes]
    points: dict[tuple[str, float], dict[bool, CellRecord]] = {}
    for cell in done:
        if cell.codec == OURS and "bpp" in cell.settings:
            point = clip_label(cell), float(cell.settings["bpp"])
            points.setdefault(point, {})[bool(cell.settings.get("faces", 1))] = cell
    for (clip, rate), ours in points.items():
        there = [one for one in done if one.codec == ANCHOR and clip_label(one) == clip]
        best = sorted(there, key=lambda one: _rank(one, next(iter(ours.values())).bits))[:1]
        choices = [VersionChoice(_name(one), one, one.decodes[0]) for one in best]
        for layer, name in ((False, "gsvc without faces"), (True, "gsvc with faces")):
            if layer in ours:
                choices.append(VersionChoice(name, ours[layer], ours[layer].decodes[0]))
        yield clip, rate, choices


def _rank(cell: CellRecord, bits: int) -> tuple[float, float]:
    """The nearer to these bits the better; where they count as equal, by quality."""
    apart = abs(log(cell.bits / bits))
    scores = cell.decodes[0].scores.get(_JUDGE)
    quality = scores.mean if scores and scores.mean is not None else 0.0
    return (0.0 if apart <= _CLOSE else apart), -quality


def _name(cell: CellRecord) -> str:
    size = f", size {cell.settings['scale']}" if cell.settings.get("scale", "1") != "1" else ""
    return f"{cell.codec} crf {cell.settings.get('crf')}{size}"
