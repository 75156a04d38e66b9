"""Codes hours of video, then opens and closes many coders: does memory stay where it was?

    python tools/soak.py                 # an hour at 25 frames a second in both modes, 1000 cycles
    python tools/soak.py --seconds 60 --cycles 50

Prints resident memory (before and after the allocator returns what is free), threads and open files
at the start, after a tenth, after half, and at the end of each run.
"""

import argparse
import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import monotonic

import numpy as np

import gsvc

RATE = 25
WIDTH, HEIGHT = 128, 96
SCENE = 300
"""Frames from cut to cut."""


@dataclass(frozen=True)
class Usage:
    """What this process uses."""

    resident: float
    """Resident memory in MB."""
    memory: float
    """The same after the allocator returned what is free."""
    threads: int
    files: int
    """Open files."""


def usage() -> Usage:
    """As the kernel says (Linux with glibc only)."""
    resident = _resident()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return Usage(
        resident, _resident(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    )


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def scene_frames(count: int) -> Iterator[gsvc.Frame]:
    """Textured scenes that pan, a patch that moves by itself, and a cut every `SCENE` frames."""
    for index in range(count):
        scene, time = divmod(index, SCENE)
        if time == 0:
            rng = np.random.default_rng(scene)
            wide = rng.integers(0, 256, (16, 32, 3), np.uint8).repeat(12, 0).repeat(12, 1)
            patch = rng.integers(0, 256, 3, np.uint8)
        x, y = time // 2, time // 4
        picture = wide[y : y + HEIGHT, x : x + WIDTH].copy()
        left = time * 3 % (WIDTH - 20)
        picture[40:60, left : left + 20] = patch
        yield gsvc.Frame(picture, index)


def video_format() -> gsvc.VideoFormat:
    """Of `scene_frames`."""
    return gsvc.VideoFormat(WIDTH, HEIGHT, Fraction(1, RATE), Fraction(RATE))


def stream_for(
    frames: int, *, low_delay: bool, report: Callable[[int], None] = lambda done: None
) -> int:
    """Code one stream and decode it at the same time; returns the number of frames decoded."""
    settings = gsvc.EncoderSettings(level=1, preset="fast", low_delay=low_delay)
    shown = 0
    with (
        gsvc.Encoder(video_format(), settings) as encoder,
        gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0)) as decoder,
    ):
        for index, frame in enumerate(scene_frames(frames)):
            report(index)
            for packet in encoder.encode(frame):
                shown += len(decoder.decode(packet))
        for packet in encoder.flush():
            shown += len(decoder.decode(packet))
    return shown


def open_and_close(cycles: int, report: Callable[[int], None] = lambda done: None) -> None:
    """Open and close coders: without a frame, with frames left in the encoder, flushed."""
    for cycle in range(cycles):
        report(cycle)
        settings = gsvc.EncoderSettings(level=1, preset="fast", low_delay=cycle % 2 == 0)
        with (
            gsvc.Encoder(video_format(), settings) as encoder,
            gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0)) as decoder,
        ):
            given = (0, 3, 8)[cycle % 3]
            packets = [p for frame in scene_frames(given) for p in encoder.encode(frame)]
            if given == 8:
                packets += encoder.flush()
            for packet in packets:
                decoder.decode(packet)


def watch(name: str, total: int, run: Callable[[Callable[[int], None]], object]) -> None:
    """Run something of `total` rounds and print what it uses as it goes on."""
    began = monotonic()
    marks = {min(total, 100): "start", total // 10: "a tenth", total // 2: "half"}

    def report(done: int) -> None:
        if done in marks:
            show(marks[done])

    def show(when: str) -> None:
        now = usage()
        print(
            f"{name:<12} {when:<8} {now.resident:>6.1f} MB, {now.memory:>6.1f} in use"
            f"  {now.threads:>3} threads  {now.files:>3} files  {monotonic() - began:>6.0f} s",
            flush=True,
        )

    run(report)
    show("end")


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3600, help="of video, in each mode")
    parser.add_argument("--cycles", type=int, default=1000, help="of opening and closing")
    arguments = parser.parse_args()
    frames = arguments.seconds * RATE
    for name, low_delay in (("low delay", True), ("look-ahead", False)):

        def stream(report: Callable[[int], None], low_delay: bool = low_delay) -> None:
            shown = stream_for(frames, low_delay=low_delay, report=report)
            print(f"{shown} of {frames} frames came back")

        watch(name, frames, stream)
    watch("open, close", arguments.cycles, lambda report: open_and_close(arguments.cycles, report))


if __name__ == "__main__":
    main()
