"""The benchmark of analysis: detectors, their accuracy, and what accuracy costs in bits."""
