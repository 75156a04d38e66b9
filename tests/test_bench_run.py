"""A benchmark run: cells run once, results are kept, failures stay apart, mistakes are refused."""

import errno
import json
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

import gsvc
from gsvc import ConfigError, InputError, OutputError
from gsvc.datasets.clips.sets import find_clips
from gsvc.eval.bench.cells import CellJob, RunSettings, codec_spec
from gsvc.eval.bench.progress import RunProgress, TextReporter
from gsvc.eval.bench.run import RunPlan, carry_out, make_plan
from gsvc.eval.bench.store import BenchFolder, CellRecord, load_run
from gsvc.eval.bench.workers import CellStep, Pool, Workers
from gsvc.eval.report.exhibits import source_of

BLOCKS = "bench_doubles:Blocks"
DISTANCE = "bench_doubles:Distance"


class Listener(TextReporter):
    """Remembers what a run says."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[tuple[str, str]] = []
        self.steps: list[CellStep] = []
        self.planned = self.resumed = self.ended = 0

    def note(self, kind: str, text: str, **values: object) -> None:
        self.notes.append((kind, text))

    def plan(self, pace: RunProgress, jobs: Sequence[CellJob]) -> None:
        self.planned, self.resumed = pace.cells, pace.cells - len(jobs)

    def step(self, worker: int, step: CellStep) -> None:
        self.steps.append(step)

    def tick(self) -> None:
        pass

    def cell(self, label: str, record: CellRecord) -> None:
        self.ended += 1

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    log = tmp_path_factory.mktemp("log") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        patch.setenv("BENCH_LOG", str(log))
        with closing(Pool(2)) as workers:
            yield workers


@pytest.fixture
def work_done(pool: Pool) -> Callable[[], Counter[str]]:
    """Counts what codecs and metrics did since the last call."""
    log = Path(os.environ["BENCH_LOG"])
    log.write_text("")

    def count() -> Counter[str]:
        lines = log.read_text().splitlines()
        log.write_text("")
        return Counter(line.split()[0] for line in lines)

    return count


@pytest.fixture(scope="module")
def clips(
    tmp_path_factory: pytest.TempPathFactory,
    moving_pictures: Callable[..., list[gsvc.Picture]],
    write_video: Callable[..., Path],
) -> Path:
    """A folder with two clips of 6 frames, 64x48: "day" and "night"."""
    folder = tmp_path_factory.mktemp("clips")
    pictures = moving_pictures(6)
    write_video(folder / "day.mp4", pictures)
    write_video(folder / "night.mp4", [255 - picture[::-1] for picture in pictures])
    return folder


def settings(clips: Path, *codecs: str, metrics: tuple[str, ...] = (DISTANCE,)) -> RunSettings:
    return RunSettings(
        clips=(str(clips),),
        codecs=tuple(map(codec_spec, codecs or (BLOCKS,))),
        metrics=metrics,
        sizes=("native",),
        frames=None,
        stride=2,
    )


def run(asked: RunSettings, folder: Path, workers: Workers) -> tuple[Listener, int]:
    listener, place = Listener(), BenchFolder(folder)
    place.make()
    errors = carry_out(plan(asked, folder, workers, listener), place, workers, listener)
    return listener, errors


def plan(asked: RunSettings, folder: Path, workers: Workers, listener: Listener) -> RunPlan:
    return make_plan(asked, BenchFolder(folder), workers, listener)


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


def test_a_run_has_every_cell_and_does_nothing_twice(
    clips: Path, tmp_path: Path, pool: Pool, work_done: Callable[[], Counter[str]]
) -> None:
    asked = settings(clips, f"{BLOCKS}:sides=4+8,ways=2")
    listener, errors = run(asked, tmp_path, pool)
    assert (errors, listener.notes) == (0, [])
    assert (listener.planned, listener.resumed, listener.ended) == (4, 0, 4)
    made = load_run(tmp_path)
    assert source_of(made.cells[0], made.settings["places"]).name == "day"
    done = work_done()
    assert (done["encode"], done["decode"]) == (4, 8)
    first = records(tmp_path)
    for cell in load_run(tmp_path).cells:
        stream = (tmp_path / "streams" / f"{cell.key}.blk").read_bytes()
        assert cell.bits == 8 * len(stream) == sum(cell.ledger.values())
        assert [one.way for one in cell.decodes] == [{"smooth": 0}, {"smooth": 1}]
        assert [one.flops_per_pixel for one in cell.decodes] == [None, 2.0]
        scores = cell.decodes[0].scores[DISTANCE]
        assert len(scores.values) == 3 and scores.mean == pytest.approx(sum(scores.values) / 3)  # type: ignore[arg-type]
    listener, errors = run(asked, tmp_path, pool)
    assert (listener.planned, listener.resumed, listener.ended) == (4, 4, 0)
    assert (errors, work_done(), records(tmp_path)) == (0, Counter(), first)


def test_a_clip_named_as_one_of_a_set_is_found_again(
    clips: Path, tmp_path: Path, pool: Pool
) -> None:
    (tmp_path / "own").mkdir()
    shutil.copy(clips / "day.mp4", tmp_path / "own" / "turn.mp4")  # as synthetic/turn
    run(settings(tmp_path / "own", f"{BLOCKS}:sides=4"), tmp_path / "run", pool)
    made = load_run(tmp_path / "run")
    assert source_of(made.cells[0], made.settings["places"]).width == made.cells[0].width


def test_what_is_added_later_does_not_code_again(
    clips: Path, tmp_path: Path, pool: Pool, work_done: Callable[[], Counter[str]]
) -> None:
    run(settings(clips), tmp_path, pool)
    before = records(tmp_path)
    work_done()
    both = (DISTANCE, "bench_doubles:Worst")
    asked = settings(clips, f"{BLOCKS}:ways=2", metrics=both)
    jobs = plan(asked, tmp_path, pool, Listener()).jobs
    TextReporter(told := StringIO()).plan(RunProgress(4, jobs), jobs)
    assert told.getvalue().startswith(
        "4 cells: 0 done, 4 to complete (streams and scores are kept), 0 to code, very roughly 0:"
    )
    run(asked, tmp_path, pool)
    done = work_done()
    assert (done["encode"], done["decode"]) == (0, 8)
    for key, cell in records(tmp_path).items():
        assert cell.stream_sha256 == before[key].stream_sha256
        assert [set(one.scores) for one in cell.decodes] == [set(both), set(both)]
        assert cell.decodes[0].scores[DISTANCE] == before[key].decodes[0].scores[DISTANCE]
        assert len(cell.decodes[0].scores["bench_doubles:Worst"].values) == 1
    run(settings(clips, f"{BLOCKS}:sides=16"), tmp_path, pool)
    assert work_done()["encode"] == 2
    assert len(load_run(tmp_path).cells) == 6
    with pytest.raises(ConfigError, match="--stride 2"):
        run(replace(asked, stride=3), tmp_path, pool)
    shutil.rmtree(tmp_path / "cells")
    run(replace(asked, stride=3), tmp_path, pool)  # nothing was measured yet
    place = BenchFolder(tmp_path).settings()
    assert place is not None and place["stride"] == 3


def test_a_changed_codec_replaces_its_cells(clips: Path, tmp_path: Path, pool: Pool) -> None:
    run(settings(clips), tmp_path, pool)
    place = BenchFolder(tmp_path)
    values = place.settings()
    assert values is not None
    for cell in values["cells"]:
        cell["key"] = "0" * 32  # as if made by another version
    place.write_settings(values)
    run(settings(clips), tmp_path, pool)
    assert len(load_run(tmp_path).settings["cells"]) == len(load_run(tmp_path).cells) == 4


def cut_record(record: Path, stream: Path) -> None:
    record.write_bytes(record.read_bytes()[:200])


def change_number(record: Path, stream: Path) -> None:
    values = json.loads(record.read_text())
    values["decodes"][0]["scores"][DISTANCE]["mean"] /= 2
    record.write_text(json.dumps(values))


def change_stream(record: Path, stream: Path) -> None:
    data = stream.read_bytes()
    stream.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def lose_stream(record: Path, stream: Path) -> None:
    stream.unlink()


def swap_streams(record: Path, stream: Path) -> None:
    other = next(path for path in stream.parent.iterdir() if path != stream)
    mine, theirs = stream.read_bytes(), other.read_bytes()
    stream.write_bytes(theirs)
    other.write_bytes(mine)


def swap_records(record: Path, stream: Path) -> None:
    other = next(path for path in record.parent.iterdir() if path != record)
    mine, theirs = record.read_bytes(), other.read_bytes()
    record.write_bytes(theirs)
    other.write_bytes(mine)


@pytest.mark.parametrize(
    ("damage", "cells"),
    [
        (cut_record, 1),
        (change_number, 1),
        (change_stream, 1),
        (lose_stream, 1),
        (swap_streams, 2),
        (swap_records, 2),
    ],
)
def test_a_damaged_cell_is_said_and_made_again(
    damage: Callable[[Path, Path], None], cells: int, clips: Path, tmp_path: Path, pool: Pool
) -> None:
    run(settings(clips), tmp_path, pool)
    before = records(tmp_path)
    record = next((tmp_path / "cells").glob("*.json"))
    damage(record, tmp_path / "streams" / f"{record.stem}.blk")
    kept = load_run(tmp_path)
    assert len(kept.settings["cells"]) - len(kept.cells) == cells
    listener, _ = run(settings(clips), tmp_path, pool)
    assert [kind for kind, _ in listener.notes] == ["damaged"] * cells
    assert listener.ended == cells
    assert records(tmp_path) == before


def test_run_json_of_another_schema_or_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        load_run(tmp_path)
    (tmp_path / "summary.csv").touch()
    with pytest.raises(InputError, match="tables of a run alone"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 99}')
    with pytest.raises(InputError, match="schema 99"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("codec", "failures", "error"),
    [
        ("Failing", 2, "four blocks are too few"),
        ("Crashing", 2, "SIGSEGV"),
        ("Empty", 4, "empty stream"),
        ("Plain", 4, "encode gave a bytes: make it an Encoded"),
        ("Short", 4, "5 frames decoded, the clip has 6"),
    ],
)
def test_what_fails_is_named_and_hurts_no_other_cell(
    codec: str, failures: int, error: str, clips: Path, tmp_path: Path, pool: Pool
) -> None:
    asked = settings(clips, f"bench_doubles:{codec}", BLOCKS)
    assert run(asked, tmp_path, pool)[1] == failures
    cells = load_run(tmp_path).cells
    broken = [cell for cell in cells if cell.error]
    assert len(cells) == 8 and len(broken) == failures
    assert all(error in cell.error for cell in broken)
    assert all(cell.decodes[0].scores[DISTANCE].mean for cell in cells if not cell.error)
    listener, errors = run(asked, tmp_path, pool)
    assert (listener.resumed, listener.ended, errors) == (8 - failures, failures, failures)


def test_a_crash_takes_nothing_that_was_finished(
    clips: Path, tmp_path: Path, pool: Pool, work_done: Callable[[], Counter[str]]
) -> None:
    both = (DISTANCE, "bench_doubles:Fatal")
    assert run(settings(clips, metrics=both), tmp_path, pool)[1] == 4
    # Two streams of each clip are decoded and scored together, then each again alone.
    assert work_done() == {"encode": 4, "decode": 8, "score": 2}
    for cell in load_run(tmp_path).cells:
        assert "SIGSEGV" in cell.error and cell.decodes[0].scores[DISTANCE].mean
    assert run(settings(clips), tmp_path, pool)[1] == 0
    assert work_done() == {}


def test_swapped_outputs_are_noticed(clips: Path, tmp_path: Path, pool: Pool) -> None:
    codec = f"bench_doubles:Swapping:folder={clips}"
    assert run(settings(clips, codec, f"{BLOCKS}:sides=1+4"), tmp_path, pool)[1] == 2
    errors = {cell.clip: cell.error for cell in load_run(tmp_path).cells if cell.error}
    assert "those of night, not of day" in errors["day"]
    assert "those of day, not of night" in errors["night"]
    assert {cell.codec for cell in load_run(tmp_path).cells if cell.error} == {"swapping"}


def test_what_is_not_installed_is_a_gap(clips: Path, tmp_path: Path, pool: Pool) -> None:
    absent = "bench_doubles:AbsentMetric"
    asked = settings(clips, BLOCKS, "bench_doubles:Absent", metrics=(DISTANCE, absent))
    listener, errors = run(asked, tmp_path, pool)
    assert (errors, [kind for kind, _ in listener.notes]) == (0, ["gap", "gap"])
    found = load_run(tmp_path)
    assert found.settings["gaps"] == {
        "codec bench_doubles:Absent": "absent is not installed: pip install absent",
        f"metric {absent}": "no such network: pip install it",
    }
    scores = found.cells[0].decodes[0].scores[absent]
    assert (scores.mean, scores.gap) == (None, "no such network: pip install it")
    assert run(asked, tmp_path, pool)[0].resumed == 4


def test_a_metric_that_cannot_measure_one_of_a_batch(
    clips: Path, tmp_path: Path, pool: Pool, work_done: Callable[[], Counter[str]]
) -> None:
    name = "bench_doubles:Refusing"
    asked = settings(clips, metrics=(name,))
    assert run(asked, tmp_path, pool)[1] == 0
    scores = {c.settings["side"]: c.decodes[0].scores[name] for c in load_run(tmp_path).cells}
    assert (scores[4].mean, scores[4].gap) == (None, "too coarse to be measured")
    assert scores[8].mean
    work_done()
    assert run(asked, tmp_path, pool)[0].resumed == 4
    assert not work_done()


def test_a_clip_that_cannot_be_read(clips: Path, tmp_path: Path, pool: Pool) -> None:
    folder = tmp_path / "clips"
    folder.mkdir()
    (folder / "day.mp4").write_bytes((clips / "day.mp4").read_bytes())
    (folder / "noise.mp4").write_bytes(bytes(range(256)) * 9)
    listener, errors = run(settings(folder), tmp_path / "run", pool)
    assert (errors, [kind for kind, _ in listener.notes]) == (0, ["gap"])
    assert "clip noise at size native" in load_run(tmp_path / "run").settings["gaps"]
    assert {cell.clip for cell in load_run(tmp_path / "run").cells} == {"day"}


def test_a_full_disk_is_one_error_and_loses_nothing(
    clips: Path,
    tmp_path: Path,
    pool: Pool,
    work_done: Callable[[], Counter[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = 0
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        nonlocal streams
        streams += "streams" in self.parts
        if streams > 3:
            write(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match="no space left"):
        run(settings(clips), tmp_path, pool)
    monkeypatch.undo()
    assert len(load_run(tmp_path).settings["cells"]) == 4
    work_done()
    assert run(settings(clips), tmp_path, pool)[1] == 0
    assert (work_done()["encode"], len(load_run(tmp_path).cells)) == (1, 4)


def test_a_plan_writes_nothing(clips: Path, tmp_path: Path, pool: Pool) -> None:
    folder = tmp_path / "run"
    found = plan(settings(clips, f"{BLOCKS}:ways=3"), folder, pool, Listener())
    assert [job.decodes for job in found.jobs] == [3] * 4 == [3] * len(found.cells)
    assert not folder.exists()


@pytest.mark.parametrize(("name", "says"), [("summary.csv", "tables"), ("a.mp4", "no run, but")])
def test_a_folder_of_other_files_is_refused(
    clips: Path, tmp_path: Path, pool: Pool, name: str, says: str
) -> None:
    (tmp_path / name).write_text("kept")
    with pytest.raises(ConfigError, match=f"holds .*{says}.*: choose another folder"):
        plan(settings(clips), tmp_path, pool, Listener())
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_wrong_option_of_an_own_codec_names_its_file(
    clips: Path, tmp_path: Path, pool: Pool
) -> None:
    with pytest.raises(ConfigError, match=r"sides=1.5: rate_points: \w+\.py, line \d+: "):
        plan(settings(clips, f"{BLOCKS}:sides=1.5"), tmp_path, pool, Listener())


def test_qualities_that_share_little_are_told_once(clips: Path, tmp_path: Path, pool: Pool) -> None:
    asked = settings(clips, f"{BLOCKS}:sides=2+4", "bench_doubles:Failing:sides=24+32")
    listener, _ = run(replace(asked, anchors=("blocks",)), tmp_path, pool)
    ((kind, line),) = listener.notes
    assert (
        kind == "overlap"
        and line.startswith("failing and blocks share ")
        and " % of their range of " in line
    )


def test_enlarged_clips_and_an_opponent_unlike_the_results_are_told(
    clips: Path, tmp_path: Path, pool: Pool
) -> None:
    told, best = Listener(), Listener()
    large = replace(settings(clips, "svtav1:crf=63", BLOCKS), sizes=("288",))
    made = plan(large, tmp_path, pool, told)
    plan(settings(clips, "svtav1-best", BLOCKS), tmp_path, pool, best)
    assert [kind for kind, _ in told.notes] == ["enlarged", "opponent"] and not best.notes
    assert told.notes[0][1].startswith("day (48 lines) to 288, night (48 lines) to 288; --size")
    assert "add --codec svtav1-best" in told.notes[1][1]
    assert {one.clip.lines for one in made.cells} == {48}


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        BenchFolder(tmp_path).locked(),
        pytest.raises(ConfigError, match="another gsvc bench"),
        BenchFolder(tmp_path).locked(),
    ):
        pass


def test_every_step_is_told_and_timed_and_the_clip_is_read_once_a_worker(
    clips: Path, tmp_path: Path, pool: Pool
) -> None:
    asked = settings(clips, f"{BLOCKS}:sides=4+8,ways=2")
    listener, _ = run(asked, tmp_path, pool)
    ended = [step for step in listener.steps if step.seconds is not None]
    assert len(listener.steps) == 2 * len(ended)
    count = Counter((step.kind, step.name) for step in ended for _ in step.cells)
    assert count == {("encode", "blocks"): 4, ("decode", "blocks"): 8, ("score", DISTANCE): 8}
    scores = [one.scores[DISTANCE] for cell in load_run(tmp_path).cells for one in cell.decodes]
    assert all(one.seconds > 0 for one in scores)
    (source, *_) = find_clips([str(clips)])
    assert pickle.loads(pickle.dumps(source)) == source


def test_the_estimate_takes_each_kind_of_step_at_its_own_pace(
    clips: Path, tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = settings(clips, f"{BLOCKS}:sides=4+8", "bench_doubles:Failing:sides=8")
    jobs = plan(asked, tmp_path, pool, Listener()).jobs
    blocks, failing = jobs[:2], next(job for job in jobs if job.cell.codec_name == "failing")
    now = 0.0
    monkeypatch.setattr("gsvc.eval.bench.progress.monotonic", lambda: now)
    pace = RunProgress(7, [*blocks, failing])
    assert (pace.resumed, pace.left()[1]) == (4, False)

    def do(job: CellJob, kind: str, name: str, seconds: float) -> None:
        nonlocal now
        step = CellStep(kind, name, (job.cell.key,))
        pace.step(0, step)
        now += seconds
        assert (
            f"{kind} {name} {seconds:.0f} s" in pace.slowest() and job.cell.label in pace.slowest()
        )
        pace.step(0, replace(step, seconds=seconds))

    do(blocks[0], "encode", "blocks", 6)
    do(blocks[0], "decode", "blocks", 2)
    assert not pace.left()[1]  # nobody knows yet how long the metric takes
    do(blocks[0], "score", DISTANCE, 30)
    pace.end(blocks[0].cell.key)
    # The other cell of the same codec takes as long; of the other codec it is the best guess too.
    assert pace.left()[0] == pytest.approx(2 * 38) and pace.left()[1]
    do(failing, "encode", "failing", 100)
    assert pace.left()[0] == pytest.approx(38 + 32)
    pace.end(failing.cell.key)  # it failed: nothing of it is ahead
    assert pace.left()[0] == pytest.approx(38)
    assert pace.text() == "cell 6/7 (86 %), about 0:38 min left"
    pace.step(0, CellStep("score", DISTANCE, (blocks[1].cell.key,)))
    now += 10
    assert pace.left()[0] == pytest.approx(28)
    now += 100  # longer than the metric ever took
    assert pace.left()[0] == pytest.approx(8 + 110 / 4)
    clip = blocks[1].cell.clip
    longer = replace(clip, format=replace(clip.format, frame_count=10 * clip.format.frame_count))
    pace = RunProgress(
        2, [blocks[0], replace(blocks[1], cell=replace(blocks[1].cell, clip=longer))]
    )
    do(blocks[0], "encode", "blocks", 6)
    do(blocks[0], "decode", "blocks", 2)
    do(blocks[0], "score", DISTANCE, 30)
    assert (pace.done, pace.text()) == (0, "cell 0/2 (50 %), about 6:20 min left")


def test_the_estimate_follows_a_machine_that_is_busier_than_before(
    clips: Path, tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = plan(settings(clips, f"{BLOCKS}:sides=4+8"), tmp_path, pool, Listener()).jobs
    before = replace(jobs[0].cell.empty_record(), bits=8, encode_seconds=6.0)
    pace = RunProgress(2, jobs, [before])
    first = pace.left()[0]
    step = CellStep("encode", "blocks", (jobs[0].cell.key,), 60.0)
    pace.step(0, step)
    assert pace.left()[0] > 8 * first
    monkeypatch.setattr("os.getloadavg", lambda: (0.0,))
    first = RunProgress(2, jobs).left()[0]
    monkeypatch.setattr("os.getloadavg", lambda: (9.0 * (os.cpu_count() or 1),))  # of other work
    assert RunProgress(2, jobs).left()[0] > 8 * first
