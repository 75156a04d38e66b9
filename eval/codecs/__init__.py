"""The codecs of the benchmark, all in one shape: see `base`."""
