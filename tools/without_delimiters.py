"""The headline if SVT-AV1's temporal delimiters did not count.

    python tools/without_delimiters.py eval/results/whole

An elementary stream of AV1 has a temporal delimiter of two bytes before each frame; MP4, Matroska
and .gsv leave them out. The kept results count them.
"""

import csv
import subprocess
import sys
import tempfile
from fractions import Fraction
from math import ceil
from pathlib import Path

DELIMITER = 16  # bits


def main(kept: str) -> None:
    """Print the headline of a kept run's points, each of AV1 less its delimiters."""
    with Path(kept, "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if row["codec"].startswith(("svtav1", "libaom")) and row["bits"]:
            coded = ceil(int(row["frames"]) * Fraction(row["rate"] or 1))
            bits = int(row["bits"]) - DELIMITER * coded
            row["bpp"] = str(float(row["bpp"]) * bits / int(row["bits"]))
            row["bits"] = str(bits)
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "summary.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        subprocess.run(
            [sys.executable, "-m", "gsvc", "bench", "table", folder, "--title", "Headline"],
            check=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
