"""The benchmark: cells planned, run, kept, summarised and shown."""
