"""Figures of the README and of the results page are those of the runs that are kept."""

import re
from pathlib import Path

import numpy as np
import pytest

from gsvc.eval.layout import markdown
from gsvc.eval.summary.bd_rate import bd_rate, lower_hull, pooled_rate
from gsvc.eval.summary.rate_tables import fixed_rate_table, headline_gaps, headline_table
from gsvc.eval.summary.summarise import curves_by_metric, load_kept, summarise
from gsvc.eval.summary.write import costs_table

ROOT = Path(__file__).parents[1]
CURVES = {
    "slideshow": "hold",
    "restored": "gsvc, steps 1",
    "steps 0": "gsvc, steps 0",
    "floor `motion`": "motion, steps 0",
    "floor `hold`": "hold",
}
"""The results page's word for a row's curve -> the run's."""
JUDGES = {"CVVDP": "cvvdp", "ST-LPIPS VGG": "st_lpips_vgg"}


def section(path: Path, title: str) -> str:
    """The text below a heading, up to the next one."""
    text = path.read_text().partition(f"\n## {title}\n")[2]
    return text.partition("\n## ")[0]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


HALF = 0.55
"""Pages show whole numbers, runs one decimal; both are rounded from more."""


def kept(run: str, judge: str) -> tuple[dict[str, list[float]], dict[tuple[str, str], float]]:
    """Of a run's summary against SVT-AV1: pooled BD-rates with their intervals, and by clip."""
    summary = ROOT / "eval/results" / run / "summary.md"
    pooled, by_clip = {}, {}
    for line in section(summary, f"BD-rate pooled over clips, {judge}").splitlines():
        if found := re.match(r"\| (.+?) +\| +(\S+) \[(\S+), (\S+)\]", line):
            pooled[found[1]] = [float(found[n]) for n in (2, 3, 4)]
    for line in section(summary, f"BD-rate per clip, {judge}").splitlines():
        if found := re.match(r"\| (\w+): (.+?) against svtav1 +\| +(\S+) ", line):
            by_clip[found[1], found[2]] = float(found[3])
    return pooled, by_clip


@pytest.mark.parametrize(
    ("title", "run"),
    [
        ("Whole clips", "whole"),
        ("A locked set", "locked"),
        ("Joining: the first 97 frames", "join"),
    ],
)
def test_tables_of_the_results_page_are_those_of_the_runs(title: str, run: str) -> None:
    rows = [
        cells(row) for row in section(ROOT / "docs/results.md", title).splitlines() if "|" in row
    ]
    clips, compared, above = rows[0][1:-1], 0, ""
    for name, *values, pooled in rows[1:]:
        judge = next((one for word, one in JUDGES.items() if name.endswith(word)), None)
        above = next((one for word, one in CURVES.items() if name.startswith(word)), above)
        if judge is None:
            continue
        means, by_clip = kept(run, judge)
        shown = [float(n) for n in re.findall(r"[+-]?\d+", pooled)]
        assert shown == pytest.approx(means[above], abs=HALF), name
        for clip, value in zip(clips, values, strict=True):
            if value:
                mean = pytest.approx(by_clip[clip, above], abs=HALF)
                assert float(value.removesuffix(" %")) == mean, (name, clip)
        compared += 1
    assert compared >= 2


OTHERS = {
    "VMAF": "vmaf", "VMAF NEG": "vmaf_neg", "MS-SSIM": "ms_ssim", "PSNR-Y": "psnr_y",
    "ST-LPIPS AlexNet": "st_lpips_alex",
    "the same of frame differences": "st_lpips_alex_of_differences",
    "motion error": "motion_error", "warp error": "warp_error", "person mask": "mask_iou",
    "body pose": "pose_oks",
}  # fmt: skip


def test_figures_by_other_metrics_are_those_of_their_run() -> None:
    summary = ROOT / "eval/results/metrics/summary.md"
    head, _, *rows = (
        cells(line)
        for line in section(summary, "BD-rate pooled over clips, other metrics").splitlines()
        if line.startswith("|")
    )
    wanted = [dict(zip(head, row, strict=True)) for row in rows]
    page = section(ROOT / "docs/results.md", "Eleven other metrics").splitlines()
    shown = [cells(line) for line in page if re.search(r"\| [+-]?\d+ %", line)]
    assert len(shown) == len(OTHERS)
    for name, *values in shown:
        metric = OTHERS[name.partition(" (")[0]]
        for value, row in zip(values, wanted, strict=True):
            mean = pytest.approx(float(row[metric].split()[0]), abs=HALF)
            assert float(value.split()[0]) == mean, name


ANCHORS = {"SVT-AV1": "svtav1", "VVenC": "vvenc", "x265": "x265", "x264": "x264"}


def at_rates(judge: str, anchor: str) -> list[float]:
    """The restored curve against an anchor, at .003, .006 and .012 bpp."""
    text = section(ROOT / "eval/results/whole/summary.md", f"At fixed rates, {judge}")
    row = next(one for one in text.splitlines() if f"gsvc, steps 1 against {anchor} " in one)
    return [float(cell.split()[0]) for cell in cells(row)[3:]]


@pytest.mark.parametrize("anchor", ANCHORS)
def test_gains_at_fixed_rates_are_those_of_the_whole_run(anchor: str) -> None:
    page = section(ROOT / "docs/results.md", "Whole clips")
    row = next(one for one in page.splitlines() if one.startswith(f"| {anchor} | +"))
    shown = re.findall(r"(\S+) JOD, (\d+) %", row)
    assert [float(gain) for gain, _ in shown] == at_rates("cvvdp", ANCHORS[anchor])
    lower = [-share for share in at_rates("st_lpips_vgg", ANCHORS[anchor])]
    assert [float(share) for _, share in shown] == pytest.approx(lower, abs=HALF)


def test_the_readme_has_the_headline_of_the_whole_run() -> None:
    text = (ROOT / "README.md").read_text()
    found = re.findall(r"(\d+) % fewer (?:bits than SVT-AV1\*\*|at equal ST-LPIPS)", text)
    for judge, share in zip(JUDGES.values(), found, strict=True):
        mean = -kept("whole", judge)[0]["gsvc, steps 1"][0]
        assert float(share) == pytest.approx(mean, abs=HALF)


def test_the_readme_says_how_the_saving_shrinks_as_rates_rise() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    told = text.partition("shrinks as rates rise:")[2].partition("H.266")[0]
    found = re.findall(r"(\d+) % at ([\d.]+).*?(\.\d+)", told)
    run = load_kept(ROOT / "eval/results/whole")
    summary = summarise(run.settings, run.cells)
    every = curves_by_metric(run.cells, summary.metrics, summary.codecs)["cvvdp"]
    hulls = {(curve.clip, curve.name): np.array(curve.hull) for curve in every}
    clips = re.search(r"on the (\d), (\d) and (\d) clips", told)
    assert len(found) == 3 and clips
    for (share, jod, bpp), count in zip(found, clips.groups(), strict=True):
        rates = []
        for clip in summary.frames:
            both = [hulls[clip, name] for name in ("gsvc, steps 1", "svtav1")]
            lines = [hull[np.argsort(hull[:, 1])] for hull in both]
            if all(line[0, 1] <= -float(jod) <= line[-1, 1] for line in lines):
                logs = [np.interp(-float(jod), line[:, 1], np.log(line[:, 0])) for line in lines]
                rates.append(np.exp(logs))
        assert len(rates) == int(count)
        assert float(bpp) == pytest.approx(np.mean([b for _, b in rates]), abs=0.0006)
        assert float(share) == pytest.approx(
            -100 * np.expm1(np.mean([np.log(a / b) for a, b in rates])), abs=HALF
        )


def test_the_readme_names_what_is_left_against_av1_with_interpolation() -> None:
    run = load_kept(ROOT / "eval/results/whole")
    summary = summarise(run.settings, run.cells)
    text = " ".join((ROOT / "README.md").read_text().split())
    told = re.search(r"of the frames and interpolate \| (.*?) \| (.*?) \|", text)
    assert told
    for curves, share in zip(
        curves_by_metric(run.cells, summary.metrics, summary.codecs).values(),
        told.groups(),
        strict=True,
    ):
        hulls = {(curve.clip, curve.name): curve.hull for curve in curves}
        names = "svtav1", "svtav1+dis", "svtav1+rife"
        rates = []
        for clip in summary.frames:
            joint = lower_hull([point for name in names for point in hulls[clip, name]])
            rates.append(bd_rate(joint, hulls[clip, "gsvc, steps 1"]).pchip)
        found = pooled_rate(rates)
        assert found is not None
        shown = [float(number) for number in re.findall(r"[+-]\d+", share)]
        assert shown == pytest.approx([found.mean, found.low, found.high], abs=HALF)


def test_smaller_pictures_of_av1_only_lower_its_least_rate() -> None:
    run, small = (load_kept(ROOT / "eval/results" / name) for name in ("whole", "quarter"))
    settings, every = run.settings | {"ratios": None}, [*run.cells, *small.cells]
    joint = summarise(settings, every)
    text = " ".join((ROOT / "docs/results.md").read_text().split())
    gains = (
        r"gains (\S+) JOD, and VGG is (\S+) % lower. With these points gsvc has (\S+) and (\S+) %"
    )
    told = re.search(gains, text)
    assert told
    hulls = []
    for some in (run.cells, every):
        by_metric = curves_by_metric(some, joint.metrics, joint.codecs).values()
        hulls.append([one for curves in by_metric for one in curves if one.name == "svtav1"])
    for alone, both in zip(*hulls, strict=True):
        least = min(rate for rate, _ in alone.hull)
        assert [p for p in both.hull if p[0] >= least] == [p for p in alone.hull if p in both.hull]
    (row,) = (one for one in joint.headline.rows if one.curve == "gsvc, steps 1")
    found = zip(joint.metrics, told.groups()[:2], told.groups()[2:], (0.006, HALF), strict=True)
    for judge, gain, share, within in found:
        pooled = row.rates[judge.name]
        assert pooled and float(share) == pytest.approx(pooled.mean, abs=HALF)
        lines = fixed_rate_table(joint, judge).rows
        line = next(one for one in lines if one[0] == "gsvc, steps 1 against svtav1")
        assert line[2].endswith("(5)")
        assert float(gain) == pytest.approx(abs(float(line[2].split()[0])), abs=within)


@pytest.mark.parametrize("run", ["whole", "locked", "join", "large"])
def test_tables_that_are_kept_follow_from_the_points_that_are_kept(run: str) -> None:
    folder = ROOT / "eval/results" / run
    kept = load_kept(folder)
    summary = summarise(kept.settings, kept.cells)
    for table in headline_table(summary), costs_table(summary):
        assert markdown(table.header, table.rows) in section(folder / "summary.md", table.title)


def test_rows_of_different_clips_and_little_overlap_are_told_with_the_headline() -> None:
    kept = load_kept(ROOT / "eval/results/whole")
    cells = [one for one in kept.cells if (one.clip, one.codec) != ("city", "vp9")]
    different, little, few, *slideshow = headline_gaps(summarise(kept.settings, cells))
    assert "vp9 lacks city by cvvdp, city by st_lpips_vgg" in different and "gsvc" not in different
    lower, _, higher = little.partition(" Add rates below ")[2].partition("; above ")
    assert "gsvc (level 0)" in lower and "x264 (crf 40, scale 1)" in higher
    assert "x264 (5 of 10, least 36 %)" in little and "svtav1+rife" in few
    for judge, told in zip(JUDGES.values(), slideshow, strict=True):
        assert f"by {judge} a slideshow wins" in told


def test_shares_of_the_layers_are_those_of_the_whole_run() -> None:
    rows = section(ROOT / "eval/results/whole/summary.md", "Bits by layer").splitlines()
    header, *streams = [cells(row) for row in rows if row.startswith("|") and "---" not in row]
    shares = {
        name: [100 * int(row[at]) / int(row[-1]) for row in streams]
        for at, name in enumerate(header[1:-1], 1)
    }
    page = " ".join(section(ROOT / "docs/results.md", "What these figures hide").split())
    told = re.search(r"pictures are ([\d.]+) % of a stream in the mean, ([\d.]+) % at least", page)
    most = re.search(r"path ([\d.]+) % at most, texture gains ([\d.]+) %", page)
    assert told and most
    av1 = shares["key pictures"]
    assert [float(n) for n in told.groups()] == pytest.approx(
        [sum(av1) / len(av1), min(av1)], abs=0.06
    )
    assert [float(n) for n in most.groups()] == pytest.approx(
        [max(shares["camera"]), max(shares["texture"])], abs=0.06
    )
