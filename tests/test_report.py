"""The report of a small real run: plots, comparison, and the page in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import pytest

from browsing import chromium, troubles_of
from gsvc.codec.errors import InputError
from gsvc.eval.bench.record import CellRecord
from gsvc.eval.codecs import find_codec
from gsvc.eval.report import compare_runs, write_plots, write_report, write_sheets
from gsvc.eval.report.readme_chart import draw_chart, keep_results
from gsvc.eval.summary import write_summary
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


def test_the_readme_chart_needs_only_the_summary(run: Path, tmp_path: Path) -> None:
    keep_results(run, tmp_path)
    assert (tmp_path / "summary.md").read_text() == (run / "summary.md").read_text()
    target = tmp_path / "chart.svg"
    draw_chart(tmp_path / "summary.json", "psnr_y", target)
    assert "x265" in target.read_text()
    with pytest.raises(InputError, match="no metric"):
        draw_chart(tmp_path / "summary.json", "beauty", target)


def test_two_runs_are_compared_cell_by_cell(
    run: Path, cells: list[tuple[CellRecord, bytes, str]], tmp_path: Path
) -> None:
    other = write_run(tmp_path / "other", cells[:-1], STRIDE + 1)
    text = compare_runs(run, other)
    assert re.search(r"x265 +\| +psnr_y \| +\+0.00 \| +1", text)
    assert re.search(r"stride +\| +4 \| +5", text)
    assert "- A: turn, hold" in text
    assert "same" in text and "other |" not in text


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
    assert "2 cells" in (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def open_page(browser: Any, run: Path, width: int) -> tuple[Any, list[str]]:
    page = browser.new_page(viewport={"width": width, "height": 800})
    troubles = troubles_of(page)
    page.goto((run / "report.html").as_uri())
    page.wait_for_selector(".viewer[data-ready=yes]")
    return page, troubles


def pixel(page: Any, share: float) -> list[int]:
    """The colour that the viewer shows at half height."""
    script = """share => {
      const c = document.querySelector(".viewer canvas");
      return [...c.getContext("2d").getImageData(share * c.width, c.height / 2, 1, 1).data];
    }"""
    return list(page.evaluate(script, share))


def test_the_viewer_drags_plays_and_seeks_in_chromium(run: Path, browser: Any) -> None:
    page, troubles = open_page(browser, run, 1100)
    stage = page.locator(".viewer .stage").first
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 40, steps=4)
    page.mouse.up()
    assert abs(int(page.locator(".viewer .split").first.input_value()) - 250) < 15
    assert pixel(page, 0.5) != [0, 0, 0, 0]
    page.locator(".viewer .play").first.click()
    page.wait_for_timeout(400)
    assert page.locator(".viewer .play").first.inner_text() == "Pause"
    page.locator(".viewer .play").first.click()
    for frame in (0, 7):
        page.locator(".viewer .seek").first.fill(str(frame))
        page.wait_for_selector(f'.viewer[data-frame="{frame}"]')
    page.locator(".pair a").first.click()
    worst = page.locator(".pair a").first.get_attribute("data-frame")
    page.wait_for_selector(f'.viewer[data-frame="{worst}"]')
    assert not troubles


def test_the_page_fits_a_phone_and_prints_stills(run: Path, browser: Any) -> None:
    page, troubles = open_page(browser, run, 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.emulate_media(media="print")
    assert not page.locator(".viewer").first.is_visible()
    assert page.locator(".pair img").first.is_visible()
    assert not troubles
