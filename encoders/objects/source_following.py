"""Objects followed through the frames of a source, as analysis follows them through a stream."""

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.types import Interval
from gsvc.decoders.analysis.drafts import Draft
from gsvc.decoders.analysis.finders import Finder
from gsvc.decoders.analysis.following import Following
from gsvc.decoders.analysis.pieces import Piece
from gsvc.decoders.analysis.types import Cost

_LOOK_SECONDS = 0.2
"""Between pictures in which objects are looked for. Nearer ones show a slow thing in one place, and
it is taken for background."""
_OFTEN_SECONDS = 0.1
"""The same, where it is a detector alone that looks, as often as it helps."""


class SourceFollowing:
    """Gives what is in each frame, some frames later: `push` every frame, then `flush`."""

    def __init__(
        self,
        size: tuple[int, int],
        rate: float,
        finder: Finder | None,
        *,
        moving: bool,
        often: bool = False,
    ) -> None:
        """`size`: width and height; `rate`: frames a second; `often`: look twice as often, where
        what moves is not asked for; the rest as of `ObjectRecipe`."""
        seconds = _OFTEN_SECONDS if often and not moving else _LOOK_SECONDS
        self._step = max(1, round(seconds * rate))
        self._following = Following(size, finder, Cost(), every=1, moving=moving, least_gap=1)
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
