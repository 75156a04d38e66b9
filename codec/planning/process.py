"""What a process takes that encodes or decodes files, or this one: time, memory and energy.

Energy is counted by processors (RAPL) and NVIDIA's GPUs (NVML, of the driver's own library).
What sending a bit costs is a stated model's.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, InputError

_LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"


class GpuCounters:
    """The GPUs whose energy is counted: since Volta. None where there is no driver."""

    def __init__(self, library: Any = None) -> None:
        """`library`: in place of the driver's."""
        self._library = library
        with suppress(OSError):
            self._library = library or ctypes.CDLL(_LIBRARY)
        self._devices = [one for one in self._found() if self._joules(one) is not None]

    def __len__(self) -> int:
        return len(self._devices)

    def read(self) -> Sequence[float]:
        """Joules of each since its driver was loaded, of all programs; 0 where untold."""
        return [self._joules(device) or 0.0 for device in self._devices]

    def _found(self) -> list[ctypes.c_void_p]:
        library, count = self._library, ctypes.c_uint()
        if library is None or library.nvmlInit_v2():
            return []
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return []
        devices = [ctypes.c_void_p() for _ in range(count.value)]
        return [
            device
            for index, device in enumerate(devices)
            if not library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device))
        ]

    def _joules(self, device: ctypes.c_void_p) -> float | None:
        millijoules = ctypes.c_ulonglong()
        failed = self._library.nvmlDeviceGetTotalEnergyConsumption(
            device, ctypes.byref(millijoules)
        )
        return None if failed else millijoules.value / 1000


class SpareClock:
    """Seconds that passed between two calls, or that this process computed, if those are fewer:
    other work on a machine makes the first ones more."""

    def __init__(self) -> None:
        self._seconds, self._before = 0.0, (0.0, 0.0)

    def __call__(self) -> float:
        now = time.perf_counter(), time.process_time()
        self._seconds += min(b - a for a, b in zip(self._before, now, strict=True))
        self._before = now
        return self._seconds


spare_clock = SpareClock()
POWERCAP = Path("/sys/class/powercap")
"""Where Linux has the counters."""


@dataclass(frozen=True)
class Radio:
    """What a sender's radio takes for a bit: a model, not a measurement on this machine."""

    joules_per_bit: float
    """While sending; keeping the link open comes on top."""
    source: str
    """Where the number is from."""


_HUANG = "Huang et al., MobiSys 2012, table 4"
RADIOS = {
    "lte": Radio(438.39e-9, f"{_HUANG}: LTE uplink, 438.39 mW per Mbit/s"),
    "wifi": Radio(283.17e-9, f"{_HUANG}: Wi-Fi uplink, 283.17 mW per Mbit/s"),
    "lora": Radio(0.120 * 3.3 / 5470, "Semtech SX1276: 120 mA at 3.3 V, +20 dBm; SF7: 5.47 kbit/s"),
}
"""By name; the energy of a bit that is sent."""


class EnergyMeter:
    """Context manager over the counters of Intel and AMD processors (RAPL), and of NVIDIA's GPUs
    (NVML) where there are such, of all programs here.

    Raises ConfigError where the processors' are missing or may not be read, GPU or not.
    """

    def __init__(self, folder: Path = POWERCAP, gpus: GpuCounters | None = None) -> None:
        """`folder`: Linux's power capping, with a folder for each package of processors; `gpus`:
        in place of those that the driver tells."""
        # A second number is of a part of a package, which the package's counter counts too.
        packages = [one for one in sorted(folder.glob("*-rapl:*")) if one.name.count(":") == 1]
        self._counters = [one / "energy_uj" for one in packages]
        if not self._counters:
            raise ConfigError(
                "no energy counters here (RAPL): leave out --energy, or state "
                "the power with --watts"
            )
        self._gpus = gpus or GpuCounters()
        self.joules = 0.0
        """Between entry and exit."""
        self._before, self._before_gpus = self._read(), self._gpus.read()

    def __enter__(self) -> Self:
        self._before, self._before_gpus = self._read(), self._gpus.read()
        return self

    @property
    def sources(self) -> str:
        """What is counted, for people."""
        processors, gpus = len(self._counters), len(self._gpus)
        return f"{processors} of processors (RAPL), {gpus or 'none'} of GPUs (NVML)"

    def __exit__(self, *_: object) -> None:
        for counter, before, now in zip(self._counters, self._before, self._read(), strict=True):
            wrapped = _number(counter.parent / "max_energy_range_uj") if now < before else 0
            self.joules += (now - before + wrapped) / 1e6
        for was, is_now in zip(self._before_gpus, self._gpus.read(), strict=True):
            self.joules += max(0.0, is_now - was)  # a driver that is loaded again begins at 0

    def _read(self) -> Sequence[int]:
        return [_number(counter) for counter in self._counters]


def _number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} cannot be read: let this user read it with sudo chmod a+r {file}, or leave "
            "out --energy"
        ) from error


CPU = "--cpu"
"""First argument of `main`: seconds are the processor's."""
_BEGAN = time.monotonic()


def process_seconds() -> float:
    """Since this process started; where the system does not tell, since this module was loaded."""
    try:
        ticks = int(
            Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        )
        up = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _BEGAN
    return max(time.monotonic() - _BEGAN, up - ticks / os.sysconf("SC_CLK_TCK"))


def peak_memory() -> int | None:
    """Bytes that this program held at most; None where the system does not tell. Not
    `ru_maxrss`, which remembers who started it."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return None
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@dataclass(frozen=True)
class Timed:
    """What one process took."""

    total: float
    """Seconds from its start to its end."""
    files: Sequence[Mapping[str, Any]]
    """Of each file: "seconds", "memory" (bytes at the peak so far), "joules" or None."""

    @property
    def start(self) -> float:
        """Seconds beside those of its files."""
        return self.total - float(sum(one["seconds"] for one in self.files))


def timed(
    settings: Mapping[str, Any], folder: Path, sources: Sequence[str], *, cpu: bool = False
) -> Timed:
    """Encode or decode `sources` into `folder`; see `main`.

    `cpu`: in seconds of the processor, not of a clock. Raises GsvcError where the process fails.
    """
    command = [sys.executable, "-m", __name__, *([CPU] if cpu else [])]
    command += [json.dumps(dict(settings)), str(folder), *sources]
    # Of the processor, by processes that have ended.
    clock: Callable[[], float] = (lambda: sum(os.times()[2:4])) if cpu else time.perf_counter
    began = clock()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    total = clock() - began
    if done.returncode:
        raise GsvcError((done.stderr.strip().splitlines() or ["a process failed"])[-1])
    return Timed(total, [json.loads(line) for line in done.stdout.splitlines()])


def run_one(
    settings: dict[str, Any], folder: Path, source: str, clock: Callable[[], float]
) -> dict[str, float | None]:
    """Seconds, bytes at the peak of the process so far, and joules where counters tell."""
    from gsvc.codec.api.decode_file import decode
    from gsvc.codec.api.decoder_settings import DecoderSettings
    from gsvc.codec.api.encode_file import encode
    from gsvc.codec.api.encoder_settings import EncoderSettings

    meter = None
    with suppress(ConfigError):
        meter = EnergyMeter()
    with meter or nullcontext():
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
    """Encode or decode files, one after the other; one JSON line for each.

    `[--cpu] '{"preset": "fast"}' FOLDER IN ...`, or with the settings of a decoder: a process of
    its own, because memory at the peak is one number for a process. --cpu: the processor's seconds.
    """
    cpu = arguments[0] == CPU
    settings, folder, *sources = arguments[cpu:]
    clock = time.process_time if cpu else time.perf_counter
    for source in sources:
        print(json.dumps(run_one(json.loads(settings), Path(folder), source, clock)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
