"""Objects followed through the frames of a source, as analysis follows them through a stream."""

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.analysis.drafts import Draft
from gsvc.decoders.analysis.finders import Finder
from gsvc.decoders.analysis.following import LEAST_GAP, Following
from gsvc.decoders.analysis.pieces import Piece
from gsvc.decoders.analysis.types import Cost

_LOOK_SECONDS = 0.12
"""Between pictures in which objects are followed."""
_DETECT_SECONDS = 0.2
"""Least seconds between runs of the detector."""
_SIDE = 256
"""Pixels, the longer side of pictures in which what moves is cut out: bits depend on it."""


class SourceFollowing:
    """Gives what is in each frame, some frames later: `push` every frame, then `flush`."""

    def __init__(
        self,
        size: tuple[int, int],
        rate: float,
        finder: Finder | None,
        *,
        moving: bool,
        each: bool = False,
    ) -> None:
        """`size`: width and height; `rate`: frames a second; `each`: look at every frame, whatever
        it takes; the rest as of `ObjectRecipe`."""
        self._step = 1 if each else max(1, round(_LOOK_SECONDS * rate))
        self._following = Following(
            size,
            finder,
            Cost(),
            every=1 if each else max(1, round(_DETECT_SECONDS * rate)),
            moving=moving,
            side=_SIDE,
            least_gap=1 if each else LEAST_GAP,
        )
        self._waiting: list[int] = []
        self._picture: Picture | None = None
        self._frames = 0

    def push(self, picture: Picture, ticks: int, *, is_cut: bool) -> list[Draft]:
        """Take a frame, RGB uint8 (H, W, 3), `ticks` after the one before; give what is decided."""
        opens = is_cut or self._picture is None
        drafts = self._look(begins=False) if is_cut else []
        self._waiting.append(ticks)
        self._picture = picture
        self._frames += 1
        if opens or len(self._waiting) == self._step:
            drafts += self._look(begins=opens)
        return drafts

    def flush(self) -> list[Draft]:
        """All other frames."""
        return [*self._look(begins=False), *self._following.finish()]

    def _look(self, *, begins: bool) -> list[Draft]:
        """Follow objects to the last frame taken."""
        ticks, self._waiting = self._waiting, []
        if not ticks:
            return []
        piece = Piece(Interval(tuple(ticks)), None, ticks, begins, self._picture)
        first = self._frames - len(ticks)
        drafts = [Draft(first + k, tick, piece, k + 1) for k, tick in enumerate(ticks)]
        return self._following.take(piece, drafts)
