"""Faces judged at the end: by the finished pictures of a group, with them and without.

A face stays in an interval where the pictures come nearer to the source inside its box and its
landmarks no farther away, and all stay where they save more than their bits would save in key
pictures. Mostly these remain as they are without faces, in later groups, too, and a rate is
exceeded a little: key pictures that are coded again, a little coarser, come out better here and
worse there by more than faces change. Where the bits are too many, they are, and each face has to
be better all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from gsvc.codec.errors import ConfigError
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.types import Interval
from gsvc.encoders.distortion import Judge
from gsvc.encoders.drawn_interval import DrawnInterval
from gsvc.encoders.face_looks import FaceLooks, Seen, slots_of, with_some
from gsvc.encoders.key_pictures import KeyPictures
from gsvc.encoders.packer import PackedGroup
from gsvc.encoders.people.face_points import FacePoints


@dataclass(frozen=True)
class WaysToPack:
    """How a group may be packed, at its rate."""

    packed: Callable[[KeyPictures, Sequence[Interval]], PackedGroup]
    """With key pictures that are coded again to fit. Raises ConfigError as of `Packer.packed`."""
    repacked: Callable[[PackedGroup, Sequence[Interval]], PackedGroup | None]
    """With other intervals between the same key pictures; None where they take too many bits."""
    views: Callable[[PackedGroup], list[DrawnInterval]]
    """Its intervals as they will be drawn."""


class FaceVerdict:
    """Chooses how to code a group in which faces were found."""

    def __init__(self, geometry: Geometry, judge: Judge, find: FacePoints, pool: Executor) -> None:
        self._pool, self._looks = pool, FaceLooks(geometry, judge, find)

    def chosen(
        self, plain: PackedGroup, faced: Sequence[Interval], ways: WaysToPack, price: float
    ) -> PackedGroup:
        """The group with the faces of `faced` that hold, without those that save least until all
        are worth their bits; or `plain`.

        `price`: the distortion, over pixels and frames, that a bit must save.
        """
        views = ways.views(plain)
        seen = self._looked(views, faced)
        gains = {slot: one.gain(slot) for one in seen.values() for slot in one.faced.inside}
        held = sorted((slot for slot in gains if gains[slot] > 0), key=gains.__getitem__)
        for least in range(len(held)):
            kept = [with_some(interval, n, held[least:]) for n, interval in enumerate(faced)]
            changed = {n for n, _ in set(gains) - set(held[least:])}
            seen |= self._looked(views, kept, changed)
            group = ways.repacked(plain, kept)
            if group is None and not least:
                group = self._recoded(plain, kept, seen, ways)
            saved = sum(one.bare.total - one.faced.total for one in seen.values())
            if group is not None and saved > price * (group.rest - plain.rest):
                return group
        return plain

    def _recoded(
        self,
        plain: PackedGroup,
        faced: Sequence[Interval],
        seen: Mapping[int, Seen],
        ways: WaysToPack,
    ) -> PackedGroup | None:
        """With coarser key pictures that pay for the faces; None where any face loses by it."""
        try:
            group = ways.packed(plain.keys, faced)
        except ConfigError:  # A limit that the group keeps without faces.
            return None
        for n, one in self._looked(ways.views(group), faced).items():
            if any(Seen(seen[n].bare, one.faced).gain(slot) <= 0 for slot in one.faced.inside):
                return None
        return group

    def _looked(
        self,
        views: Sequence[DrawnInterval],
        faced: Sequence[Interval],
        numbers: set[int] | None = None,
    ) -> dict[int, Seen]:
        """By number, intervals under their faces; None: all that have any."""
        chosen = sorted({n for n, _ in slots_of(faced)} if numbers is None else numbers)
        looks = self._pool.map(lambda n: self._looks.seen(n, views[n], faced[n]), chosen)
        return dict(zip(chosen, looks, strict=True))
