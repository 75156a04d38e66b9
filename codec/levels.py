"""The four levels: how key pictures are chosen and coded, and what the scaffold may hold."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """Settings of one level.

    `spacing`: longest time between key pictures, seconds; `closest`: shortest, seconds. Between the two a key
    picture is added where motion alone would leave more than `tolerance` (mean distortion, see
    `gsvc.encoders.distortion`). `eighths`: size of key pictures in eighths of the display size; `crf`: their quality.
    `block_log2`: corrections of motion on blocks of 2^n cells, or None; `anchors`: at most so many an interval.
    """

    spacing: float
    closest: float
    tolerance: float
    eighths: int
    crf: int
    block_log2: int | None
    anchors: int


LEVELS = (
    Level(spacing=1.6, closest=0.4, tolerance=0.6, eighths=6, crf=63, block_log2=3, anchors=3),
    Level(spacing=1.3, closest=0.3, tolerance=0.5, eighths=8, crf=63, block_log2=2, anchors=3),
    Level(spacing=1.0, closest=0.15, tolerance=0.4, eighths=8, crf=58, block_log2=2, anchors=3),
    Level(spacing=0.6, closest=0.1, tolerance=0.3, eighths=8, crf=48, block_log2=1, anchors=3),
)
"""Index = level."""

GROUP_SECONDS = 4.0
"""Longest time between intra pictures: how long a receiver waits to join."""
