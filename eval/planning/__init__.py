"""Fitting the planner to benchmark results, judging it, and drawing what it knows."""
