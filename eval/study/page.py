"""The page that voters open: it knows ids and sizes of the videos, and nothing of what they are."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gsvc.datasets.clips import ClipFormat
from gsvc.eval.report.media import pane_height

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Shown:
    """A trial as the page knows it."""

    trial: str
    """Its id, and the name of its video."""
    catch: bool
    form: ClipFormat


def page(study: str, shown: Sequence[Shown]) -> str:
    """The whole page; the videos lie beside it."""
    data = {
        "study": study,
        "trials": [
            {
                "id": one.trial,
                "catch": int(one.catch),
                "width": one.form.width,
                "height": one.form.height,
                "pitch": pane_height(one.form.height),
                "seconds": float(one.form.frames / one.form.frame_rate),
            }
            for one in shown
        ],
    }
    text = (_HERE / "study.html").read_text()
    for name in ("study.css", "study.js"):
        text = text.replace(f"[{name}]", (_HERE / name).read_text())
    return text.replace("[data]", json.dumps(data))
