"""Streams made to harm: each is refused early, or costs no more than its limits say."""

import ast
import io
import socket
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest

import gsvc
from commands import run_gsvc
from fuzz_bytes import Part, golden_streams, golden_units, join_stream, split_stream
from fuzz_targets import TARGETS
from gsvc import AudioChunk
from gsvc.codec.bitstream import entropy_coding as syntax
from gsvc.codec.bitstream.audio_and_text import pack_audio
from gsvc.codec.bitstream.coded_pictures import check_temporal_unit
from gsvc.codec.bitstream.entropy_coding import Reader, Writer
from gsvc.codec.bitstream.errors import MAX_UNIT_FRAMES, HeldBytes
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.layers.camera import CAMERA, Camera
from gsvc.codec.bitstream.layers.flow import FLOW
from gsvc.codec.bitstream.layers.pose import POSE
from gsvc.codec.bitstream.layers.segmentation import SEGMENTATION
from gsvc.codec.bitstream.scaffold import Layer
from gsvc.codec.bitstream.stream_info import read_info
from gsvc.decoders.keyframes.keyframe import KeyframeDecoder
from gsvc.decoders.streams.concealment import Extrapolator
from scaffolds import join_payload

_ELEMENT = syntax.Element("labels.same", "segmentation", syntax.FLAG)


ROOT = Path(__file__).parent.parent
FOUND = sorted((Path(__file__).parent / "hostile").glob("*"))
"""Inputs that once crashed, hung, or raised what they should not; named after their target."""


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_was_found_stays_mended(path: Path) -> None:
    try:
        TARGETS[path.name.partition("-")[0]].check(path.read_bytes())
    except gsvc.GsvcError as error:
        assert "\n" not in str(error)


def header_of(width: int, height: int) -> gsvc.Header:
    video = gsvc.VideoFormat(width, height, Fraction(1, 25), Fraction(25))
    return gsvc.Header(video, level=1)


@pytest.mark.parametrize("fill", [0x00, 0xFF, 0x5A])
@pytest.mark.parametrize("size", [(8192, 4352), (16384, 288)])
def test_a_few_bytes_cannot_order_minutes_of_parsing(fill: int, size: tuple[int, int]) -> None:
    """The range coder never runs dry, and this grid has 73,728 cells."""
    parser = GroupReader(header_of(*size), gsvc.Limits.restrictive())
    payload = join_payload(bytes([fill]) * 40, b"unit")
    began = process_time()
    try:
        parser.read(gsvc.Packet(gsvc.PacketType.INTRA, 16, payload))
    except gsvc.BitstreamError:
        pass
    assert process_time() - began < 5


def test_a_scaffold_is_read_up_to_its_limit_and_not_further() -> None:
    reader = Reader(most_bits=1000)
    reader.start(b"")
    for _ in range(1000):
        reader.code(_ELEMENT)
    with pytest.raises(gsvc.LimitError, match="1000 coded bits"):
        reader.code(_ELEMENT)
    reader.start(b"")  # each scaffold has its own
    reader.code(_ELEMENT)


def test_the_encoder_writes_no_scaffold_that_a_decoder_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(syntax, "DEFAULT_LIMITS", gsvc.Limits(scaffold_bits=100))
    writer = Writer()
    for _ in range(101):
        writer.code(_ELEMENT, 0)
    with pytest.raises(gsvc.ConfigError, match="coded bits"):
        writer.finish()


def test_a_packet_cannot_order_hours_of_large_pictures() -> None:
    limits = gsvc.Limits()
    assert limits.longest_interval(512, 288) == 2048
    assert limits.longest_interval(8192, 4352) == 240
    parser = GroupReader(header_of(8192, 4352))
    with pytest.raises(gsvc.LimitError, match="240"):
        parser.read(gsvc.Packet(gsvc.PacketType.INTRA, 241, b"\0"))


def test_what_this_version_encodes_fits_the_tight_limits(stream: Path) -> None:
    for data in (stream.read_bytes(), *(join_stream(*given) for given in golden_streams())):
        info = read_info(io.BytesIO(data), limits=gsvc.Limits.restrictive())
        assert info.size == len(data)


def leb128(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def sized(kind: int, payload: bytes) -> bytes:
    """An AV1 unit with its size."""
    return bytes([kind << 3 | 2]) + leb128(len(payload)) + payload


def first_unit() -> tuple[tuple[int, int], bytes, bytes]:
    """Size, sequence header and frame of a golden key picture, both with their sizes."""
    size, (unit, *_) = golden_units()[0]
    return size, *cut(unit)


def cut(unit: bytes) -> tuple[bytes, bytes]:
    """Sequence header and frame of a unit that begins a group, both with their sizes."""
    sequence, frame = unit[: 2 + unit[1]], unit[2 + unit[1] :]
    return sequence, frame if frame[0] & 2 else sized(frame[0] >> 3, frame[1:])


def test_hidden_av1_frames_are_counted() -> None:
    size, sequence, frame = first_unit()
    hidden = bytearray(frame)
    hidden[2 + (frame[1] > 127)] &= 0b0110_1111  # neither show_existing_frame nor show_frame
    check_temporal_unit(sequence + (MAX_UNIT_FRAMES - 1) * hidden + frame, size)
    with pytest.raises(gsvc.LimitError):
        check_temporal_unit(sequence + MAX_UNIT_FRAMES * hidden + frame, size)
    with pytest.raises(gsvc.BitstreamError, match="no AV1 frame that is shown"):
        check_temporal_unit(sequence + hidden, size)
    with pytest.raises(gsvc.LimitError):
        check_temporal_unit(sequence + 64 * sized(5, b"\4") + frame, size)


@pytest.mark.parametrize(
    ("unit", "why"),
    [
        (sized(2, b""), "type 2"),  # another temporal unit would begin
        (sized(8, b"\0" * 8), "type 8"),  # a list of tiles
        (bytes([6 << 3 | 6, 1 << 3, 1, 0]), "type 6"),  # an enhancement layer
        (sized(1, b"\x18\0\0\0"), "still image"),
        (sized(1, b"\0" * 4), "cut short"),
        (sized(1, b"\0"), "cut short"),
        (bytes([6 << 3 | 6]), "AV1 unit is shorter"),
        (bytes([6 << 3 | 2, 9, 0]), "AV1 unit is shorter"),
    ],
)
def test_av1_units_that_no_key_picture_needs(unit: bytes, why: str) -> None:
    size, sequence, frame = first_unit()
    with pytest.raises(gsvc.BitstreamError, match=why):
        check_temporal_unit(sequence + unit, size)
    with pytest.raises(gsvc.BitstreamError):
        check_temporal_unit(unit + sequence + frame, size)


def test_a_picture_of_another_size_never_reaches_the_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size, sequence, frame = first_unit()
    decoder = KeyframeDecoder(size, gsvc.Color())
    assert decoder.decode(sequence + frame, size).shape == (size[1], size[0], 3)

    def never(*_: object) -> None:
        raise AssertionError("the AV1 decoder was called")

    monkeypatch.setattr(decoder, "_decoder", type("Decoder", (), {"decode": never})())
    for other in ((size[0] + 2, size[1]), (size[0], size[1] - 2), (2, 2)):
        with pytest.raises(gsvc.BitstreamError, match="is coded at"):
            decoder.decode(sequence + frame, other)


def test_a_unit_with_two_pictures_is_refused() -> None:
    """The AV1 decoder would give the second one in place of the next unit's."""
    size, (first, second, *_) = next(group for group in golden_units() if len(group[1]) > 1)
    both = b"".join(cut(first)) + second
    with pytest.raises(gsvc.BitstreamError, match="after the one that is shown"):
        KeyframeDecoder(size, gsvc.Color()).decode(both, size)


def with_sound(chunks: int) -> bytes:
    header, parts = split_stream((ROOT / "tests/golden/sound_and_the_unknown.gsv").read_bytes())
    chunk = pack_audio(AudioChunk(0, 1, 960, 0, (b"\x08",) * 4096))
    return join_stream(header, [*parts[:1], *[Part(8, 0, chunk)] * chunks, *parts[1:]])


def test_sound_and_packets_are_held_within_a_limit(tmp_path: Path) -> None:
    """8 kB of the shortest Opus packets take 260 kB of memory."""
    source, target = tmp_path / "it.gsv", tmp_path / "it.mkv"
    source.write_bytes(with_sound(20))
    limits = replace(gsvc.Limits(), held_bytes=1 << 20)
    with pytest.raises(gsvc.LimitError, match="split it"):
        gsvc.decode(source, target, settings=gsvc.DecoderSettings(steps=0), limits=limits)
    with pytest.raises(gsvc.LimitError, match="split it"):
        gsvc.info(source, limits=replace(limits, held_bytes=1 << 14))
    # Where no sound is wanted, none is held against it; a pipe holds nothing then.
    held = HeldBytes(limits)
    held.add(1 << 20)
    with pytest.raises(gsvc.LimitError):
        held.add(1)


def test_the_command_has_tight_limits_for_strangers(stream: Path, tmp_path: Path) -> None:
    assert run_gsvc("info", stream, "--untrusted").returncode == 0
    assert run_gsvc("decode", stream, "-o", "-", "--steps", "0", "--untrusted").returncode == 0
    data = stream.read_bytes()
    large = header_of(2560, 1440).to_bytes() + data[32:]
    (tmp_path / "large.gsv").write_bytes(large)
    result = run_gsvc("info", tmp_path / "large.gsv", "--untrusted")
    assert result.returncode == 1 and b"2560x1440" in result.stderr


def test_chunks_of_any_size_give_the_same_packets() -> None:
    for header, parts in golden_streams():
        data = join_stream(header, parts)
        whole = list(gsvc.StreamReader(io.BytesIO(data)))
        for size in (1, 7, 1000):

            class Pipe(io.BytesIO):
                def read(self, count: int | None = -1, /, size: int = size) -> bytes:
                    return super().read(min(size, count or 0))

            assert list(gsvc.StreamReader(Pipe(data))) == whole


def test_a_stream_names_no_model_to_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unknown model's hash makes a warning and no connection."""
    asked: list[object] = []
    for owner, name in ((socket.socket, "connect"), (socket, "getaddrinfo")):
        monkeypatch.setattr(owner, name, lambda *given, **_: asked.append(given))
    header, parts = golden_streams()[0]
    forged = replace(gsvc.Header.from_bytes(header), model_id=b"http")
    (tmp_path / "it.gsv").write_bytes(join_stream(forged.to_bytes(), parts))
    settings = gsvc.DecoderSettings(steps=1)
    gsvc.decode(tmp_path / "it.gsv", tmp_path / "it.y4m", settings=settings)
    assert "68747470" in caplog.text and not asked


MAY = {
    "codec/network/address.py": {"urllib"},  # parses
    "codec/network/player_relay.py": {"urllib"},  # likewise
    "codec/network/player_server.py": {"http", "socket", "urllib"},
    "decoders/interpolation/rife.py": {"pickle", "torch.load"},  # of a file whose hash is known
}
"""What a module may use that does not read streams."""


def test_decoding_has_no_way_to_run_what_it_reads() -> None:
    packages = {"pickle", "marshal", "shelve", "yaml", "urllib", "requests", "socket", "http"}
    calls = {"eval", "exec", "torch.load", "np.load"}
    for folder in ("codec", "decoders"):
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith("decoders/training/"):  # makes models, and decodes nothing
                continue
            used = set[str]()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    used |= {alias.name.split(".")[0] for alias in node.names} & packages
                if isinstance(node, ast.ImportFrom):
                    used |= {(node.module or "").split(".")[0]} & packages
                if isinstance(node, ast.Call):
                    used |= {ast.unparse(node.func)} & calls
            assert used == MAY.get(name, set()), path


def test_packets_of_nothing_take_no_memory() -> None:
    header, _ = golden_streams()[0]
    packet = gsvc.Packet(13, 0, b"").to_bytes()

    class Endless(io.RawIOBase):
        """A header, and then packets that nobody knows."""

        def __init__(self) -> None:
            self.data = header

        def read(self, size: int = -1) -> bytes:
            if len(self.data) < size:
                self.data += packet * 1000
            part, self.data = self.data[:size], self.data[size:]
            return part

    packets = iter(gsvc.StreamReader(Endless()))  # type: ignore[arg-type]
    for _ in range(1000):
        next(packets)
    tracemalloc.start()
    try:
        for _ in range(5000):
            next(packets)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 200_000  # and not 50 bytes for each


def test_pictures_stay_pictures_however_far_things_are_moved() -> None:
    """Vectors, people and the camera as far out as they may be: no overflow, nothing but pixels."""
    from gsvc.codec.bitstream.scaffold import Geometry
    from gsvc.decoders.interpolation.rendering import IntervalRenderer
    from worst_case import dear_interval

    rng = np.random.default_rng(3)
    left, right = (rng.integers(0, 256, (48, 64, 3), np.uint8) for _ in "ab")
    geometry = Geometry(64, 48)
    for sign in (-1, 1):
        given = dear_interval(geometry, 4, rng)
        samples = []
        for sample in given.samples:
            flow, segmentation, people = sample[FLOW], sample[SEGMENTATION], sample[POSE]
            assert flow is not None and segmentation is not None and people
            moved = replace(flow, vectors=np.full_like(flow.vectors, sign * 1023))
            apart = replace(segmentation, vectors=np.full_like(segmentation.vectors, sign * 1023))
            people = tuple(
                replace(person, points=np.full((17, 2), -sign * 8192, np.int16))
                for person in people
            )
            values: dict[Layer[Any], Any] = {FLOW: moved, SEGMENTATION: apart, POSE: people}
            samples.append(replace(sample, values=values))
        corners = np.full((3, 3, 2), 16384, np.int16)
        corners[:, 1:] *= -1
        interval = replace(given, samples=tuple(samples), values={CAMERA: Camera(0, corners)})
        renderer = IntervalRenderer(left, right, interval, samples[-1])
        for offset in (1, 2, 3):
            assert renderer.picture(offset).dtype == np.uint8


def test_times_that_lie_far_apart_order_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing frames carry the motion on for as long as the last packet; stills follow."""
    moved: list[float] = []
    real = Extrapolator.picture

    def counted(self: Extrapolator, time: float) -> gsvc.Picture:
        moved.append(time)
        return real(self, time)

    monkeypatch.setattr(Extrapolator, "picture", counted)
    header, parts = split_stream((ROOT / "tests/golden/every_tool.gsv").read_bytes())
    reader = gsvc.StreamReader(io.BytesIO(join_stream(header, parts)))
    settings = gsvc.DecoderSettings(steps=0, conceal=True)
    with gsvc.Decoder(reader.header, settings) as decoder:
        for number, packet in enumerate(p for p in reader if p.is_picture):
            if number == 1:  # lost: from here on times are what the packets' carrier says
                continue
            moved.clear()
            far = replace(packet, pts=number << 40, duration=1 << 39)
            frames = decoder.decode(far)
            assert len(frames) <= packet.frames + gsvc.Limits().interval
            assert len(moved) <= 5
