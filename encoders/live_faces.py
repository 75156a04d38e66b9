"""Faces without look-ahead: those of an interval, found and judged when its key picture comes.

The frames of the interval are at hand then, and so are the coded pictures around them; nothing else
is needed but what the group said last.
"""

from concurrent.futures import Executor

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layer import Site
from gsvc.codec.scaffold.layers.faces import FACES, Faces
from gsvc.codec.scaffold.types import Interval
from gsvc.encoders.distortion import Judge
from gsvc.encoders.drawn_interval import DrawnInterval
from gsvc.encoders.extraction import Before
from gsvc.encoders.face_looks import FaceLooks, with_some
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.layers.faces import FaceExtractor
from gsvc.encoders.people.face_points import FacePoints

_MOST_PIXELS = 640 * 360 * 30
"""A second, of video that a processor of today codes with faces as fast as it comes."""


class LiveFaces:
    """Finds and judges the faces of one interval after the other."""

    def __init__(self, geometry: Geometry, judge: Judge, find: FacePoints, pool: Executor) -> None:
        self._geometry, self._find = geometry, find
        self._extractor = FaceExtractor(geometry, judge, find, pool)
        self._looks = FaceLooks(geometry, judge, find)

    def in_sight(self, picture: Picture) -> bool:
        """Whether RGB uint8 (H, W, 3) shows a face: a group that opens without one has no layer."""
        squares = self._find.squares(picture)
        return any(self._find.points(picture, square) is not None for square in squares)

    def added(
        self, view: DrawnInterval, before: Before, last: Faces | None, price: float
    ) -> Interval:
        """The interval of `view` with the faces that hold in its finished pictures, without those
        that save least until all are worth their bits.

        `before`: what precedes it; `last`: the faces of the interval before in its group; `price`:
        the distortion, over pixels and frames, that a bit must save.
        """
        plain = view.interval
        (faced,) = self._extractor.added([view], before, price, last)
        seen = self._looks.seen(0, view, faced)
        gains = {slot: seen.gain(slot) for slot in seen.faced.inside}
        held = sorted((slot for slot in gains if gains[slot] > 0), key=gains.__getitem__)
        for least in range(len(held)):
            kept = with_some(faced, 0, held[least:])
            if len(held) - least < len(gains):
                seen = self._looks.seen(0, view, kept)
            bits = FACES.bits(Site(self._geometry, plain.place, plain.length), last, kept[FACES])
            if seen.bare.total - seen.faced.total > price * bits:
                return kept
        return plain


def live_faces(recipe: Recipe, judge: Judge, pool: Executor) -> LiveFaces | None:
    """None where faces are not to be sent, a model is not here or the video is too large."""
    form = recipe.header.format
    if form.width * form.height * form.frame_rate > _MOST_PIXELS:
        return None
    find = recipe.face_points(judge)
    return None if find is None else LiveFaces(recipe.header.geometry, judge, find, pool)
