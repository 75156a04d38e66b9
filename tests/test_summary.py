"""What the summary of a run computes, on answers that are known by hand or published."""

import csv
import subprocess
import sys
from dataclasses import replace
from math import log
from pathlib import Path

import pytest

from gsvc.codec.bitstream.errors import InputError
from gsvc.eval.bench.store import CellRecord, DecodeRecord, MetricScores
from gsvc.eval.report.compare import compare_runs
from gsvc.eval.summary.bd_comparisons import PUBLISHED, Dial, exchange, frontier, targets
from gsvc.eval.summary.bd_rate import (
    NO_BITS,
    NO_OVERLAP,
    SINGLE_POINT,
    RatePoint,
    bd_rate,
    hull_at,
    lower_hull,
    pooled_rate,
    rate_at,
)
from gsvc.eval.summary.curves import codecs_of, curves
from gsvc.eval.summary.rate_tables import pooled_table
from gsvc.eval.summary.summarise import (
    ablation_rows,
    load_kept,
    reasons_without_rate,
    seed_spreads,
    summarise,
)
from gsvc.eval.summary.write import costs_table, summary_csv, summary_markdown, tables

RUN = {
    "metrics": {
        "psnr_y": {"version": "1", "unit": "dB", "higher_is_better": True, "per_frame": True}
    },
    "codec_facts": {name: {"is_anchor": name != "gsvc"} for name in ("gsvc", "svtav1", "x265")},
}
"""Of run.json, what summaries need to know of metrics and codecs."""


def hull_of(points: list[tuple[float, float]]) -> list[RatePoint]:
    """Rates and qualities, higher is better, as a hull of distances."""
    return sorted((rate, -quality) for rate, quality in points)


def cell(
    codec: str,
    bits: int,
    score: float | None,
    clip: str = "one",
    settings: dict[str, int | float | str] | None = None,
    ways: tuple[dict[str, int | float | str], ...] = ({},),
    **others: object,
) -> CellRecord:
    """100 frames of 10x10 pixels: bits are 10,000 times bpp. Every way has the same scores."""
    scores = {
        "psnr_y": MetricScores(score, [score, score], "test", "" if score is not None else "why")
    }
    values: dict[str, object] = {
        "key": f"{codec}{bits}{settings}{clip}",
        "clip": clip,
        "size": "288",
        "width": 10,
        "height": 10,
        "frame_rate": "25",
        "frames": 100,
        "source_sha256": "",
        "codec": codec,
        "codec_version": "1",
        "settings": settings or {},
        "bits": bits,
        "ledger": {"all": bits},
        "encode_seconds": 1.0,
        "decodes": [DecodeRecord(way, 1.0, "", dict(scores), peak_memory=1) for way in ways],
    }
    return CellRecord(**(values | others))  # type: ignore[arg-type]


# JCTVC-E137 (JCT-VC, Geneva 2011): figures of its spreadsheet, as in the tests of Netflix's vmaf.
E137 = [
    (
        [(108048.8736, 43.6471), (61279.976, 40.3953), (33905.6656, 37.247), (18883.6928, 34.2911)],
        [
            (108061.2784, 43.6768),
            (61299.9936, 40.4232),
            (33928.7472, 37.2761),
            (18910.912, 34.3147),
        ],
        -0.465215420752807,
    ),
    (
        [(40433.8848, 37.5761), (7622.7456, 35.3756), (2394.488, 33.8977), (1017.6184, 32.0603)],
        [(40370.12, 37.5982), (7587.0024, 35.4025), (2390.0944, 33.9194), (1017.0984, 32.0822)],
        -1.8779823450567612,
    ),
]


@pytest.mark.parametrize(("anchor", "test", "expected"), E137)
def test_bd_rate_is_that_of_the_standards_spreadsheet(
    anchor: list[tuple[float, float]], test: list[tuple[float, float]], expected: float
) -> None:
    result = bd_rate(hull_of(anchor), hull_of(test))
    assert result.pchip == pytest.approx(expected, abs=1e-9)
    assert result.akima == pytest.approx(expected, abs=0.02)
    assert result.share > 0.99


def test_half_the_rate_everywhere_is_minus_fifty_per_cent() -> None:
    anchor = [(0.01, 0.4), (0.02, 0.3), (0.04, 0.2), (0.08, 0.1)]
    result = bd_rate(anchor, [(rate / 2, far) for rate, far in anchor])
    assert [result.pchip, result.akima] == pytest.approx([-50, -50])
    assert result.shared == (0.1, 0.4)


def test_nothing_is_extrapolated_where_curves_share_no_quality() -> None:
    anchor, test = [(0.01, 0.4), (0.02, 0.3)], [(0.002, 0.6), (0.004, 0.5)]
    result = bd_rate(anchor, test)
    assert (result.pchip, result.akima, result.note) == (None, None, NO_OVERLAP)
    assert result.ratio is not None
    assert result.ratio.ratio == pytest.approx(0.4)
    assert (result.ratio.test_distance, result.ratio.anchor_distance) == (0.5, 0.4)
    swapped = bd_rate(test, anchor)
    assert swapped.ratio is not None and swapped.ratio.ratio == pytest.approx(2.5)
    hardly = bd_rate(anchor, [(0.002, 0.6), (0.004, 0.399)])
    assert (hardly.pchip, hardly.note) == (None, NO_OVERLAP)


def test_a_single_point_is_compared_at_its_own_quality() -> None:
    result = bd_rate([(0.01, 0.4), (0.03, 0.2)], [(0.01, 0.3)])
    assert (result.pchip, result.note) == (None, SINGLE_POINT)
    assert result.ratio is not None and result.ratio.ratio == pytest.approx(0.5)


def test_streams_of_no_bits_have_no_bd_rate() -> None:
    assert bd_rate([(0.0, 0.4), (0.1, 0.2)], [(0.1, 0.3)]).note == NO_BITS


def test_the_hull_keeps_the_points_below_every_line_between_others() -> None:
    hull = lower_hull([(1, 10), (2, 9), (3, 4), (4, 3.9), (5, 2), (6, 3)])
    assert hull == [(1, 10), (3, 4), (5, 2)]
    assert hull_at(hull, 2) == 7
    assert hull_at(hull, 0.5) is None
    assert rate_at(hull, 7) == 2
    assert rate_at(hull, 11) == 1
    assert rate_at(hull, 1.9) is None
    assert lower_hull([]) == []


def test_pooling_is_in_log_ratios_and_the_interval_repeats() -> None:
    even = pooled_rate([-50, 100])
    assert even is not None and even.mean == pytest.approx(0, abs=1e-9) and even.low is None
    clips = [-60.0, -35.0, -20.0, 5.0, -41.0]
    pooled = pooled_rate(clips)
    assert pooled is not None and pooled == pooled_rate(clips)
    assert pooled.low is not None and pooled.high is not None
    assert min(clips) < pooled.low < pooled.mean < pooled.high < max(clips)
    assert pooled_rate([]) is None


def test_the_frontier_finds_the_exponent_it_was_built_with() -> None:
    base = [(0.01, 0.4), (0.02, 0.3), (0.04, 0.2)]
    dials = [
        Dial(f"steps {c}", c, [(rate * c**-0.301, far) for rate, far in base]) for c in (1, 10, 100)
    ]
    middle = targets(dials)[1]
    bought = exchange(frontier(dials, middle))
    assert bought is not None
    assert bought.exponent == pytest.approx(0.301, abs=1e-6)
    assert bought.compute == 100
    assert bought.compression == pytest.approx(100**0.301)
    assert PUBLISHED.exponent == pytest.approx(log(4) / log(100))


def test_more_compute_never_needs_more_rate_on_the_frontier() -> None:
    cheap, dear = Dial("a", 1, [(0.01, 0.4), (0.02, 0.2)]), Dial("b", 5, [(0.02, 0.4), (0.03, 0.1)])
    points = frontier([dear, cheap], 0.3)
    assert [point.name for point in points] == ["a", "a"]
    unreached = frontier([cheap, dear], 0.15)
    assert unreached[0].bpp is None and unreached[1].name == "b"
    assert exchange(unreached) is None


def test_time_is_processor_time_in_units_of_x265_slow_near_crf_45() -> None:
    def timed(codec: str, crf: int, spent: float | None, scale: str = "1") -> CellRecord:
        settings: dict[str, int | float | str] = {"crf": crf, "scale": scale}
        made = cell(codec, 100, 30, settings=settings, encode_cpu_seconds=spent, encode_seconds=9.0)
        return replace(made, decodes=[replace(made.decodes[0], cpu_seconds=spent)])

    cells = [timed("gsvc", 0, 6), timed("x265", 38, 4), timed("x265", 50, 2)]
    cells.append(timed("x265", 45, 1, "1/2"))
    for more in ([], [timed("x265", 34, 5)]):  # another crf does not move the unit
        made = summarise(RUN, cells + more)
        assert {row.reference_crf for row in made.points} == {50}
        assert (made.points[0].encode_ratio, made.points[0].decode_ratio) == (3, 3)
        assert "processor time" in costs_table(made).note and "crf 50" in costs_table(made).note
    made = summarise(RUN, [*cells, timed("svtav1", 63, None)])
    assert made.points[0].encode_ratio == 1 and "wall clock" in costs_table(made).note


def test_a_kept_summary_csv_says_what_the_run_said(tmp_path: Path) -> None:
    steps: tuple[dict[str, int | float | str], ...] = ({"steps": 0}, {"steps": 1, "motion": "dis"})
    cells = [cell("gsvc", b, b / 10, settings={"gop": 4.0, "level": b}, ways=steps) for b in (1, 3)]
    cells += [cell("x265", b, b / 8, "a b at 480", {"scale": "1/2", "crf": b}) for b in (2, 4)]
    made = summarise(RUN, cells)
    (tmp_path / "summary.csv").write_text(summary_csv(made))
    for place in (tmp_path, tmp_path / "summary.csv"):
        kept = load_kept(place)
        found = summarise(kept.settings, kept.cells).points
        assert [replace(row, ledger={"all": row.bits}) for row in found] == made.points
    (tmp_path / "summary.csv").write_text("clip\nx\n")
    with pytest.raises(InputError, match=r"no summary\.csv"):
        load_kept(tmp_path)


def compared(a: Path, b: Path) -> str:
    told, found = compare_runs(a, b)
    return "\n\n".join([*told, *(table.section for table in found)])


def test_the_usual_interval_is_the_same_cell_told_or_not_other_frames_are_not(
    tmp_path: Path,
) -> None:
    for name, told in {"a": {}, "b": {"gop": 4.0}, "short": {}}.items():
        (tmp_path / name).mkdir()
        made = [cell("gsvc", b, b / 10, settings={**told, "level": b}) for b in (1, 3)]
        made = [replace(one, frames=one.frames - (name == "short")) for one in made]
        (tmp_path / name / "summary.csv").write_text(summary_csv(summarise(RUN, made)))
    text = compared(tmp_path / "a", tmp_path / "b")
    assert "level 3" in text and "## Only in one\n\nNone." in text
    text = compared(tmp_path / "a", tmp_path / "short")
    assert "is not compared: A coded" in text and "## Cells in both\n\nNone." in text
    assert "## BD-rate of B against A\n\nNone." in text


def test_the_commit_and_a_hull_of_two_points_are_told() -> None:
    cells = [cell(name, b, b / n) for n, name in ((8, "gsvc"), (10, "x265")) for b in (1, 2)]
    made = summarise({**RUN, "commit": "abc123"}, cells)
    assert "Commit abc123." in summary_markdown(made)
    assert "2 points" in pooled_table(made, made.metrics[0]).rows[0][1]


def test_empty_streams_and_failures_are_named_and_in_no_curve() -> None:
    cells = [
        cell("x265", 500, 31.0),
        cell("x265", 900, 33.0),
        cell("gsvc", 300, 30.0, ways=({"steps": 0},)),
        cell("gsvc", 0, 12.0, ways=({"steps": 0},), settings={"level": 9}),
        cell("vp9", 0, None, ways=(), error="it broke"),
        cell("x264", 700, None),
    ]
    (ours,) = [c for c in curves(cells, "psnr_y", True) if c.codec == "gsvc"]
    assert [point.bpp for point in ours.points] == [0.03]
    assert ours.without_bits == ("level 9",)
    text = str([table.rows for table in tables(summarise({"stride": 5, **RUN}, cells))])
    for word in ("it broke", "why", "level 9", NO_OVERLAP, "psnr_y"):
        assert word in text


def test_a_curve_is_a_codec_and_a_way_and_seeds_are_averaged() -> None:
    ways: tuple[dict[str, int | float | str], ...] = (
        {"steps": 1},
        {"steps": 1, "seed": 0},
        {"steps": 1, "seed": 1},
    )
    sampled = cell("gsvc", 300, 30.0, ways=ways)
    other = replace(
        sampled.decodes[2],
        scores={"psnr_y": MetricScores(32.0, [32.0, 32.0], "test")},
        frames_sha256="other",
    )
    sampled.decodes[2] = other
    (curve,) = curves([sampled], "psnr_y", True)
    assert curve.name == "gsvc, steps 1"
    assert [point.value for point in curve.points] == [31.0]
    (spread,) = seed_spreads([sampled], ["psnr_y"])
    assert (spread.seeds, spread.mean) == (2, 31.0)
    assert spread.deviation == pytest.approx(2**0.5)


def test_the_ablation_says_what_is_lost_without_each_layer() -> None:
    steps: tuple[dict[str, int | float | str], ...] = ({"steps": 0}, {"steps": 4})
    cells = [
        cell("gsvc-layers", bits, score, settings={"level": 1, "tools": tools}, ways=steps)
        for bits, score, tools in ((100, 28.0, "motion"), (130, 29.5, "motion+flow"))
    ]
    rows = ablation_rows(cells, ["psnr_y"])
    assert [(r.layers, r.way) for r in rows] == [
        ("motion", "steps 0"),
        ("motion+flow", "steps 0"),
        ("motion+flow", "steps 4"),
    ]
    assert rows[0].added_bits == -30
    assert rows[0].gained == {"psnr_y": -1.5}
    assert rows[1].added_bits is None
    assert rows[2].added_bits == 0


def test_a_run_without_facts_gets_those_of_this_version() -> None:
    cells = [cell("svtav1", 1000, 30.0), cell("gsvc", 900, 30.0), cell("another", 500, 30.0)]
    found = codecs_of({}, cells)
    assert {name: facts.is_anchor for name, facts in found.items()} == {
        "svtav1": True,
        "gsvc": False,
        "another": False,
    }


def test_a_summary_loads_neither_codecs_nor_metrics() -> None:
    script = "import sys, gsvc.eval.summary.write; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = done.stdout.decode().split()
    assert "gsvc.eval.summary.write" in loaded
    assert not {"gsvc.eval.baselines", "gsvc.eval.metrics", "cv2", "av", "torch"} & set(loaded)


def test_our_points_stand_beside_the_hulls_at_the_same_rate() -> None:
    cells = [
        cell("svtav1", 1000, 30.0, settings={"crf": 63}),
        cell("svtav1", 3000, 34.0, settings={"crf": 40}),
        cell("gsvc", 2000, 33.0, settings={"level": 1}),
        cell("gsvc", 500, 29.0, settings={"level": 0}),
    ]
    inside, below = sorted(summarise(RUN, cells).beside, key=lambda row: -row.bpp)
    assert inside.value == 33.0 and inside.hulls == {"svtav1": pytest.approx(32.0)}
    assert below.hulls == {"svtav1": None}


def test_no_rate_has_its_reason() -> None:
    cells = [cell("gsvc", bits, 20 + bits) for bits in (1, 2)]
    cells += [cell("x265", bits, bits) for bits in (1, 2)]
    cells += [cell("svtav1", 1, 21.5)]
    far, single = reasons_without_rate(summarise(RUN, cells))
    assert "hardly any quality in common" in far and "gsvc against x265 by psnr_y" in far
    assert "single rate" in single and "gsvc against svtav1 by psnr_y" in single
    assert not list(reasons_without_rate(summarise(RUN, cells[:2])))


def test_no_two_columns_have_one_name() -> None:
    cells = [cell("gsvc", 1000, 30.0, settings={"bpp": 0.003}), cell("svtav1", 1000, 30.0)]
    header, row = csv.reader(summary_csv(summarise(RUN, cells)).splitlines()[:2])
    assert len(set(header)) == len(header)
    assert row[header.index("bpp_asked")] == "0.003"
