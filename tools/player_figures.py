"""Measures the player in the browsers that are here, against Python's decoder.

    python tools/player_figures.py tests/golden/*.gsv clip.gsv
    python tools/player_figures.py --restored clip.gsv
    python tools/player_figures.py --damaged tests/golden/every_tool.gsv
    python tools/player_figures.py --faces tests/golden/speaking.gsv

For each stream and browser: the mean and largest difference of frames (levels of 0-255), how many
frames are drawn in a second, coded pictures included.
With --restored, pictures are restored, as by gsvc decode; with --damaged: what becomes of damaged
streams; with --faces: what faces add to a frame's time.
"""

import argparse
import base64
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic

import numpy as np

import gsvc
from gsvc.codec.network.player_server import PAGE

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from browsers import BROWSERS, Page, decoded, served
from test_player import damaged


def frames_of(path: Path, steps: int) -> Iterator[gsvc.Frame]:
    """Python's."""
    with open(path, "rb") as file:
        reader = gsvc.StreamReader(file)
        with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=steps)) as decoder:
            for packet in reader:
                yield from decoder.decode(packet)


def compared(page: Page, path: Path, *, restored: bool = False) -> str:
    """Differences of one stream's frames."""
    means, most, size = [], 0, ""
    with served(path) as server:
        ours = decoded(page, server, restored=restored)
        for shown, frame in zip(ours, frames_of(path, int(restored)), strict=True):
            assert shown.pts == frame.pts
            difference = np.abs(shown.pixels.astype(np.int16) - frame.pixels)
            means.append(float(difference.mean()))
            most = max(most, int(difference.max()))
            size = "{1}x{0}".format(*frame.pixels.shape)
    return (
        f"{size}, {len(means)} frames: mean {np.mean(means):.3f}, "
        f"worst frame {max(means):.3f}, largest {most}"
    )


def timed(page: Page, path: Path, *, restored: bool = False) -> str:
    """Frames a second, drawn one after another without being shown."""
    later = _seconds(page, path, restored=restored)
    return f"{len(later) / sum(later):.1f} frames/s, median frame {1000 * np.median(later):.1f} ms"


def _seconds(page: Page, path: Path, *, faces: bool = True, restored: bool = False) -> list[float]:
    """Of each frame, without the first ones: the browser compiles."""
    with served(path) as server:
        all_frames = decoded(page, server, pixels=False, faces=faces, restored=restored)
        seconds = [shown.seconds for shown in all_frames]
    return seconds[len(seconds) // 5 :]


def cost_of_faces(page: Page, path: Path) -> str:
    """What they add to the frames that have any: the quickest of five."""
    times = [
        np.min([_seconds(page, path, faces=faces) for _ in range(5)], axis=0)
        for faces in (True, False)
    ]
    more = 1000 * (times[0] - times[1])
    moved = more[more > 0.3]
    return (
        f"a frame takes {1000 * np.mean(times[1]):.1f} ms without faces; "
        f"{len(moved)} frames take {np.median(moved):.1f} more with them, {moved.max():.1f} at most"
    )


def _word(said: str) -> str:
    """What `decodeAll` says, in a word."""
    if "CRASH" in said:
        return "CRASH"
    return "decoded" if said.endswith("frames") else "refused"


def outcomes(page: Page, path: Path) -> str:
    """What becomes of damaged golden streams: some hundreds, with right checksums."""
    found, slowest = Counter[str](), 0.0
    with served(path) as server:
        page.open(f"{server.address}player.css")
        page.evaluate((Path(__file__).parents[1] / "tests/player/damaged_in_page.js").read_text())
        for data in damaged():
            began = monotonic()
            said = page.evaluate(f"window.decodeAll('{base64.b64encode(data).decode()}')")
            slowest = max(slowest, monotonic() - began)
            found[_word(said)] += 1
    told = ", ".join(f"{what} {count}" for what, count in found.most_common())
    return f"{found.total()} damaged streams: {told}; slowest {slowest:.1f} s"


def main() -> None:
    """Print a line for each stream and browser."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("streams", nargs="+", type=Path)
    parser.add_argument("--browsers", nargs="+", default=list(BROWSERS), choices=list(BROWSERS))
    parser.add_argument("--times-only", action="store_true", help="compare no frames")
    parser.add_argument("--restored", action="store_true", help="pictures are restored")
    parser.add_argument("--damaged", action="store_true", help="damaged golden streams alone")
    parser.add_argument("--faces", action="store_true", help="what faces add to a frame's time")
    options = parser.parse_args()
    size = sum(path.stat().st_size for path in PAGE.iterdir())
    print(f"page: {size} bytes in {len(list(PAGE.iterdir()))} files")
    for name in options.browsers:
        with BROWSERS[name]() as page:
            print(f"{name} {page.version}")
            if options.damaged:
                print(f"  {outcomes(page, options.streams[0])}", flush=True)
                continue
            shown: list[Callable[[Page, Path], str]] = [
                partial(figures, restored=options.restored) for figures in (compared, timed)
            ]
            if options.faces:
                shown = [cost_of_faces]
            for path in options.streams:
                for figures in shown[1:] if options.times_only else shown:
                    print(f"  {path.stem}: {figures(page, path)}", flush=True)


if __name__ == "__main__":
    main()
