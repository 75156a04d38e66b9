"""The blind pairwise test: its page in a real browser, and scores from voters of known taste."""

import json
import logging
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from browsing import chromium, new_page, troubles_of
from gsvc import ConfigError, InputError
from gsvc.codec.command.main import main
from gsvc.eval.baselines import find_codec
from gsvc.eval.report.study import (
    DAMAGED,
    EQUAL,
    SOURCE,
    Key,
    StudyTrial,
    StudyVersion,
    make_study,
    read_key,
)
from gsvc.eval.report.study_scores import fit, score_study
from small_run import record, write_run
from voters import Voter, saved, vote_in, votes_text

OURS, AV1, HOLD = "gsvc, steps 0", "svtav1", "hold"
STRENGTHS = {AV1: 0.0, OURS: 0.9, HOLD: -1.2}
TIES = 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ours = [{"level": level, "tools": "none", "preset": "fast", "seed": 0} for level in (0, 1)]
    cells = [record("gsvc", settings) for settings in ours]
    cells.append(record("svtav1", {"preset": 8, "crf": 50, "scale": "1"}))
    cells.append(record("hold", dict(find_codec("hold", level=1).rate_points()[0])))
    return write_run(tmp_path_factory.mktemp("run"), cells, stride=4)


@pytest.fixture(scope="module")
def study(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "study"
    make_study(run, folder, ours=OURS, others=(AV1, HOLD), within=1000)
    return folder


def test_pairs_far_apart_are_told_and_a_factor_that_takes_one(run: Path, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(InputError, match=r"take --within \d+\.\d\d$") as refused:
        make_study(run, tmp_path / "none", ours=OURS, within=1.0, tell=told.append)
    assert told and all(line.startswith("left out: ") for line in told)
    near = float(str(refused.value).rpartition(" ")[2])
    make_study(run, tmp_path / "one", ours=OURS, within=near, tell=told.append)
    assert "far apart: " in " ".join(told) or near <= 1.1


def attentive(seed: int, strengths: dict[str, float] = STRENGTHS) -> Voter:
    return Voter(strengths, TIES, np.random.default_rng(seed))


def plain_key(clips: int = 4) -> Key:
    """A key alone, for voters who need no page."""
    trials = [
        StudyTrial(
            f"{clip}-{level}-{other}", f"clip{clip}", level, StudyVersion(OURS), StudyVersion(other)
        )
        for clip in range(clips)
        for level in "12"
        for other in (AV1, HOLD)
    ]
    caught = StudyTrial(
        "c", "clip0", "", StudyVersion(SOURCE), StudyVersion("damaged source"), DAMAGED
    )
    equal = StudyTrial("e", "clip1", "", StudyVersion(OURS), StudyVersion(OURS), EQUAL)
    return Key("5", "run", AV1, [*trials, caught, equal])


def scores(folder: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = json.loads((folder / "scores.json").read_text())["rows"]
    return {(row["clip"], row["level"], row["version"]): row for row in rows}


def test_the_scores_are_those_that_the_voters_have(tmp_path: Path) -> None:
    key = plain_key()
    key.write(tmp_path)
    votes = tmp_path / "votes.csv"
    votes.write_text(votes_text(key, [attentive(seed) for seed in range(60)]))
    text = score_study(tmp_path, [votes])
    found = scores(tmp_path)
    for name in (OURS, HOLD):
        row = found["all clips", "", name]
        assert row["score"] == pytest.approx(STRENGTHS[name], abs=0.25)
        assert row["low"] < STRENGTHS[name] < row["high"]
        narrow, wide = row, found["clip2", "", name]
        assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]
    assert "60 voters" in text and "clip3" in text
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 1 + len(found)


def test_intervals_hold_what_they_promise() -> None:
    """Of many studies of the same taste, about 95 % of the intervals hold it."""
    random = np.random.default_rng(0)
    shares = np.array([np.exp(0.9), 1.0, TIES * np.exp(0.45)])
    shares /= shares.sum()
    inside = 0
    for _ in range(100):
        votes = random.multinomial(6, shares, size=(25, 1)).astype(np.float64)
        found = fit([(1, 0)], votes, 2)
        assert found.low is not None and found.high is not None
        inside += bool(found.low[1] < 0.9 < found.high[1])
    assert 88 <= inside <= 99


def test_one_who_chooses_damaged_videos_does_not_count(tmp_path: Path) -> None:
    key = plain_key()
    key.write(tmp_path)
    text = votes_text(key, [attentive(0), attentive(1), attentive(2)])
    caught = next(line for line in text.splitlines() if ",c," in line and line.startswith("5,v1,"))
    side = "left" if ",left," in caught else "right"
    other = {"left": "right", "right": "left"}[side]
    votes = tmp_path / "votes.csv"
    votes.write_text(text.replace(caught, caught.replace(f",{side},", f",{other},")))
    assert "damaged videos: v1" in score_study(tmp_path, [votes])
    assert scores(tmp_path)["all clips", "", OURS]["voters"] == 2


def test_one_voter_gives_a_score_without_an_interval(tmp_path: Path) -> None:
    key = plain_key()
    key.write(tmp_path)
    votes = tmp_path / "votes.csv"
    votes.write_text(votes_text(key, [attentive(0, {AV1: 0.0, OURS: 50.0, HOLD: -50.0})]))
    score_study(tmp_path, [votes])
    row = scores(tmp_path)["all clips", "", OURS]
    assert row["wins"] == 16 and row["low"] is None
    assert 1 < row["score"] < 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-7], "line .*torn"),
        (lambda text: text[: text.rindex("\n5,v0") + 9], "line .*torn"),
        (lambda text: text.replace("5,v0", "6,v0"), "is of study 6, this is 5"),
        (lambda text: text.replace("tie", "maybe"), "line .*maybe"),
        (lambda text: "a,b\n1,2\n", "no votes file"),
        (lambda text: "", "no votes file"),
        (lambda text: text.splitlines()[0] + "\n", "no vote"),
    ],
)
def test_votes_that_cannot_count_are_named(tmp_path: Path, change: Any, message: str) -> None:
    key = plain_key()
    key.write(tmp_path)
    votes = tmp_path / "votes.csv"
    votes.write_text(change(votes_text(key, [attentive(1)])))
    with pytest.raises(InputError, match=message):
        score_study(tmp_path, [votes])
    assert not (tmp_path / "scores.json").exists()


def test_votes_given_twice_count_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("gsvc"), "propagate", True)
    key = plain_key()
    key.write(tmp_path)
    first, later = tmp_path / "first.csv", tmp_path / "later.csv"
    text = votes_text(key, [attentive(0), attentive(1)])
    first.write_text(text)
    score_study(tmp_path, [first])
    once = scores(tmp_path)
    score_study(tmp_path, [first, first])
    assert scores(tmp_path) == once
    assert "36 votes are there twice" in caplog.text
    later.write_text(text.replace("2026-01-01", "2026-01-02").replace(",left,4.0", ",tie,4.0"))
    score_study(tmp_path, [first, later])
    assert "changed by their voters" in caplog.text
    assert scores(tmp_path)["all clips", "", OURS]["ties"] > once["all clips", "", OURS]["ties"]


@pytest.mark.slow
def test_a_study_is_not_made_twice_nor_of_nothing(run: Path, study: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds a study"):
        make_study(run, study)
    with pytest.raises(ConfigError, match='"x266" is not in the run: choose from'):
        make_study(run, tmp_path / "a", others=("x266",))
    with pytest.raises(InputError, match="holds no study"):
        score_study(tmp_path, [])


def test_the_page_does_not_tell_what_is_what(study: Path) -> None:
    page = (study / "page" / "index.html").read_text()
    key = read_key(study)
    for word in ("gsvc,", "svtav1", "steps", "crf", "level"):
        assert word not in page
    files = {path.name for path in (study / "page").iterdir()}
    assert files == {"index.html", *(f"{trial.id}.mp4" for trial in key.trials)}
    assert {trial.catch for trial in key.trials} == {"", DAMAGED, EQUAL}


@pytest.mark.slow
def test_the_command_makes_and_scores(
    run: Path, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "mine")
    assert main(["bench", "study", "make", str(run), target, "--within", "1000"]) == 0
    assert "is for the voters" in capsys.readouterr().out
    votes = tmp_path / "votes.csv"
    votes.write_text(votes_text(read_key(Path(target)), [attentive(0), attentive(1)]))
    assert main(["bench", "study", "score", target, str(votes)]) == 0
    assert "2 voters" in capsys.readouterr().out
    assert main(["bench", "study", "score", str(study), str(votes)]) == 1
    assert "is of study" in capsys.readouterr().err


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def opened(context: Any, address: str) -> tuple[Any, list[str]]:
    page = new_page(context)
    troubles = troubles_of(page, ("file:", "data:", "blob:", "http://127.0.0.1"))
    page.goto(address)
    return page, troubles


def sharpness(page: Any, side: int) -> float:
    shot = page.locator("canvas").nth(side).screenshot()
    image = cv2.imdecode(np.frombuffer(shot, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert image is not None
    return float(cv2.Laplacian(image[9:-9, 9:-9], cv2.CV_64F).var())  # without its edge


@pytest.mark.slow
def test_voters_in_chromium_come_out_as_they_chose(
    study: Path, browser: Any, tmp_path: Path
) -> None:
    key, files = read_key(study), []
    address = (study / "page" / "index.html").as_uri()
    for seed, strengths in enumerate([{AV1: 0.0, OURS: 50.0, HOLD: -50.0}] * 3):
        context = browser.new_context(viewport={"width": 1200, "height": 800})
        page, troubles = opened(context, address)
        page.click("#start")
        vote_in(page, key, attentive(seed, strengths))
        files.append(saved(page, tmp_path / f"{seed}.csv"))
        assert not troubles
        context.close()
    score_study(study, files)
    row = scores(study)["all clips", "", OURS]
    assert (row["wins"], row["ties"], row["losses"], row["voters"]) == (12, 0, 0, 3)


def test_the_sides_shown_are_the_sides_told(study: Path, browser: Any) -> None:
    key = read_key(study)
    page, _ = opened(browser, (study / "page" / "index.html").as_uri())
    page.click("#start")
    for _ in key.trials:
        page.wait_for_selector("body[data-answer=yes]")
        body = page.locator("body")
        trial = key.trial(body.get_attribute("data-trial"))
        assert trial is not None
        if trial.catch == DAMAGED:
            left = trial.version(body.get_attribute("data-left")).name
            page.keyboard.press("Space")
            assert (left == SOURCE) == (sharpness(page, 0) > 2 * sharpness(page, 1))
            return
        page.keyboard.press("ArrowDown")


def test_progress_stays_when_the_page_closes(study: Path, browser: Any, tmp_path: Path) -> None:
    key = read_key(study)
    context = browser.new_context()
    address = (study / "page" / "index.html").as_uri()
    page, _ = opened(context, address)
    page.click("#start")
    vote_in(page, key, attentive(5), most=2)
    first = saved(page, tmp_path / "two.csv").read_text().splitlines()
    page.close()
    page, troubles = opened(context, address)
    assert page.inner_text("#start") == f"Go on: 2 of {len(key.trials)} are done"
    page.click("#start")
    page.keyboard.press("Backspace")
    page.wait_for_selector("body[data-answer=yes]")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#place:text('Pair 3')")
    vote_in(page, key, attentive(6))
    later = saved(page, tmp_path / "all.csv").read_text().splitlines()
    assert len(first) == 3 and len(later) == 1 + len(key.trials)
    assert later[1] == first[1] and ",tie," in later[2]
    assert not troubles


def test_the_page_works_from_a_server_and_on_a_phone(study: Path, browser: Any) -> None:
    handler = partial(QuietHandler, directory=str(study / "page"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
        page, troubles = opened(context, f"http://127.0.0.1:{server.server_port}/")
        page.tap("#start")
        page.wait_for_selector("body[data-answer=yes]")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.tap("[data-choice=tie]")
        page.wait_for_selector("#place:text('Pair 2')")
        context.close()
        server.shutdown()
    assert not troubles


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *values: object) -> None:
        pass
