"""Pictures and pages of a benchmark run, and two runs compared."""
