"""Damage is never silent: a sample of what `corruption_matrix` tries on every byte."""

import pytest

from corruption_matrix import (
    BEGINS_LATER,
    DAMAGES,
    FLAGGED,
    GOLDEN,
    NOTHING,
    SAME,
    WAYS,
    Original,
    outcome,
)

TYPED = {
    "BitstreamError",
    "ForeignFileError",
    "TruncatedStreamError",
    "ChecksumError",
    "LimitError",
    "VersionError",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    data = (GOLDEN / "held_and_moved.gsv").read_bytes()
    return Original(data, tmp_path_factory.mktemp("matrix"))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("way", WAYS)
def test_damage_is_refused_or_flagged(way: str, damage: str, original: Original) -> None:
    data = (GOLDEN / "held_and_moved.gsv").read_bytes()
    copies = list(DAMAGES[damage](data))
    first, step = (8, 67) if way == "file" else (40, 17)
    found = {outcome(WAYS[way], original, copy) for copy in [*copies[:first], *copies[40::step]]}
    permitted = TYPED | ({FLAGGED, BEGINS_LATER, NOTHING, SAME} if way == "wire" else set())
    assert found <= permitted
    assert way != "wire" or FLAGGED in found


def test_nothing_is_held_against_a_whole_stream(original: Original) -> None:
    data = (GOLDEN / "held_and_moved.gsv").read_bytes()
    assert {outcome(way, original, data) for way in WAYS.values()} == {SAME}
