"""The section of the model card on weights that a run made, and the table of their scores."""

import json
from collections.abc import Mapping
from typing import Any

from gsvc.decoders.training.adoption.candidate import Candidate
from gsvc.decoders.training.adoption.scores import LEVELS, Scores

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
    prior = ", with its prior" if candidate.has_own_prior else ""
    return f"""## {candidate.name}

{_USES[candidate.network]}
{candidate.network}{prior}, {candidate.parameters} parameters in half precision; SHA-256 {digest}.
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
