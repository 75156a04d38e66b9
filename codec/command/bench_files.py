"""`gsvc bench files`: whether a copy of a set is the one that was measured."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.command.arguments import add_overwrite
from gsvc.codec.media.output import atomic_output

DESCRIPTION = """Check the files of a folder against a manifest (CSV: path,bytes,sha256), or write
one of them. A file that is missing or differs is told in a line."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench files`."""
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="where the set is")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--check", metavar="MANIFEST", help="compare with this manifest")
    task.add_argument("--write", metavar="MANIFEST", help="write a manifest of all files")
    add_overwrite(parser)


def run(options: Namespace) -> int:
    """Write or check; returns 1 where a file is missing or differs."""
    return _write(options) if options.write else _check(options)


def _write(options: Namespace) -> int:
    from gsvc.datasets.clips.file_manifest import folder_entries, manifest_text

    with atomic_output(options.write, options.overwrite) as path:
        entries = list(folder_entries(options.folder, but=options.write))
        Path(path).write_text(manifest_text(entries), encoding="utf-8", newline="")
    print(f"{options.write}: {len(entries)} files, {sum(one.bytes for one in entries)} bytes")
    return 0


def _check(options: Namespace) -> int:
    from gsvc.datasets.clips.file_manifest import faults, folder_files, read_manifest

    entries = read_manifest(options.check)
    present = folder_files(options.folder, but=options.check)
    wrong = 0
    for line in faults(options.folder, entries):
        wrong += 1
        print(line, file=sys.stderr)
    other = len(set(present) - {one.path for one in entries})
    told = f"{len(entries) - wrong} of {len(entries)} files as in {options.check}"
    print(told + (f"; {other} more in the folder" if other else ""))
    return int(wrong > 0)
