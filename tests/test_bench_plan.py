"""`gsvc bench plan`: what validations come to, and bad input."""

from dataclasses import asdict
from pathlib import Path

import pytest

from gsvc import ConfigError
from gsvc.codec.command.main import main
from gsvc.codec.planning.prediction import Range, Truth, note, ratios
from gsvc.eval.planning.validation import GOALS, error_table, kept_line

TRUTH = Truth(Range(0.5, 1.0, 2.0), raw=2.0, measured=1.5)


def test_a_log_teaches_by_what_was_measured_over_the_raw_prediction(tmp_path: Path) -> None:
    for job in ("carphone 1", "bikes 2"):
        note(job, {"rate": TRUTH}, path := tmp_path / "log.jsonl")
    assert ratios([path]) == {"rate": [0.75, 0.75]}
    assert ratios([path], without="bikes") == {"rate": [0.75]}
    path.write_text("{}\n")
    with pytest.raises(ConfigError, match="no log of predictions"):
        ratios([path])


def test_errors_and_kept_budgets_are_told() -> None:
    done = {
        "kept": {"bandwidth": True, "memory": False},
        "numbers": {name: asdict(TRUTH) for name in GOALS},
    }
    table = error_table([done, {"refused": "no"}])
    assert "0.50 JOD" in table and "33.33 %" in table and "100 %" in table
    assert kept_line([done, {"refused": "no"}]) == (
        "2 budgets: 1 refused as not to be met, 1 carried out; 1 of 2 constraints kept "
        "(50 %; goal 95 %); broken: memory 1"
    )


def test_bad_requests_get_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "out")]
    assert main(["bench", "plan", "nothing.csv", *out, "--budgets", "-1"]) == 2
    assert main(["bench", "plan", "nothing.csv", *out]) != 0
    assert capsys.readouterr().err.count("\n") == 2
    assert not (tmp_path / "out").exists()
