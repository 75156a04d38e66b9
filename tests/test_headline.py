"""The headline and the slideshow test, on curves whose BD-rates are known by construction."""

import csv
from dataclasses import replace
from typing import Any

import pytest

from gsvc.eval.bench.store import CellRecord, DecodeRecord, MetricScores
from gsvc.eval.summary.rate_tables import (
    fixed_rate_table,
    headline_gaps,
    headline_table,
    slideshow_table,
)
from gsvc.eval.summary.summarise import Summary, slowest, summarise
from gsvc.eval.summary.write import headline_csv, tables

JUDGES = {"cvvdp": True, "st_lpips_vgg": False}
"""And whether higher is better."""
AV1 = {"family": "AV1, all curves"}
RUN: dict[str, Any] = {
    "metrics": {
        name: {"version": "1", "unit": "", "higher_is_better": higher, "per_frame": False}
        for name, higher in JUDGES.items()
    },
    "codec_facts": {"svtav1": {"is_anchor": True, **AV1}, "other": AV1},
    "moving": {"runner": 0.4, "card": 0.001},
}
QUALITIES = {"cvvdp": (5.0, 7.0, 9.0), "st_lpips_vgg": (0.4, 0.2, 0.1)}


def curve(codec: str, clip: str, **factors: float) -> list[CellRecord]:
    """Three points that need `factors[judge]` times the bits of AV1 for what each judge sees.

    Its bits are AV1's; the quality is that which AV1's hull has at the bits over the factor.
    """
    cells = []
    for index, bits in enumerate((1000, 2000, 4000)):
        for judge, factor in factors.items():
            cells.append(_cell(codec, clip, round(bits * factor), judge, QUALITIES[judge][index]))
    return cells


def _cell(codec: str, clip: str, bits: int, judge: str, value: float) -> CellRecord:
    return CellRecord(
        key=f"{codec} {clip} {bits} {judge}",
        clip=clip,
        size="288",
        width=10,
        height=10,
        frame_rate="25",
        frames=100,
        source_sha256="",
        codec=codec,
        codec_version="1",
        settings={"judge": judge},
        bits=bits,
        ledger={"all": bits},
        encode_seconds=1.0,
        decodes=[DecodeRecord({}, 1.0, "", {judge: MetricScores(value, [value], "1")})],
    )


def summary(*curves: list[CellRecord], **changes: Any) -> Summary:
    return summarise({**RUN, **changes}, [cell for cells in curves for cell in cells])


def both(clip: str) -> tuple[list[CellRecord], ...]:
    """Ours: half the bits by texture, a fifth more by motion; a slideshow wins by texture alone."""
    return (
        curve("svtav1", clip, cvvdp=1, st_lpips_vgg=1),
        curve("gsvc", clip, cvvdp=1.2, st_lpips_vgg=0.5),
        curve("hold", clip, cvvdp=3, st_lpips_vgg=0.6),
    )


def test_quality_at_fixed_rates_is_compared_where_both_get_there() -> None:
    anchor = curve("svtav1", "runner", cvvdp=0.03, st_lpips_vgg=0.03)
    ours = curve("gsvc", "runner", cvvdp=0.03, st_lpips_vgg=0.015)
    made = summary(anchor, ours)
    *_, cvvdp = fixed_rate_table(made, made.metric("cvvdp")).rows
    *_, texture = fixed_rate_table(made, made.metric("st_lpips_vgg")).rows
    assert cvvdp == ["gsvc against svtav1", "-", "-", "+0.00 (1)", "+0.00 (1)", "+0.00 (1)"]
    assert texture == ["gsvc against svtav1", "-", "-", "-50.0 (1)", "-50.0 (1)", "-"]


def test_the_headline_is_that_of_the_judge_who_likes_it_least() -> None:
    made = summary(*both("runner"), *both("other"))
    ours, floor = made.headline.rows
    assert (ours.curve, floor.curve) == ("gsvc", "hold")
    assert [ours.worse, floor.worse] == pytest.approx([20, 200])
    assert ours.judge == floor.judge == "cvvdp"
    assert ours.rates["st_lpips_vgg"] is not None
    assert ours.rates["st_lpips_vgg"].mean == pytest.approx(-50)
    assert made.headline.missing == {}
    first = tables(made)[0]
    assert first.title.startswith("Headline")
    assert first.rows[0] == ["gsvc", "+20.0 (cvvdp)", "+20.0 (2)", "-50.0 (2)"]
    assert headline_csv(made).splitlines()[1] == "gsvc,20,cvvdp,20,,,2,,-50,,,2,"


def test_a_missing_judge_leaves_no_headline_and_is_named_with_its_reason() -> None:
    cells = curve("svtav1", "runner", st_lpips_vgg=1), curve("gsvc", "runner", st_lpips_vgg=0.5)
    made = summary(*cells, gaps={"metric cvvdp": "no such package"})
    (ours,) = made.headline.rows
    assert (ours.worse, ours.judge) == (None, "")
    assert made.headline.missing == {"cvvdp": "no such package"}
    assert "No headline without cvvdp: no such package." in list(headline_gaps(made))
    assert headline_table(made).rows == [["gsvc", "-", "-", "-50.0 (1)"]]
    asked_for_less = summary(*cells)
    assert "--metric cvvdp" in asked_for_less.headline.missing["cvvdp"]


def test_few_clips_and_hulls_that_hardly_overlap_are_told() -> None:
    best = QUALITIES["cvvdp"]
    bits = ((500, best[0] + 0.95 * (best[1] - best[0])), (900, best[2] + 9 * (best[2] - best[0])))
    ours = [_cell("gsvc", "runner", count, "cvvdp", value) for count, value in bits]
    told = " ".join(headline_gaps(summary(curve("svtav1", "runner", cvvdp=1), ours)))
    assert "No interval with fewer than 3 clips." in told
    assert "gsvc (1 of 1, least 5 %). Add rates above those of svtav1 (judge cvvdp)." in told
    large = [replace(one, settings={"crf": 70}) for one in curve("svtav1", "runner", cvvdp=1)]
    worse = [_cell("gsvc", "runner", bits, "cvvdp", jod) for bits, jod in ((50, 0.5), (1200, 5.5))]
    told = " ".join(headline_gaps(summary(large, worse)))
    assert "Add rates below those of svtav1 (crf 70; scale=1/3 takes fewer)." in told
    judge = {judge: 1.0 for judge in JUDGES}
    anchor = [*curve("svtav1", "runner", **judge), *curve("gsvc", "runner", st_lpips_vgg=0.1)]
    assert headline_table(summary(anchor, ours)).rows[0][1].endswith("(cvvdp, 5 % shared)")
    (row,) = csv.DictReader(headline_csv(summary(anchor, ours)).splitlines())
    assert (row["cvvdp_doubts"], row["st_lpips_vgg_doubts"]) == ("5 % shared, 2 points", "")
    clips = [curve(codec, clip, cvvdp=1) for clip in "abc" for codec in ("svtav1", "gsvc")]
    assert not any("interval" in one or "OVERLAP" in one for one in headline_gaps(summary(*clips)))


def test_a_run_that_asked_for_no_judge_hears_of_no_headline() -> None:
    cell = _cell("svtav1", "runner", 1000, "psnr_y", 30.0)
    assert list(headline_gaps(summary([cell]))) == []


def test_a_run_without_av1_says_so() -> None:
    made = summary(curve("gsvc", "runner", cvvdp=1))
    assert made.headline.rows == []
    assert "svtav1" in " ".join(headline_gaps(made))


def test_the_slideshow_test_names_metric_clips_and_what_moves() -> None:
    made = summary(*both("runner"), *both("card"))
    passed = {test.metric: test.passes for test in made.slideshow}
    assert passed == {"cvvdp": True, "st_lpips_vgg": False}
    failing = next(test for test in made.slideshow if test.metric == "st_lpips_vgg")
    assert [one.clip for one in failing.clips if one.wins] == ["runner", "card"]
    assert [one.moves for one in failing.clips] == [True, False]
    assert failing.pooled is not None and failing.pooled.clips == 1
    warning = [*headline_gaps(made)][-1]
    assert "st_lpips_vgg" in warning and "-40.0" in warning
    assert ["st_lpips_vgg", "fails", "-40.0 (1)", "runner, card", "-40.0", "-40.0 (still)"] in (
        list(slideshow_table(made).rows)
    )


def test_a_still_clip_alone_proves_nothing() -> None:
    made = summary(*both("card"))
    assert {test.passes for test in made.slideshow} == {None}
    assert not any("WARNING" in one for one in headline_gaps(made))


@pytest.mark.parametrize(
    ("value", "bits", "wins"),
    [(2.0, 9000, False), (9.5, 500, True), (2.0, 500, None), (9.5, 9000, None), (2.0, 1500, False)],
)
def test_a_slideshow_that_shares_no_quality_is_judged_at_equal_bits(
    value: float, bits: int, wins: bool | None
) -> None:
    held = [_cell("hold", "runner", bits + step, "cvvdp", value + step / 100) for step in (0, 10)]
    (test,) = summary(curve("svtav1", "runner", cvvdp=1), held).slideshow
    assert [one.wins for one in test.clips] == [wins]
    assert (test.pooled, test.passes) == (None, None if wins is None else not wins)


def test_codecs_of_one_family_have_a_joint_hull_that_no_member_beats() -> None:
    made = summary(
        curve("svtav1", "runner", cvvdp=1, st_lpips_vgg=1),
        curve("other", "runner", cvvdp=0.8, st_lpips_vgg=1.5),
        curve("gsvc", "runner", cvvdp=1.2, st_lpips_vgg=0.5),
    )
    rates = {row.curve: row.rates for row in made.headline.rows}
    joint = rates["AV1, all curves"]
    assert joint["cvvdp"] is not None and joint["cvvdp"].mean == pytest.approx(-20, abs=1)
    assert joint["st_lpips_vgg"] is not None and joint["st_lpips_vgg"].mean == pytest.approx(0)
    assert "AV1, all curves" not in {row.curve for row in made.points}


def test_the_slowest_metric_codec_and_cell_are_named() -> None:
    cells = curve("svtav1", "runner", cvvdp=1) + curve("gsvc", "runner", cvvdp=1)
    cells[4].decodes[0].scores["cvvdp"] = MetricScores(7.0, [7.0], "1", seconds=20.0)
    made = summarise(RUN, cells)
    metric, *codecs, cell = made.durations
    assert (metric.kind, metric.name, metric.seconds) == ("metric", "cvvdp", 20.0)
    assert {one.name: one.each for one in codecs} == {"svtav1": 2.0, "gsvc": 2.0}
    assert metric.share == pytest.approx(20 / 32)
    assert cell.seconds == 22.0 and cell.name.startswith("runner, gsvc")
    assert [text.split()[1] for text in slowest(made.durations)] == ["cvvdp", "svtav1", "runner,"]


def test_versions_of_one_codec_in_one_run_are_told() -> None:
    cells = [curve(name, "runner", cvvdp=1, st_lpips_vgg=1) for name in ("svtav1", "other", "gsvc")]
    for mine in cells:
        mine[0] = replace(mine[0], codec_version="0")
    told = [one for one in headline_gaps(summary(*cells)) if one.startswith("MIXED VERSIONS")]
    assert [one.split()[3] for one in told] == ["svtav1", "other"]
