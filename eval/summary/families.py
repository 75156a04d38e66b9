"""Codecs of one family judged together: everything that can be done with one bitstream format."""

from collections.abc import Iterator, Mapping, Sequence

from gsvc.eval.facts import CodecFacts
from gsvc.eval.summary.curves import Curve


def family_curves(found: Sequence[Curve], codecs: Mapping[str, CodecFacts]) -> Iterator[Curve]:
    """A curve for each clip and family that has several codecs, with all their points.

    `found`: curves of one metric.
    """
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in found:
        if family := codecs[curve.codec].family:
            groups.setdefault((curve.clip, family), []).append(curve)
    for (clip, family), curves in groups.items():
        if len({curve.codec for curve in curves}) > 1:
            points = sorted((p for c in curves for p in c.points), key=lambda point: point.bpp)
            first = curves[0]
            yield Curve(clip, family, family, first.metric, first.higher_is_better, tuple(points))
