"""What the planner is judged by: points of benchmark runs, with the trial of each clip."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

from gsvc.codec.errors import ConfigError
from gsvc.codec.frames import VideoFormat
from gsvc.codec.planning.trial import Trial, try_pictures
from gsvc.codec.planning.ways import WAYS, Way
from gsvc.datasets.clip_reader import load_clip
from gsvc.datasets.packaged import packaged_clip
from gsvc.encoders.tuning import PRESETS
from gsvc.eval.codecs.conventional import BT709
from gsvc.eval.planning.judge import jod

_MOTIONS, _MODELS = ("dis", "rife"), ("nano", "small")


@dataclass(frozen=True)
class Row:
    """One decoded point of a run."""

    clip: str
    """Name of a packaged clip."""
    bpp: float
    """Bits per pixel of a frame."""
    preset: str
    """Of the encoder."""
    way: str
    """Name of a way to decode."""
    jod: float
    """ColorVideoVDP."""
    texture: float
    """ST-LPIPS VGG."""

    def value(self, quality: str) -> float:
        """ "jod", or "texture" as a logarithm."""
        return self.jod if quality == "jod" else log(self.texture)


def read_rows(paths: Sequence[Path]) -> list[Row]:
    """gsvc's rows of several `summary.csv`, each once. Raises ConfigError for another file."""
    found: dict[tuple[str, float, str, str], Row] = {}
    for path in paths:
        try:
            with path.open(newline="") as file:
                rows = list(_rows(csv.DictReader(file)))
        except (OSError, KeyError, ValueError) as error:
            raise ConfigError(f"{path} is no summary.csv of gsvc bench run: {error}") from error
        found.update({(row.clip, row.bpp, row.preset, row.way): row for row in rows})
    return list(found.values())


def _rows(table: "csv.DictReader[str]") -> Iterator[Row]:
    for line in table:
        settings = line["settings"].split(", ")
        if line["codec"] != "gsvc" or any(one.startswith(("tune", "people")) for one in settings):
            continue
        preset = next(p for p in PRESETS if f"preset {p}" in settings)
        way, pixels = way_told(line["way"]), int(line["width"]) * int(line["height"])
        if way is None or not line["cvvdp"] or not line["st_lpips_vgg"]:
            continue
        bpp = int(line["bits"]) / (pixels * int(line["frames"]))
        scores = float(line["cvvdp"]), float(line["st_lpips_vgg"])
        yield Row(line["clip"], bpp, preset, way, *scores)


def way_told(text: str) -> str | None:
    """The name of a way to decode, as a run tells it; None for one that no planner chooses."""
    told = text.split(", ")
    motion = next((one for one in _MOTIONS if f"motion {one}" in told), "dis")
    model = next((one for one in _MODELS if f"model {one}" in told), "nano")
    if "steps 0" in told:
        return Way(motion).name
    name = Way(motion, f"compact:{model}").name
    return name if "steps 1" in told and name in WAYS else None


def trial_of(name: str) -> Trial:
    """The trial of a packaged clip as runs code it: 97 frames of 288 lines."""
    pictures, rate = load_clip(packaged_clip(name))
    height, width = pictures[0].shape[:2]
    video = VideoFormat(width, height, 1 / rate, rate, color=BT709)
    return try_pictures(pictures, video, judge=jod)


def as_text(value: object) -> str:
    """JSON with short numbers."""
    return json.dumps(
        json.loads(json.dumps(value), parse_float=lambda t: float(f"{float(t):.5g}")), indent=1
    )
