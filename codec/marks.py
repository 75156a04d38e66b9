"""What a video that trained models drew says of its making: one line, with IPTC's term for it."""

import re
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice

from gsvc.codec.decoder_settings import DecoderSettings

SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""IPTC's digital source type of media that trained models drew in part."""

NO_ROOM = "%s: this format cannot say that trained models drew it: use .mp4, .mkv, .png or .jpg"
"""A warning, of the target."""
_MOST = 16
"""Marks that are read of a text."""
_LINE = re.compile(
    r"gsvc (?P<version>[\w.+-]{1,40}) decoded this: synthetic=yes steps=(?P<steps>\d{1,3}) "
    r"backend=(?P<backend>[\w.:-]{1,80}) motion=(?P<motion>\w{1,20}) digitalSourceType=",
    re.ASCII,
)


@dataclass(frozen=True)
class Mark:
    """Which trained models drew the frames of a video."""

    version: str
    """Of gsvc."""
    steps: int
    """Steps of the refiner; 0 for none."""
    backend: str
    """Name of the refiner; "none" without steps."""
    motion: str
    """What drew the frames between pictures: "dis", which is not trained, or "rife"."""

    def __str__(self) -> str:
        """The line, of letters, digits and a few signs, which `find_marks` reads again."""
        return (
            f"gsvc {self.version} decoded this: synthetic=yes steps={self.steps} "
            f"backend={self.backend} motion={self.motion} digitalSourceType={SOURCE_TYPE}"
        )


def mark_of(settings: DecoderSettings) -> Mark | None:
    """The mark of what a decoder with these settings makes; None where nothing is generated."""
    if not settings.steps and settings.motion == "dis":
        return None
    # The name alone of a file of weights: its folder is nobody's business.
    name = re.sub(r"[^\w.:-]", "-", re.split(r"[/\\]", settings.backend)[-1], flags=re.ASCII)
    backend = name[-80:] if settings.steps else "none"
    return Mark(version("gsvc"), settings.steps, backend, settings.motion)


def find_marks(text: str) -> tuple[Mark, ...]:
    """The marks in a text, the last decoder's first: a video may have been decoded repeatedly."""
    return tuple(
        Mark(found["version"], int(found["steps"]), found["backend"], found["motion"])
        for found in islice(_LINE.finditer(text), _MOST)
    )


def marked_comment(mark: Mark, comment: str) -> str:
    """A mark before the comment that the source had, whose own marks thus stay."""
    return str(mark) if comment in ("", str(mark)) else f"{mark} | {comment}"
