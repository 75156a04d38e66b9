"""Plans carried out: `gsvc encode --plan`, `gsvc decode --time-budget` and `--deadline`."""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import gsvc
from gsvc import ConfigError, DecoderSettings, decode
from gsvc.codec.bitstream.scaffold import Place
from gsvc.codec.command import planned
from gsvc.codec.command.main import main
from gsvc.codec.planning.budgets import time_of
from gsvc.codec.planning.machine_profile import ResourceUsage, profile_path
from gsvc.codec.planning.prediction import learned, log_path, shipped
from gsvc.codec.planning.realtime import DeadlinePace, Group, groups_of, spendings, within
from gsvc.decoders.streams.reconstruction import REFINING
from gsvc.encoders.coding import lookahead as look_ahead
from gsvc.encoders.frame_buffer import FrameBuffer
from test_plan import MACHINE

QUICK = replace(
    MACHINE,
    decode={
        "dis": ResourceUsage(1.0, 1e-7, 1e-7, 0.0, 2e8, 100.0),
        "dis + restorer": ResourceUsage(2.0, 1e-7, 1e-7, 1e-6, 8e8, 500.0),
    },
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "cache"))
    QUICK.save(profile_path())


class Clock:
    """A time of day that stands still until work moves it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def decoded(groups: Sequence[Group], seconds: float, key: float, true_key: float) -> list[int]:
    """Pictures restored by group, of a decoder whose plain frames take .01 s; it keeps its time."""
    clock = Clock()
    pace = DeadlinePace(groups, 0.01, key, seconds, clock)
    counts = []
    for group in groups:
        restored = 0
        for _ in range(group.keys):
            if pace.may(REFINING):
                clock.now += true_key
                pace.took(REFINING, true_key)
                restored += 1
            clock.now += 0.01 * group.frames / group.keys
        counts.append(restored)
    assert clock.now <= seconds
    return counts


def test_time_goes_to_the_groups_that_gain_most_and_the_deadline_is_kept() -> None:
    groups = [Group(100, 10, 0.5), Group(100, 5, 2.0), Group(100, 20, 1.0)]
    plain = 3.0
    assert decoded(groups, plain, 0.1, 0.1) == [0, 0, 0]
    few, some, all_ = (decoded(groups, s, 0.1, 0.1) for s in (3.9, 5.2, 9.0))
    assert few[:2] == [0, 5] and some[1] == 5 and sum(some) > 5 and all_ == [10, 5, 20]


@pytest.mark.parametrize("true_key", [0.02, 0.4])
def test_a_deadline_is_kept_where_restoring_takes_other_than_foretold(true_key: float) -> None:
    groups = [Group(100, 10, 1.0)] * 4
    counts = decoded(groups, 7.0, 0.1, true_key)
    assert 0 < sum(counts) and (true_key > 0.1 or sum(counts) == 40)


@pytest.mark.usefixtures("machine")
def test_the_best_way_that_keeps_a_budget(stream: Path) -> None:
    info = gsvc.info(stream)
    found, fitted = spendings(info, QUICK, shipped()), shipped()
    for judge in ("texture", "jod"):
        assert within(found, 1e3, judge, fitted).way.backend == "restorer"
    with pytest.raises(ConfigError, match="the least that can be met is"):
        within(found, 0.1, "texture", fitted)
    assert sum(group.frames for group in groups_of(info, fitted)) == info.frames


def test_learned_motion_is_no_way_to_decode_a_stream_that_leaves_nothing_to_draw(
    stream: Path,
) -> None:
    info = gsvc.info(stream)
    machine = replace(QUICK, decode={**QUICK.decode, "rife": QUICK.decode["dis"]})
    for frames, has_rife in ((1, False), (5, True)):
        packets = tuple(
            replace(
                packet,
                intervals=tuple(
                    replace(one, frames=frames, place=Place.BETWEEN) for one in packet.intervals
                ),
            )
            for packet in info.packets
        )
        found = spendings(replace(info, packets=packets), machine, shipped())
        assert ("rife" in [one.way.name for one in found]) is has_rife


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_a_plan_is_carried_out_and_its_truth_is_kept(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (budget := tmp_path / "budget.toml").write_text('bandwidth = "40k"\nencoder-time = "60s"\n')
    target = tmp_path / "out.gsv"
    assert main(["encode", str(clip), str(target), "--plan", str(budget), "--json"]) == 0
    line = json.loads(log_path().read_text())
    assert line["numbers"]["rate"]["measured"] == pytest.approx(gsvc.info(target).bitrate)
    assert {"encode_seconds", "encode_memory"} < set(line["numbers"])
    assert main(["encode", str(clip), "--plan", str(budget), "--bpp", "0.01"]) == 2
    assert "--bpp is what --plan decides" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_a_plan_for_short_memory_is_carried_out_lean(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = {**QUICK.encode, "slow": replace(QUICK.encode["slow"], memory=1e12)}
    hungry = {name: replace(one, memory_per_pixel=3e4) for name, one in encode.items()}
    replace(QUICK, encode=hungry).save(profile_path())
    packed = []

    def waiting(*pictures: Iterable[gsvc.Picture], low_memory: bool) -> FrameBuffer:
        packed.append(low_memory)
        return FrameBuffer(*pictures, low_memory=low_memory)

    monkeypatch.setattr(look_ahead, "FrameBuffer", waiting)
    monkeypatch.setattr(planned, "trial_judge", nullcontext)  # seconds less
    (budget := tmp_path / "budget.toml").write_text('bandwidth = "40k"\nmemory = "500M"\n')
    target = str(tmp_path / "out.gsv")
    assert main(["encode", str(clip), "-o", target, "--plan", str(budget)]) == 0
    assert packed[-1] and not packed[0]  # the trial's own come first


@pytest.mark.usefixtures("machine")
def test_budget_and_deadline_decode(
    stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calm, hurried = tmp_path / "calm.y4m", tmp_path / "hurried.y4m"
    assert main(["decode", str(stream), str(calm), "--time-budget", "10min"]) == 0
    assert "decode_seconds" in log_path().read_text()
    assert main(["decode", str(stream), str(hurried), "--deadline", "100h", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["restored"] > 0 and told["steps"] == 1
    whole = tmp_path / "whole.y4m"
    decode(stream, whole, settings=DecoderSettings(steps=1, backend="restorer"))
    assert hurried.read_bytes() == whole.read_bytes() == calm.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--deadline", "10"], "--deadline 10 has no unit"),
        (["--time-budget", "0x"], "--time-budget 0x: a budget is above 0"),
        (["--deadline", "1ms"], "plain decoding alone takes"),
        (["--time-budget", "1ms"], "the least that can be met"),
        (["--deadline", "1min", "--steps", "4"], "--steps is what --deadline decides"),
        (["--deadline", "1min", "--frames", "4"], "for whole streams"),
    ],
)
@pytest.mark.usefixtures("machine")
def test_bad_times_get_one_line(
    stream: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    part: str,
) -> None:
    assert main(["decode", str(stream), str(tmp_path / "x.mkv"), *arguments]) == 2
    error = capsys.readouterr().err
    assert part in error and error.count("\n") == 1
    assert not (tmp_path / "x.mkv").exists()


def test_jobs_move_what_is_foretold_by_degrees() -> None:
    few, many = ({"rate": [0.98] * n} for n in (4, 400))
    low, middle, high = learned(shipped(), few)["spread"]["rate"]
    assert middle == pytest.approx(0.98) and low < 0.96 and high > 1.0
    assert learned(shipped(), many)["spread"]["rate"][2] < high
    assert time_of("--deadline", "2min").seconds(9) == 120
