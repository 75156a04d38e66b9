"""Every byte of the golden streams flipped, and every point where one may break off: is any damage silent?

    python tests/corruption_matrix.py              # all golden streams, some minutes
    python tests/corruption_matrix.py every_tool   # one of them

For each damaged copy, the file is decoded as `gsvc decode --steps 0` does. A row a stream and way: how many were
refused, by which error, how many gave the same video again, how many were silent (another video and no error), how many
crashed.
"""

import argparse
import os
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

from gsvc.codec.decoder import DecoderSettings
from gsvc.codec.errors import BitstreamError
from gsvc.codec.files import decode_file

GOLDEN = Path(__file__).parent / "golden"
SAME, SILENT, CRASH = "the same", "SILENT", "CRASH"


def flipped_byte(data: bytes) -> Iterator[bytes]:
    """All bits of one byte changed, for each byte."""
    return (data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] for at in range(len(data)))


def flipped_bit(data: bytes) -> Iterator[bytes]:
    """One bit of one byte changed, for each byte; which one changes from byte to byte."""
    return (data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(len(data)))


def broken_off(data: bytes) -> Iterator[bytes]:
    """Each shorter beginning, the empty one first."""
    return (data[:at] for at in range(len(data)))


DAMAGES = {"byte flipped": flipped_byte, "bit flipped": flipped_bit, "broken off": broken_off}


def decoded(data: bytes, folder: Path) -> bytes:
    """The stream, as a file, through the decoder of files without refinement: y4m."""
    source, target = folder / "damaged.gsv", folder / "back.y4m"
    source.write_bytes(data)
    decode_file(source, target, settings=DecoderSettings(steps=0), overwrite=True)
    return target.read_bytes()


def outcomes(data: bytes, damaged: Iterable[bytes], folder: Path) -> Counter[str]:
    """What becomes of each damaged copy of `data`."""
    whole = decoded(data, folder)
    found: Counter[str] = Counter()
    for copy in damaged:
        try:
            found[SAME if decoded(copy, folder) == whole else SILENT] += 1
        except BitstreamError as error:
            found[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001 - any at all is a find
            found[f"{CRASH} {error!r}"] += 1
    return found


def main() -> int:
    """Run it; 1 if anything was silent or crashed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="golden streams (all)")
    paths = [GOLDEN / f"{n}.gsv" for n in parser.parse_args().names] or sorted(GOLDEN.glob("*.gsv"))
    began, total = monotonic(), Counter[str]()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for path in paths:
            data = path.read_bytes()
            for name, damage in DAMAGES.items():
                found = outcomes(data, damage(data), Path(folder))
                told = ", ".join(f"{what} {count}" for what, count in found.most_common())
                print(f"{path.stem:<22} {name:<13} {sum(found.values()):>5}: {told}", flush=True)
                total += found
    told = ", ".join(f"{what} {count}" for what, count in total.most_common())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{total.total()} damaged streams in {monotonic() - began:.0f} s: {told}")
    print(
        f"memory at most {peak / 1000:.0f} MB, {(peak - before) / 1000:.0f} MB of it for decoding"
    )
    return int(any(what.startswith((SILENT, CRASH)) for what in total))


if __name__ == "__main__":
    sys.exit(main())
