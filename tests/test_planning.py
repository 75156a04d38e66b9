"""`gsvc profile` and what plans are made of."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gsvc import ConfigError, __version__
from gsvc.codec.command.main import main
from gsvc.codec.planning.machine_profile import (
    Profile,
    ResourceUsage,
    least_seconds,
    load_profile,
    profile_path,
)
from gsvc.codec.planning.process import EnergyMeter, GpuCounters, spare_clock
from gsvc.codec.weights.extras import machine

USAGE = ResourceUsage(1.0, 1e-7, 1e-7, 0.0, 2e8, 100.0)
PROFILE = Profile(machine(), __version__, {"fast": USAGE}, {"dis": USAGE})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    return tmp_path


def test_profile_is_kept_for_this_machine_and_version(cache: Path) -> None:
    PROFILE.save(profile_path())
    assert profile_path().is_relative_to(cache) and load_profile() == PROFILE


@pytest.mark.usefixtures("cache")
def test_profile_of_another_machine_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = replace(PROFILE, machine={**machine(), "cpu": "Z80"})
    foreign.save(path := tmp_path / "z80.json")
    with pytest.raises(ConfigError, match="another machine.*Z80.*--receiver"):
        load_profile(path)
    assert load_profile(path, foreign=True) == foreign
    foreign.save(profile_path())
    assert main(["profile", "--show"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("cache")
def test_a_plan_made_again_while_other_work_runs_is_the_same() -> None:
    took = [least_seconds("trial", seconds) for seconds in (1.0, 5.0, 0.95, 0.5, 0.9)]
    assert took == [1.0, 1.0, 1.0, 0.5, 0.5] and least_seconds("another", 5.0) == 5.0
    path = profile_path().with_suffix(".least.json")
    path.write_text(json.dumps({str(number): 1.0 for number in range(1000)}))
    assert least_seconds("trial", 1.0) == 1.0 and len(json.loads(path.read_text())) < 500
    began, now = spare_clock(), time.perf_counter()
    time.sleep(0.2)
    assert spare_clock() - began < 0.1 < time.perf_counter() - now


@pytest.mark.usefixtures("cache")
def test_a_missing_profile_says_how_to_make_one() -> None:
    with pytest.raises(FileNotFoundError, match="run gsvc profile"):
        load_profile()


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"format": "x"}, {"encode": {}, "decode": None}, {"machine": {}}]
)
def test_what_is_no_profile_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    PROFILE.save(path := tmp_path / "p.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match="no profile"):
        load_profile(path)
    path.write_text("{")
    with pytest.raises(ConfigError, match="no profile"):
        load_profile(path)


def test_profile_of_another_version_is_refused(tmp_path: Path) -> None:
    replace(PROFILE, gsvc="0.0.1").save(path := tmp_path / "p.json")
    with pytest.raises(ConfigError, match="run gsvc profile again"):
        load_profile(path)


class Driver:
    """NVML of two GPUs, of which the second counts no energy."""

    def __init__(self) -> None:
        self.millijoules = 5_000

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        device._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, device: Any, energy: Any) -> int:
        energy._obj.value = self.millijoules
        return 0 if device.value == 1 else 3


def test_the_energy_of_gpus_is_added_and_their_absence_told(tmp_path: Path) -> None:
    (package := tmp_path / "intel-rapl:0").mkdir()
    (package / "energy_uj").write_text("0")
    driver = Driver()
    with EnergyMeter(tmp_path, GpuCounters(driver)) as meter:
        (package / "energy_uj").write_text("3000000")
        driver.millijoules += 4_000
    assert meter.joules == pytest.approx(7.0) and "1 of GPUs" in meter.sources
    driver.nvmlInit_v2 = lambda: 9  # type: ignore[method-assign]  # the driver is not loaded
    assert "none of GPUs" in EnergyMeter(tmp_path, GpuCounters(driver)).sources


def test_energy_is_read_from_counters_that_may_wrap(tmp_path: Path) -> None:
    package, part = tmp_path / "intel-rapl:0", tmp_path / "intel-rapl:0:0"
    for folder in (package, part):
        folder.mkdir()
        (folder / "energy_uj").write_text("9000000")
        (folder / "max_energy_range_uj").write_text("10000000")
    with EnergyMeter(tmp_path) as meter:
        (package / "energy_uj").write_text("1000000")
    assert meter.joules == 2.0


def test_energy_without_counters_or_permission_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no energy counters"):
        EnergyMeter(tmp_path)
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir(parents=True)  # as unreadable as without rights
    with pytest.raises(ConfigError, match="cannot be read"):
        EnergyMeter(tmp_path)
