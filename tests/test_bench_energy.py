"""Energy in benchmarks: measured where that is possible, else absent; sending by a stated model."""

import csv
import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gsvc.codec.planning.process import RADIOS
from gsvc.eval.compute import StepCost
from gsvc.eval.summary.summarise import summarise
from gsvc.eval.summary.write import costs_table, summary_csv
from test_summary import RUN, cell


@pytest.fixture
def counters(tmp_path: Path) -> Path:
    (folder := tmp_path / "intel-rapl:0").mkdir()
    (folder / "energy_uj").write_text("1000000")
    return tmp_path


@pytest.mark.parametrize("has_all_cores", [True, False])
def test_energy_is_measured_by_who_has_the_processor_alone(
    counters: Path, monkeypatch: pytest.MonkeyPatch, has_all_cores: bool
) -> None:
    cores = range(os.cpu_count() or 1) if has_all_cores else range(0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores), raising=False)
    with StepCost(counters) as step:
        (counters / "intel-rapl:0" / "energy_uj").write_text("3500000")
    assert step.joules == (2.5 if has_all_cores else None)


def test_energy_without_counters_is_absent(tmp_path: Path) -> None:
    with StepCost(tmp_path) as step:
        pass
    assert step.joules is None


def test_tables_have_energy_or_say_that_there_is_none() -> None:
    plain = cell("gsvc", 10_000, 30.0)
    measured = replace(
        plain, encode_joules=8.0, decodes=[replace(one, joules=2.0) for one in plain.decodes]
    )
    for record, shown in ((plain, ["-", "-"]), (measured, ["2", "0.5"])):
        summary = summarise({"stride": 1, **RUN}, [record])
        (row,) = costs_table(summary).rows
        assert row[6:8] == shown and row[8] == f"{2.5e6 * RADIOS['lte'].joules_per_bit:.3g}"
        (line,) = csv.DictReader(io.StringIO(summary_csv(summary)))
        sent = float(line["joules_over_lora"])
        assert sent == pytest.approx(10_000 * RADIOS["lora"].joules_per_bit)
        assert bool(line["decode_joules"]) is (record is measured)
