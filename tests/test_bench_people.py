"""`gsvc bench people`: the table of faces, from a run's cells."""

from pathlib import Path

import cv2
import pytest

from gsvc.codec.command.main import main
from gsvc.eval.bench.store import CellRecord, DecodeRecord, MetricScores
from gsvc.eval.report import sheets as people_strips
from gsvc.eval.report.sheets import StripPlace
from gsvc.eval.summary.rate_tables import METRICS, people_table
from gsvc.eval.summary.summarise import summarise
from small_run import record, write_run

BETTER_HIGH = {"mouth_opening", "face_cvvdp", "pose_oks"}
RUN = {
    "metrics": {
        name: {
            "version": "1",
            "unit": "",
            "higher_is_better": name in BETTER_HIGH,
            "per_frame": True,
        }
        for name in METRICS
    },
    "codec_facts": {"gsvc": {"is_anchor": False}, "svtav1": {"is_anchor": True}},
}


def cell(codec: str, bits: int, value: float, **settings: float) -> CellRecord:
    """100 frames of 10x10 pixels; every metric has the same value."""
    scores = {name: MetricScores(value, [value], "test", "") for name in METRICS}
    return CellRecord(
        key=f"{codec}{bits}{settings}",
        clip="talk",
        size="288",
        width=10,
        height=10,
        frame_rate="25",
        frames=100,
        source_sha256="",
        codec=codec,
        codec_version="1",
        settings=dict(settings),
        bits=bits,
        ledger={"faces": bits // 10},
        decodes=[DecodeRecord({}, 1.0, "", scores, peak_memory=1)],
    )


def test_a_row_has_av1_at_the_same_bits_and_both_ways_of_ours() -> None:
    cells = [
        cell("svtav1", 40, 0.5, crf=60),
        cell("svtav1", 80, 0.25, crf=50),
        cell("gsvc", 60, 0.125, bpp=0.006, faces=0),
        cell("gsvc", 60, 0.0625, bpp=0.006),
        cell("gsvc", 20, 0.75, bpp=0.002, faces=0),
    ]
    table = people_table(summarise(RUN, cells))
    (_, first, *_, none), (_, second, *_, layer) = sorted(map(list, table.rows))
    assert first == "- / 0.7500 / -" and none == "-"
    assert second == "0.3750 / 0.1250 / 0.0625" and layer == "0.1"


def test_other_runs_have_no_such_table() -> None:
    assert not people_table(summarise(RUN, [cell("gsvc", 60, 0.1, level=1)])).rows


def test_a_clip_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "people", str(tmp_path / "none.mp4"), "--out", str(tmp_path / "r")]) != 0
    assert "none.mp4" in capsys.readouterr().err


@pytest.mark.slow
def test_strips_have_a_row_for_the_source_av1_and_both_ways_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"bpp": 0.02, "tools": "default", "preset": "fast", "seed": 0}
    cells = [record("svtav1", {"preset": 10, "crf": 50, "scale": "1"})]
    cells += [record("gsvc", {**ours, **way}) for way in ({"faces": 0}, {})]
    folder = write_run(tmp_path, cells, 4)
    monkeypatch.setattr(people_strips, "speaking_place", lambda _: StripPlace(0, 0, 0, 64))
    (path,) = people_strips.write_people_strips(folder)
    picture = cv2.imread(str(path))
    assert path.parent == folder / "strips" and picture is not None
    assert picture.shape == (4 * (112 + 26), 8 * 112, 3)
    monkeypatch.setattr(people_strips, "speaking_place", lambda _: None)
    assert not people_strips.write_people_strips(folder)
