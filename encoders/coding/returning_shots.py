"""Shots that come back: which of a group's shots share an AV1 sequence, and in which slot.

A shot counts as returning if its first picture resembles the last picture of an earlier shot and
takes much less when predicted from that one than alone. Both are tried, small, with a fast preset.
"""

from collections.abc import Sequence

import numpy as np

from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.group import SLOTS
from gsvc.encoders.coding.cuts import thumbnail
from gsvc.encoders.config import CodingConfig
from gsvc.encoders.svt_av1 import encode_pictures
from gsvc.encoders.tuning import PROBE_PRESET, RETURNS_AT, RETURNS_CRF, SURE_CUT

_SCALE = 4


def shared_sequences(shots: Sequence[Sequence[Picture]], config: CodingConfig) -> list[list[int]]:
    """Numbers of the shots that share a sequence, each in one list, by their first shots."""
    found: list[list[int]] = []
    for number, shot in enumerate(shots):
        first = thumbnail(shot[0])
        apart = [np.abs(thumbnail(shots[one[-1]][-1]) - first).mean() for one in found]
        near = int(np.argmin(apart)) if found else 0
        looks_alike = bool(found) and apart[near] < SURE_CUT
        if looks_alike and _goes_on(shots[found[near][-1]][-1], shot[0], config):
            found[near].append(number)
        else:
            found.append([number])
    return found


def _goes_on(last: Picture, first: Picture, config: CodingConfig) -> bool:
    """Whether a shot's first picture takes much less after another shot's last one."""

    def sizes(*pictures: Picture) -> list[int]:
        units = encode_pictures(
            pictures,
            size=config.header.geometry.coded_size(_SCALE if config.can_scale(_SCALE) else 8),
            crf=RETURNS_CRF,
            color=config.header.format.color,
            preset=PROBE_PRESET,
            threads=1,
        )
        return [len(unit) for unit in units]

    return sizes(last, first)[1] < RETURNS_AT * sizes(first)[0]


def in_slots(
    sequences: Sequence[Sequence[int]],
) -> tuple[list[Sequence[int]], dict[int, int | None]]:
    """The sequences, and the slot of each shot; None: opens a group, as no shot before it returns.

    The last slot is for shots that do not come back. Those for which no other one is free do not.
    """
    kept: list[Sequence[int]] = []
    slots: dict[int, int | None] = {}
    ends = [-1] * (SLOTS - 1)
    for shots in sequences:
        free = [slot for slot, end in enumerate(ends) if end < shots[0]]
        if len(shots) > 1 and free:
            slot, ends[free[0]] = free[0], shots[-1]
            kept.append(shots)
        else:
            slot = SLOTS - 1
            kept += [[shot] for shot in shots]
        slots |= dict.fromkeys(shots, slot)
    for shot in slots:
        if not any(one[0] < shot <= one[-1] for one in kept):
            slots[shot] = None
    return kept, slots
