"""The report of a small real run: plots, comparison, and the page in a real browser."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from gsvc.codec.errors import InputError
from gsvc.datasets.clips import frames_sha256
from gsvc.datasets.sets import find_clips
from gsvc.eval.bench.record import CellRecord, DecodeRecord, Scores
from gsvc.eval.bench.store import RunFolder
from gsvc.eval.codecs import find_codec
from gsvc.eval.metrics import find_metric
from gsvc.eval.report import compare_runs, write_plots, write_report, write_sheets
from gsvc.eval.report.readme_chart import draw_chart, keep_results
from gsvc.eval.summary import write_summary
from needs import lack, need_package

CLIP = "synthetic/turn"
FRAMES, STRIDE = 9, 4
CRFS = (24, 34, 44)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def record(codec_name: str, settings: dict[str, Any]) -> tuple[CellRecord, bytes, str]:
    """A cell, coded, decoded and measured as the benchmark does it."""
    source = find_clips([CLIP])[0].load("288", FRAMES)
    codec, form = find_codec(codec_name), source.format
    encoded = codec.encode(source, settings)
    decodes = []
    for way in codec.ways_to_decode(settings)[:1]:
        decoded = codec.decode(encoded.data, form, settings, way)
        values = find_metric("psnr_y").measure(source, [decoded.frames], range(0, FRAMES, STRIDE))[
            0
        ]
        scores = {"psnr_y": Scores(float(np.mean(values)), [float(v) for v in values], "test")}
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
        frames=form.frames,
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
    run = RunFolder(folder)
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
    api = need_package("playwright.sync_api")
    if CHROMIUM is None:
        lack("chromium", "no Chromium here: apt-get install chromium")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def open_page(browser: Any, run: Path, width: int) -> tuple[Any, list[str]]:
    page = browser.new_page(viewport={"width": width, "height": 800})
    troubles: list[str] = []
    page.on(
        "console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url),
    )
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
