"""Objects in a stream: what goes in comes out; crowds, wrapped numbers, losses, hostile bytes."""

from dataclasses import replace
from fractions import Fraction

import pytest

import gsvc
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.objects import (
    MAX_OBJECTS,
    MAX_PLACE,
    MAX_TRACK,
    Anchor,
    AnchorMotion,
    ObjectBox,
    ObjectReader,
    ObjectRun,
    ObjectWriter,
    Parts,
)

HEADER = gsvc.Header(gsvc.VideoFormat(320, 192, Fraction(1, 25), Fraction(25)), 0)


def packet(payload: bytes) -> gsvc.Packet:
    return gsvc.Packet(gsvc.PacketType.OBJECTS, 0, payload)


def run_of(*anchors: Anchor, begins: bool = True, parts: Parts | None = None) -> ObjectRun:
    ticks = (1,) * sum(anchor.gap for anchor in anchors)
    return ObjectRun(ticks, anchors, parts or Parts(), begins=begins)


def box(track: int, left: int = 5) -> ObjectBox:
    return ObjectBox(track, "person", left, 7, 20, 40)


def back(*runs: ObjectRun) -> list[ObjectRun]:
    writer, reader = ObjectWriter(HEADER), ObjectReader(HEADER)
    return [reader.read(packet(writer.write(run))) for run in runs]


def objects(run: ObjectRun) -> list[tuple[ObjectBox, ...]]:
    return [anchor.objects for anchor in run.anchors]


def test_what_goes_in_comes_out() -> None:
    moving = box(3, left=9)
    motion = AnchorMotion(200, (-5, 6, 0, 99))
    parts = Parts(2, motion=True)
    first = run_of(Anchor(1, (box(3),), motion=motion), Anchor(5, (moving,), motion=motion))
    other = ObjectBox(9, "fork lift", -3, 0, 0, 1, 4, early=3)
    then = run_of(
        *(Anchor(4, (other,), late={3: 3}, motion=motion), Anchor(1, is_cut=True, motion=motion)),
        begins=False,
    )
    given = [replace(run, parts=parts) for run in (first, then)]
    for run, found in zip(given, back(*given), strict=True):
        assert objects(found) == objects(run) and found.parts == parts
        assert [(a.gap, a.is_cut, a.late, a.motion) for a in found.anchors] == [
            (a.gap, a.is_cut, a.late, a.motion) for a in run.anchors
        ]


def test_what_moves_as_before_takes_a_fraction_of_a_byte() -> None:
    anchors = [Anchor(1 if n == 0 else 12, (box(0, left=4 * n),)) for n in range(40)]
    even = len(ObjectWriter(HEADER).write(run_of(*anchors)))
    anchors = [replace(a, objects=(box(0, left=n * n % 97),)) for n, a in enumerate(anchors)]
    uneven = len(ObjectWriter(HEADER).write(run_of(*anchors)))
    assert even < 30 and uneven < 40 * 3


def test_hundreds_of_objects_come_back() -> None:
    crowd = [tuple(box(t, left=t % 90 + n) for t in range(MAX_OBJECTS)) for n in range(3)]
    (found,) = back(run_of(*(Anchor(1 + n, objects) for n, objects in enumerate(crowd))))
    assert objects(found) == crowd
    with pytest.raises(gsvc.LimitError, match="512"):
        ObjectWriter(HEADER).write(run_of(Anchor(1, (*crowd[0], box(MAX_OBJECTS)))))


def test_no_objects_take_two_bytes_a_packet() -> None:
    writer = ObjectWriter(HEADER)
    payloads = [writer.write(run_of(Anchor(250), begins=not n)) for n in range(20)]
    assert max(map(len, payloads)) <= 7 and len(payloads[-1]) <= 4
    (empty,) = back(ObjectRun((), (), begins=True))
    assert not empty.ticks and not empty.anchors


def test_numbers_of_tracks_wrap() -> None:
    rounds = [(box(MAX_TRACK - 1), box(MAX_TRACK)), (box(MAX_TRACK), box(0)), (box(0), box(1))]
    (found,) = back(run_of(*(Anchor(1, objects) for objects in rounds)))
    assert objects(found) == rounds


def test_times_come_back() -> None:
    run = ObjectRun((1, 7, 40, 1), (Anchor(4),), begins=True)
    assert back(run)[0].ticks == run.ticks


def test_after_a_lost_packet_it_goes_on_where_one_can_be_read_alone() -> None:
    runs = [run_of(Anchor(3, (box(n),)), begins=n in (0, 3)) for n in range(5)]
    writer, reader = ObjectWriter(HEADER), ObjectReader(HEADER)
    packets = [packet(writer.write(run)) for run in runs]
    reader.read(packets[0])
    with pytest.raises(gsvc.BitstreamError, match="missing"):
        reader.read(packets[2])
    assert objects(reader.read(packets[3])) == objects(runs[3])
    assert objects(reader.read(packets[4])) == objects(runs[4])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (run_of(Anchor(1, (box(4), box(4)))), "same track"),
        (run_of(Anchor(1, (box(0, left=MAX_PLACE),))), "beyond 32768"),
        (ObjectRun((1, 1), (Anchor(1),), begins=True), "end before"),
        (ObjectRun((1, 1), (Anchor(3),), begins=True), "1 to 2 can be"),
    ],
)
def test_what_cannot_be_stored_is_refused(run: ObjectRun, message: str) -> None:
    with pytest.raises(gsvc.GsvcError, match=message):
        ObjectWriter(HEADER).write(run)


def test_a_few_bytes_order_no_more_than_the_limits() -> None:
    reader = ObjectReader(HEADER, gsvc.Limits.restrictive())
    with pytest.raises(gsvc.LimitError, match="257 frames"):
        reader.read(packet(varint(0) + varint(257)))
    for fill in (0x00, 0x5A, 0xFF):
        try:
            run = reader.read(packet(varint(0) + varint(256) + bytes([fill]) * 30))
            assert sum(len(anchor.objects) for anchor in run.anchors) <= 256 * MAX_OBJECTS
        except gsvc.BitstreamError:
            pass
