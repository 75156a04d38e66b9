"""`gsvc bench` as users and scripts run it: kill and resume, JSON, exit codes, Ray."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import pytest

import gsvc
from commands import SCRIPT, run_gsvc, run_process
from gsvc.codec.command.main import main
from gsvc.eval.bench.store import CellRecord, load_run
from gsvc.eval.bench.workers import ray_cluster
from needs import need_package

TESTS = str(Path(__file__).parent)
_PLACES = os.environ.get("PYTHONPATH")
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([TESTS, *([_PLACES] if _PLACES else [])])}
SECONDS = 300
"""What is waited for at most."""
PROTOCOL = ("--metric", "bench_doubles:Distance", "--size", "native", "--stride", "2")


@pytest.fixture(scope="module")
def clips(
    tmp_path_factory: pytest.TempPathFactory,
    moving_pictures: Callable[..., list[gsvc.Picture]],
    write_video: Callable[..., Path],
) -> Path:
    """A folder with two clips of 6 frames, 64x48."""
    folder = tmp_path_factory.mktemp("clips")
    pictures = moving_pictures(6)
    write_video(folder / "day.mp4", pictures)
    write_video(folder / "night.mp4", [255 - picture[::-1] for picture in pictures])
    return folder


def arguments(clips: Path, out: Path, codec: str = "Blocks", *more: str) -> list[str]:
    codecs = ("--codec", f"bench_doubles:{codec}")
    jobs = "2" if codec == MANY else "1"  # each is a process to start
    run = ["bench", "run", str(clips), "--out", str(out)]
    return [*run, *codecs, *PROTOCOL, "--jobs", jobs, *more]


def lines(data: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in data.splitlines()]


def records(folder: Path) -> dict[str, CellRecord]:
    """By key, without what a clock or the memory says."""
    return {
        cell.key: replace(
            cell,
            encode_seconds=0.0,
            decodes=[replace(one, seconds=0.0, peak_memory=None) for one in cell.decodes],
        )
        for cell in load_run(folder).cells
    }


def start(command: list[str], **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(SCRIPT), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT, **environment},
        # A shell starts background jobs with the interrupt ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def wait_for_cells(process: subprocess.Popen[bytes], count: int) -> None:
    assert process.stdout is not None
    while count:
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        count -= json.loads(line)["type"] == "cell"


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


MANY = "Blocks:sides=2+3+4+5+6+7+8+9+10+11+12+13,held=11"
"""24 cells, of which 18 are made while the others are held."""


@pytest.fixture(scope="module")
def whole(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of MANY."""
    folder = tmp_path_factory.mktemp("whole")
    done = run_gsvc(*arguments(clips, folder, MANY), env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert (
        b"\r" not in done.stderr and b"24 cells: 0 done, 24 to code, very roughly 0:" in done.stderr
    )
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_a_killed_run_resumes_to_the_same_records(
    number: signal.Signals, clips: Path, whole: Path, tmp_path: Path
) -> None:
    out, hold = tmp_path / "run", tmp_path / "hold"
    hold.touch()
    process = start(arguments(clips, out, MANY, "--json"), BENCH_HOLD=str(hold))
    wait_for_cells(process, 8)
    workers = workers_of(process)
    deadline = time.monotonic() + SECONDS
    while len(list((out / "cells").glob("[!.]*"))) < 18 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    told, said = process.communicate(timeout=SECONDS)
    codes = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
    assert process.returncode == codes[number], said
    assert number == signal.SIGKILL or f"by {number.name}; ".encode() in said + told
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
    kept = len(load_run(out).cells)
    assert 8 <= kept <= 18
    log = {"BENCH_LOG": str(tmp_path / "log")}
    resumed = run_gsvc(*arguments(clips, out, MANY), env=ENVIRONMENT | log)
    assert resumed.returncode == 0, resumed.stderr
    assert f"24 cells: {kept} done".encode() in resumed.stderr
    assert (tmp_path / "log").read_text().count("encode") == 6
    assert records(out) == records(whole)
    assert not [path for path in out.rglob(".*")]


def test_the_table_and_the_files(whole: Path) -> None:
    settings = json.loads((whole / "run.json").read_text())
    assert settings["stride"] == 2 and settings["specs"] == [f"bench_doubles:{MANY}"]
    assert settings["versions"]["gsvc"] == gsvc.__version__ and settings["machine"]["cores"]
    for name in ("frames.csv", "summary.csv", "summary.json", "summary.md"):
        assert (whole / name).stat().st_size


def test_json_lines(clips: Path, tmp_path: Path) -> None:
    done = run_gsvc(*arguments(clips, tmp_path, "Failing", "--json"), env=ENVIRONMENT)
    assert done.returncode == 1 and done.stderr == b""
    told = lines(done.stdout)
    steps = [line for line in told if line["type"] == "step"]
    assert {line["step"] for line in steps} >= {"encode", "decode"}
    said = [line for line in told if line not in steps]
    assert [line["type"] for line in said] == ["plan", *["cell"] * 4, "done"]
    assert said[0] | {"cells": 4, "resumed": 0, "decodes": 4} == said[0]
    assert {line["error"] for line in said[1:5]} == {None, "four blocks are too few"}
    assert said[-1]["failed"] == 2


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("encode(self, *_): return b''", "codes nothing: encode gave a bytes: make it an Encoded"),
        ("decode(self, *_): open('gone')", "codes nothing: mine.py, line 4: FileNotFoundError: "),
        ("__init__(self): int('?')", "mine.py, line 4: mine:Mine: invalid literal"),
        ("version(self): return self.no", "mine:Mine: version: mine.py, line 4: AttributeError: "),
    ],
)
def test_a_broken_codec_of_ones_own_ends_the_run_before_it_begins(
    method: str, says: str, clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    code = "from bench_doubles import Blocks\nclass Mine(Blocks):\n    name = 'mine'\n"
    (tmp_path / "mine.py").write_text(f"{code}    def {method}\n")
    command = arguments(clips, tmp_path / "run", "Blocks", "--codec", "mine:Mine")
    done = run_gsvc(*command, env=ENVIRONMENT, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"") and says in done.stderr.decode()
    assert not (tmp_path / "run").exists()


def test_the_container_of_ones_own_codec_does_not_count_and_x264s_words_are_told(
    clips: Path, tmp_path: Path
) -> None:
    done = run_gsvc(*arguments(clips, tmp_path, "InMp4"), env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert b"day native mp4 side=4: " in done.stderr and b"bytes are its container's" in done.stderr
    assert b"x264's words on itself: ffmpeg -bsf:v filter_units=remove_types=6" in done.stderr
    for cell in load_run(tmp_path).cells:
        file = (tmp_path / "streams" / f"{cell.key}.mp4").read_bytes()
        with av.open(io.BytesIO(file), "r") as container:
            packets = sum(packet.size for packet in container.demux())
        assert packets < cell.bits // 8 < packets + 100 < len(file) - 500
        assert cell.ledger == {"video": cell.bits}


def test_a_codec_that_needs_a_group_of_pictures_is_not_taken_for_a_broken_one(
    clips: Path, tmp_path: Path
) -> None:
    done = run_gsvc(*arguments(clips, tmp_path / "run", "Grouped", "-n"), env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


def test_a_failure_is_in_the_table(clips: Path, tmp_path: Path) -> None:
    done = run_gsvc(*arguments(clips, tmp_path, "Failing"), env=ENVIRONMENT)
    assert done.returncode == 1
    assert b"gsvc: failed: day native failing side=4: four blocks are too few" in done.stderr
    assert b"four blocks are too few" in done.stdout


def test_a_metric_in_the_current_folder_keeps_its_traceback(clips: Path, tmp_path: Path) -> None:
    source = Path(TESTS, "bench_doubles.py").read_text()
    (tmp_path / "of_mine.py").write_text(
        f"{source}\n\nclass Boom(Distance):\n"
        "    def measure(self, source, tests, indices):\n        return 1 / 0\n"
    )
    command = "bench", "run", clips, "--size", "native", "--out", tmp_path / "run"
    more = "--codec", "of_mine:Blocks", "--metric", "of_mine:Boom"
    done = run_gsvc(*command, *more, cwd=tmp_path)
    assert done.returncode == 1
    assert b"gsvc: traceback: " in done.stderr
    texts = [file.read_text() for file in (tmp_path / "run" / "errors").iterdir()]
    assert texts and all("of_mine.py" in one and "return 1 / 0" in one for one in texts)
    mine = tmp_path / "of_mine.py"
    mine.write_text(mine.read_text().replace("1 / 0", "super().measure(source, tests, indices)"))
    assert run_gsvc(*command, *more, cwd=tmp_path).returncode == 0
    assert not [*(tmp_path / "run" / "errors").iterdir()]


def test_the_metric_of_the_page_measures(clips: Path, tmp_path: Path) -> None:
    page = Path(TESTS).with_name("docs") / "cookbook.md"
    recipe = page.read_text().partition("## A metric of your own\n")[2]
    code = recipe.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "my_metrics.py").write_text(code)
    done = run_gsvc(
        *arguments(clips, tmp_path / "run", "Blocks", "--metric", "my_metrics:MeanError"),
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert (done.returncode, b"mean_error" in done.stdout) == (0, True)


def test_one_codec_alone_has_points_and_tables(whole: Path) -> None:
    run_gsvc("bench", "report", whole, env=ENVIRONMENT)
    assert "not shown" not in (whole / "report.html").read_text()
    assert "## Points" in (whole / "summary.md").read_text()
    header = (whole / "summary.csv").read_text().splitlines()[0].split(",")
    assert {"codec", "side"} <= set(header)
    spent = csv.DictReader((whole / "summary.csv").read_text().splitlines())
    assert all(float(row["decode_cpu_seconds"]) >= 0 for row in spent)
    rows = run_gsvc("bench", "table", whole, "--format", "csv").stdout.splitlines()
    assert len(rows) == 1 + 24 and rows[0].startswith(b"point,bpp,kbit/s")
    latex = run_gsvc("bench", "table", whole, "--format", "latex", "--title", "Where").stdout
    assert latex.startswith(b"\\begin{table}") and b" \\% " in latex
    done = run_gsvc("bench", "table", whole, "--anchor", "svtav1")
    assert done.returncode == 2 and b"the run has blocks" in done.stderr
    found = json.loads(run_gsvc("bench", "table", whole, "--format", "json").stdout)
    assert found == json.loads((whole / "summary.json").read_text())
    json_table = run_gsvc("bench", "table", whole, "--format", "json", "--title", "Points").stdout
    assert len(found["points"]) == len(rows := json.loads(json_table)["rows"]) == 24
    assert all(0 < row["bpp"] < row["kbit/s"] for row in rows)
    told = run_gsvc("bench", "compare", whole, whole / "summary.csv").stdout
    assert b"## Settings that differ\n\nNone." in told and b"## Only in one\n\nNone." in told
    assert re.search(rb"(\d+) of \1 streams that both have are the same", told)


def test_any_codec_is_an_anchor(clips: Path, tmp_path: Path) -> None:
    more = "--codec", "bench_doubles:Failing", "--anchor", "blocks"
    done = run_gsvc(*arguments(clips, tmp_path, "Blocks", *more), env=ENVIRONMENT)
    assert b"against blocks" in done.stdout
    assert b"| against failing" not in done.stdout
    shown = run_gsvc("bench", "table", tmp_path, "--title", "All points").stdout
    assert b"failing, smooth 0, side 8" in shown and b"blocks, smooth 0, side 4" in shown
    text = run_gsvc("bench", "table", tmp_path, "--format", "csv").stdout.decode()
    rows = list(csv.DictReader(text.splitlines()))
    assert {"metric", "test", "bd_rate", "low", "high"} <= set(rows[0])
    assert all(row["anchor"].startswith("blocks") for row in rows)


def test_what_is_left_out_is_as_in_the_run(clips: Path, tmp_path: Path) -> None:
    def more(*options: str) -> subprocess.CompletedProcess[bytes]:
        return run_gsvc("bench", "run", "--out", tmp_path, "-j", "1", *options, env=ENVIRONMENT)

    assert run_gsvc(*arguments(clips, tmp_path, "Blocks:sides=4"), env=ENVIRONMENT).returncode == 0
    another = "--codec", "bench_doubles:Failing:sides=8"
    done = more(*another)
    assert done.returncode == 0 and b"Missing:" not in done.stdout
    said = f"as in this run: clips {clips}; metric bench_doubles:Distance; size native; "
    assert f"{said}condition join; frames 97; stride 2\n".encode() in done.stderr
    assert {len(c.decodes[0].scores[PROTOCOL[1]].values) for c in load_run(tmp_path).cells} == {3}
    done = more(*another, "--metric", "bench_doubles:Worst", str(clips / "day.mp4"))
    lacks = b"Missing: worst of blocks, failing. gsvc bench run --out "
    assert lacks + bytes(tmp_path) in done.stdout
    done = more()
    assert b"Missing:" not in done.stdout and b"codec bench_doubles:Blocks:sides=4, " in done.stderr
    assert all(len(cell.decodes[0].scores) == 2 for cell in load_run(tmp_path).cells)
    for wrong, says in {
        "--size 288": "with --size native",
        "--condition whole": "with --c",
    }.items():
        done = more(*wrong.split())
        assert done.returncode == 2 and f"was made {says}".encode() in done.stderr


def test_a_metric_that_cannot_be_had_is_told_once_and_is_never_missing(
    clips: Path, tmp_path: Path
) -> None:
    given = (*arguments(clips, tmp_path / "run", "Blocks:sides=4"), "--metric")
    assert run_gsvc(*given[:-1], env=ENVIRONMENT).returncode == 0
    done = run_gsvc(*given, "bench_doubles:AbsentMetric", env=ENVIRONMENT)
    assert done.returncode == 0 and b"not run" in done.stdout
    assert b"not done yet" not in done.stdout and b"Missing:" not in done.stdout
    alone = (
        "bench",
        "run",
        str(clips),
        "--out",
        str(tmp_path / "other"),
        *given[5:7],
        "--size",
        "native",
    )
    done = run_gsvc(*alone, "--metric", "bench_doubles:AbsentMetric", env=ENVIRONMENT)
    assert done.returncode == 1 and b"nothing can be measured" in done.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("kind", ["codecs", "metrics", "clips"])
def test_names_are_listed(kind: str) -> None:
    text = run_gsvc("bench", "list", kind).stdout.decode()
    words = {"codecs": "x265 +preset=slow crf=50", "metrics": "psnr_y +dB +higher", "clips": "QCIF"}
    assert re.search(words[kind], text)
    assert len(lines(run_gsvc("bench", "list", kind, "--json").stdout)) == len(text.splitlines())


@pytest.mark.parametrize("wrong", [("--codec", "no"), ("--metric", "no"), ("--clips", "no")])
def test_a_wrong_name_is_told_before_anything_is_loaded(
    wrong: tuple[str, str], clips: Path, tmp_path: Path
) -> None:
    command = ["bench", "run", str(clips), "--out", str(tmp_path / "run"), *wrong]
    code = f"""
import sys
from gsvc.codec.command.main import main
assert main({command!r}) == 2
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_dry_run(clips: Path, tmp_path: Path, whole: Path) -> None:
    place = tmp_path / "run"
    done = run_gsvc(*arguments(clips, place, "Blocks", "--dry-run"), env=ENVIRONMENT)
    assert done.returncode == 0 and not place.exists()
    told = b"cells: 4, 0 done; left: 4 encodes, 4 decodes, very roughly 0:"
    assert done.stdout.splitlines()[-1].startswith(told)
    done = run_gsvc(*arguments(clips, whole, "Blocks:sides=8+99", "-n", "--json"), env=ENVIRONMENT)
    *cells, last = lines(done.stdout)
    states = [str(line["state"]) for line in cells if line["type"] == "cell"]
    assert set(states) == {"done", "to do"} and 0 < float(str(last["seconds"])) < 60


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (("--size", "100"), 2, "take one of 288, 480, native"),
        (("--stride", "0"), 2, "stride 0"),
        (("--jobs", "-1"), 2, "jobs -1"),
        (("--codec", "no codec"), 2, "is no codec"),
        (("--codec", "x265:preset=slo"), 2, "no preset slo"),
        (("--anchor", "x266"), 2, "unknown codec 'x266'"),
        (("--codec", "H265"), 2, "did you mean x265?"),
        (("--codec", "svt-av1"), 2, "did you mean svtav1?"),
        (("--codec", "gsvc:levels=1"), 2, "codec gsvc has no option levels: did you mean level?"),
        (("--metric", "psnry"), 2, "did you mean psnr_y?"),
        (("--clips", "carphon"), 2, "did you mean packaged/carphone?"),
        (("--anchor", "bench_doubles:Blocks"), 2, "goes by its name: --anchor blocks"),
        (("--codec", "bench_doubles:None"), 2, "module:Class"),
        (
            ("--codec", "bench_doubles:Blocks:colour=1"),
            2,
            "Blocks has no option colour; it takes sides",
        ),
        (("--codec", "bench_doubles:Half"), 2, "abstract method"),
        (("--codec", "bench_doubles:Comma"), 2, "'blocks, fast' has a comma"),
        (("--codec", "bench_doubles:Twin"), 2, "Twin are both called blocks: rename one"),
        (("--codec", "bench_doubles:Distance"), 2, "lacks suffix, facts, rate_points"),
        (("--metric", "bench_doubles:Blocks"), 2, "lacks unit, higher_is_better, per_frame"),
        (("--clips", "/no/such/clip"), 2, "/no/such/clip"),
        (("--levels", "1"), 2, "--codec gsvc"),
        (("--steps", "one"), 2, "whole numbers"),
    ],
)
def test_one_line_for_a_wrong_request(
    change: tuple[str, ...],
    code: int,
    says: str,
    clips: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(TESTS)
    try:
        assert main(arguments(clips, tmp_path / "run", "Blocks", *change)) == code
    except SystemExit as usage:
        assert usage.code == code
    said = capfd.readouterr().err
    assert says in said and len(said.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_ray_address_where_nothing_listens_is_told_at_once() -> None:
    need_package("ray")
    with pytest.raises(gsvc.ConfigError, match="no Ray cluster at"), ray_cluster("127.0.0.1:1"):
        pass


@pytest.mark.slow
def test_ray_gives_the_same_records(clips: Path, tmp_path: Path) -> None:
    need_package("ray")
    codec = "Blocks:sides=4+8+16,ways=2"
    pooled, rayed = tmp_path / "pool", tmp_path / "ray"
    assert run_process(*arguments(clips, pooled, codec), env=ENVIRONMENT).returncode == 0
    done = run_process(*arguments(clips, rayed, codec, "--ray", "local"), env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert len(records(rayed)) == 6 and records(rayed) == records(pooled)
