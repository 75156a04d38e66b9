"""`gsvc plan`: budgets, the model, the search, and what stands in the way."""

import json
import re
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import gsvc
from gsvc import ConfigError
from gsvc.codec.bitstream.stream_info import StreamIndex
from gsvc.codec.command.main import main
from gsvc.codec.command.planned import TCP, carried, trial_judge
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.planning.budgets import (
    CLASSES,
    Budgets,
    Time,
    VideoClass,
    parse_budgets,
    read_budgets,
)
from gsvc.codec.planning.machine_profile import Profile, ResourceUsage, Way, profile_path
from gsvc.codec.planning.plan_search import (
    BudgetPlanner,
    LinkLoad,
    PlanChoice,
    as_lines,
    commands,
    planner_for,
    python_line,
    quality_of,
)
from gsvc.codec.planning.prediction import PlanSettings, Predictor, Range
from gsvc.codec.planning.video_trial import TrialPoint, VideoTrial, trial_of, try_video
from gsvc.encoders.tuning import PRESETS
from needs import need_package
from test_planning import PROFILE

TRIAL = VideoTrial(
    352, 288, 25.0, 250,
    (TrialPoint(0.0008, 1.3, 0.1, 2e-7), TrialPoint(0.003, 2.1, 0.2, 3e-7),
     TrialPoint(0.013, 2.9, 0.6, 5e-7)),
)  # fmt: skip
LIVE = replace(
    TRIAL, low_delay=True, points=tuple(replace(p, seconds=0.7 * p.seconds) for p in TRIAL.points)
)
SLOW = ResourceUsage(8.0, 1e-7, 1e-7, 3e-6, 8e8, 500.0)
MACHINE = replace(
    PROFILE,
    encode={
        name: ResourceUsage(1.0, k * 3e-7, 0.0, 0.0, 2e8, 10.0)
        for name, k in (("fast", 1), ("medium", 2), ("slow", 6))
    },
    decode={"dis": ResourceUsage(1.0, 1e-7, 1e-7, 0.0, 2e8, 100.0), "dis + restorer": SLOW},
)


@pytest.fixture
def planner() -> BudgetPlanner:
    return BudgetPlanner(Predictor(TRIAL, MACHINE))


def test_the_plan_is_the_best_of_all_that_keep_the_budgets(planner: BudgetPlanner) -> None:
    budgets = parse_budgets({"bandwidth": "10k", "decoder_time": "2x", "memory": "4G"})
    plan = planner.plan(budgets)
    kept = [c for c in planner.choices(budgets) if max(planner.excess(c, budgets).values()) <= 1]
    best = max(quality_of(choice, "jod") for choice in kept)
    assert quality_of(plan.best, "jod") == pytest.approx(best, abs=0.02)
    alike = [
        c
        for c in kept
        if c.settings.bitrate == plan.best.settings.bitrate
        and quality_of(c, "jod") >= quality_of(plan.best, "jod") - 1e-3
    ]
    seconds = [c.prediction.decode_seconds.mean for c in (plan.best, *alike)]
    assert seconds[0] == min(seconds)  # what nobody sees takes no time
    assert plan.best.prediction.bitrate.high <= 10_000
    kinds = [(c.settings.preset, c.settings.way.name) for c in (plan.best, *plan.runners_up)]
    assert len(set(kinds)) == 3


def test_bandwidth_is_of_all_that_a_link_carries() -> None:
    link = LinkLoad(1.5, 2_000, ("--audio-bitrate", "6000"), is_live=True)
    plan = BudgetPlanner(Predictor(TRIAL, MACHINE), link=link).plan(Budgets(bandwidth=10_000))
    # Whoever sends keeps to the link, and codes fewer pictures where it is thinner than any tried.
    assert 1.5 * plan.best.settings.bitrate + 2_000 == pytest.approx(10_000)
    model = Predictor(LIVE, MACHINE)
    thin = Budgets(bandwidth=2_000 + 1.5 * 0.5 * model.rates[0], latency=4.0)
    rate = BudgetPlanner(model, link=link).plan(thin).best.settings.bitrate
    assert rate == pytest.approx(0.5 * model.rates[0])
    told = "\n".join(as_lines("talk.mp4", plan))
    assert (
        "2.00 for sound" in told and "for video of 352x288 at 25 " in told and "gsvc send" in told
    )
    with pytest.raises(ConfigError, match="--bandwidth binds"):
        BudgetPlanner(Predictor(TRIAL, MACHINE), link=link).plan(Budgets(bandwidth=1_900))


def test_bandwidth_has_a_price_and_what_does_not_bind_has_none(planner: BudgetPlanner) -> None:
    plan = planner.plan(parse_budgets({"bandwidth": "10k", "memory": "400G"}))
    prices = {price.budget: price.gain for price in plan.prices}
    assert prices["bandwidth"] > 0.1 and prices["memory"] == 0


def test_a_judged_trial_foretells_cvvdp_nearer_than_likeness(planner: BudgetPlanner) -> None:
    points = [replace(one, jod=jod) for one, jod in zip(TRIAL.points, (4.0, 6.0, 8.0), strict=True)]
    judged = BudgetPlanner(Predictor(replace(TRIAL, points=tuple(points)), MACHINE))
    budgets = Budgets(bandwidth=TRIAL.points[1].bpp * TRIAL.pixels * TRIAL.rate)
    for one, is_judged in ((judged, True), (planner, False)):
        plan = one.plan(budgets)
        said = any("SSIM" in line for line in as_lines("a.mp4", plan))
        assert plan.is_judged == is_judged and said != is_judged
    widths = [
        c.high - c.low for c in (p.choices(Budgets())[0].prediction.jod for p in (judged, planner))
    ]
    assert widths[0] < widths[1] / 2


@pytest.mark.parametrize("judge", ["texture", "jod"])
def test_pictures_are_restored_where_memory_allows(planner: BudgetPlanner, judge: str) -> None:
    for memory, backend in (("4G", "restorer"), ("600M", "")):
        budgets = parse_budgets({"bandwidth": "10k", "memory": memory})
        assert planner.plan(budgets, judge).best.settings.way.backend == backend


def test_groups_are_short_only_where_memory_or_latency_has_a_limit(planner: BudgetPlanner) -> None:
    for budgets, is_short in ((Budgets(), False), (Budgets(memory=1e15), True)):
        best = planner.plan(budgets).best.settings
        assert any("--gop 4" in line for line in commands("talk.mp4", best)) is is_short


def test_the_command_of_a_plan_gives_what_the_plan_says(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    MACHINE.save(profile_path())
    part = "--start", "0.1", "--frames", "16"
    wanted = "--bandwidth", "4k", "--size", "48", "--no-measure"
    assert main(["plan", str(clip), *wanted, *part]) == 0
    told, beside = capsys.readouterr()
    assert "takes half a minute" in beside
    encode = next(line for line in told.splitlines() if line.startswith("gsvc encode")).split()
    target = tmp_path / "again.gsv"
    assert "--size" in encode and "--total-bitrate" in encode
    assert " ".join(part) in " ".join(encode)
    assert main([*encode[1:3], "-o", str(target), *encode[5:], "--quiet"]) == 0
    width, height, seconds = re.findall(r"of (\d+)x(\d+) .* take ([\d.]+) s to send", told)[0]
    with open(target, "rb") as file:
        form, count = (index := StreamIndex(file)).header.format, index.frames
    assert count == 16 and (form.width, form.height) == (int(width), int(height))
    link = TCP * 8 * target.stat().st_size / float(seconds)
    assert link == pytest.approx(4_000, rel=0.1)
    python = told.rpartition("# Python: ")[2]
    assert "start=0.1, frames=16" in python
    exec(python, {"gsvc": gsvc})  # noqa: S102
    assert (tmp_path / f"{clip.stem}.gsv").read_bytes() == target.read_bytes()


def test_the_python_of_a_live_plan_makes_the_sender_of_its_command(clip: Path) -> None:
    settings = PlanSettings(6_012.3, "fast", True, Way())
    told = "--size", "64x48", "--fps", "5", "--audio", "opus", "--mtu", "240", "--parity", "2"
    link = LinkLoad(1.3, is_live=True, most=8e3, arguments=told)
    *made, run = python_line(str(clip), settings, link).split("; ")
    assert run == "asyncio.run(sender.run(video, sound))"
    names: dict[str, Any] = {"gsvc": gsvc}
    exec("\n".join(made), names)  # noqa: S102
    video, encoder, sender = (names[name] for name in ("video", "encoder", "sender"))
    with video, encoder:
        assert (video.format.width, video.format.frame_rate) == (64, 5)
        assert encoder.target_bitrate == 6_012 and encoder.preset == "fast"
        assert encoder.is_low_delay and encoder.header.audio and "gop=" not in made[1]
        assert sender.total_bitrate == 8_000
    rest = replace(link, most=None, arguments=("--size", "source"))
    lines = python_line("a.mp4", settings, rest)
    assert "open_video('a.mp4')" in lines and "bitrate=6012" in lines and "sound" not in lines


def test_what_is_missing_is_optimised(planner: BudgetPlanner) -> None:
    plan = planner.plan(parse_budgets({"quality": "jod:5"}))
    assert plan.goal == "bandwidth" and plan.best.prediction.jod.low >= 5
    better = planner.plan(parse_budgets({"quality": "jod:6"}))
    assert better.best.settings.bitrate > plan.best.settings.bitrate
    both = planner.plan(parse_budgets({"quality": "jod:5", "bandwidth": "30k"}))
    assert both.goal == "decoder_time"


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        ({"decoder_time": "0.001x"}, "--decoder-time binds.*--decoder-time 0"),
        ({"quality": "jod:6", "bandwidth": "1k"}, "--bandwidth|--quality"),
        ({"memory": "1M"}, "--memory binds.*--memory [0-9.]+M"),
        ({"energy": "5J"}, "--energy needs counters.*--watts"),
    ],
)
def test_what_cannot_be_met_says_what_binds(
    planner: BudgetPlanner, texts: dict[str, str], part: str
) -> None:
    with pytest.raises(ConfigError, match=part):
        planner.plan(parse_budgets(texts))


def test_a_rate_that_fills_the_link_keeps_to_it() -> None:
    link = LinkLoad(3.3654713459756063, is_live=True, most=4_000.0)
    planner = BudgetPlanner(Predictor(replace(LIVE, rate=4.0), MACHINE), link=link)
    full = replace(planner.choices(Budgets())[0].settings, bitrate=link.pictures(4_000.0))
    choice = PlanChoice(full, planner.model.predict(full))
    assert planner.excess(choice, Budgets(bandwidth=4_000.0))["bandwidth"] <= 1


def test_a_plan_that_refuses_says_where_leaving_the_sound_out_is_enough() -> None:
    budgets = parse_budgets({"bandwidth": "12k", "latency": "3s"})
    loud = LinkLoad(1.7, 7_000.0, is_live=True, intra=2.7, most=12_000.0, silent=6_000.0)
    with pytest.raises(ConfigError, match="all are met without the sound: --audio none; at any"):
        BudgetPlanner(Predictor(LIVE, MACHINE), link=loud).plan(budgets)
    few = BudgetPlanner(Predictor(LIVE, MACHINE), link=replace(loud, factor=30.0, beside=0.0))
    with pytest.raises(ConfigError, match=r"--bandwidth \d\S+, or --size 96 --fps 5, or a file in"):
        few.plan(replace(budgets, latency=7.0))


def test_the_nearest_that_is_named_can_be_met(planner: BudgetPlanner) -> None:
    with pytest.raises(ConfigError) as caught:
        planner.plan(parse_budgets({"memory": "1M"}))
    nearest = str(caught.value).rpartition(" ")[2]
    assert planner.plan(parse_budgets({"memory": nearest}))


def test_a_bandwidth_is_named_only_after_it_was_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def planner_of(_: Namespace, __: object, budgets: Budgets) -> BudgetPlanner:
        link = LinkLoad(beside=min(0.95 * (budgets.bandwidth or 0), 5_000))  # sound grows with it
        return BudgetPlanner(Predictor(TRIAL, MACHINE), link=link)

    monkeypatch.setattr("gsvc.codec.command.plan.planner_of", planner_of)
    assert main(["plan", "a.mp4", "--bandwidth", "2k"]) == 2
    told = capsys.readouterr().err
    named = re.findall(r"can be met: --bandwidth ([\d.]+k)", told)
    assert len(named) == 1 and main(["plan", "a.mp4", "--bandwidth", named[0]]) == 0
    capsys.readouterr()


def test_a_file_goes_one_way_in_pieces(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(clip), "--bandwidth", "30k", "--no-feedback"]) == 2
    told = capsys.readouterr().err
    assert re.search(r"-o \w+\.pieces --packets \d --packet-bytes 240 --loss 5%$", told), told
    assert main(["plan", str(clip), "--bandwidth", "30k", "--no-feedback", "--loss", "20%"]) == 2
    fewer = capsys.readouterr().err
    assert fewer.endswith("--loss 20%\n")
    assert _packets(fewer) < _packets(told)
    part = ["--start", "0.1", "--frames", "16"]
    assert main(["plan", str(clip), "--bandwidth", "90k", "--no-feedback", *part]) == 2
    assert f".pieces {' '.join(part)} --packets" in capsys.readouterr().err
    assert main(["plan", str(clip), "--no-feedback"]) == 2
    assert "gsvc encode --packets" in capsys.readouterr().err


def _packets(command: str) -> int:
    return int(command.partition("--packets ")[2].split()[0])


def test_stated_power_makes_energy_a_budget() -> None:
    planner = BudgetPlanner(Predictor(TRIAL, MACHINE, watts=10.0), joules_per_bit=1e-6)
    best = planner.plan(parse_budgets({"energy": "1kJ"})).best
    joules = planner.joules(best.prediction)
    assert joules is not None and 0 < joules <= 1000


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("bandwidth", "12000", "has no unit: write 12k"),
        ("bandwidth", "0k", "above 0"),
        ("decoder_time", "-1x", "above 0"),
        ("memory", "much", "no budget: write 500M"),
        ("latency", "4x", "no budget: write 400ms"),
        ("quality", "jod:11", "write jod:6"),
        ("quality", "6", "write jod:6"),
    ],
)
def test_bad_budgets_are_refused(name: str, text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        parse_budgets({name: text})


def test_units_may_be_written_out() -> None:
    whole = parse_budgets({"bandwidth": "12kbit/s", "memory": "4GB", "decoder_time": "90 s"})
    assert whole == parse_budgets({"bandwidth": "12k", "memory": "4G", "decoder_time": "90s"})


def test_budgets_come_from_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text('bandwidth = "12k"\ndecoder-time = "90s"\nquality = "jod:6"\n')
    assert read_budgets(path) == Budgets(
        bandwidth=12_000, decoder_time=Time(90, False), quality=("jod", 6.0)
    )
    for text in ("bandwidth = 12", 'speed = "1x"', "", "bandwidth", 'bandwidth = "1k"\n' * 2):
        path.write_text(text)
        with pytest.raises(ConfigError):
            read_budgets(path)


def test_without_a_profile_a_built_in_one_is_scaled_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    assert main(["plan", "--class", "sport", "--bandwidth", "3k", "--size", "auto"]) == 0
    shown = capsys.readouterr()
    assert "a built-in one is taken" in shown.err and "gsvc profile" in shown.err
    assert "--size 320x180 --fps 12.5 " in shown.out
    assert "--motion rife" not in shown.out  # not pulled
    quiet = ["plan", "--class", "sport", "--bandwidth", "3k", "--size", "auto", "--quiet"]
    assert main(quiet) == 0 and not capsys.readouterr().err
    assert main(["plan", "--class", "sport", "--bandwidth", "5"]) == 2


@pytest.mark.slow
def test_a_plan_of_a_video_names_the_commands(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    MACHINE.save(profile_path())
    assert main(["plan", str(clip), "--memory", "4G"]) == 0
    shown = capsys.readouterr().out
    assert "gsvc encode" in shown and "gsvc decode" in shown and "--memory does not bind" in shown


@pytest.mark.parametrize(("loss", "is_short"), [(0.03, False), (0.05, True)])
def test_one_way_groups_are_short_where_much_is_lost(
    clip: Path, loss: float, is_short: bool
) -> None:
    asked = {"audio": "none", "size": None, "fps": None, "start": 0.0, "frames": None}
    options = Namespace(**asked, feedback=False, loss=loss)
    told = carried(str(clip), Budgets(bandwidth=8e3, latency=4.0), options).link.arguments
    assert ("--gop" in told) is is_short


@pytest.mark.parametrize("low_delay", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_planned_without_a_video(name: str, low_delay: bool) -> None:
    kind = VideoClass(name, 640, 360, 30.0, 10.0)
    trial = trial_of(kind, MACHINE, low_delay=low_delay)
    assert trial.low_delay is low_delay
    bpps = [point.bpp for point in trial.points]
    assert (trial.frames, trial.pixels) == (300, 640 * 360) and bpps == sorted(bpps)
    best = BudgetPlanner(Predictor(trial, MACHINE)).plan(Budgets()).best.prediction.jod
    alone = replace(trial, jod_apart=0.0)
    exact = BudgetPlanner(Predictor(alone, MACHINE)).plan(Budgets()).best.prediction.jod
    assert best.mean == exact.mean and best.low < exact.low  # its clips lie apart


def test_a_class_is_planned_live_without_a_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    MACHINE.save(profile_path())
    asked = ["plan", "--class", "talking-head", "--bandwidth", "12k", "--latency", "2s"]
    assert main([*asked, "--size", "512x288", "--fps", "25"]) == 0
    told = capsys.readouterr().out
    assert "talking-head, without sound" in told and "JOD, live 0-2 less" in told
    receive, send, python = told.splitlines()[-3:]
    assert receive.startswith("gsvc recv udp://@:5004 -o talking-head.received.mp4 --wait 1000")
    assert "talking-head.mp4 udp://HOST:5004 --total-bitrate 12000 " in send
    assert send.endswith("--size 512x288 --fps 25 --audio none")
    assert "fps=25, size=(512, 288)); encoder" in python
    assert main([*asked[:-1], "4s", "--audio", "opus", "--no-feedback"]) == 0
    told = capsys.readouterr().out
    assert " --audio opus --audio-bitrate 6000 --redundancy 2" in told
    assert "take --audio none" in told.splitlines()[1]
    assert "--no-feedback" in told.splitlines()[-3]


@pytest.mark.slow
def test_the_command_plans_a_class_and_tells_models_that_a_gpu_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_package("diffusers")
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    MACHINE.save(profile_path())
    asked = ["plan", "--class", "talking-head", "--bandwidth", "12k", "--vram", "6G"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    models = {one["name"]: one for one in told["vram"]}
    chosen = told["pretrained"]
    assert chosen["kind"] == "whole" and chosen["memory"] <= 6e9
    whole = [one["weights"] for one in models.values() if one["kind"] == "whole"]
    assert chosen["weights"] == max(whole)
    assert chosen["quality"] is chosen["seconds"] is None  # nobody measured them
    assert models["sd-turbo"]["kind"] == "whole" and models["ltx2"]["kind"] is None
    assert all(m["memory"] <= 6e9 for m in models.values() if m["kind"])
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert f"--backend {chosen['name']} --steps" in shown and "was not measured" in shown
    assert "--vram does not bind" not in shown
    assert main([*asked[:-1], "100M", "--decoder-flops", "20G"]) == 0
    assert (
        "no pretrained model fits: the nearest that can be met is --vram" in capsys.readouterr().out
    )
    assert main([*asked, "--decoder-flops", "1G"]) == 0
    assert "--decoder-flops is too little" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "name the video, or its --class"),
        (["a.mp4", "--class", "sport"], "leave out one of them"),
        (["a.mp4", "--seconds", "3"], "--seconds is of a --class"),
        (["--class", "sport", "--size", "64"], "write 640x360"),
        (["--class", "sport", "--seconds", "0"], "a frame at least"),
        (["--class", "sport", "--seconds", "nan"], "a frame at least"),
        (["--latency", "4s", "--bandwidth", "8k"], "name the video, or its --class"),
        (["--class=sport", "--latency=2s", "--bandwidth=8k", "--audio=opus"], "from 9 kbit/s"),
        (["--class", "sport", "--vram", "8"], "has no unit: write 8G"),
        (["--class", "sport", "--judge", "texture", "--quality", "jod:6"], "take one"),
        (["--class", "sport", "--quality", "jod:9.9", "--bandwidth", "2k"], "and --quality bind;"),
        (["--class", "sport", "--memory", "4GiB"], "no budget: write 500M"),
    ],
)
def test_bad_classes_get_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    part: str,
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    MACHINE.save(profile_path())
    assert main(["plan", *arguments]) == 2
    told = capsys.readouterr().err
    assert part in told and told.count("\n") == 1


def test_where_memory_is_short_the_encoder_does_not_look_ahead(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    hungry = {n: replace(one, memory_per_pixel=1.5e5) for n, one in MACHINE.encode.items()}
    replace(MACHINE, encode=hungry).save(profile_path())
    sources: list[str | VideoClass] = [str(clip), VideoClass("sport", 64, 48, 25.0, 1.0)]
    for source, (memory, is_short) in product(sources, (("400M", True), ("40T", False))):
        budgets = parse_budgets({"memory": memory})
        plan = planner_for(source, budgets).plan(budgets)
        assert plan.best.settings.low_delay is is_short


def test_where_memory_is_short_the_encoder_packs_what_waits_before_it_gives_up_look_ahead() -> None:
    plain = replace(MACHINE, decode={"dis": MACHINE.decode["dis"]})
    planner = BudgetPlanner(Predictor(TRIAL, plain))
    free = planner.plan(Budgets(memory=1e15)).best
    for preset in PRESETS:
        lean, usual = (
            Predictor(TRIAL, MACHINE).predict(replace(free.settings, preset=preset, low_memory=low))
            for low in (True, False)
        )
        assert lean.encode_memory < usual.encode_memory
        assert lean.encode_seconds > usual.encode_seconds and lean.jod == usual.jod
    least = free.prediction.encode_memory.high  # for which the usual way is just too large
    short = planner.plan(Budgets(memory=0.99 * least)).best
    assert short.settings.low_memory and short.prediction.jod == free.prediction.jod
    assert "--low-memory" in commands("talk.mp4", short.settings)[0]
    assert not planner.plan(Budgets(memory=1.01 * least)).best.settings.low_memory


def test_learned_motion_is_not_chosen_where_nothing_is_left_to_draw() -> None:
    decode = {**MACHINE.decode, "rife": SLOW}
    rate = TRIAL.points[0].bpp * TRIAL.pixels * TRIAL.rate
    for keys, draws in ((1 / 97, False), (0.1, True), (0.8, False)):
        points = tuple(replace(point, keys=keys) for point in TRIAL.points)
        model = Predictor(replace(TRIAL, points=points), replace(MACHINE, decode=decode))
        assert ("rife" in model.ways_at(rate)) is draws and "dis" in model.ways_at(rate)


@pytest.mark.slow
def test_cvvdp_judges_in_a_process_of_its_own(
    clip: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    need_package("pycvvdp")
    capfd.readouterr()  # what its import says here
    with open_video(clip) as video:
        frames = [frame.pixels for frame in video]
    with trial_judge() as judge:
        assert judge is not None and judge(frames, frames, Fraction(25)) == pytest.approx(10)
        assert judge([f[:8] for f in frames], [f[:8] for f in frames], Fraction(25)) is None
    assert "CUDA" not in capfd.readouterr().err
    with trial_judge(wanted=False) as judge:
        assert judge is None


def test_the_trial_sees_more_likeness_for_more_bits_and_asks_its_judge(clip: Path) -> None:
    def judge(source: Sequence[gsvc.Picture], shown: Sequence[gsvc.Picture], _: Fraction) -> float:
        return float(len(source) == len(shown))

    trial = try_video(str(clip), judge=judge, clock=time.perf_counter)  # nothing is kept
    assert [point.jod for point in trial.points] == [1.0] * 3
    assert [p.bpp for p in trial.points] == sorted(p.bpp for p in trial.points)
    assert trial.points[-1].likeness > trial.points[0].likeness
    assert trial.frames == 20 and all(0 < point.keys <= 1 for point in trial.points)


def test_another_receiver_is_foretold_by_its_own_profile() -> None:
    weak = Profile(
        {"cpu": "weak", "cores": 1}, MACHINE.gsvc, {}, {"dis": replace(SLOW, key=0.0, frame=1e-5)}
    )
    here, there = Predictor(TRIAL, MACHINE), Predictor(TRIAL, MACHINE, weak)
    settings = BudgetPlanner(there).plan(Budgets()).best.settings
    assert there.ways_at(settings.bitrate) == ["dis"]
    assert there.predict(settings).decode_seconds > here.predict(settings).decode_seconds


def test_a_rate_far_from_its_levels_own_takes_the_encoder_longer() -> None:
    model, way = (
        Predictor(TRIAL, MACHINE),
        BudgetPlanner(Predictor(TRIAL, MACHINE)).plan(Budgets()).best,
    )
    own = TRIAL.points[1].bpp * TRIAL.pixels * TRIAL.rate
    near, far = (
        model.predict(replace(way.settings, bitrate=rate, preset="medium")).encode_seconds.mean
        for rate in (own, 1.4 * own)
    )
    assert far > near


def test_a_machine_twice_as_slow_takes_twice_as_long() -> None:
    points = tuple(replace(point, seconds=2 * point.seconds) for point in TRIAL.points)
    encode = {
        name: replace(one, start=2 * one.start, frame=2 * one.frame)
        for name, one in MACHINE.encode.items()
    }
    slow = Predictor(replace(TRIAL, points=points), replace(MACHINE, encode=encode))
    settings = BudgetPlanner(slow).plan(Budgets()).best.settings
    here, there = (m.predict(settings).encode_seconds for m in (Predictor(TRIAL, MACHINE), slow))
    assert there.mean == pytest.approx(2 * here.mean)


def test_without_look_ahead_encoding_takes_about_what_its_trial_took() -> None:
    model = Predictor(LIVE, MACHINE)
    plain = BudgetPlanner(model).plan(Budgets()).best.settings
    settings = (replace(plain, preset=name) for name in ("fast", "medium"))
    fast, medium = (model.predict(one).encode_seconds.mean for one in settings)
    tried = fmean(point.seconds for point in LIVE.points) * LIVE.pixels * LIVE.frames
    assert fast - 1 == pytest.approx(tried) and medium > 1.5 * fast


def test_a_live_plan_keeps_up_and_names_what_sends_and_receives() -> None:
    link = LinkLoad(1.5, is_live=True, wait=1.5, intra=1.0)
    live = parse_budgets({"bandwidth": "12k", "latency": "3s"})
    planner = BudgetPlanner(Predictor(LIVE, MACHINE), link=link)
    plan = planner.plan(live)
    for choice in (plan.best, *plan.runners_up):
        seen = choice.prediction
        assert max(seen.encode_seconds.mean, seen.decode_seconds.mean) < 0.8 * 250 / 25
    told = commands("../a.mp4", plan.best.settings, link)
    assert [line.split()[1] for line in told] == ["recv", "send"] and "--bitrate" in told[1]
    assert told[1].startswith("gsvc send ../a.mp4 udp://HOST:5004 ")
    assert "-o a.received.mp4 --wait 1500 --load 0.8x" in told[0]
    shown = "\n".join(as_lines("", plan))
    assert "JOD, live 0-2 less" in shown and "live, encoding takes" in shown
    assert f"JOD: against the video at {TRIAL.width}x{TRIAL.height}, 25 frames/s" in shown
    assert "smear:" not in shown  # it does below 8 kbit/s
    assert "real time binds here: a faster machine, a smaller --size" in shown
    assert "much, a lower --fps is safer" in shown and plan.best.settings.preset == "fast"
    few = replace(plan, best=replace(plan.best, settings=replace(plan.best.settings, bitrate=2e3)))
    hurried = "\n".join(as_lines("", few))
    assert "encodes only 2.00 kbit/s of pictures in real time, of" in hurried
    few = replace(few, real_time=replace(plan.real_time, by=2e3))
    assert "is too large for 2 kbit/s of pictures: plan with --size 1" not in hurried
    assert "is too large for 2 kbit/s of pictures: plan with --size 1" in "\n".join(
        as_lines("", few)
    )
    sent = replace(link, most=8e3, arguments=("--mtu", "240", "--redundancy", "2", "--parity", "2"))
    total = commands("a", plan.best.settings, sent)[1].partition("--total-bitrate ")[2].split()[0]
    wire = "wire=gsvc.WireSettings(mtu=240, redundancy=2, parity_span=2)"
    assert f"SendSettings({wire}, total_bitrate={total})" in "\n".join(
        as_lines("a", replace(plan, link=sent))
    )
    verdict = replace(link, silent=6_000, verdict="sound leaves so little")
    loud = BudgetPlanner(Predictor(LIVE, MACHINE), link=verdict).plan(live)
    low = replace(loud.best.prediction, jod=Range(4.2, 4.4, 4.6))
    blobs = replace(loud, best=replace(loud.best, prediction=low), silent=Range(5.8, 6.0, 6.2))
    first = as_lines("", blobs)[0]
    assert first == "sound leaves so little. JOD at this size: 4.4, without sound 6.0"
    assert loud.silent.mean > loud.best.prediction.jod.mean - 0.01
    thin = replace(few, link=replace(link, most=4_000, intra=3.0))
    shown = "\n".join(as_lines("", thin))
    assert (
        "stands for 3 s, faces and fast motion smear: a file" in shown
        and "playout delay 3." in shown
    )
    assert "go on even without loss" not in shown
    one_way = replace(thin, link=replace(thin.link, one_way=0.0, loss=0.01))
    *lines, receive, _, _ = as_lines("", one_way)
    assert any("1 % loss (--loss), and an intra picture every 4 to 12 s" in line for line in lines)
    lossy = replace(one_way, link=replace(one_way.link, arguments=("--gop", "4")))
    assert any("an intra picture every 4 s" in line for line in as_lines("", lossy))
    assert receive.endswith(" --no-feedback") and "--no-feedback" not in told[0]
    with pytest.raises(ConfigError, match=r"--latency binds; .* --latency 1\.\ds"):
        planner.plan(replace(live, latency=1.0))  # an intra picture alone takes as long
    slow = replace(MACHINE, encode={k: replace(u, start=20.0) for k, u in MACHINE.encode.items()})
    with pytest.raises(ConfigError, match="no settings keep up .* smaller --size or a lower --fps"):
        BudgetPlanner(Predictor(LIVE, slow), link=link).plan(live)
