"""The coder of groups of a stream without pictures: it takes frames and gives nothing."""

from gsvc.codec.frames import Picture
from gsvc.encoders.group_coder import CodedPacket, GroupCoder
from gsvc.encoders.tuning import Effort, Level


class NoPictures(GroupCoder):
    """See `GroupCoder`."""

    delay = 0
    quality = None

    def push(
        self, picture: Picture, ticks: int, *, is_cut: bool, opens_group: bool
    ) -> list[CodedPacket]:
        return []

    def flush(self) -> list[CodedPacket]:
        return []

    def drop(self) -> None:
        """Nothing waits."""

    def retarget(
        self,
        bpp: float,
        *,
        exact: bool,
        level: Level | None = None,
        effort: Effort | None = None,
    ) -> None:
        """There is no rate."""

    def close(self) -> None:
        """Nothing is held."""
