"""The report of a small real run: plots, comparison, and the page in a real browser."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from browsing import chromium, new_page, troubles_of
from gsvc import InputError
from gsvc.codec.command.main import main
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.sets import find_clips
from gsvc.eval.baselines import find_codec
from gsvc.eval.bench.store import CellRecord
from gsvc.eval.report.exhibits import label, legend, panels
from gsvc.eval.report.plots import tunes, write_plots
from gsvc.eval.report.report_page import write_report
from gsvc.eval.report.sheets import differences, speaking_place, worst_second, write_sheets
from gsvc.eval.summary.curves import point_rows
from gsvc.eval.summary.write import write_summary
from needs import need, need_clip
from readme_chart import draw_chart, keep_results
from small_run import FRAMES, record, write_run

STRIDE = 4
CRFS = (24, 34, 44)


@pytest.fixture(scope="module")
def cells() -> list[tuple[CellRecord, bytes, str]]:
    points = [("x265", {"preset": "slow", "crf": crf, "scale": "1"}) for crf in CRFS]
    points += [("hold", dict(find_codec("hold").rate_points()[0]))]
    return [record(name, dict(settings)) for name, settings in points]


@pytest.fixture(scope="module")
def run(
    cells: list[tuple[CellRecord, bytes, str]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = write_run(tmp_path_factory.mktemp("run"), cells, STRIDE)
    write_summary(folder)
    write_report(folder)
    return folder


def test_the_summary_says_what_was_measured_and_what_is_missing(run: Path) -> None:
    text = (run / "summary.md").read_text()
    for words in ("one frame in 4", "libvmaf is not here", "psnr_y", "rate ratio"):
        assert words in text
    rows = (run / "frames.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 * len(range(0, FRAMES, STRIDE))
    assert len((run / "summary.csv").read_text().splitlines()) == 1 + 4


def test_plots_are_drawn_twice_the_same(run: Path) -> None:
    paths = write_plots(run)
    assert {"rd_psnr_y.svg", "rd_psnr_y.png"} <= {path.name for path in paths}
    drawn = (run / "plots" / "rd_psnr_y.svg").read_bytes()
    write_plots(run)
    assert (run / "plots" / "rd_psnr_y.svg").read_bytes() == drawn


def test_the_front_has_a_place_for_every_tune(cells: list[tuple[CellRecord, bytes, str]]) -> None:
    (row,) = point_rows([cells[0][0]])
    settings = [{"bpp": 0.003, "tune": tune} for tune in ("motion", "texture")] + [{"bpp": 0.003}]
    rows = [
        replace(row, codec="gsvc", settings=dict(one), scores={"a": 5.0 + n, "b": 0.3 - n / 10})
        for n, one in enumerate(settings)
    ]
    assert tunes(rows[:1], ("a", "b")) is None
    figure = tunes(rows, ("a", "b"))
    assert figure is not None
    line = np.column_stack(figure.axes[0].lines[0].get_data())
    assert line.tolist() == pytest.approx(np.array([[6.0, 0.2], [7.0, 0.1], [5.0, 0.3]]))


_LONG = [f"svtav1+sr, mix {n}, network compact" for n in range(9)]
_RAGGED = [
    *("jpeg", "svtav1", "vp9", "webp", "x264", "x265", "hold"),
    "motion, steps 0",
    "svtav1+dis",
]


@pytest.mark.parametrize("others", [_LONG, [*_RAGGED, "gsvc, steps 1"]])
def test_title_and_legend_of_one_clip_are_whole(others: list[str]) -> None:
    names = [*others, "gsvc, steps 0"]
    figure, places = panels(["one"], "Least rate for a quality and a compute: st_lpips_vgg, better")
    for _, axis in places:
        for name in names:
            axis.plot([0, 1], label=name)
        label(axis, "a-clip-with-a-name-as-long-as-people-have-them-2026-11-25 at native", "", "")
    legend(figure)
    figure.draw_without_rendering()
    for artist in (figure.legends[0], figure.texts[0], figure.axes[0].title):
        box = artist.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
    assert figure.axes[0].get_window_extent().height > figure.bbox.height / 3


def test_the_page_says_where_its_numbers_come_from(run: Path) -> None:
    assert "Where the numbers come from" in (run / "report.html").read_text()


def test_the_readme_chart_needs_only_the_summary(run: Path, tmp_path: Path) -> None:
    keep_results(run, tmp_path)
    assert (tmp_path / "summary.md").read_text() == (run / "summary.md").read_text()
    target = tmp_path / "chart.svg"
    draw_chart(tmp_path / "summary.json", "psnr_y", target)
    assert "x265" in target.read_text()
    with pytest.raises(InputError, match="no metric"):
        draw_chart(tmp_path / "summary.json", "beauty", target)


def test_two_runs_are_compared_cell_by_cell(
    run: Path,
    cells: list[tuple[CellRecord, bytes, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = write_run(tmp_path / "other", cells[:-1], STRIDE + 1)
    assert main(["bench", "compare", str(run), str(other), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tables"]
    rates = {
        (row["curve"], row["metric"]): row["pooled"] for row in found["BD-rate of B against A"]
    }
    assert rates["x265", "psnr_y"] == 0
    assert {"setting": "stride", "A": STRIDE, "B": STRIDE + 1} in found["Settings that differ"]
    assert {(row["bits, %"], row["pictures"]) for row in found["Cells in both"]} == {(0, "same")}
    assert [row["run"] for row in found["Only in one"]] == ["A"]


def size_of(path: Path) -> tuple[int, int]:
    """Height and width of an image file."""
    image = cv2.imread(str(path))
    assert image is not None
    height, width, _ = image.shape
    return height, width


def test_sheets_show_ours_beside_a_conventional_codec_at_our_rate(
    run: Path, cells: list[tuple[CellRecord, bytes, str]], tmp_path: Path
) -> None:
    settings = {"level": 1, "tools": "default", "preset": "fast", "seed": 0}
    folder = write_run(tmp_path / "ours", [*cells[:3], record("gsvc", settings)], STRIDE)
    sheet, strips = write_sheets(folder)
    assert (sheet.name, strips.name) == ("level1.jpg", "level1-strips.jpg")
    height, width = size_of(sheet)
    assert width == 3 * 480 and height > 200  # source, x265, ours
    assert size_of(strips) == (3 * (112 + 26), 8 * 112)
    with pytest.raises(InputError, match="no stream of gsvc"):
        write_sheets(run)


def test_sheets_and_report_also_show_a_codec_that_is_named(
    cells: list[tuple[CellRecord, bytes, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"level": 1, "tools": "default", "preset": "fast", "seed": 0}
    own = record("webp", dict(find_codec("webp").rate_points()[0]))
    folder = write_run(tmp_path / "ours", [*cells[:3], own, record("gsvc", settings)], STRIDE)
    for action in ("sheets", "report"):
        command = ["bench", action, str(folder), "--codec"]
        assert main([*command, "webp"]) == 0
        assert main([*command, "vp9"]) == 2
    assert size_of(folder / "sheets" / "level1.jpg")[1] == 4 * 480  # source, x265, webp, ours
    page = (folder / "report.html").read_text()
    assert '"names": ["source", "x265", "webp", "gsvc' in page and " TIMES THE BITS, 0." in page
    assert "no codec 'vp9': the run has x265, webp, gsvc" in capsys.readouterr().err


def test_a_strip_of_a_mouth_is_where_and_when_it_speaks() -> None:
    frames, rate = load_clip(need_clip("carphone"), frames=24)
    with need("models"):
        place = speaking_place(TestClip("carphone", frames, rate))
    assert place is not None and 0 < place.first <= 16
    height, width = frames[0].shape[:2]
    assert 0.1 * width < place.side < 0.4 * width
    assert abs(place.left + place.side / 2 - 0.53 * width) < 0.1 * width
    assert 0.4 * height < place.top + place.side / 2 < 0.8 * height
    parts = place.cut(frames)
    assert len(parts) == 8 and {part.shape for part in parts} == {(112, 112, 3)}
    assert speaking_place(TestClip("still", frames[:1] * 9, rate)) is None


def test_sheets_of_mouths_say_when_none_moves(
    run: Path,
    cells: list[tuple[CellRecord, bytes, str]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"level": 1, "tools": "default", "preset": "fast", "seed": 0}
    folder = write_run(tmp_path / "ours", [*cells[:3], record("gsvc", settings)], STRIDE)
    with need("models"):
        assert len(write_sheets(folder, faces=True)) == 2
    assert "no clip of" in caplog.text


def test_the_page_asks_nothing_of_a_network(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert len(page) < 15_000_000
    loads = re.findall(r"(?:src|href)=\"(?!data:|#)([^\"]*)\"", page)
    assert not [target for target in loads if not target.startswith("#")]
    assert "url(http" not in page and "@import" not in page


def test_a_changed_stream_is_not_shown_but_named(
    cells: list[tuple[CellRecord, bytes, str]], tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "swapped", cells, STRIDE)
    streams = [next((folder / "streams").glob(f"{cell.key}.*")) for cell, _, _ in cells[:2]]
    first = streams[0].read_bytes()
    streams[0].write_bytes(streams[1].read_bytes())
    streams[1].write_bytes(first)
    write_report(folder)
    page = (folder / "report.html").read_text()
    assert all(f"{cell.codec} on turn" in page for cell, _, _ in cells[:2])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def open_page(browser: Any, run: Path, width: int) -> tuple[Any, list[str]]:
    page = new_page(browser, viewport={"width": width, "height": 800})
    troubles = troubles_of(page)
    page.goto((run / "report.html").as_uri())
    page.wait_for_selector(".viewer[data-ready=yes]")
    return page, troubles


def wait_until_drawn(page: Any) -> None:
    """Ends as soon as the first player shows something on both sides."""
    script = """() => {
      const c = document.querySelector(".viewer canvas");
      const row = c.getContext("2d").getImageData(0, c.height / 2, c.width, 1).data;
      return [1, 3].every((part) => row[4 * Math.floor((part * c.width) / 4) + 3] === 255);
    }"""
    page.wait_for_function(script)


def press(page: Any, key: str, selector: str) -> None:
    """A key, and what it brings about."""
    page.keyboard.press(key)
    page.wait_for_selector(selector)


def test_the_player_takes_keys_in_chromium(run: Path, browser: Any) -> None:
    page, troubles = open_page(browser, run, 1100)
    page.locator(".film").first.scroll_into_view_if_needed()
    width, height = page.evaluate("(c => [c.width, c.height])(document.querySelector('canvas'))")
    assert width > 2 * height  # two panes side by side
    wait_until_drawn(page)
    middle = int(page.locator(".viewer").first.get_attribute("data-frame"))
    press(page, "ArrowRight", f'.viewer[data-frame="{middle + 1}"]')
    press(page, "ArrowLeft", f'.viewer[data-frame="{middle}"]')
    press(page, "w", '[data-mode="Wipe"][aria-pressed=true]')
    assert page.locator(".edge").first.is_visible()
    press(page, "1", '[data-speed="0.25"][aria-pressed=true]')
    assert page.evaluate("document.querySelector('video').playbackRate") == 0.25
    press(page, "l", ".loop[aria-pressed=true]")
    page.wait_for_selector(".play:text('Pause')")
    press(page, " ", ".play:text('Play')")
    press(page, "f", ".tag.right:not([hidden])")
    press(page, "f", ".tag.left:not([hidden])")
    left, right = (side.input_value() for side in page.locator("select.side").all())
    press(page, "x", '[data-mode="Flicker"]')
    assert [side.input_value() for side in page.locator("select.side").all()] == [right, left]
    assert not troubles


def test_the_wipe_is_dragged_and_the_timeline_touched(run: Path, browser: Any) -> None:
    page, troubles = open_page(browser, run, 1100)
    page.locator("[data-mode=Wipe]").first.click()
    stage = page.locator(".stage").first
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_selector('.edge[style="left: 25%;"]')
    timeline = page.locator(".timeline").first
    timeline.scroll_into_view_if_needed()
    box = timeline.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 5, box["y"] + 20)
    page.wait_for_selector(f'.viewer[data-frame="{FRAMES - 1}"]')
    row = page.locator(".rows button").first
    row.click()
    page.wait_for_selector(f'.viewer[data-frame="{row.get_attribute("data-frame")}"]')
    assert not troubles


def test_the_page_fits_a_phone_and_prints_stills(run: Path, browser: Any) -> None:
    page, troubles = open_page(browser, run, 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".viewer[data-stacked=yes]").count() == 1
    assert page.locator("#headline").bounding_box()["y"] < page.locator(".film").bounding_box()["y"]
    page.emulate_media(media="print")
    assert not page.locator(".viewer").first.is_visible()
    assert page.locator(".stills img").first.is_visible()
    assert not troubles


@pytest.mark.slow
def test_films_are_made_once_and_kept(run: Path) -> None:
    (film,) = (run / "exhibits").iterdir()
    made = film.stat().st_mtime_ns
    before = (run / "report.html").read_text()
    write_report(run)
    assert film.stat().st_mtime_ns == made
    assert (run / "report.html").read_text() == before
    film.write_text(film.read_text()[:1000])
    write_report(run)
    assert (run / "report.html").read_text() == before


def test_differences_show_where_a_version_is_wrong() -> None:
    source = find_clips(["synthetic/turn"])[0].load("288", 24)
    frozen = [source.frames[min(index, 12)] for index in range(24)]
    found = differences(source, [source.frames, frozen])
    assert "ColorVideoVDP" in found.measure
    same, stopped = map(np.array, found.lines)
    assert np.abs(same).max() < 1e-3
    assert stopped[18:].min() > 10 * max(1e-3, stopped[:12].max())
    assert found.maps[1][:, 18:].max() > found.maps[1][:, :12].max()
    assert worst_second(list(stopped), 10.0)[0] >= 12
    assert worst_second([0.0, 0.0, 5.0, 0.0], 2.0) == (1, 3)
    assert worst_second([1.0], 25.0) == (0, 1)


def test_differences_of_what_is_too_small_are_of_light_and_say_so() -> None:
    frames = [np.full((8, 64, 3), 100 + index, np.uint8) for index in range(4)]
    brighter = [frame + np.uint8(20) for frame in frames]
    found = differences(TestClip("small", frames, Fraction(25)), [brighter])
    assert "mean difference of luma" in found.measure and "ColorVideoVDP" in found.measure
    assert found.lines[0] == pytest.approx([20] * 4, abs=1)
    assert found.maps[0].shape == (8, 4)
