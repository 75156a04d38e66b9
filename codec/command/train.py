"""`gsvc train`: weights of refiners, from video to what ships."""

from argparse import Namespace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.errors import ConfigError, InputError, OutputError
from gsvc.codec.command.arguments import tell_event
from gsvc.codec.command.main import Verb, find_verb
from gsvc.codec.weights.extras import need
from gsvc.decoders.training.recipe import add_train_arguments, recipe_texts

if TYPE_CHECKING:
    from gsvc.decoders.training import adoption
    from gsvc.decoders.training.packing import PartFolder

USAGE = """Train refiners on footage. Needs gsvc[eval]."""

ACTIONS = {
    "pack": ("make a pack of training samples", "train:PACK"),
    "run": ("train on a pack", "train:RUN"),
    "shards": ("train on shards, in any number of processes", "train_shards"),
    "plan": ("predict the memory of a run, and choose a layout", "train_plan"),
    "adopt": ("check, score and ship the weights of a run", "train:ADOPT"),
    "export": ("write the trainer as one file", "train:EXPORT"),
}


def run(options: Namespace) -> int:
    """Carry out the action."""
    need("eval", "gsvc train")
    return find_verb(ACTIONS[options.action][1]).run(options)


_RUN = """Train a network by a recipe on a pack of gsvc train pack. RUN gets averaged weights,
tables of losses and scores and a sheet of pictures. gsvc train adopt makes weights for gsvc decode
--backend of them. gsvc train export writes this trainer as one file for other machines."""


def _run(options: Namespace) -> int:
    """Train; under torchrun, together with the other processes."""
    from gsvc.decoders.training.main import train
    from gsvc.decoders.training.parallel import ended

    return ended(train(options))


RUN = Verb(_RUN, _run, add_arguments=add_train_arguments)
_TARGET = "train_standalone.pyz"
_MAIN = "gsvc.decoders.training.main"
_RECIPES = "gsvc/decoders/training/recipes"
_EXPORT = f"""Write the trainer and its recipes as one file, for a machine that has Python, torch,
numpy, Pillow and safetensors: python3 {_TARGET} PACK RUN --recipe nano --minutes 9

target [FILE]           the file to write (={_TARGET})
"""


def _export(options: Namespace) -> int:
    from gsvc.decoders.training.app import write_app

    recipes = {f"{_RECIPES}/{name}.toml": text for name, text in recipe_texts().items()}
    write_app(Path(options.target), _MAIN, recipes)
    print(options.target)
    return 0


EXPORT = Verb(_EXPORT, _export)


_PACK = """Code a folder of videos and photographs as streams of any rate, and pack crops of
the decoded pictures with those of the source. PACK.parts keeps finished parts: the same command
continues.

data DATA               the folder of videos, photographs and cut-outs
pack PACK               the file to write
--kind {pictures,windows}  kind of samples (=pictures)
--megabytes MB          largest size of the file, in units of 1000000 bytes (=55)
--minutes M             longest time to make parts (=60)
--held-out NAME...      files to hold out for scoring
--seed N                seed of all random choices (=0)
--jobs -j N             processes (=1)
--json
"""
_LINE_SECONDS = 10.0
_MEGABYTE = 1_000_000
_SURPLUS = 1.05  # parts that are made for the room of 1: they leave no large rest


def _pack(options: Namespace) -> int:
    """Make the parts that are missing, then the pack of as many as fit."""
    from gsvc.decoders.training.crops import KINDS
    from gsvc.decoders.training.footage import find_footage
    from gsvc.decoders.training.frozen import frozen_networks
    from gsvc.decoders.training.packing import PartFolder, PartMaker, assemble, room_for_samples

    data, path = Path(options.data), Path(options.pack)
    if options.jobs < 1:
        raise ConfigError(f"jobs {options.jobs}: take 1 or more")
    if path.is_dir():
        raise OutputError(f"{path} is a folder: give the name of a file in it")
    files, held = find_footage(data, options.held_out)
    maker = PartMaker(options.kind, options.seed, data, files, held)
    networks = frozen_networks(KINDS[options.kind].networks)
    most = int(options.megabytes * _MEGABYTE)
    room = room_for_samples(most, networks)
    folder = PartFolder(path.with_name(path.name + ".parts"), maker)
    _fill(options, folder, room)
    manifest = assemble(path, folder, networks, most)
    told = {name: manifest[name] for name in ("samples", "held", "loss")}
    tell_event(options, "done", pack=str(path), bytes=path.stat().st_size, **told)
    return 0


def _fill(options: Namespace, folder: "PartFolder", room: int) -> None:
    """Make parts until they are more than fit, or time is up."""
    begun = told = monotonic()
    there = folder.sizes()
    size, samples = sum(part.bytes for part in there), sum(part.samples for part in there)
    enough, seconds = _SURPLUS * room, 60 * options.minutes
    for part in folder.make(options.jobs) if size < enough and seconds > 0 else ():
        size, samples, now = size + part.bytes, samples + part.samples, monotonic()
        is_over = size > enough or now - begun > seconds
        if is_over or now - told > _LINE_SECONDS:
            told, spent = now, round(now - begun, 1)
            tell_event(options, "made", samples=samples, bytes=size, room=room, seconds=spent)
        if is_over:
            break
    if not samples:
        raise InputError(f"nothing was made in {options.minutes:g} minutes: give more --minutes")


PACK = Verb(_PACK, _pack)


_ADOPT = """Check the averaged weights of a run and write them for gsvc decode --backend, with
a section for the model card. With --clips, score them on held-out clips against the shipped
weights, and exit with 1 unless they are better by both CVVDP and ST-LPIPS VGG.

run RUN                 the folder of the run, with its average.safetensors
--clips FOLDER          the folder of the clips that the pack held out
--frames N              at most N frames of each clip (=49)
--ship                  put better weights into the package
--json
"""


def _adopt(options: Namespace) -> int:
    from gsvc.codec.media.output import explain_failure
    from gsvc.codec.weights.model_files import sha256_of
    from gsvc.decoders.training import adoption

    if options.ship and not options.clips:
        raise ConfigError("--ship needs --clips: only what was scored may ship")
    folder = Path(options.run)
    candidate = adoption.read_candidate(folder)
    clips = _held_out(candidate, Path(options.clips)) if options.clips else []
    weights = adoption.write_candidate(candidate, folder)
    scores, better, verdict = None, True, "Not scored: --clips FOLDER scores them."
    if clips:
        scores, better, verdict = _scored(options, candidate, weights, clips)
    card = folder / "MODEL_CARD.md"
    with explain_failure(card):
        card.write_text(adoption.card_section(candidate, sha256_of(weights), scores, verdict))
    if options.ship and better:
        adoption.ship(weights, adoption.shipping_folder(candidate.network))
        verdict += f" Shipped in {adoption.shipping_folder(candidate.network)}."
    tell_event(options, "done", weights=str(weights), card=str(card), verdict=verdict)
    return int(not better)


def _held_out(candidate: "adoption.Candidate", folder: Path) -> list[Path]:
    """The clips that the run's pack held out, below a folder."""
    names = set(candidate.manifest.get("held_out", ()))
    if not names:
        raise ConfigError("the run held nothing out: it cannot be scored")
    clips = [path for path in sorted(folder.rglob("*")) if path.name in names]
    missing = names - {path.name for path in clips}
    if missing:
        raise ConfigError(f"held out, but not below {folder}: {' '.join(sorted(missing))}")
    return clips


def _scored(
    options: Namespace, candidate: "adoption.Candidate", weights: Path, clips: list[Path]
) -> "tuple[adoption.Scores, bool, str]":
    """Scores, whether the candidate is better, and a sentence that says so; shows the table."""
    from gsvc.decoders.training import adoption

    compared = adoption.comparison(candidate, weights)
    scores = adoption.score(
        clips,
        options.frames,
        compared.ways,
        lambda line: tell_event(options, "scoring", stream=line),
    )
    if options.json:
        for way, levels in scores.ways.items():
            for level, one in levels.items():
                tell_event(options, "score", way=way, level=level, **one._asdict())
    else:
        print(adoption.score_table(scores), flush=True)
    return scores, *adoption.verdict(scores, compared)


ADOPT = Verb(_ADOPT, _adopt)
