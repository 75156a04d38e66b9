"""A blind pairwise test for people: a page to vote on, and scores from the votes of many."""

from gsvc.eval.study.make import StudySettings, make_study
from gsvc.eval.study.score import score_study

__all__ = ["StudySettings", "make_study", "score_study"]
