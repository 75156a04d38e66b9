"""What a folder of shards holds, where it is from, and what making it took."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gsvc import __version__
from gsvc.decoders.training.preparation.selection import Found
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.shards import Folder, costs_so_far

_PERCENTILES = 5, 50, 95


def manifest(
    folder: Folder,
    rows: Sequence[Mapping[str, Any]],
    reasons: Mapping[str, str],
    clips: Sequence[Found],
    settings: Settings,
) -> dict[str, Any]:
    """The same for the same sources and settings, however often making it was stopped."""
    shards = -(-len(clips) // settings.shard_clips)
    tables = [json.loads(folder.table(number).read_text()) for number in range(shards)]
    poison = {row["address"]: row["error"] for row in rows if row["error"]}
    poison |= {key: why for table in tables for key, why in table["poison"].items()}
    return {
        "format": 1,
        "version": __version__,
        "kind": settings.kind,
        "settings": asdict(settings),
        "surveyed": len(rows),
        "sources": [
            {name: row[name] for name in ("address", "sha256", "bytes")}
            for row in rows
            if not row["error"]
        ],
        "shards": [
            {
                "file": folder.tar(number).name,
                "sha256": table["sha256"],
                "bytes": table["bytes"],
                "clips": table["clips"],
                "samples": len(table["samples"]),
            }
            for number, table in enumerate(tables)
        ],
        "samples": sum(len(table["samples"]) for table in tables),
        "clips": sum(table["clips"] for table in tables),
        "set_aside": dict(Counter(_kind(why) for why in reasons.values())),
        "reasons": dict(reasons),
        "poison": poison,
        "statistics": _statistics(clips),
    }


def _kind(why: str) -> str:
    return "copy" if why.startswith("shows the same") else why.split()[0]


def _statistics(clips: Sequence[Found]) -> dict[str, dict[str, float]]:
    """Percentiles of the measures of the clips that were taken."""
    return {
        name: {
            f"p{share}": round(float(np.percentile([x.measures[name] for x in clips], share)), 4)
            for share in _PERCENTILES
        }
        for name in clips[0].measures
    }


def cpu_seconds(folder: Folder) -> float:
    """Of processors, that all operators took in all calls."""
    return sum(row["cpu"] for row in costs_so_far(folder).values())


def report(folder: Folder) -> list[dict[str, float | str]]:
    """What each operator took: items, seconds an item, items a second and worker; of all calls."""
    rows: list[dict[str, float | str]] = []
    for name, row in costs_so_far(folder).items():
        each = row["wall"] / row["items"]
        rows.append(
            {
                "operator": name,
                "items": int(row["items"]),
                "seconds an item": round(each, 3),
                "cpu seconds an item": round(row["cpu"] / row["items"], 3),
                "items a second and worker": round(1 / max(each, 1e-9), 2),
                "MB at most": round(row["resident"] / 1e6),
                "MB of a GPU": round(row["device"] / 1e6),
            }
        )
    return rows
