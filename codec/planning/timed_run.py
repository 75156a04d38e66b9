"""One process that encodes or decodes files, one after the other, and tells what each took.

`python -m gsvc.codec.planning.timed_run [--cpu] '{"preset": "fast"}' FOLDER IN ...`, or with the
settings of a decoder: a process of its own, because memory at the peak is one number for a process.
With --cpu, seconds are the processor's.
"""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from gsvc.codec.api.decode_file import decode
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encode_file import encode
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.errors import ConfigError, InputError
from gsvc.codec.planning.process import CPU, EnergyMeter, peak_memory


def run(
    settings: dict[str, Any], folder: Path, source: str, clock: Callable[[], float]
) -> dict[str, float | None]:
    """Seconds, bytes at the peak of the process so far, and joules where counters tell."""
    with ExitStack() as stack:
        try:
            meter = stack.enter_context(EnergyMeter())
        except ConfigError:
            meter = None
        began = clock()
        if "preset" in settings:
            encode(source, folder / "out.gsv", settings=EncoderSettings(**settings), overwrite=True)
        else:
            decode(source, folder / "out.mp4", settings=DecoderSettings(**settings), overwrite=True)
        seconds = clock() - began
    memory = peak_memory()
    if memory is None:
        raise InputError("no /proc/self/status: memory cannot be measured on this system")
    return {"seconds": seconds, "memory": memory, "joules": meter.joules if meter else None}


def main(arguments: list[str]) -> None:
    """Do as the arguments say; one JSON line for each file."""
    cpu = arguments[0] == CPU
    settings, folder, *sources = arguments[cpu:]
    clock = process_time if cpu else perf_counter
    for source in sources:
        print(json.dumps(run(json.loads(settings), Path(folder), source, clock)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
