"""What a run records of its codecs, so that summaries and plots need not load them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CodecFacts:
    """What tables and plots have to know of a codec."""

    family: str = ""
    """Codecs of one family also have a joint hull, which tables call by this name; empty: none."""
    is_anchor: bool = False
    """Its hull is what the others are measured against: true of the conventional codecs."""
    colour: str = ""
    """Of its curves, "#rrggbb"; empty: the next free one of the palette."""
    marker: str = "o"
    """Shape of its points, as matplotlib names it."""
