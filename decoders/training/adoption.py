"""Taking a run's weights home: checked, scored against what ships, shipped if they are better.

Scores are on held-out clips, by the two judges of the headline.
"""

import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gsvc.codec.api import decoder_settings, encoder_settings
from gsvc.codec.bitstream import container, group
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, InputError, MissingModelError
from gsvc.codec.bitstream.frames import Picture, VideoFormat
from gsvc.codec.media.output import atomic_folder
from gsvc.codec.weights.model_files import sha256_of
from gsvc.codec.weights.safetensors_files import CLASS, OWN_PRIOR, PRIOR, SUMS, fit_weights
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.decoders import interpolation
from gsvc.decoders.interpolation.ifnet import IFNet
from gsvc.decoders.interpolation.rife import SHIPPED, LearnedRenderer, load_rife
from gsvc.decoders.keyframes import backends, compact, windowed
from gsvc.decoders.keyframes.compact.network import CompactRefiner
from gsvc.decoders.keyframes.priors.prior_networks import PRIORS
from gsvc.decoders.keyframes.refiner import Refiner
from gsvc.decoders.keyframes.windowed.window_network import WindowRestorer
from gsvc.decoders.streams.reconstruction import Reconstruction, StrictTimeline
from gsvc.decoders.training.tensors import AVERAGE, read_average, write_tensors
from gsvc.eval.baselines.gsvc import coded, decoded
from gsvc.eval.metrics import find_metric

MOST_BYTES = 30_000_000
"""Of a file that ships with gsvc."""

_NETWORKS: Mapping[str, Callable[..., nn.Module]] = {
    "CompactRefiner": CompactRefiner,
    "WindowRestorer": WindowRestorer,
    "IFNet": IFNet,
}


class Candidate(NamedTuple):
    """Weights that may ship."""

    name: str
    """Of its files: of the recipe, or `rife`, under which learned motion is looked for."""
    network: str
    """Name of the network's class."""
    settings: dict[str, Any]
    state: dict[str, Tensor]
    """In half precision: that is how they ship, and how they are scored. With its prior's, where
    the run has changed that."""
    run: dict[str, Any]

    @property
    def manifest(self) -> dict[str, Any]:
        """Of the pack that it was trained on; empty where the run does not tell."""
        told = self.run.get("pack")
        return told if isinstance(told, dict) else {}

    @property
    def has_own_prior(self) -> bool:
        """Whether the state has its prior's weights."""
        return any(name.startswith(PRIOR) for name in self.state)


def read_candidate(folder: Path) -> Candidate:
    """The average of a run, of its folder.

    Raises InputError where there is none, or it is damaged, MissingModelError where it is not
    finite or does not fit networks of this version.
    """
    path = folder / AVERAGE
    tensors, run = read_average(path)
    try:
        name = Path(run["recipe"]["name"]).stem
        (first, network), *others = run["networks"].items()
        kind, settings = network["class"], network.get("settings", {})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} does not say which networks it is for: {error}") from error
    if kind not in _NETWORKS or [part for part, _ in others] not in ([], ["prior"]):
        raise MissingModelError(f"{path} is for {', '.join(run['networks'])}: nothing runs these")
    state = {key.removeprefix(f"{first}."): value.half() for key, value in tensors.items()}
    if kind == "IFNet":
        name = SHIPPED.stem
    candidate = Candidate(name, kind, settings, state, run)
    _check(candidate, path)
    return candidate


def _check(candidate: Candidate, path: Path) -> None:
    state = candidate.state
    broken = [key for key, value in state.items() if not torch.isfinite(value).all()]
    if broken:
        raise MissingModelError(f"{path}: {broken[0]} is not finite: the training went astray")
    try:
        made = nn.ModuleDict({"own": _NETWORKS[candidate.network](**candidate.settings)})
        if candidate.has_own_prior:
            made["prior"] = PRIORS[candidate.settings["prior"]]()
    except (KeyError, TypeError, ValueError) as error:
        why = f"{path} has settings of another {candidate.network}: {error}"
        raise MissingModelError(why) from error
    named = {k if k.startswith(PRIOR) else f"own.{k}": value for k, value in state.items()}
    fit_weights(made, named, path)


def write_candidate(candidate: Candidate, folder: Path) -> Path:
    """Write NAME.safetensors and NAME.json into a folder; returns the path of the former.

    Raises MissingModelError where it would be larger than `MOST_BYTES`, OutputError where the
    folder cannot be written.
    """
    settings: dict[str, Any] = {CLASS: candidate.network, **candidate.settings}
    if candidate.has_own_prior:
        settings[OWN_PRIOR] = True
    with atomic_folder(folder) as part:
        weights = part / f"{candidate.name}.safetensors"
        try:
            write_tensors(weights, candidate.state, {}, MOST_BYTES)
        except ValueError as error:
            raise MissingModelError(f"too large to ship: {error}") from error
        weights.with_suffix(".json").write_text(json.dumps(settings, indent=2) + "\n")
    return folder / weights.name


_PACKAGES: dict[str, ModuleType] = {
    "CompactRefiner": compact,
    "WindowRestorer": windowed,
    "IFNet": interpolation,
}


def shipping_folder(network: str) -> Path:
    """Where weights of a class of network ship from."""
    return Path(_PACKAGES[network].__path__[0]) / "weights"


def ship(weights: Path, folder: Path) -> None:
    """Copy weights and their `.json` into a folder of the package, and state their checksums there.

    Raises OutputError where it cannot be written.
    """
    files = weights, weights.with_suffix(".json")
    sums = folder / SUMS
    lines = sums.read_text().splitlines() if sums.exists() else []
    names = {file.name for file in files}
    kept = [line for line in lines if line.split()[-1] not in names]
    new = [f"{sha256_of(file)}  {file.name}" for file in files]
    with atomic_folder(folder) as part:
        for file in files:
            shutil.copyfile(file, part / file.name)
        text = "\n".join(sorted([*kept, *new], key=lambda line: line.split()[-1]))
        (part / SUMS).write_text(text + "\n")


LEVELS = 1, 2
_STRIDE = 7
"""Every so many frames ST-LPIPS is measured, as in the benchmark; CVVDP sees all."""

Way = Callable[[bytes], list[Picture]]


class Score(NamedTuple):
    """Of one way to decode, on average over clips."""

    cvvdp: float
    """JOD; higher is better."""
    st_lpips_vgg: float
    """Lower is better."""


class Scores(NamedTuple):
    """All that was compared."""

    clips: Sequence[str]
    frames: int
    """Of all clips together."""
    bpp: Mapping[int, float]
    """Bits per pixel by level."""
    ways: Mapping[str, Mapping[int, Score]]

    def mean(self, way: str) -> Score:
        """Over the levels."""
        return Score(*np.mean(list(self.ways[way].values()), axis=0).tolist())


_LEAST = Score(0.01, -0.0005)
"""By how much the judges must differ: half precision alone changes them by a hundredth of it."""


def is_better(one: Score, other: Score) -> bool:
    """Whether both judges say so."""
    by_sight, by_texture = np.subtract(one, other)
    return bool(by_sight >= _LEAST.cvvdp and by_texture <= _LEAST.st_lpips_vgg)


def score(
    clips: Sequence[Path], frames: int, ways: Mapping[str, Way], tell: Callable[[str], None]
) -> Scores:
    """Code and judge the first `frames` frames of each clip.

    Clips are scaled to the protocol's 288 lines. `tell` is called before each stream. Errors as of
    `load_clip` and of metrics.
    """
    found: dict[str, dict[int, list[Score]]] = {way: {n: [] for n in LEVELS} for way in ways}
    rates: dict[int, list[float]] = {level: [] for level in LEVELS}
    count = 0
    for path in clips:
        pictures, rate = load_clip(path, frames)
        clip = TestClip(path.name, pictures, rate)
        count += len(pictures)
        for level in LEVELS:
            tell(f"{path.name}, level {level}")
            data = _coded(clip, level)
            rates[level].append(8 * len(data) / sum(p.shape[0] * p.shape[1] for p in pictures))
            judged = _judged(clip, [way(data) for way in ways.values()])
            for way, one in zip(ways, judged, strict=True):
                found[way][level].append(one)
    means = {
        way: {level: Score(*np.mean(some, axis=0).tolist()) for level, some in levels.items()}
        for way, levels in found.items()
    }
    bpp = {level: float(np.mean(some)) for level, some in rates.items()}
    return Scores([path.name for path in clips], count, bpp, means)


def _judged(clip: TestClip, tests: Sequence[Sequence[Picture]]) -> list[Score]:
    indices = range(0, len(clip.frames), _STRIDE)
    columns = [
        np.nanmean(find_metric(judge).measure(clip, tests, indices), axis=1).tolist()
        for judge in Score._fields
    ]
    return [Score(*row) for row in zip(*columns, strict=True)]


def _coded(clip: TestClip, level: int) -> bytes:
    form = clip.format
    video = VideoFormat(form.width, form.height, 1 / clip.frame_rate, clip.frame_rate)
    return coded(clip.frames, video, encoder_settings.EncoderSettings(level=level))


def refined(refiner: Refiner | None, steps: int) -> Way:
    """Frames with a refiner; 0 steps: without."""
    return partial(decoded, settings=decoder_settings.DecoderSettings(steps=steps), refiner=refiner)


def moved(rife: IFNet) -> Way:
    """Frames between key pictures by learned motion, the others as they are decoded."""

    def way(data: bytes) -> list[Picture]:
        reader = container.StreamReader(io.BytesIO(data))
        groups, make = group.GroupReader(reader.header), partial(LearnedRenderer, rife=lambda: rife)
        reconstruction = Reconstruction(reader.header, groups, attrgetter("picture"), make)
        timeline = StrictTimeline(reader.header, reconstruction, DEFAULT_LIMITS)
        return [drawn.frame.pixels for packet in reader for drawn in timeline.frames(packet)]

    return way


_STEPS = {"CompactRefiner": (1, 2, 4), "WindowRestorer": (1,)}
_FAMILIES = {"CompactRefiner": "compact", "WindowRestorer": "windowed"}


class Comparison(NamedTuple):
    """What is compared with what."""

    ways: dict[str, Way]
    candidate: str
    """The way that must be better: the candidate's, with one step."""
    rivals: tuple[str, ...]
    """The ways that it must be better than: of what ships under its name; of the default and of no
    refiner where nothing does."""


def comparison(candidate: Candidate, weights: Path) -> Comparison:
    """Of a candidate whose file is `weights`. Errors as of `load_refiner` and `load_rife`."""
    if candidate.network == "IFNet":
        ways = {
            "motion of the decoder": refined(None, 0),
            "RIFE as it is now": moved(load_rife()),
            "RIFE of this run": moved(load_rife(weights=weights)),
        }
        _, shipped, own = ways
        return Comparison(ways, own, (shipped,))
    name = f"{_FAMILIES[candidate.network]}:{candidate.name}"
    now = name if name in backends.BACKENDS else "compact"
    ways = {"0 steps": refined(None, 0), f"{now}, 1 step": refined(backends.load_refiner(now), 1)}
    refiner = backends.load_refiner(str(weights))
    for steps in _STEPS[candidate.network]:
        ways[_own(steps)] = refined(refiner, steps)
    rivals = (f"{now}, 1 step",) if now == name else (f"{now}, 1 step", "0 steps")
    return Comparison(ways, _own(1), rivals)


def _own(steps: int) -> str:
    return f"this run, {steps} step{'s' * (steps > 1)}"


def verdict(scores: Scores, compared: Comparison) -> tuple[bool, str]:
    """Whether the candidate is better than its rivals by both judges, and sentences that say so.

    The means over levels decide.
    """
    own = scores.mean(compared.candidate)
    others = {rival: scores.mean(rival) for rival in compared.rivals}
    told = [
        f"{'Better than' if is_better(own, other) else 'Not better by both judges than'} {rival}: "
        f"CVVDP {own.cvvdp - other.cvvdp:+.4f}, "
        f"ST-LPIPS VGG {own.st_lpips_vgg - other.st_lpips_vgg:+.5f}."
        for rival, other in others.items()
    ]
    return all(is_better(own, other) for other in others.values()), " ".join(told)


_USES = {
    "CompactRefiner": "Restores decoded key pictures of gsvc's streams; no other use.",
    "WindowRestorer": "Restores frames that gsvc's decoder draws between key pictures; no other "
    "use.",
    "IFNet": "Motion between decoded key pictures of gsvc's streams: RIFE (Huang et al., ECCV "
    "2022, MIT), tuned.",
}
_TOLD = "step", "seconds", "device"
_SHOWN = "kind", "samples", "held", "side", "loss", "version"


def score_table(scores: Scores) -> str:
    """One row a way to decode, as Markdown; the last two columns are means over the levels."""
    heads = [f"level {level}: {judge}" for level in LEVELS for judge in ("CVVDP", "VGG")]
    lines = [f"| | {' | '.join(heads)} | CVVDP | VGG |", "| --- |" + " ---: |" * (len(heads) + 2)]
    for way, levels in scores.ways.items():
        cells = [*(levels[level] for level in LEVELS), scores.mean(way)]
        numbers = [f"{one.cvvdp:.3f} | {one.st_lpips_vgg:.4f}" for one in cells]
        lines.append(f"| {way} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def card_section(candidate: Candidate, digest: str, scores: Scores | None, verdict: str) -> str:
    """Use, data, training, scores and limits, as Markdown. `digest`: SHA-256 of the weights."""
    facts = {name: candidate.run[name] for name in _TOLD if name in candidate.run}
    parameters = sum(value.numel() for value in candidate.state.values())
    prior = ", with its prior" if candidate.has_own_prior else ""
    return f"""## {candidate.name}

{_USES[candidate.network]}
{candidate.network}{prior}, {parameters} parameters in half precision; SHA-256 {digest}.
Settings: {_listed(candidate.settings)}.

### Data

{_data(candidate.manifest)}

### Training

{_listed(facts)}.
Recipe: {json.dumps(candidate.run["recipe"])}

### Scores

{_scores(scores)}{verdict}

### Limits

Trained and scored on few clips, of some 288 lines, coded by this version of gsvc; what other
content and sizes gain is not known. What is restored is likely, not certain: do not read text or
faces from it that the stream may not hold.
"""


def _data(manifest: Mapping[str, Any]) -> str:
    if not manifest:
        return "The run does not say."
    sources = manifest.get("sources", ())
    shown = {name: manifest[name] for name in _SHOWN if name in manifest}
    held_out = ", ".join(manifest.get("held_out", ())) or "nothing"
    return f"""Crops of {len(sources)} files, coded by the codec: {_listed(shown)}.
Held out: {held_out}. None of gsvc's evaluation clips was trained on."""


def _scores(scores: Scores | None) -> str:
    if scores is None:
        return ""
    rates = ", ".join(f"level {level}: {scores.bpp[level]:.4f} bits a pixel" for level in LEVELS)
    return f"""Of {", ".join(scores.clips)}, held out, {scores.frames} frames ({rates}). CVVDP in
JOD, higher is better; ST-LPIPS VGG, lower is better; neither was trained on.

{score_table(scores)}

"""


def _listed(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items()) or "none told"
