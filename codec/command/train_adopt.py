"""`gsvc train adopt`: weights of a run, checked, scored against what ships, and shipped."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.arguments import add_json, tell_event

if TYPE_CHECKING:
    from gsvc.decoders.training import adoption

DESCRIPTION = """Check the averaged weights of a run and write them for gsvc decode --backend, with
a section for the model card. With --clips, score them on held-out clips against the shipped
weights, and exit with 1 unless they are better by both CVVDP and ST-LPIPS VGG."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc train adopt`."""
    add = parser.add_argument
    add("run", metavar="RUN", help="the folder of the run, with its average.safetensors")
    add("--clips", metavar="FOLDER", help="the folder of the clips that the pack held out")
    help = "at most N frames of each clip (%(default)s)"
    add("--frames", type=int, default=49, metavar="N", help=help)
    add("--ship", action="store_true", help="put better weights into the package")
    add_json(parser)


def run(options: Namespace) -> int:
    """Check, convert, score, tell, and ship what is better."""
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
