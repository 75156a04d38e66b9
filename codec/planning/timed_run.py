"""One process that encodes or decodes files, one after the other, and tells what each took.

`python -m gsvc.codec.planning.timed_run '{"preset": "fast"}' FOLDER IN ...`, or with the settings
of a decoder: a process of its own, because memory at the peak is one number for a process.
"""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.files import decode_file, encode_file
from gsvc.codec.planning.energy import EnergyMeter
from gsvc.codec.planning.process import peak_memory


def run(settings: dict[str, Any], folder: Path, source: str) -> dict[str, float | None]:
    """Seconds, bytes at the peak of the process so far, and joules where counters tell."""
    with ExitStack() as stack:
        try:
            meter = stack.enter_context(EnergyMeter())
        except ConfigError:
            meter = None
        began = perf_counter()
        if "preset" in settings:
            encode_file(
                source, folder / "out.gsv", settings=EncoderSettings(**settings), overwrite=True
            )
        else:
            decode_file(
                source, folder / "out.mp4", settings=DecoderSettings(**settings), overwrite=True
            )
        seconds = perf_counter() - began
    memory = peak_memory()
    if memory is None:
        raise InputError("no /proc/self/status: memory cannot be measured on this system")
    return {"seconds": seconds, "memory": memory, "joules": meter.joules if meter else None}


def main(arguments: list[str]) -> None:
    """Do as the arguments say; one JSON line for each file."""
    settings, folder, *sources = arguments
    for source in sources:
        print(json.dumps(run(json.loads(settings), Path(folder), source)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
