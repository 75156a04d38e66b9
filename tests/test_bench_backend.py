"""The conformance kit, whole: windows, packaged levels, metrics, report, of a tiny random model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gsvc
from gsvc.codec.command import main
from gsvc.codec.command.bench_costs import METRICS
from gsvc.eval.bench.store import load_run
from needs import need_package

QUICK = tuple(name for name in METRICS if not name.startswith("st_lpips"))
"""The other one takes as long as all else here, and has tests of its own."""
Pictures = Callable[..., list[gsvc.Picture]]


@pytest.mark.slow
def test_the_kit_makes_a_folder_to_send_back(
    tiny: Callable[[str], Any],
    moving_pictures: Pictures,
    write_video: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    need_package("pycvvdp")
    tiny("wan-v2v")
    monkeypatch.setattr("gsvc.eval.bench.speed._SIZES", ((32, 32), (40, 70)))
    monkeypatch.setattr("gsvc.codec.command.bench_costs.METRICS", QUICK)
    clip, out = tmp_path / "it.mp4", tmp_path / "out"
    write_video(clip, moving_pictures(9))
    command = ["bench", "backend", "wan-v2v", "--out", str(out), "--clip", str(clip)]
    command += ["--frames", "9", "--size", "native", "--steps", "1", "--seeds", "0,1"]
    assert main.main(command) == 0
    told = json.loads((out / "backend.json").read_text())
    assert told["weights"] == "random weights" and told["steps"] == 1
    assert [row["size"] for row in told["windows"]] == ["32x32", "70x40"]
    assert all(row["seconds"] > 0 for row in told["windows"])
    cells = load_run(out).cells
    assert {cell.settings["level"] for cell in cells} == {0, 1, 2, 3}
    for cell in cells:
        ways = [(one.way["steps"], one.way.get("seed")) for one in cell.decodes]
        assert ways == [(0, None), (1, None), (1, 1)]
        assert all(set(one.scores) == set(QUICK) for one in cell.decodes)
    for name in ("summary.md", "headline.csv"):
        assert (out / name).stat().st_size > 0
    assert "RANDOM WEIGHTS: what is restored" in (out / "summary.md").read_text()
    assert main.main(["bench", "report", str(out)]) == 0
    assert "RANDOM WEIGHTS: what is restored" in (out / "report.html").read_text()
    capsys.readouterr()
    assert main.main(["bench", "table", str(out)]) == 2
    assert "random weights: they belong in no table" in capsys.readouterr().err
