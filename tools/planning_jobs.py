"""What encoding took, beside what was foretold.

`python tools/planning_jobs.py CLIP ... --log FILE`: each clip, 97 frames of 288 lines, is
encoded in processes of their own with each preset, at a rate in the middle of its trial. The log is
one of predictions, for `planning_fit --log` and `gsvc bench plan --log`; the table shows
the errors of the numbers that gsvc ships. With --cpu, seconds are the processor's, of the trial
too: on a machine that others use.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from gsvc.codec.bitstream.errors import GsvcError
from gsvc.codec.planning.machine_profile import WAYS, Profile, load_profile
from gsvc.codec.planning.prediction import PlanSettings, Predictor, Truth, note
from gsvc.codec.planning.process import timed
from gsvc.codec.planning.video_trial import try_video
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.datasets.clips.sets import find_clips
from gsvc.encoders.tuning import PRESETS
from gsvc.eval.layout import markdown
from gsvc.eval.planning.validation import written


def jobs(
    clip: TestClip, profile: Profile, presets: Sequence[str], *, cpu: bool
) -> Iterator[tuple[str, dict[str, Truth]]]:
    """Encode a clip with presets: the preset, and by name what came of what was foretold."""
    with tempfile.TemporaryDirectory() as name:
        source, _ = written(clip, Path(name))
        trial = try_video(str(source), clock=process_time if cpu else perf_counter)
        model = Predictor(trial, profile)
        bitrate = float(np.sqrt(model.rates[0] * model.rates[1]))
        for preset in presets:
            settings = PlanSettings(bitrate, preset, False, WAYS["dis"])
            asked = {"preset": preset, "bitrate": bitrate}
            done = timed(asked, source.parent, [str(source)], cpu=cpu)
            yield preset, _beside(model, settings, done.total, done.files[0]["memory"])


def _beside(
    model: Predictor, settings: PlanSettings, seconds: float, memory: float
) -> dict[str, Truth]:
    seen, raw = model.predict(settings), model.uncorrected.predict(settings)
    time = Truth(seen.encode_seconds, raw.encode_seconds.mean, seconds)
    return {
        "encode_seconds": time,
        f"encode_seconds {settings.preset}": time,
        "encode_memory": Truth(seen.encode_memory, raw.encode_memory.mean, memory),
    }


def _row(clip: str, preset: str, truth: Mapping[str, Truth]) -> list[str]:
    seconds, memory = truth["encode_seconds"], truth["encode_memory"]
    return [
        f"{clip}, {preset}",
        *(f"{value:.1f}" for value in (seconds.predicted.mean, seconds.measured)),
        *(f"{value / 1e6:.0f}" for value in (memory.predicted.mean, memory.measured)),
    ]


def main() -> int:
    """Encode, write the log, show the table and the median errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", nargs="+", metavar="CLIP")
    parser.add_argument("--log", type=Path, required=True, metavar="FILE")
    parser.add_argument("--cpu", action="store_true", help="seconds of the processor")
    told = "repeat for several (all)"
    parser.add_argument("--preset", action="append", choices=tuple(PRESETS), help=told)
    profile = "of this machine, in place of the cache's own"
    parser.add_argument("--profile", type=Path, metavar="FILE", help=profile)
    options = parser.parse_args()
    presets = options.preset or list(PRESETS)
    rows, found = [], list[Mapping[str, Truth]]()
    try:
        machine = load_profile(options.profile)
        for source in find_clips(options.clips):
            clip = source.load()
            for preset, truth in jobs(clip, machine, presets, cpu=options.cpu):
                note(f"{clip.name} {preset}", truth, options.log)
                rows.append(_row(clip.name, preset, truth))
                found.append(truth)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    print(markdown(["", "s foretold", "s", "MB foretold", "MB"], rows))
    for name in ("encode_seconds", "encode_memory"):
        errors = [abs(t[name].predicted.mean / t[name].measured - 1) for t in found]
        print(f"{name.replace('_', ' ')}: median error {100 * np.median(errors):.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
