"""A damaged stream file: what can be read is given, and it is said that something is missing."""

import io
from dataclasses import replace
from pathlib import Path

import av
import pytest

import gsvc
from commands import FAILED, USAGE, assert_one_line, run_gsvc
from gsvc.codec.bitstream.audio_and_text import pack_audio
from gsvc.codec.bitstream.container import Salvage
from gsvc.codec.bitstream.frames import AudioChunk

GOLDEN = Path(__file__).parent / "golden"
FAST = ("--steps", "0")


def damaged_copies() -> dict[str, tuple[bytes, int]]:
    """What an error says → a damaged copy of a stream of 54 frames, and how many can be read."""
    data = (GOLDEN / "several_a_packet.gsv").read_bytes()
    first, *_ = gsvc.StreamReader(io.BytesIO(data))
    middle = 32 + len(first.to_bytes()) + 100
    return {
        "a packet is damaged": (data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :], 9),
        "tail is missing": (data[:-20], 27),
        "bytes after the end": (data + b"more", 54),
    }


def frames_in(path: Path) -> int:
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


def test_what_can_be_read_of_a_damaged_stream_is_written(stream: Path, tmp_path: Path) -> None:
    bad, back = tmp_path / "bad.gsv", tmp_path / "back.mp4"
    for what, (data, before) in damaged_copies().items():
        bad.write_bytes(data)
        told = run_gsvc("decode", bad, back, "-y", *FAST)
        assert_one_line(told, FAILED, what, "bad.gsv", f"the {before} frames")
        assert frames_in(back) == before
        told = run_gsvc("decode", bad, back, "-y", *FAST, "--start", "0.04")
        assert_one_line(told, FAILED, what)
        assert frames_in(back) == before - 1
        told = run_gsvc("info", bad, stream)
        assert_one_line(told, FAILED, what, "bad.gsv")
        assert f"frames             {before} in".encode() in told.stdout
        assert b"frames             20 in 0:00.8" in told.stdout
        with pytest.raises(gsvc.BitstreamError, match=what):
            gsvc.info(bad)


def test_concealing_goes_on_after_damage(stream: Path, tmp_path: Path) -> None:
    bad, back = tmp_path / "bad.gsv", tmp_path / "back.mp4"
    for data, _ in damaged_copies().values():
        bad.write_bytes(data)
        done = run_gsvc("decode", bad, back, "-y", *FAST, "--conceal")
        assert done.returncode == 0 and done.stderr.count(b"\n") == 1
        assert done.stderr.startswith(b"gsvc: warning: ") and b"concealed" in done.stderr
        assert frames_in(back) == 54
        piped = run_gsvc("decode", "-", "-o", back, "-y", *FAST, "--conceal", input=data)
        assert piped.returncode == 0 and frames_in(back) == 54
    part = run_gsvc("decode", bad, tmp_path / "part.mp4", *FAST, "--conceal", "--frames", "3")
    assert_one_line(part, USAGE, "leave out --start and --frames")
    whole = run_gsvc("decode", stream, back, "-y", *FAST, "--conceal", "--frames", "3")
    assert (whole.returncode, whole.stderr, frames_in(back)) == (0, b"", 3)


def test_lost_sound_takes_no_picture_with_it(stream: Path, tmp_path: Path) -> None:
    reader = gsvc.StreamReader(io.BytesIO(stream.read_bytes()))
    packets = list(reader)
    sound = gsvc.Packet(gsvc.PacketType.AUDIO, 0, bytes(99)).to_bytes()
    whole = [reader.header.to_bytes(), packets[0].to_bytes(), sound[:50] + sound[60:]]
    bad, back = tmp_path / "bad.gsv", tmp_path / "back.mp4"
    bad.write_bytes(b"".join([*whole, *(packet.to_bytes() for packet in packets[1:])]))
    done = run_gsvc("decode", bad, back, *FAST, "--conceal")
    assert b"; 0 of 20 frames are concealed" in done.stderr
    assert frames_in(back) == 20


@pytest.mark.parametrize(("layout", "numbers"), [("PaAPpAP", [0, 1, 3]), ("PpAPaAP", [0, 2, 3])])
def test_a_hole_where_sound_lacks_is_no_picture(layout: str, numbers: list[int]) -> None:
    """Packets of pictures and of sound; those in small letters are lost, their framing too."""
    reader = gsvc.StreamReader(io.BytesIO((GOLDEN / "flickering.gsv").read_bytes()))
    *pictures, end = reader
    parts = [replace(reader.header, audio=True).to_bytes()]
    for place, kind in enumerate(layout):
        time = 960 * layout[:place].lower().count("a")
        sound = pack_audio(AudioChunk(time, 1, 960, 0, (b"\xf8",)))
        packet = gsvc.Packet(gsvc.PacketType.AUDIO, 0, sound)
        if kind in "Pp":
            packet = pictures[layout[:place].lower().count("p")]
        parts.append(b"\xff" * 50 if kind.islower() else packet.to_bytes())
    salvage = Salvage(io.BytesIO(b"".join([*parts, end.to_bytes()])))
    assert [packet.number for packet in salvage if packet.is_picture] == numbers


def test_a_file_cut_between_packets_is_not_called_damaged(clip: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.gsv", tmp_path / "cut.gsv"
    gsvc.encode(clip, whole, settings=gsvc.EncoderSettings(gop=0.4))
    data = whole.read_bytes()
    packets = list(gsvc.StreamReader(io.BytesIO(data)))
    first = next(n for n, packet in enumerate(packets) if n and packet.is_intra)
    cut.write_bytes(data[:32] + b"".join(packet.to_bytes() for packet in packets[first:]))
    told = run_gsvc("decode", cut, tmp_path / "back.mp4", *FAST)
    assert_one_line(told, FAILED, "in the middle of another", "--start")
    with pytest.raises(gsvc.BitstreamError, match="in the middle of another"):
        gsvc.StreamIndex(io.BytesIO(cut.read_bytes()))
