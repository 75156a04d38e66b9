"""Tries the parsers with millions of inputs: `python tools/fuzz_run.py --inputs 1000000`.

Each target runs in its own process, with a memory limit and an alarm for every input. One row for
each target shows the number of inputs, how many were read and how many each error refused, the time
of the slowest input, and the memory that all of them took. An input that crashes, hangs or raises
anything else is written to --keep, for `tests/hostile/`, and the command fails.

`--atheris TARGET` lets libFuzzer look for new paths instead (Linux, `pip install atheris`);
arguments after `--` go to libFuzzer.
"""

import argparse
import logging
import multiprocessing
import random
import resource
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from time import monotonic, perf_counter

sys.path.append(str(Path(__file__).parents[1] / "tests"))

ALARM = 20
"""Seconds after which an input counts as hanging."""
MEMORY = 4 << 30
"""Address space of a process in bytes, of which libraries take one gigabyte."""


@dataclass
class Tally:
    """What came out of one target's inputs."""

    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, 0)
    memory: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)


def make_input(target: str, seed: int, index: int) -> bytes:
    """Input number `index`: equal on every machine."""
    from fuzz_targets import TARGETS

    return TARGETS[target].make(random.Random(f"{seed}/{target}/{index}"))


def work(target: str, seed: int, indices: range, at: "Synchronized[int]", out: Connection) -> None:
    """Try inputs in this process; `at` tells the parent which one killed it."""
    from fuzz_targets import TARGETS
    from gsvc.codec.bitstream.errors import GsvcError

    def too_long(_: int, __: object) -> None:
        raise TimeoutError(f"takes more than {ALARM} s")

    signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    tally, check = Tally(), TARGETS[target].check
    check_start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for index in indices:
        at.value = index
        data = make_input(target, seed, index)
        began = perf_counter()
        signal.setitimer(signal.ITIMER_REAL, ALARM)
        try:
            check(data)
            tally.outcomes["whole"] += 1
        except GsvcError as error:
            tally.outcomes[type(error).__name__] += 1
            if "\n" in str(error):
                tally.faults.append((index, f"an error of several lines: {error!r}"))
        except Exception as error:  # noqa: BLE001 - any at all is a find
            tally.faults.append((index, f"{type(error).__name__}: {error}"))
        signal.setitimer(signal.ITIMER_REAL, 0)
        tally.slowest = max(tally.slowest, (perf_counter() - began, index))
    tally.memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - check_start)
    out.send(tally)


def run_target(target: str, seed: int, count: int) -> Tally:
    """All inputs of one target; where a process dies, that is a fault and another one goes on."""
    spawn = multiprocessing.get_context("spawn")
    total, done = Tally(), 0
    while done < count:
        at = spawn.Value("q", done, lock=False)
        receiver, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(
            target=work, args=(target, seed, range(done, count), at, sender), daemon=True
        )
        process.start()
        sender.close()
        while not receiver.poll(4 * ALARM) and process.is_alive():
            # The alarm cannot break into C: then the parent does.
            before = at.value
            if not receiver.poll(4 * ALARM) and at.value == before:
                process.kill()
        try:
            part: Tally = receiver.recv()
            done = count
        except EOFError:
            process.join()
            part = Tally(faults=[(at.value, f"the process died with code {process.exitcode}")])
            done = at.value + 1
        process.join()
        total.outcomes += part.outcomes
        total.faults += part.faults
        total.slowest, total.memory = (
            max(total.slowest, part.slowest),
            max(total.memory, part.memory),
        )
    return total


def shares(targets: list[str], inputs: int) -> dict[str, int]:
    """`inputs` divided so that dear targets get fewer."""
    from fuzz_targets import TARGETS

    weights = {name: 1 / TARGETS[name].cost for name in targets}
    return {name: -int(-inputs * w // sum(weights.values())) for name, w in weights.items()}


def main() -> int:
    """Run it; 1 if anything but a GsvcError came out."""
    logging.disable()  # what is odd about an input is of no interest here
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all targets together")
    parser.add_argument("--target", action="append", help="only this one (may be repeated)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"), help="folder for faults")
    parser.add_argument("--atheris", metavar="TARGET")
    arguments, rest = parser.parse_known_args()
    if arguments.atheris:
        run_atheris(arguments.atheris, [part for part in rest if part != "--"])
        return 0

    from fuzz_targets import TARGETS

    began, faults, tried = monotonic(), 0, 0
    for target, count in shares(arguments.target or list(TARGETS), arguments.inputs).items():
        tally = run_target(target, arguments.seed, count)
        told = ", ".join(f"{name} {number}" for name, number in tally.outcomes.most_common())
        print(
            f"{target:<16} {count:>8}"
            f"  slowest {1000 * tally.slowest[0]:>7.1f} ms (number {tally.slowest[1]})"
            f"  memory {tally.memory / 1e6:>6.1f} MB  faults {len(tally.faults)}  {told}",
            flush=True,
        )
        for index, what in tally.faults:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            name = arguments.keep / f"{target}-{arguments.seed}-{index}"
            name.write_bytes(make_input(target, arguments.seed, index))
            print(f"  {name}: {what}", flush=True)
        faults, tried = faults + len(tally.faults), tried + count
    print(f"{tried} inputs, {faults} faults, {monotonic() - began:.0f} s")
    return int(faults > 0)


def run_atheris(target: str, more: list[str]) -> None:
    """Coverage-guided search on one target, from a corpus of its made inputs."""
    import atheris

    with atheris.instrument_imports(include=["gsvc"]):
        from fuzz_targets import TARGETS
        from gsvc.codec.bitstream.errors import GsvcError

    check = TARGETS[target].check

    def try_one(data: bytes) -> None:
        try:
            check(data)
        except GsvcError:
            pass

    corpus = Path(f"fuzz-corpus/{target}")
    corpus.mkdir(parents=True, exist_ok=True)
    for index in range(200):
        (corpus / f"seed-{index}").write_bytes(make_input(target, 0, index))
    atheris.Setup([sys.argv[0], f"-timeout={ALARM}", *more, str(corpus)], try_one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
