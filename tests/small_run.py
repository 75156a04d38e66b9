"""A run of a few cells of one clip, coded, decoded and measured as the benchmark does it."""

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gsvc.datasets.clips.clip_reader import frames_sha256
from gsvc.datasets.clips.sets import find_clips
from gsvc.eval.baselines import find_codec
from gsvc.eval.bench.store import BenchFolder, CellRecord, DecodeRecord, MetricScores
from gsvc.eval.metrics import find_metric

CLIP = "synthetic/turn"
FRAMES = 9


def record(
    codec_name: str, settings: dict[str, Any], stride: int = 4
) -> tuple[CellRecord, bytes, str]:
    """A cell, coded, decoded and measured as the benchmark does it."""
    source = find_clips([CLIP])[0].load("288", FRAMES)
    codec, form = find_codec(codec_name), source.format
    encoded = codec.encode(source, settings)
    decodes = []
    for way in codec.ways_to_decode(settings)[:1]:
        decoded = codec.decode(encoded.data, form, settings, way)
        values = find_metric("psnr_y").measure(source, [decoded.frames], range(0, FRAMES, stride))[
            0
        ]
        scores = {
            "psnr_y": MetricScores(float(np.mean(values)), [float(v) for v in values], "test")
        }
        decodes.append(
            DecodeRecord(dict(way), decoded.seconds, frames_sha256(decoded.frames), scores)
        )
    name = repr((source.name, codec_name, sorted(settings.items())))
    cell = CellRecord(
        key=hashlib.sha256(name.encode()).hexdigest()[:32],
        clip=source.name,
        size="288",
        width=form.width,
        height=form.height,
        frame_rate=str(form.frame_rate),
        frames=form.frame_count,
        source_sha256=source.sha256,
        codec=codec_name,
        codec_version=codec.version(),
        settings=settings,
        bits=8 * len(encoded.data),
        stream_sha256=hashlib.sha256(encoded.data).hexdigest(),
        ledger=dict(encoded.ledger),
        encode_seconds=encoded.seconds,
        decodes=decodes,
    )
    return cell, encoded.data, codec.suffix


def write_run(folder: Path, cells: list[tuple[CellRecord, bytes, str]], stride: int) -> Path:
    run = BenchFolder(folder)
    run.make()
    for cell, data, suffix in cells:
        run.write(cell, data, suffix)
    listed = [
        {k: v for k, v in asdict(cell).items() if k in ("key", "clip", "size", "codec", "settings")}
        for cell, _, _ in cells
    ]
    gaps = {"metric vmaf": "libvmaf is not here"}
    metric = find_metric("psnr_y")
    about = {"unit": metric.unit, "higher_is_better": metric.higher_is_better, "per_frame": True}
    values = {"schema": 1, "frames": FRAMES, "stride": stride, "gaps": gaps, "cells": listed}
    values["metrics"] = {"psnr_y": {"version": metric.version(), **about}}
    values["codec_facts"] = {
        cell.codec: asdict(find_codec(cell.codec).facts) for cell, _, _ in cells
    }
    run.write_settings(values)
    return folder
