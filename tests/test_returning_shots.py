"""Shots that come back: AV1 sequences side by side in slots that losses elsewhere spare."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gsvc
from gsvc import mux
from gsvc.codec.bitstream.container import Salvage
from gsvc.codec.bitstream.group import GroupReader
from gsvc.encoders.coding.returning_shots import in_slots

Pictures = Callable[..., list[gsvc.Picture]]

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


SHOT = 12
"""Frames."""


def turns(moving_pictures: Pictures, order: str) -> list[gsvc.Picture]:
    """Shots that go on when they come back, each letter in another light."""
    moving, seen, pictures = moving_pictures(4 * SHOT), dict.fromkeys(order, 0), []
    lights = {"A": (1, 0), "B": (-1, 255), "C": (0.25, 0)}
    for letter in order:
        start, seen[letter] = seen[letter], seen[letter] + SHOT
        (gain, base), shot = lights[letter], moving[start : start + SHOT]
        pictures += [(float(gain) * one + base).astype(np.uint8) for one in shot]
    return pictures


def coded(pictures: Sequence[gsvc.Picture], **settings: object) -> tuple[bytes, list[gsvc.Packet]]:
    plain = {"level": 2, "preset": "fast", "face_weight": 1.0, "faces": False}
    chosen = gsvc.EncoderSettings(**{**plain, **settings})  # type: ignore[arg-type]
    file, rate = io.BytesIO(), Fraction(25)
    with gsvc.Encoder(gsvc.VideoFormat(64, 48, 1 / rate, rate), chosen) as encoder:
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        packets += encoder.flush()
    writer = gsvc.StreamWriter(file, encoder.header)
    for packet in packets:
        writer.write(packet)
    return file.getvalue(), packets


def error(data: bytes, pictures: Sequence[gsvc.Picture]) -> float:
    reader = gsvc.StreamReader(io.BytesIO(data))
    shown = decode(reader.header, list(reader), PLAIN)
    off = [np.abs(a.pixels.astype(int) - b).mean() for a, b in zip(shown, pictures, strict=True)]
    return float(np.mean(off))


def kinds(packets: Sequence[gsvc.Packet]) -> str:
    return "".join("-iPS"[p.type] for p in packets if p.type in (1, 3))


def test_shots_that_come_back_take_fewer_bits(moving_pictures: Pictures) -> None:
    pictures = turns(moving_pictures, "ABACBA")
    plain, cut = coded(pictures)
    shared, packets = coded(pictures, returning_shots=True)
    assert (kinds(cut), kinds(packets)) == ("iiiiii", "iSSSSS")
    assert [p.payload[0] for p in packets if p.type == gsvc.PacketType.SHOT][:3:2] == [1, 3]
    assert len(shared) < 0.8 * len(plain)
    # More bits would have made it as good: about inversely, the error falls with them.
    assert len(shared) * error(shared, pictures) < len(plain) * error(plain, pictures)
    assert [p.pts for p in packets] == sorted({p.pts or 0 for p in packets[:-1]}) + [
        packets[-1].pts
    ]


def test_where_none_comes_back_packets_are_as_ever(moving_pictures: Pictures) -> None:
    pictures = turns(moving_pictures, "ABC")
    assert coded(pictures)[1] == coded(pictures, returning_shots=True)[1]


def test_rates_and_limits_hold_over_shared_sequences(moving_pictures: Pictures) -> None:
    pictures = turns(moving_pictures, "ABAB")
    data, packets = coded(pictures, returning_shots=True, bitrate=10_000, max_packet_bytes=700)
    assert kinds(packets) == "iSSS"
    assert max(len(packet.to_bytes()) for packet in packets) <= 700
    assert 8 * len(data) * 25 / len(pictures) == pytest.approx(10_000, rel=0.1)


def test_the_keyframe_interval_ends_all_slots(moving_pictures: Pictures) -> None:
    pictures = turns(moving_pictures, "ABABABAB")
    data, packets = coded(pictures, returning_shots=True, gop=2.0)
    assert kinds(packets) == "iSSSiSSS"
    assert error(data, pictures) < 20


def test_no_more_slots_than_there_are() -> None:
    kept, slots = in_slots([[0, 5], [1, 6], [2, 7], [3, 8], [4], [9]])
    assert kept == [[0, 5], [1, 6], [2, 7], [3], [8], [4], [9]]
    assert slots == {0: None, 1: 1, 2: 2, 3: 3, 4: 3, 5: 0, 6: 1, 7: 2, 8: None, 9: None}
    _, slots = in_slots([[0, 2], [1], [3, 5], [4, 6]])
    assert slots == {0: None, 1: 3, 2: 0, 3: None, 4: 1, 5: 0, 6: 1}


def test_what_cannot_have_them_is_refused() -> None:
    for other in ({"low_delay": True}, {"max_bitrate": 9e4}, {"events_only": True}):
        with pytest.raises(gsvc.ConfigError, match="leave one of them out"):
            gsvc.EncoderSettings(returning_shots=True, **other)
