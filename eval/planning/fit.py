"""Fits the planner's numbers: `python -m gsvc.eval.planning.fit [FOLDER ...] [--log FILE]`.

FOLDER is what `gsvc.eval.planning.points` measured of development clips; by default what gsvc keeps
of them, 18 clips on three days. Quality is a line in what the trial sees; ways to decode and
presets add a constant each; times and memory are lines in what is counted (`fit_costs`), beside the
profile.json of the machine that measured, in each FOLDER. An interval holds 90 % of the errors on
clips that were left out of the fit; logs of predictions (`gsvc bench plan`) correct all of it. What
no FOLDER measures stays as it is.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.errors import GsvcError
from gsvc.codec.planning import model as planning_model
from gsvc.codec.planning.learning import learned
from gsvc.codec.planning.ledger import ratios
from gsvc.codec.planning.model import shipped
from gsvc.codec.planning.profile import Profile, load_profile
from gsvc.codec.planning.ways import WAYS, Way
from gsvc.decoders.refiners.registry import find_backend
from gsvc.encoders.tuning import DEFAULT_PRESET, PRESETS
from gsvc.eval.compute import count_flops
from gsvc.eval.planning.fit_costs import Cost, Machines, by_key, costs, spreads, told
from gsvc.eval.planning.points import LEAN, Row, read_points
from gsvc.eval.planning.rows import as_text

TARGET = Path(planning_model.__file__).with_name("fitted.json")
KEPT = Path(__file__).with_name("development")
_HELD = KEPT / "memory", KEPT / "lean"
"""Measured on other days, beside profiles of then: what 33 and 97 frames hold, and what lean
encodings take."""
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
    rows: Sequence[Row],
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


def fit_line(rows: Sequence[Row], name: str) -> dict[str, float]:
    """Least squares over the plain rows, with a constant for each preset but the usual one."""
    plain = _measured(rows, name)
    presets = [p for p in PRESETS if p != DEFAULT_PRESET and any(r.preset == p for r in plain)]
    seen = [features(row, name) + [float(row.preset == p) for p in presets] for row in plain]
    found = np.linalg.lstsq(np.array(seen), np.array([value(row, name) for row in plain]))[0]
    return dict(zip((*LINES[name], *presets), map(float, found), strict=True))


def left_out_errors(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    """Of all plain rows, each foretold from the other clips: predicted less measured."""
    errors = []
    for clip in dict.fromkeys(row.clip for row in rows):
        line = fit_line([row for row in rows if row.clip != clip], name)
        for row in (row for row in _measured(rows, name) if row.clip == clip):
            foretold = np.dot(features(row, name), [line[part] for part in LINES[name]])
            errors.append(float(foretold) + line.get(row.preset, 0.0) - value(row, name))
    return np.array(errors)


def _measured(rows: Sequence[Row], name: str) -> list[Row]:
    """Rows of plain decoding that have what a line is of."""
    return [row for row in rows if row.is_plain and np.isfinite(value(row, name))]


def features(row: Row, name: str) -> list[float]:
    """What a quality is linear in: 1, what the trial saw; for texture the rate's logarithm."""
    seen = row.trial_jod if name == "jod_of_trial" else row.trial_likeness
    return [1.0, seen, float(np.log(row.bpp))][: len(LINES[name])]


def value(row: Row, name: str) -> float:
    """CVVDP, or ST-LPIPS VGG as a logarithm."""
    return float(np.log(row.texture)) if name == "texture" else row.jod


def time_of_fast(rows: Sequence[Row], preset: str) -> float:
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
    rows: Sequence[Row],
    lines: Mapping[str, Mapping[str, float]],
    taken: Sequence[Cost],
    preset: str,
) -> dict[str, Any]:
    """What a preset adds to quality at the same rate, and the lines of its time and memory."""
    usual = shipped()["presets"][preset]
    added = {
        judge: lines[line].get(preset, usual[judge]) if line in lines else usual[judge]
        for judge, line in _JUDGES.items()
    }
    seconds, memory = (by_key(taken, name) for name in ("encode_seconds", "encode_memory"))
    lean, held_less = usual["lean"], [row for row in rows if row.preset == preset + LEAN]
    return {
        **added,
        "time": 1.0,
        "of_fast": time_of_fast(rows, preset),
        "seconds": seconds.get(preset, usual.get("seconds")),
        "memory": memory.get(preset, usual.get("memory")),
        "lean": {
            "time": _median([row.lean_times for row in held_less], lean["time"]),
            "memory": memory.get(preset + LEAN, [lean["memory"]])[0],
        },
    }


def _of_way(rows: Sequence[Row], way: str, judge: str) -> float:
    """What a way adds to plain decoding of the same streams, on average."""
    pairs = [(row, plain) for row, plain in _paired(rows) if row.way == way]
    usual = 0.0 if way == Way().name else shipped()["ways"][way][judge]
    changes = [value(a, judge) - value(b, judge) for a, b in pairs]
    return fmean([change for change in changes if np.isfinite(change)] or [usual])


def _paired(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Rows of every way to decode, with the plain row of the same stream."""
    plain = {(row.clip, row.bpp, row.preset): row for row in rows if row.is_plain}
    keys = [(row.clip, row.bpp, row.preset) for row in rows]
    return [(row, plain[key]) for row, key in zip(rows, keys, strict=True) if key in plain]


def counted() -> dict[str, float]:
    """Operations per pixel of a key picture by refiner, and of a frame drawn by RIFE."""
    from gsvc.eval.codecs.rife_cost import drawing_cost

    found = {}
    for name in dict.fromkeys(way.backend for way in WAYS.values() if way.backend):
        cost = find_backend(name).cost(*_SIZE)
        assert cost is not None
        once = count_flops(cost.once).count if cost.once else 0
        found[name] = (count_flops(cost.step).count + once) / (_SIZE[0] * _SIZE[1])
    return {**found, "rife": drawing_cost(*_SIZE, 1, 1).flops_per_pixel or 0.0}


def _gain_of_rate(rows: Sequence[Row]) -> dict[str, float]:
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


def report(rows: Sequence[Row]) -> str:
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
        machines = dict[Row, Profile]()
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
