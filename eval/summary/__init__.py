"""Numbers of a benchmark run: hulls, BD-rates, frontiers, ablations, tables."""

from gsvc.eval.summary.write import write_summary

__all__ = ["write_summary"]
