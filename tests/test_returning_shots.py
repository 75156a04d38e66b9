"""Shots that come back: up to four AV1 sequences a group, each in a slot that losses elsewhere spare."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gsvc
from gsvc.codec.bitstream.container import Salvage
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.media.mapping import mux

GOLDEN = Path(__file__).parent / "golden/returning_shots.gsv"
"""Shots A B A C A B D of three packets each; D begins in the slot of C."""
PLAIN, CONCEAL = gsvc.DecoderSettings(steps=0), gsvc.DecoderSettings(steps=0, conceal=True)


def read() -> tuple[gsvc.Header, list[gsvc.Packet]]:
    index = gsvc.StreamIndex(io.BytesIO(GOLDEN.read_bytes()))
    return index.header, [packet for packet, _ in index.packets(0, index.frames)]


def decode(
    header: gsvc.Header, packets: Sequence[gsvc.Packet], settings: gsvc.DecoderSettings
) -> list[gsvc.Frame]:
    with gsvc.Decoder(header, settings) as decoder:
        return [frame for packet in packets for frame in decoder.decode(packet)]


def sound(packets: Sequence[gsvc.Packet], lost: int) -> Iterator[bool]:
    """For each packet, whether it can be decoded without one of them."""
    broken, slot = set[int](), 0
    for number, packet in enumerate(packets):
        if packet.type == gsvc.PacketType.SHOT:
            slot = packet.payload[0] % 4
            if packet.payload[0] < 4:
                broken.discard(slot)
        if number == lost:
            broken.add(slot)
        yield slot not in broken


@pytest.mark.parametrize("is_damaged", [False, True], ids=["lost", "damaged"])
@pytest.mark.parametrize("lost", [1, 3, 5, 9, 10, 15])
def test_a_lost_packet_spoils_no_slot_but_its_own(lost: int, is_damaged: bool) -> None:
    header, packets = read()
    whole = decode(header, packets, PLAIN)
    kept = [*packets]
    if is_damaged:
        kept[lost] = replace(packets[lost], payload=packets[lost].payload[:1] + b"\xff" * 9)
    else:
        del kept[lost]
    shown = iter(decode(header, kept, CONCEAL))
    expected = iter(whole)
    for packet, is_sound in zip(packets, sound(packets, lost), strict=True):
        for _ in range(packet.frames):
            frame, same = next(shown), next(expected)
            assert abs(frame.pts - same.pts) <= 1
            assert frame.concealed or np.array_equal(frame.pixels, same.pixels)
            assert frame.concealed != is_sound


def test_without_the_intra_picture_shots_that_begin_later_are_shown() -> None:
    header, packets = read()
    whole = decode(header, packets, PLAIN)
    shown = decode(header, packets[1:], CONCEAL)
    right = {frame.pts for frame in shown if not frame.concealed}
    assert len(right) == 10 + 5 + 10 + 10  # of B, C, B, D
    assert right <= {frame.pts for frame in whole}


def test_a_shot_of_which_packets_are_missing_is_refused() -> None:
    """Each SHOT packet, as if more or fewer packets of its slot had come before."""
    header, packets = read()
    for number, packet in enumerate(packets):
        slot, turn = packet.payload[0] % 4, packet.payload[0] // 4
        if packet.type != gsvc.PacketType.SHOT or not turn:
            continue
        for wrong in {*range(1, 64)} - {turn}:
            groups = GroupReader(header)
            for before in packets[:number]:
                groups.read_layout(before)
            bent = replace(packet, payload=bytes([slot + 4 * wrong]) + packet.payload[1:])
            with pytest.raises(gsvc.BitstreamError, match="begin at one"):
                groups.read_layout(bent)
            with pytest.raises(gsvc.BitstreamError, match="begin at one"):
                groups.read_layout(packets[number + 1])


def test_a_stream_that_does_not_say_so_has_no_such_shots() -> None:
    header, packets = read()
    with pytest.raises(gsvc.BitstreamError, match="comes back where none may"):
        decode(replace(header, returns=False), packets, PLAIN)


def test_any_frame_can_be_sought() -> None:
    header, packets = read()
    whole = decode(header, packets, PLAIN)
    index = gsvc.StreamIndex(io.BytesIO(GOLDEN.read_bytes()))
    decoder = gsvc.Decoder(header, PLAIN)
    for first in range(0, len(whole), 3):
        (frame, *_) = index.decode(decoder, first, 2)
        assert frame.pts == whole[first].pts
        assert np.array_equal(frame.pixels, whole[first].pixels)


def test_a_damaged_file_is_salvaged_slot_by_slot() -> None:
    _, packets = read()
    data = bytearray(GOLDEN.read_bytes())
    at = 32 + sum(len(packet.to_bytes()) for packet in packets[:4])
    data[at + 8] ^= 255  # in the second packet of the first B
    salvage = Salvage(io.BytesIO(bytes(data)))
    shown = decode(salvage.header, list(salvage), CONCEAL)
    concealed = sum(frame.concealed for frame in shown)
    assert len(shown) == 55 and concealed == 6 + 5


def test_video_files_cannot_have_them(tmp_path: Path) -> None:
    with pytest.raises(gsvc.BitstreamError, match="come back"):
        mux(GOLDEN, tmp_path / "out.mp4")
