"""Fits the planner's numbers: `python tools/planning_fit.py [FOLDER ...] [--log FILE]`.

FOLDER is what `planning_points.py` measured of development clips; by default what the repository
keeps in `tools/planning_development`. Rate and quality are lines in what the video's own trial
says; time and memory are lines in what is counted.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import GsvcError
from gsvc.codec.planning import prediction as planning_model
from gsvc.codec.planning.budgets import LONG_LATENCY
from gsvc.codec.planning.machine_profile import WAYS, Profile, Way, load_profile
from gsvc.codec.planning.prediction import (
    decoding_parts,
    kind_of,
    learned,
    memory_parts,
    ratios,
    seen_work,
    shipped,
)
from gsvc.decoders.keyframes.backends import find_backend
from gsvc.encoders.tuning import DEFAULT_PRESET, PRESETS
from gsvc.eval.compute import count_flops
from planning_points import LEAN, EncodingRow, read_points

KINDS = "plain", "rife", "refined"
"""Of ways to decode, as of `model.kind_of`."""
_FEW = 8
"""Rows below which they tell one share of all parts alone."""
Machines = Mapping[EncodingRow, Profile]
"""Of each row, the profile of the machine as it was when the row was measured."""
Fit = Callable[[Sequence[EncodingRow]], NDArray[np.float64]]
Foretell = Callable[[EncodingRow, NDArray[np.float64]], float]


@dataclass(frozen=True)
class CostFit:
    """One number that is foretold."""

    name: str
    """Of the intervals in `fitted.json`."""
    key: str
    """A preset, or one of `KINDS`."""
    rows: Sequence[EncodingRow]
    """That measured it."""
    fit: Fit
    foretell: Foretell
    measured: Callable[[EncodingRow], float]

    @property
    def numbers(self) -> list[float]:
        """Fitted to all rows; empty where there are none."""
        return list(map(float, self.fit(self.rows))) if self.rows else []

    @property
    def ratios(self) -> list[float]:
        """What was measured over what is foretold from the other clips."""
        found = []
        for clip in dict.fromkeys(row.clip for row in self.rows):
            others = [row for row in self.rows if row.clip != clip]
            if others:
                line = self.fit(others)
                own = (row for row in self.rows if row.clip == clip)
                found += [self.measured(row) / self.foretell(row, line) for row in own]
        return found


def costs(rows: Sequence[EncodingRow], machines: Machines) -> list[CostFit]:
    """All of them."""
    found = []
    for preset in PRESETS:
        of_preset = [row for row in rows if row.is_plain and row.preset == preset]
        found += [_seconds(of_preset, machines, preset), _memory(of_preset, machines, preset)]
        lean = [row for row in rows if row.preset == preset + LEAN]
        found.append(_lean_memory(lean, machines, preset, found[-1]))
    return [*found, *(_decoding(rows, machines, kind) for kind in KINDS)]


def spreads(found: Sequence[CostFit]) -> dict[str, list[float]]:
    """By name, the ends of 90 % of what was measured over what was foretold."""
    spread: dict[str, list[float]] = {}
    for name in dict.fromkeys(cost.name for cost in found):
        ratios = [ratio for cost in found if cost.name == name for ratio in cost.ratios]
        if ratios:
            low, high = (float(end) for end in np.quantile(ratios, (0.05, 0.95)))
            spread[name] = [min(low, 1.0), 1.0, max(high, 1.0)]
    return spread


def told(found: Sequence[CostFit]) -> str:
    """How far each errs on clips that were left out."""
    lines = []
    for cost in found:
        errors = np.abs(1 / np.array(cost.ratios or [np.nan]) - 1)
        lines.append(
            f"{cost.name}, {cost.key}: median error {100 * np.median(errors):.0f} %, nine "
            f"in ten within {100 * np.quantile(errors, 0.9):.0f} %"
        )
    return "\n".join(lines)


def _seconds(rows: Sequence[EncodingRow], machines: Machines, preset: str) -> CostFit:
    def start(row: EncodingRow) -> float:
        return machines[row].encode[preset].start

    def unit(row: EncodingRow) -> float:
        return machines[row].encode["fast"].frame

    def seen(row: EncodingRow) -> list[float]:
        return seen_work(row.trial_seconds / unit(row), row.trial_keys, row.bpp)

    def fit(some: Sequence[EncodingRow]) -> NDArray[np.float64]:
        taken = [
            log((row.encode_seconds - start(row)) / (unit(row) * row.pixels * row.frames))
            for row in some
        ]
        return np.asarray(np.linalg.lstsq(np.array([seen(row) for row in some]), taken)[0])

    def foretell(row: EncodingRow, line: NDArray[np.float64]) -> float:
        per_pixel = unit(row) * exp(float(np.dot(line, seen(row))))
        return start(row) + per_pixel * row.pixels * row.frames

    timed = [row for row in rows if isfinite(row.encode_seconds)]
    return CostFit("encode_seconds", preset, timed, fit, foretell, lambda row: row.encode_seconds)


def _memory(rows: Sequence[EncodingRow], machines: Machines, preset: str) -> CostFit:
    def base(row: EncodingRow) -> float:
        return machines[row].encode[preset].memory

    def seen(row: EncodingRow) -> list[float]:
        held = min(row.frames, LONG_LATENCY * row.rate)
        return memory_parts(machines[row].encode[preset], row.pixels, held)

    def foretell(row: EncodingRow, line: NDArray[np.float64]) -> float:
        return base(row) + float(np.dot(line, seen(row)))

    def fit(some: Sequence[EncodingRow]) -> NDArray[np.float64]:
        weights = [1 / row.encode_memory for row in some]
        rest = [row.encode_memory - base(row) for row in some]
        return _positive([seen(row) for row in some], rest, weights)

    known = [row for row in rows if isfinite(row.encode_memory)]
    return CostFit("encode_memory", preset, known, fit, foretell, lambda row: row.encode_memory)


def _lean_memory(
    rows: Sequence[EncodingRow], machines: Machines, preset: str, usual: CostFit
) -> CostFit:
    """A share of what the usual encoding is foretold to hold beside its programs."""
    line = np.array(usual.numbers)

    def base(row: EncodingRow) -> float:
        return machines[row].encode[preset].memory

    def seen(row: EncodingRow) -> list[float]:
        return [usual.foretell(row, line) - base(row)]

    def foretell(row: EncodingRow, share: NDArray[np.float64]) -> float:
        return base(row) + float(np.dot(share, seen(row)))

    def fit(some: Sequence[EncodingRow]) -> NDArray[np.float64]:
        rest = [row.encode_memory - base(row) for row in some]
        return _positive([seen(row) for row in some], rest, [1 / row.encode_memory for row in some])

    return CostFit(
        "encode_memory", preset + LEAN, rows, fit, foretell, lambda row: row.encode_memory
    )


def _decoding(rows: Sequence[EncodingRow], machines: Machines, kind: str) -> CostFit:
    def seen(row: EncodingRow, keys: float) -> list[float]:
        usage, pixels = machines[row].decode[row.way], row.pixels * row.frames
        return decoding_parts(usage, WAYS[row.way], pixels, keys)

    def foretell(row: EncodingRow, line: NDArray[np.float64]) -> float:
        return float(np.dot(line, seen(row, row.trial_keys)))

    def fit(some: Sequence[EncodingRow]) -> NDArray[np.float64]:
        seconds = [row.decode_seconds for row in some]
        parts = [seen(row, row.keys) for row in some]  # what came: the trial's would blur it
        if len(some) < _FEW:
            return np.full(3, np.median(np.array(seconds) / np.sum(parts, axis=1)))
        return _positive(parts, seconds, [1 / one for one in seconds])

    timed = [
        row
        for row in rows
        if kind_of(WAYS[row.way]) == kind
        and isfinite(row.decode_seconds)
        and isfinite(row.trial_keys)
        and (row.keys * row.frames > 1.5 or kind != "rife")  # else there is nothing to draw
    ]
    return CostFit("decode_seconds", kind, timed, fit, foretell, lambda row: row.decode_seconds)


def _positive(
    seen: Sequence[Sequence[float]], values: Sequence[float], weights: Sequence[float]
) -> NDArray[np.float64]:
    """Weighted least squares; columns that would count against themselves are left out."""
    columns, scale = np.array(seen), np.array(weights)
    used = [n for n in range(columns.shape[1]) if np.any(columns[:, n])]
    while True:
        line = np.linalg.lstsq(columns[:, used] * scale[:, None], np.array(values) * scale)[0]
        if np.all(line >= 0) or len(used) == 1:
            break
        del used[int(np.argmin(line * np.abs(columns[:, used]).mean(axis=0)))]
    found = np.zeros(columns.shape[1])
    found[used] = np.maximum(line, 0)
    return found


def by_key(found: Sequence[CostFit], name: str) -> Mapping[str, list[float]]:
    """The fitted numbers of one name."""
    return {cost.key: cost.numbers for cost in found if cost.name == name and cost.rows}


def as_text(value: object) -> str:
    """JSON with short numbers."""
    return json.dumps(
        json.loads(json.dumps(value), parse_float=lambda t: float(f"{float(t):.5g}")), indent=1
    )


TARGET = Path(planning_model.__file__).with_name("fitted.json")
KEPT = Path(__file__).with_name("planning_development")
_HELD = KEPT / "memory", KEPT / "lean", KEPT / "ways"
"""Measured on other days, beside profiles of then: what 33 and 97 frames hold, what lean encodings
take, and what each way to decode gains and takes."""
LINES = {
    "jod_of_trial": ("offset", "slope"),
    "jod": ("offset", "slope"),
    "texture": ("offset", "slope", "rate"),
}
"""What is linear in what: CVVDP in the trial's own CVVDP, or in its likeness; the logarithm of
ST-LPIPS VGG in likeness and in the logarithm of the rate."""
_JUDGES = {"jod": "jod_of_trial", "texture": "texture"}
"""By judge, the line beside which a preset's constant is taken."""
_SIZE = 288, 512
"""Pictures for which operations are counted: sides are padded a little."""
_SPREAD = {
    "rate": (0.95, 1.0, 1.05),
    "decode_memory": (0.8, 1.0, 1.25),
}
"""Where no log tells: as wide as a guess must be."""


def fit(
    rows: Sequence[EncodingRow],
    machines: Machines,
    logs: Mapping[str, Sequence[float]],
    flops: Mapping[str, float],
) -> dict[str, Any]:
    """The numbers of `fitted.json`; `logs`: as of `ledger.ratios`, `flops`: of `counted`."""
    lines = {name: fit_line(rows, name) for name in LINES if _measured(rows, name)}
    errors = {name: float(np.quantile(np.abs(left_out_errors(rows, name)), 0.9)) for name in lines}
    taken = costs(rows, machines)
    usual = shipped()
    numbers = {
        **{name: usual[name] for name in LINES if name not in lines},
        **{
            name: {**{part: line[part] for part in LINES[name]}, "error": errors[name]}
            for name, line in lines.items()
        },
        "ways": {name: {judge: _of_way(rows, name, judge) for judge in _JUDGES} for name in WAYS},
        "presets": {name: _of_preset(rows, lines, taken, name) for name in PRESETS},
        "decoding": {**usual.get("decoding", {}), **by_key(taken, "decode_seconds")},
        "gain": _gain_of_rate(rows),
        "flops": dict(flops),
        "spread": {**usual["spread"], **_SPREAD, **spreads(taken)},
    }
    return learned(numbers, logs)


def fit_line(rows: Sequence[EncodingRow], name: str) -> dict[str, float]:
    """Least squares over the plain rows, with a constant for each preset but the usual one."""
    plain = _measured(rows, name)
    presets = [p for p in PRESETS if p != DEFAULT_PRESET and any(r.preset == p for r in plain)]
    seen = [features(row, name) + [float(row.preset == p) for p in presets] for row in plain]
    found = np.linalg.lstsq(np.array(seen), np.array([value(row, name) for row in plain]))[0]
    return dict(zip((*LINES[name], *presets), map(float, found), strict=True))


def left_out_errors(rows: Sequence[EncodingRow], name: str) -> NDArray[np.float64]:
    """Of all plain rows, each foretold from the other clips: predicted less measured."""
    errors = []
    for clip in dict.fromkeys(row.clip for row in rows):
        line = fit_line([row for row in rows if row.clip != clip], name)
        for row in (row for row in _measured(rows, name) if row.clip == clip):
            foretold = np.dot(features(row, name), [line[part] for part in LINES[name]])
            errors.append(float(foretold) + line.get(row.preset, 0.0) - value(row, name))
    return np.array(errors)


def _measured(rows: Sequence[EncodingRow], name: str) -> list[EncodingRow]:
    """Rows of plain decoding that have what a line is of."""
    return [row for row in rows if row.is_plain and np.isfinite(value(row, name))]


def features(row: EncodingRow, name: str) -> list[float]:
    """What a quality is linear in: 1, what the trial saw; for texture the rate's logarithm."""
    seen = row.trial_jod if name == "jod_of_trial" else row.trial_likeness
    return [1.0, seen, float(np.log(row.bpp))][: len(LINES[name])]


def value(row: EncodingRow, name: str) -> float:
    """CVVDP, or ST-LPIPS VGG as a logarithm."""
    return float(np.log(row.texture)) if name == "texture" else row.jod


def time_of_fast(rows: Sequence[EncodingRow], preset: str) -> float:
    """Of encoding to the same rate of the same clip, as a multiple of preset fast's, the median."""
    plain = [row for row in rows if row.is_plain]
    fast = {(r.clip, r.share, r.frames): r.encode_seconds for r in plain if r.preset == "fast"}
    of_preset = {(r.clip, r.share, r.frames): r.encode_seconds for r in plain if r.preset == preset}
    ratios = [seconds / fast[key] for key, seconds in of_preset.items() if key in fast]
    return _median(ratios, shipped()["presets"][preset]["of_fast"])


def _median(values: Sequence[float], usual: float) -> float:
    """Of those that were measured; `usual` where there are none."""
    known = [value for value in values if np.isfinite(value)]
    return float(np.median(known)) if known else float(usual)


def _of_preset(
    rows: Sequence[EncodingRow],
    lines: Mapping[str, Mapping[str, float]],
    taken: Sequence[CostFit],
    preset: str,
) -> dict[str, Any]:
    """What a preset adds to quality at the same rate, and the lines of its time and memory."""
    usual = shipped()["presets"][preset]
    added = {
        judge: lines[line].get(preset, usual[judge]) if line in lines else usual[judge]
        for judge, line in _JUDGES.items()
    }
    seconds, memory = (by_key(taken, name) for name in ("encode_seconds", "encode_memory"))
    lean, held_less = usual["low_memory"], [row for row in rows if row.preset == preset + LEAN]
    return {
        **added,
        "time": 1.0,
        "of_fast": time_of_fast(rows, preset),
        "seconds": seconds.get(preset, usual.get("seconds")),
        "memory": memory.get(preset, usual.get("memory")),
        "low_memory": {
            "time": _median([row.lean_times for row in held_less], lean["time"]),
            "memory": memory.get(preset + LEAN, [lean["memory"]])[0],
        },
    }


def _of_way(rows: Sequence[EncodingRow], way: str, judge: str) -> float:
    """What a way adds to plain decoding of the same streams, on average."""
    pairs = [(row, plain) for row, plain in _paired(rows) if row.way == way]
    usual = 0.0 if way == Way().name else shipped()["ways"][way][judge]
    changes = [value(a, judge) - value(b, judge) for a, b in pairs]
    return fmean([change for change in changes if np.isfinite(change)] or [usual])


def _paired(rows: Sequence[EncodingRow]) -> list[tuple[EncodingRow, EncodingRow]]:
    """Rows of every way to decode, with the plain row of the same stream."""
    plain = {(row.clip, row.bpp, row.preset): row for row in rows if row.is_plain}
    keys = [(row.clip, row.bpp, row.preset) for row in rows]
    return [(row, plain[key]) for row, key in zip(rows, keys, strict=True) if key in plain]


def counted() -> dict[str, float]:
    """Operations per pixel of a coded picture by refiner, and of a frame drawn by RIFE."""
    from gsvc.eval.baselines.gsvc import drawing_cost

    found = {}
    for name in dict.fromkeys(way.backend for way in WAYS.values() if way.backend):
        cost = find_backend(name).cost(*_SIZE)
        assert cost is not None
        once = count_flops(cost.once) if cost.once else 0
        found[name] = (count_flops(cost.step) + once) / (_SIZE[0] * _SIZE[1])
    return {**found, "rife": drawing_cost(*_SIZE, 1, 1).flops_per_pixel or 0.0}


def _gain_of_rate(rows: Sequence[EncodingRow]) -> dict[str, float]:
    """What restoring gains at a rate, in proportion to its mean: a line in the rate's logarithm."""
    seen = [
        (np.log(row.bpp), value(plain, "texture") - value(row, "texture"))
        for row, plain in _paired(rows)
        if WAYS[row.way].backend and WAYS[row.way].motion == Way().motion
    ]
    if len({row.share for row in rows if WAYS[row.way].backend}) < 2:
        return dict(shipped()["gain"])  # of one rate each, clips tell of themselves
    logs, gains = np.array(seen).T
    slope = float(np.polyfit(logs - logs.mean(), gains / gains.mean(), 1)[0])
    return {"at": float(logs.mean()), "slope": slope}


def report(rows: Sequence[EncodingRow]) -> str:
    """How far the lines err on clips that were left out."""
    errors = {name: np.abs(left_out_errors(rows, name)) for name in LINES if _measured(rows, name)}
    clips = len({row.clip for row in rows})
    return "\n".join(
        f"{name}: median error {np.median(found):.3f}, nine in ten within "
        f"{np.quantile(found, 0.9):.3f}, of {clips} clips, each left out"
        for name, found in errors.items()
    )


def main() -> int:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    kept = [KEPT, *_HELD]
    parser.add_argument("folders", nargs="*", type=Path, default=kept, metavar="FOLDER")
    parser.add_argument("--log", action="append", type=Path, default=[], metavar="FILE")
    options = parser.parse_args()
    try:
        machines = dict[EncodingRow, Profile]()
        for folder in options.folders:
            profile = load_profile(folder / "profile.json", foreign=True)
            machines |= dict.fromkeys(read_points(folder / "points.csv"), profile)
        rows, logs = list(machines), ratios(options.log)
        TARGET.write_text(as_text(fit(rows, machines, logs, counted())) + "\n")
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{report(rows)}\n{told(costs(rows, machines))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
