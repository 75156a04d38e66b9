"""What mapping streams costs, and that they come back: python tools/mapping_sizes.py.

Golden streams and short parts of the packaged clips, through .mp4 and .mkv, `-c copy`, FFmpeg's
decoder, and Chromium.
"""

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

import av

import gsvc
from gsvc.datasets.clips.packaged import packaged_clip

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from browsing import chromium
from test_mapping import MAPPED, remuxed

CLIPS = "bikes", "carphone", "city", "vtest"
PLAYED = """async () => {
    const video = document.querySelector("video");
    const ended = new Promise((yes, no) => {
        video.onended = yes;
        video.onerror = () => no(video.error.message);
    });
    await video.play();
    video.playbackRate = Math.min(16, Math.max(1, video.duration / 10));  // one lasts 1005 s
    await ended;
    return video.getVideoPlaybackQuality().totalVideoFrames;
}"""


def streams(folder: Path) -> list[Path]:
    """Those golden streams that map, and the clips' first 100 frames at level 1."""
    made = []
    for name in CLIPS:
        target = folder / f"{name}.gsv"
        settings = gsvc.EncoderSettings(level=1, preset="fast")
        gsvc.encode(packaged_clip(name, download=False), target, settings=settings, frames=100)
        made.append(target)
    return [*made, *MAPPED]


def decodable(path: Path) -> int:
    """Pictures that FFmpeg's decoder shows of a file."""
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


def main() -> None:
    """Print a row for each stream."""
    print(
        "| stream | frames | pictures | bytes | .mp4 | .mkv | back, and after -c copy | Chromium |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |")
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        for source in streams(Path(name)):
            print(row(source, Path(name), browser.new_page()), flush=True)


def row(source: Path, folder: Path, page: Any) -> str:
    """One stream's."""
    files = [folder / "it.mp4", folder / "it.mkv"]
    reports = [gsvc.mux(source, file, overwrite=True) for file in files]
    assert {decodable(file) for file in files} == {reports[0].pictures}
    copies = remuxed(files[0], folder / "copy.mkv"), remuxed(files[1], folder / "copy.mp4")
    same = 0
    for file in (*files, *copies):
        gsvc.demux(file, folder / "back.gsv", overwrite=True)
        same += (folder / "back.gsv").read_bytes() == source.read_bytes()
    data = base64.b64encode(files[0].read_bytes()).decode()
    page.set_content(f'<video muted src="data:video/mp4;base64,{data}"></video>')
    seen = page.evaluate(PLAYED)
    sizes = f"{reports[0].stream_size:,} | {reports[0].size:,} | {reports[1].size:,}"
    counts = f"{reports[0].frames} | {reports[0].pictures}"
    return f"| {source.stem} | {counts} | {sizes} | {same} of 4 equal | {seen} |"


if __name__ == "__main__":
    main()
