"""What is left of marks and credentials after others' tools: python tools/marking_survival.py.

Needs gsvc[c2pa], FFmpeg's programs, and ImageMagick's convert.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import c2pa

from gsvc.codec.api.inspection import read_credentials, sign_file
from gsvc.codec.media.marks import read_marks

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from test_credentials import make_signer
from test_marking import MARK, write

FFMPEG = "ffmpeg", "-v", "error", "-y", "-i"
WAYS = (
    *((".mp4", other, (*FFMPEG, "IN", "-c", "copy", "OUT")) for other in (".mp4", ".mov", ".mkv")),
    *((".mp4", other, (*FFMPEG, "IN", "-c", "copy", "OUT")) for other in (".avi", ".ts")),
    (".mp4", ".mp4", (*FFMPEG, "IN", "-c:v", "mpeg4", "OUT")),
    (".mp4", ".mp4", (*FFMPEG, "IN", "-c", "copy", "-map_metadata", "-1", "OUT")),
    (".png", ".png", ("convert", "IN", "OUT")),
    (".png", ".jpg", ("convert", "IN", "OUT")),
    (".jpg", ".jpg", ("convert", "IN", "-quality", "80", "OUT")),
    (".jpg", ".jpg", ("convert", "IN", "-strip", "OUT")),
    (".png", ".png", (*FFMPEG, "IN", "OUT")),
    (".jpg", ".jpg", (*FFMPEG, "IN", "OUT")),
)
"""From, to, and how."""


def ffprobe(path: Path) -> str:
    """Whether ffprobe shows the mark in the tag "comment"."""
    show = "ffprobe", "-v", "error", "-show_entries", "format_tags", "-of", "json", str(path)
    tags = json.loads(subprocess.run(show, check=True, capture_output=True).stdout)
    found = tags.get("format", {}).get("tags", {})
    comments = (text for name, text in found.items() if name.lower() == "comment")
    return "yes" if any("synthetic=yes" in text for text in comments) else "no"


def reader(path: Path) -> str:
    """What the Content Authenticity Initiative's own reader says, without our code."""
    try:
        with c2pa.Reader(str(path)) as found:
            store = json.loads(found.json())
    except c2pa.C2paError:
        return "no manifest"
    return str(store.get("validation_state", "unknown"))


def row(name: str, path: Path, anchors: Path) -> str:
    """What everybody says of one file."""
    signed = read_credentials(path, str(anchors))
    proof = "none" if signed is None else f"intact: {signed.intact}, trusted: {signed.trusted}"
    mark = "yes" if read_marks(path) else "no"
    return f"| {name} | {ffprobe(path)} | {mark} | {proof} | {reader(path)} |"


def main() -> None:
    """Print a row for each way."""
    print("| | ffprobe: comment | gsvc info: mark | gsvc info: proof | C2PA reader |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signer = make_signer(folder)
        for suffix in (".mp4", ".png", ".jpg"):
            made, signed = write(folder / f"made{suffix}", MARK), folder / f"signed{suffix}"
            sign_file(made, signed, signer.chain, signer.key)
            print(row(f"{suffix} of gsvc decode", made, signer.anchors))
            print(row(f"{suffix} of gsvc sign", signed, signer.anchors))
        for number, (before, after, command) in enumerate(WAYS):
            out = folder / f"{number}{after}"
            names = {"IN": str(folder / f"signed{before}"), "OUT": str(out)}
            subprocess.run([names.get(part, part) for part in command], check=True)
            how = " ".join(part for part in command if part not in ("-v", "error", "-y", "-i"))
            told = how.replace("IN", f"a{before}").replace("OUT", f"b{after}")
            print(row(f"`{told}`", out, signer.anchors))


if __name__ == "__main__":
    main()
