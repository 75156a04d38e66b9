"""`gsvc encode --out FOLDER`: many videos, each in a process of its own; one may fail."""

import multiprocessing
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from gsvc.codec.api.reports import EncodeReport, JsonLines
from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError
from gsvc.codec.command.arguments import shown_size, without_warnings
from gsvc.codec.command.encode import as_json, as_line, encode_one, settings_from
from gsvc.codec.command.main import complain, prepare_process
from gsvc.codec.media.output import explain_failure
from gsvc.codec.media.places import STANDARD_INPUT

VIDEO_SUFFIXES = {
    ".3gp", ".avi", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg",
    ".mts", ".ogv", ".ts", ".webm", ".wmv", ".y4m",
}  # fmt: skip
"""What counts as a video in a folder."""


def encode_many(options: Namespace) -> int:
    """Encode every source, --jobs at a time, a line for each; 1 when one failed."""
    settings_from(options)  # what is wrong with the settings is said once
    if options.output is not None:
        raise ConfigError(f"two outputs: {options.out} and {options.output}: give one of them")
    if options.jobs < 1:
        raise ConfigError(f"jobs {options.jobs}: must be 1 or more")
    targets = targets_of(options)
    sizes = _shares(options, list(targets.values()))
    with explain_failure(options.out):
        Path(options.out).mkdir(parents=True, exist_ok=True)
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            works = {
                pool.submit(_encode, _sized(options, sizes.get(s)), s, t): s
                for t, s in targets.items()
            }
            for number, work in enumerate(as_completed(works), 1):
                failed += _tell(options, works[work], work.result(), f"{number}/{len(works)}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    if failed:
        complain(f"{failed} of {len(targets)} videos failed: see above")
    return int(failed > 0)


def _shares(options: Namespace, sources: Sequence[str]) -> dict[str, int]:
    """The bytes of each source's stream, so that all take --total-size together.

    Shares are as the sizes at one level, so that quality is alike. Sound and texts are not shared.
    Sources that cannot be read have none: they fail when it is their turn.
    """
    if options.total_size is None:
        return {}
    from gsvc.codec.command.encode_dry import foretold

    made = {}
    for source in sources:
        with suppress(InputError), without_warnings(True):
            made[source] = foretold(options, source)[0]
    beside = sum(one.size - one.video_size for one in made.values())
    if beside >= options.total_size:
        raise ConfigError(
            f"sound takes about {shown_size(beside)} of {shown_size(options.total_size)}: raise "
            "--total-size, lower --audio-bitrate, or leave the sound out with --audio none"
        )
    share = (options.total_size - beside) / max(1.0, sum(one.video_size for one in made.values()))
    return {s: int(m.size + (share - 1) * m.video_size) for s, m in made.items()}


def _sized(options: Namespace, size: int | None) -> Namespace:
    return options if size is None else Namespace(**{**vars(options), "target_size": size})


def targets_of(options: Namespace) -> dict[str, str]:
    """Target → source. Raises ConfigError when two sources have one target."""
    targets: dict[str, str] = {}
    for name in filter(None, [options.source, options.target, *options.others]):
        for source in _videos(name):
            target = str(Path(options.out) / f"{Path(source).stem}.gsv")
            if targets.get(target, source) != source:
                raise ConfigError(
                    f"{targets[target]} and {source} would both become {target}: "
                    "encode them into two folders"
                )
            targets[target] = source
    return targets


def _videos(name: str) -> Iterator[str]:
    if name == STANDARD_INPUT:
        raise ConfigError("standard input is no file for --out: use -o")
    if not Path(name).is_dir():
        yield name
        return
    found = [path for path in sorted(Path(name).iterdir()) if _is_video(path)]
    if not found:
        raise ConfigError(
            f"{name} holds no video: give another folder, or quote a pattern of images "
            f"('{Path(name) / '*.png'}') and write to -o"
        )
    yield from map(str, found)


def _is_video(path: Path) -> bool:
    is_hidden = path.name.startswith(".")
    return path.suffix.lower() in VIDEO_SUFFIXES and path.is_file() and not is_hidden


def _encode(options: Namespace, source: str, target: str) -> EncodeReport | str:
    """What came out, or what went wrong; a process of its own cannot take others down."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(there, options, source, target))
    process.start()
    there.close()
    try:
        result: EncodeReport | str = here.recv()
    except EOFError:
        process.join()
        return f"{source}: the encoder ended with code {process.exitcode}"
    process.join()
    return result


def _work(pipe: Connection, options: Namespace, source: str, target: str) -> None:
    """The process of a video."""
    prepare_process()
    try:
        with without_warnings(options.quiet):
            pipe.send(encode_one(options, source, target))
    except KeyboardInterrupt:
        pass  # the parent says so
    except GsvcError as error:
        pipe.send(" ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001 - the others go on
        pipe.send(f"internal error: {type(error).__name__}: {error}")


def _tell(options: Namespace, source: str, result: EncodeReport | str, place: str) -> bool:
    """A line about one video; whether it failed."""
    failed = isinstance(result, str)
    if options.json:
        values = {"error": result} if isinstance(result, str) else as_json(result)
        JsonLines(sys.stdout).put("failed" if failed else "done", source=source, **values)
    elif isinstance(result, str):
        complain(f"{place} {result if source in result else f'{source}: {result}'}")
    elif not options.quiet:
        print(f"{place} {as_line(result)}", flush=True)
    return failed
