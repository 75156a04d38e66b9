"""Numbers of a benchmark run: hulls, BD-rates, frontiers, ablations, tables."""
