"""A page with sliders for three budgets: the best measured point within them, and its still."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path
from shlex import join

import cv2

from gsvc.codec.errors import GsvcError
from gsvc.codec.planning.ways import WAYS
from gsvc.codec.stream.index import StreamIndex
from gsvc.eval.planning.rows import way_told
from gsvc.eval.planning.surface import Point

_QUALITY = 82


def page(
    points: Sequence[Point], stills: Mapping[str, str], plots: Sequence[str], table: str, note: str
) -> str:
    """The page as HTML that needs nothing else; `plots` are SVG, `table` is Markdown."""
    told = [{**asdict(p), **_commands(p), "still": still_name(p)} for p in points]
    text = files("gsvc.eval.planning").joinpath("surface.html").read_text()
    for name, value in {
        "PLOTS": "".join(f"<figure>{svg[svg.index('<svg') :]}</figure>" for svg in plots),
        "TABLE": _as_html(table),
        "NOTE": escape(note),
        "POINTS": _inline(told),
        "STILLS": _inline(stills),
    }.items():
        text = text.replace(name, value, 1)
    return text


def still_name(point: Point) -> str:
    """Of a point's still."""
    return f"{point.key} {point.way}"


def stills_of(points: Sequence[Point], streams: Path) -> dict[str, str]:
    """The frame in the middle of each point whose stream is in the folder, as a data: address.

    A way that cannot be decoded here has none.
    """
    found = {}
    for point in points:
        stream = streams / f"{point.key}.gsv"
        name = way_told(point.way)
        if name is None or not stream.exists():
            continue
        try:
            found[still_name(point)] = _still(stream, name)
        except GsvcError:
            continue  # without weights or packages there is no picture to show
    return found


def _still(stream: Path, way: str) -> str:
    from gsvc.codec.decoder import Decoder
    from gsvc.codec.stream.decoding import decoded_frames

    with stream.open("rb") as file:
        index = StreamIndex(file)
        middle = len(index.times) // 2
        with Decoder(index.header, WAYS[way].settings) as decoder:
            wanted = index.times[middle]
            frames = decoded_frames(decoder, index.packets(middle, 1))
            picture = next(frame.pixels for frame in frames if frame.pts == wanted)
    done, data = cv2.imencode(
        ".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, _QUALITY]
    )
    assert done
    return f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"


def _commands(point: Point) -> dict[str, str]:
    rate = f"{round(1000 * point.kbps)}"
    name = way_told(point.way)
    arguments = WAYS[name].arguments if name else []
    return {
        "encode": join(["gsvc", "encode", "IN", "-o", "OUT.gsv", "--bitrate", rate]),
        "decode": join(["gsvc", "decode", "OUT.gsv", *arguments]),
    }


def _inline(value: object) -> str:
    """JSON that may stand in a script."""
    return json.dumps(value).replace("</", "<\\/")


def _as_html(table: str) -> str:
    header, _, *rows = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()
    ]
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
