"""`gsvc bench surface`: what is drawn of a run, and the page with sliders in a real browser."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from browsing import chromium, new_page, troubles_of
from gsvc.codec.command.main import main
from gsvc.eval.planning.surface import (
    COLUMNS,
    exchange_table,
    exchanges,
    page,
    read_points,
    still_name,
    stills_of,
    surface,
)
from gsvc.eval.summary.bd_comparisons import mean_exchange
from gsvc.eval.summary.rate_tables import Table
from gsvc.eval.summary.summarise import load_kept, summarise

ROWS = (
    # level, way, bits, seconds, memory, jod, texture
    (0, "steps 0", 10_000, 0.5, 40e6, 4.0, 0.40),
    (0, "steps 1", 10_000, 5.0, 900e6, 3.9, 0.30),
    (1, "steps 0", 20_000, 0.5, 40e6, 6.0, 0.25),
    (1, "steps 1", 20_000, 5.0, 900e6, 5.9, 0.20),
    (2, "steps 0", 40_000, 0.5, 40e6, 7.5, 0.15),
    (2, "steps 1", 40_000, 5.0, 900e6, 7.4, 0.12),
)


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    names = [
        *("clip", "codec", "key", "settings", "way", "width", "height", "frame_rate", "frames"),
        *("bits", "decode_seconds", "flops_per_pixel", "peak_memory", "cvvdp", "st_lpips_vgg"),
    ]
    path = tmp_path / "run" / "summary.csv"
    path.parent.mkdir()
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(names)
        for level, way, bits, seconds, memory, jod, texture in ROWS:
            settings = f"level {level}, preset medium, seed 0, tools default"
            names_of_point = "drawn", "gsvc", f"k{level}", settings, way
            measured = bits, seconds, 0, memory, jod, texture
            table.writerow([*names_of_point, 64, 48, "25", 25, *measured])
    return path


def test_computation_buys_bits_by_texture_and_none_by_jod(summary: Path) -> None:
    points = read_points(summary)
    assert all(one.compression > 1.2 for one in exchanges(points, "texture")["drawn"])
    assert exchanges(points, "texture")["drawn"][0].compute == pytest.approx(10)
    assert exchanges(points, "jod")["drawn"][0].compression == pytest.approx(1)
    rates = [point.bpp for point in points if point.way == "steps 0"]
    grid = surface(points, "texture", rates, [1.0, 20.0])
    assert np.all(grid[1] < grid[0]) and np.all(np.diff(grid[0]) < 0)


def test_what_computation_buys_is_what_the_summary_of_the_same_run_says() -> None:
    folder = Path(__file__).parents[1] / "eval/results/whole"
    kept = load_kept(folder)
    bought = {one.metric: one.exchange for one in summarise(kept.settings, kept.cells).exchange}
    for judge, metric in COLUMNS.items():
        found = exchanges(read_points(folder / "summary.csv"), judge)
        mean = mean_exchange([one for each in found.values() for one in each])
        told = [bought[metric].compute, bought[metric].compression, bought[metric].exponent]
        assert [mean.compute, mean.compression, mean.exponent] == pytest.approx(told, rel=1e-4)
    page = (folder.parents[2] / "docs/planning.md").read_text()
    for row in exchange_table(read_points(folder / "summary.csv")).rows[:4]:
        assert " | ".join(row[1:]) in page, row[0]


def test_what_one_way_to_decode_cannot_tell_is_a_gap(summary: Path) -> None:
    points = [point for point in read_points(summary) if point.way == "steps 0"]
    rows = [row for row in exchange_table(points).rows if "published" not in row[0]]
    assert rows and all(row[1:] == ["–", "–", "–"] for row in rows)


def test_stills_are_what_streams_decode_to(summary: Path, stream: Path) -> None:
    (folder := summary.parent / "streams").mkdir()
    (folder / "k0.gsv").write_bytes(stream.read_bytes())
    points = read_points(summary)
    found = stills_of([point for point in points if point.way == "steps 0"], folder)
    assert list(found) == ["k0 steps 0"]
    assert found["k0 steps 0"].startswith("data:image/jpeg;base64,")


def test_sliders_choose_the_plan_and_its_still(summary: Path, tmp_path: Path) -> None:
    points = read_points(summary)
    dot = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
    stills = {still_name(point): dot for point in points}
    table = Table("", "", ["a", "b"], [["1", "<2"]])
    path = tmp_path / "index.html"
    path.write_text(page(points, stills, ["<svg></svg>"], table, "a note"))
    with chromium() as browser:
        view = new_page(browser)
        troubles = troubles_of(view)
        view.goto(path.as_uri())

        def told(**values: str) -> str:
            for name, value in values.items():
                if name in ("clip", "judge"):
                    view.select_option(f"#{name}", value)
                else:
                    view.locator(f"#{name}").fill(value)
            return str(view.inner_text("#told"))

        best = told(judge="texture", bits="1000", time="1000", memory="1000")
        assert "steps 1" in best and "0.120" in best
        assert view.get_attribute("#still", "src") == dot
        assert "steps 0" in told(time="0") and "0.150" in told()
        assert "4.00 JOD" in told(bits="0", judge="jod")
        assert "steps 0" in told(judge="texture", time="1000", memory="0")
        told(bits="1000", time="1000", memory="1000")
        refused = told(bits="1000", memory="0", time="0")
        assert "binds" not in refused  # plain decoding keeps both
        view.evaluate("for (const p of points) p.seconds *= p.key === 'k1' ? 2 : 3; plan()")
        assert "1.00 s a second" in str(view.inner_text("#told"))  # the nearest of all
        view.set_viewport_size({"width": 390, "height": 800})
        assert view.evaluate("document.documentElement.scrollWidth") <= 390
        assert "<2" in view.inner_text("table")
        assert not troubles


def test_the_command_draws_and_tells(
    summary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["bench", "surface", str(summary), "--out", str(out)]) == 0
    assert "published" in capsys.readouterr().out
    names = {"index.html", "contours.svg", "iso-quality.svg", "exchange.md"}
    assert {path.name for path in out.iterdir()} == names
    text = (out / "index.html").read_text()
    assert json.dumps("steps 1") in text and "POINTS" not in text


def test_what_is_no_run_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "summary.csv").write_text("clip\nx\n")
    out = tmp_path / "out"
    assert main(["bench", "surface", str(path), "--out", str(out)]) == 2
    assert "no summary.csv of gsvc bench run" in capsys.readouterr().err
    path.write_text("codec,settings,cvvdp,st_lpips_vgg\nx265,crf 30,1,1\n")
    assert main(["bench", "surface", str(path), "--out", str(out)]) == 2
    assert "steps=0+1" in capsys.readouterr().err and not out.exists()
