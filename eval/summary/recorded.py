"""What a run's tables need to know of its metrics and codecs, as the run recorded it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gsvc.eval.bench.record import CellRecord
from gsvc.eval.facts import CodecFacts

PRIMARY = ("cvvdp", "st_lpips_vgg")
"""The judges of the headline: what an eye sees of a video on a display, and texture."""


@dataclass(frozen=True)
class MetricInfo:
    """A metric of a run."""

    name: str
    unit: str
    """"dB", "" for none."""
    higher_is_better: bool
    per_frame: bool
    """False: one number for the whole clip."""
    version: str
    """Package and variant; empty where it never gave a number."""

    @property
    def title(self) -> str:
        """For tables and axes: name, unit, which way is better."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.name}{unit}, {'higher' if self.higher_is_better else 'lower'} is better"


def metrics_of(settings: Mapping[str, Any], cells: Sequence[CellRecord]) -> list[MetricInfo]:
    """The metrics of run.json that any cell was scored with, the primary ones first."""
    versions: dict[str, str] = {}
    for cell in cells:
        for decode in cell.decodes:
            for name, scores in decode.scores.items():
                versions[name] = versions.get(name) or scores.version
    known = settings.get("metrics", {})
    ordered = sorted(versions, key=lambda n: PRIMARY.index(n) if n in PRIMARY else len(PRIMARY))
    return [
        MetricInfo(name, **{**known[name], "version": versions[name]})
        for name in ordered
        if name in known
    ]


def codecs_of(settings: Mapping[str, Any], cells: Sequence[CellRecord]) -> dict[str, CodecFacts]:
    """The facts of the cells' codecs, by name.

    A run made before run.json had them gets those of this version's codecs. "anchors" of run.json,
    where there are any, are the anchors.
    """
    known = settings.get("codec_facts")
    if known is None:
        from gsvc.eval.codecs import codecs, find_codec

        ours = {cell.codec for cell in cells} & set(codecs())
        known = {name: asdict(find_codec(name).facts) for name in ours}
    found = {cell.codec: CodecFacts(**known.get(cell.codec, {})) for cell in cells}
    anchors = settings.get("anchors")
    if not anchors:
        return found
    return {name: replace(facts, is_anchor=name in anchors) for name, facts in found.items()}
