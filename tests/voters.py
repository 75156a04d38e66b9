"""Voters of known taste, who press keys in a real browser or write what the page would save."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gsvc.eval.report.study import DAMAGED, EQUAL, SOURCE, Key, StudyTrial
from gsvc.eval.report.study_scores import COLUMNS

KEYS = {"left": "ArrowLeft", "right": "ArrowRight", "tie": "ArrowDown"}


@dataclass
class Voter:
    """Answers by Davidson's model, and catch trials as an attentive person does."""

    strengths: Mapping[str, float]
    """Log strength by version."""
    ties: float
    """Davidson's v."""
    random: np.random.Generator

    def chosen(self, trial: StudyTrial) -> str:
        """ "a", "b" or "" for a tie."""
        names = trial.a.name, trial.b.name
        if trial.catch == EQUAL:
            return ""
        if trial.catch == DAMAGED:
            return "ab"[names.index(SOURCE)]
        a, b = (np.exp(self.strengths[name]) for name in names)
        shares = np.array([a, b, self.ties * np.sqrt(a * b)])
        return ("a", "b", "")[self.random.choice(3, p=shares / shares.sum())]


def choice(chosen: str, left: str) -> str:
    """What the page calls it."""
    return "tie" if not chosen else "left" if chosen == left else "right"


def vote_in(page: Any, key: Key, voter: Voter, most: int = 1000) -> None:
    """Answer what is asked, at most so many times."""
    for _ in range(most):
        page.wait_for_selector("body[data-answer=yes], body[data-state=done]")
        body = page.locator("body")
        if body.get_attribute("data-state") == "done":
            return
        trial = key.trial(body.get_attribute("data-trial"))
        assert trial is not None
        left = body.get_attribute("data-left")
        page.keyboard.press(KEYS[choice(voter.chosen(trial), left)])


def saved(page: Any, target: Path) -> Path:
    """The file that the page saves."""
    with page.expect_download() as waiting:
        page.locator(".save >> visible=true").first.click()
    waiting.value.save_as(target)
    return target


def votes_text(key: Key, voters: Iterable[Voter]) -> str:
    """What these voters would save, in one file."""
    lines = [",".join(COLUMNS)]
    for number, voter in enumerate(voters):
        for trial in key.trials:
            left = "ab"[voter.random.integers(2)]
            right = {"a": "b", "b": "a"}[left]
            answer = choice(voter.chosen(trial), left)
            sides = f"{trial.id},{left},{right},{answer},4.0,2026-01-01T00:00:00.000Z"
            lines.append(f"{key.study},v{number},{sides},{int(bool(trial.catch))}")
    return "\n".join(lines) + "\n"
