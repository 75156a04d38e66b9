"""Frames at the ends of scenes hold a key picture, and the camera's path moves what is shown."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from gsvc import (
    BitstreamError,
    Color,
    ConfigError,
    Decoder,
    DecoderSettings,
    Encoder,
    EncoderSettings,
    Frame,
    Header,
    Packet,
    PacketType,
    Picture,
    StreamReader,
    Tools,
    VideoFormat,
)
from gsvc.codec.api.inspection import info_lines
from gsvc.codec.bitstream.coded_pictures import joined, parted
from gsvc.codec.bitstream.group import Coding, GroupReader, GroupWriter
from gsvc.codec.bitstream.layers.camera import CAMERA
from gsvc.codec.bitstream.scaffold import Interval, Place
from gsvc.codec.bitstream.stream_info import read_info
from gsvc.encoders.svt_av1 import encode_pictures
from scaffolds import only

GOLDEN = Path(__file__).parent / "golden"
HELD = "held_and_moved"
SHOWN = DecoderSettings(steps=0)


def read(name: str) -> tuple[Header, list[Packet]]:
    with (GOLDEN / f"{name}.gsv").open("rb") as file:
        reader = StreamReader(file)
        return reader.header, [packet for packet in reader if packet.is_picture]


def decode(header: Header, packets: Iterable[Packet]) -> list[Frame]:
    decoder = Decoder(header, SHOWN)
    return [frame for packet in packets for frame in decoder.decode(packet)]


def parse(header: Header, packets: Iterable[Packet]) -> list[Interval]:
    """Of packets with one interval each."""
    parser = GroupReader(header)
    return [interval for packet in packets for interval in parser.read(packet).intervals]


def groups(packets: Sequence[Packet]) -> list[list[Packet]]:
    starts = [k for k, packet in enumerate(packets) if packet.type == PacketType.INTRA]
    return [list(packets[a:b]) for a, b in pairwise([*starts, len(packets)])]


def held(interval: Interval, frames: Sequence[Frame]) -> tuple[Sequence[Frame], range]:
    """The held frames of an interval, and their distances in time."""
    length = interval.length
    if interval.place is Place.BEFORE:
        return frames[:-1], range(length - 1, 0, -1)
    return frames, range(1, length + 1)


def path_at(interval: Interval, time: int, cell: int) -> np.ndarray:
    """Vectors of the three corners in pixels, as section 8 of the format says."""
    camera = interval[CAMERA]
    assert camera is not None
    step = 1 << camera.step_log2
    nodes = np.concatenate([np.zeros((1, 3, 2)), camera.corners])
    before, share = time // step, time % step / step
    after = nodes[before + 1] if share else nodes[before]
    vectors: np.ndarray = ((1 - share) * nodes[before] + share * after) * cell / 32
    return vectors


def looked_up(picture: Picture, corners: np.ndarray) -> Picture:
    height, width = picture.shape[:2]
    y, x = np.mgrid[:height, :width].astype(float)
    across, along = (x / (width - 1))[..., None], (y / (height - 1))[..., None]
    v0, v1, v2 = corners
    at = np.dstack([x, y]) + v0 + across * (v1 - v0) + along * (v2 - v0)
    seen: Picture = cv2.remap(
        picture, at.astype(np.float32), None, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return seen


def test_held_frames_are_the_key_picture_moved_along_the_path() -> None:
    header, packets = read(HELD)
    frames, seen = decode(header, packets), set()
    assert [frame.pts for frame in frames] == list(range(sum(packet.frames for packet in packets)))
    start = 0
    for packet, interval in zip(packets, parse(header, packets), strict=True):
        end = start + packet.frames
        place, has_path = interval.place, interval[CAMERA] is not None
        if place is not Place.BETWEEN:
            seen.add((place, has_path))
            key = frames[end - 1 if place is Place.BEFORE else start - 1].pixels
            shown, times = held(interval, frames[start:end])
            for frame, time in zip(shown, times, strict=True):
                if not has_path:
                    assert np.array_equal(frame.pixels, key)
                    continue
                assert not np.array_equal(frame.pixels, key)
                expected = looked_up(key, path_at(interval, time, cell=8))
                assert np.abs(frame.pixels.astype(int) - expected).mean() < 0.1
        start = end
    assert len(seen) == 4


def test_joining_where_frames_are_held_gives_them_all() -> None:
    header, packets = read(HELD)
    whole = decode(header, packets)
    begun, end = set(), 0
    for number, interval in enumerate(parse(header, packets)):
        start, end = end, end + interval.length
        if not packets[number].is_intra:
            continue
        begun.add(interval.place)
        first = replace(packets[number], pts=end - 1)
        joined = decode(header, [first, *packets[number + 1 :]])
        # Frames between key pictures need the one before, which was missed.
        is_between = interval.place is Place.BETWEEN
        expected = whole[end - 1 if is_between else start :]
        assert [frame.pts for frame in joined] == [frame.pts for frame in expected]
        for a, b in zip(joined, expected, strict=True):
            assert np.array_equal(a.pixels, b.pixels)
    assert begun == {Place.BEFORE, Place.BETWEEN}


@pytest.mark.parametrize("holds", [True, False])
def test_frames_are_held_only_where_a_picture_came_before(holds: bool) -> None:
    header, _ = read(HELD)
    header = replace(header, holds=holds, tools=only())
    picture, after = Interval((1,)), Interval((1, 1), place=Place.AFTER)
    unit = encode_pictures([photograph(64, 48)], size=(64, 48), crf=60, color=Color())[0]
    with pytest.raises(ConfigError, match="cannot be held"):
        GroupWriter(header, Coding(60, 8)).write([after], [])
    if not holds:
        with pytest.raises(ConfigError, match="cannot be held"):
            GroupWriter(header, Coding(60, 8)).write([picture, after], [unit])
        return
    payload = GroupWriter(header, Coding(60, 8)).write([picture, after], [unit])
    first, *others = decode(header, [Packet(PacketType.INTRA, 3, payload)])
    assert [frame.pts for frame in others] == [1, 2]
    assert all(np.array_equal(frame.pixels, first.pixels) for frame in others)


def with_bad_picture(header: Header, packets: Sequence[Packet], bad: int) -> list[Packet]:
    """The packets of a group, the first frame of one with nothing but ones."""
    reader, written = GroupReader(header), []
    for number, packet in enumerate(packets):
        parsed = reader.read(packet)
        if number == 0:
            writer = GroupWriter(header, parsed.coding)
        units = [parted(unit) for unit in parsed.units]
        if number == bad:
            units[0] = replace(units[0], frames=(b"\xff" * 30,))
        payload = writer.write(parsed.intervals, list(map(joined, units)))
        written.append(replace(packet, payload=payload))
    return written


def test_a_picture_that_cannot_be_decoded_ends_its_group() -> None:
    header, packets = read(HELD)
    whole = decode(header, packets)
    first, second, *_ = groups(packets)
    for damaged in (0, 1):
        decoder = Decoder(header, SHOWN)
        bad = with_bad_picture(header, first, damaged)
        for packet in bad[:damaged]:
            decoder.decode(packet)
        with pytest.raises(BitstreamError):
            decoder.decode(bad[damaged])
        for packet in bad[damaged + 1 :]:
            with pytest.raises(BitstreamError, match="intra"):
                decoder.decode(packet)
        shown = [frame for packet in second for frame in decoder.decode(packet)]
        assert len(shown) == sum(packet.frames for packet in second)
        last = sum(packet.frames for packet in [*first, *second]) - 1
        assert np.array_equal(shown[-1].pixels, whole[last].pixels)


def photograph(width: int, height: int) -> Picture:
    """Detail of every size, and edges: what a photograph has."""
    rng = np.random.default_rng(4)
    picture = np.full((height, width, 3), 128.0)
    for octave in range(2, 7):
        coarse = rng.normal(size=(2**octave, 2**octave, 3)) * 200 / 2**octave
        picture += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(25):
        middle, axes = rng.uniform(0, (width, height)).astype(int), rng.integers(6, 26, 2)
        angle, color = rng.uniform(0, 180), rng.uniform(30, 230, 3)
        cv2.ellipse(picture, middle.tolist(), axes.tolist(), angle, 0, 360, color.tolist(), -1)
    shown: Picture = np.clip(picture, 0, 255).astype(np.uint8)
    return shown


def shaken(count: int, size: tuple[int, int] = (160, 128)) -> list[Picture]:
    """A photograph, filmed by hand: up to 6 pixels and a degree off, there and back."""
    width, height = size
    wide = photograph(width + 64, height + 64)
    pictures = []
    for time in range(count):
        middle = (width + 64) / 2, (height + 64) / 2
        turn = cv2.getRotationMatrix2D(middle, 0.7 * np.sin(0.9 * time), 1)
        turn[:, 2] += 6 * np.sin(0.7 * time) - 32, 5 * np.sin(1.1 * time + 1) - 32
        pictures.append(cv2.warpAffine(wide, turn, size))
    return pictures


def coded(pictures: Sequence[Picture], *, camera: bool) -> tuple[Header, list[Packet]]:
    height, width = pictures[0].shape[:2]
    tools = Tools(segmentation=False, pose=False, camera=camera)
    settings = EncoderSettings(bpp=0.004, tools=tools, preset="fast")
    encoder = Encoder(VideoFormat(width, height, Fraction(1, 25), Fraction(25)), settings)
    packets = [
        p for index, pixels in enumerate(pictures) for p in encoder.encode(Frame(pixels, index))
    ]
    return encoder.header, [*packets, *encoder.flush()]


def test_the_path_of_a_shaken_camera_is_found_and_worth_its_bits() -> None:
    pictures = shaken(24)
    distances, sizes = [], []
    for camera in (True, False):
        header, packets = coded(pictures, camera=camera)
        pictured = [packet for packet in packets if packet.is_picture]
        parser = GroupReader(header)
        bits = sum(parser.read(packet).bits.get("camera", 0.0) for packet in pictured)
        assert (bits > 50) == camera
        frames = decode(header, pictured)
        assert len(frames) == len(pictures)
        differences = (
            np.abs(frame.pixels.astype(float) - picture).mean()
            for frame, picture in zip(frames, pictures, strict=True)
        )
        distances.append(float(np.mean(list(differences))))
        sizes.append(sum(len(packet.payload) for packet in packets))
    assert sizes[0] < 1.15 * sizes[1]
    assert distances[0] < 0.9 * distances[1]


def test_info_tells_who_holds_whom() -> None:
    with (GOLDEN / f"{HELD}.gsv").open("rb") as file:
        info = read_info(file)
    assert info.bits["camera"] > 0
    places = [interval.place for packet in info.packets for interval in packet.intervals]
    assert places.count(Place.BEFORE) == 2 and places.count(Place.AFTER) == 3
    lines = list(info_lines(info, packets=True))
    assert sum("those before it hold it" in line for line in lines) == 2
    assert sum("shows the last key picture" in line for line in lines) == 3
