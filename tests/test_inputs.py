"""Files as cameras, browsers and recorders write them: encoded and decoded, they show the same.

Each shows a white flash and sounds a beep at the same moments. A new kind of file is one line of
`INPUTS`, or of `REFUSED`.
"""

import os
import struct
import zlib
from base64 import b85decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream
from PIL import Image

import gsvc
from gsvc.codec.media.track_source import encode_audio, read_audio
from gsvc.codec.media.video_reader import open_video
from video_clips import CFR, MS, SAME, Clip, h264, read

RATE = 48_000

Clock = Callable[[int], int]
"""A moment in milliseconds → what the container's clock says then."""


def film(
    path: Path,
    times: Sequence[int] = range(0, 1000, 40),
    clock: Clock = lambda time: time,
    *,
    flashes: Sequence[int] = (400,),
    sound: Sequence[int] = (0, 1000),
    codec: str = "libx264",
    form: str = "yuv420p",
    rate: int = 25,
    base: Fraction = MS,
    last: int | None = None,
    empty: Sequence[int] = (),
    tags: dict[str, int | str | Fraction] | None = None,
    options: dict[str, str] | None = None,
    muxer: dict[str, str] | None = None,
) -> Path:
    """A file of pictures at `times` and of sound from its first moment to its second.

    `rate` is what the container claims, `base` the unit of its clock; the last picture stands for
    `last` ms; the pictures of some numbers have no data; `tags` are put on the container's track
    alone; `options` are the encoder's, `muxer` the container's.
    """
    with av.open(str(path), "w", options=muxer or {}) as file:
        how = {"bf": "0", "g": "5", **SAME, **(options or {})}
        video = file.add_stream(codec, rate=rate, options=how)
        assert isinstance(video, VideoStream)
        video.width, video.height, video.pix_fmt = 64, 48, form
        video.time_base = video.codec_context.time_base = base
        for name, value in (tags or {}).items():
            setattr(video.codec_context, name, value)
        packets = _pictures(video, times, clock, flashes, base)
        for number in empty:
            packets[number] = _emptied(packets[number], video)
        if last is not None:
            packets[-1].duration = round(last * MS / packets[-1].time_base)
        if sound:
            packets += _sound(file, sound, clock, flashes)
        for packet in sorted(packets, key=lambda one: (one.dts or 0) * one.time_base):
            file.mux(packet)
    return path


def _pictures(
    stream: VideoStream,
    times: Sequence[int],
    clock: Clock,
    flashes: Sequence[int],
    base: Fraction,
) -> "list[Packet[Stream]]":
    packets: list[Packet[Stream]] = []
    for time in times:
        is_lit = any(flash <= time < flash + 120 for flash in flashes)
        picture = np.full((48, 64, 3), 250 if is_lit else 20, np.uint8)
        frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format=stream.pix_fmt)
        frame.pts, frame.time_base = clock(time), base
        packets += stream.encode(frame)
    return packets + stream.encode(None)


def _sound(
    file: OutputContainer, span: Sequence[int], clock: Clock, flashes: Sequence[int]
) -> "list[Packet[Stream]]":
    stream = file.add_stream("aac", rate=RATE)
    assert isinstance(stream, AudioStream)
    stream.codec_context.layout = "mono"
    tone = np.zeros(RATE * span[1] // 1000, np.float32)
    for flash in flashes:
        tone[48 * flash : 48 * (flash + 120)] = 0.5 * np.sin(np.arange(48 * 120) / 5)
    packets: list[Packet[Stream]] = []
    for at in range(48 * span[0], len(tone) - 1023, 1024):
        frame = av.AudioFrame.from_ndarray(tone[None, at : at + 1024], "fltp", "mono")
        frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
        frame.pts = at + 48 * (clock(at // 48) - at // 48)
        packets += stream.encode(frame)
    return packets + stream.encode(None)


def _emptied(packet: "Packet[Stream]", stream: VideoStream) -> "Packet[Stream]":
    empty: Packet[Stream] = Packet(b"")
    empty.pts, empty.dts, empty.time_base = packet.pts, packet.dts, packet.time_base
    empty.stream, empty.is_keyframe = stream, True
    return empty


def joined(path: Path, begin: int, sound: int = 1000) -> Path:
    """Two recordings of a second, the first with `sound` ms of sound; the clock of the second one
    begins at `begin` ms."""
    return parts(path, {"sound": (0, sound)}, {"clock": lambda time: time + begin})


def parts(path: Path, *kinds: dict[str, Any]) -> Path:
    """Films, each with its own arguments, in one file."""
    path.write_bytes(b"".join(film(path, **kind).read_bytes() for kind in kinds))
    return path


def behind(path: Path, junk: bytes) -> Path:
    """A film that begins with something else."""
    path.write_bytes(junk + film(path).read_bytes())
    return path


OTHER = {"mpegts_start_pid": "512", "mpegts_pmt_start_pid": "4352", "mpegts_service_id": "2"}


def programmes(path: Path) -> Path:
    """Two in one, each with its own table of tracks; the second has a sound of more bits."""
    kinds: list[dict[str, Any]] = [{}, {"muxer": OTHER, "flashes": range(0, 880, 120)}]
    parts(path, *kinds)
    packets = [path.read_bytes()[at : at + 188] for at in range(0, path.stat().st_size, 188)]
    rest = [packet for packet in packets if packet[1] & 31 or packet[2]]
    body = bytes.fromhex("00b0110001c100000001f0000002f100")
    crc = 0xFFFFFFFF
    for byte in body:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    table = bytes.fromhex("4740001000") + body + crc.to_bytes(4)
    path.write_bytes(table.ljust(188, b"\xff") + b"".join(rest))
    return path


def in_turn(path: Path) -> Path:
    """Two recordings, each with all pictures before all sound."""
    data = film(path).read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    tracks = [packet for packet in packets if packet[1] & 31 == 1]
    tracks.sort(key=lambda packet: packet[2])  # by the number of the track
    tables = [packet for packet in packets if packet[1] & 31 != 1]
    path.write_bytes(2 * b"".join(tables + tracks))
    return path


@dataclass(frozen=True)
class Seen:
    """What a file shows."""

    frames: int = 25
    flashes: tuple[float, ...] = (0.4,)
    """Seconds at which a flash begins."""
    sound: float | None = 1
    """Seconds of it."""
    rate: float = 25
    """Frames a second."""
    seconds: float | None = None
    """From the first frame to the end of the last; None: not looked at."""
    beeps: tuple[float, ...] | None = None
    """Seconds at which a beep begins; None: with the flashes."""
    size: tuple[int, int] = (64, 48)
    """Width and height."""


TWO = Seen(50, (0.4, 1.4), 2)
INPUTS: dict[str, tuple[Callable[[Path], Path], Seen]] = {
    "plain.mkv": (film, Seen()),
    "joined.ts": (lambda path: joined(path, 0), TWO),
    "overlapping.ts": (lambda path: joined(path, 600), TWO),
    "second-is-mute.ts": (
        lambda path: parts(path, {}, {"sound": ()}),
        Seen(50, (0.4, 1.4), 1, beeps=(0.4,)),
    ),
    "first-is-mute.ts": (
        lambda path: parts(path, {"sound": ()}, {}),
        Seen(50, (0.4, 1.4), 1, beeps=(1.4,)),
    ),
    "in-turn.ts": (in_turn, TWO),
    "quiet.ts": (lambda path: joined(path, 0, 965), TWO),
    "later.ts": (lambda path: joined(path, 1_000_000), TWO),
    "jumps.mkv": (
        lambda path: film(
            path,
            range(0, 2000, 40),
            lambda time: time if time < 1000 else time + 1_000_000,
            flashes=(400, 1400),
            sound=(0, 2000),
        ),
        TWO,
    ),
    "repeats.mkv": (
        lambda path: film(
            path,
            [*range(0, 400, 40), *range(0, 1000, 40)][10:],
            flashes=(400, 800),
            codec="mjpeg",
            form="yuvj420p",
        ),
        Seen(25, (0.4, 0.8)),
    ),
    "claims-1000.mkv": (lambda path: film(path, rate=1000), Seen()),
    "slow.mp4": (
        lambda path: film(path, range(0, 6000, 2000), last=2000, flashes=(), sound=()),
        Seen(3, (), None, 0.5),
    ),
    "screen.mp4": (
        lambda path: film(path, last=5000, sound=()),
        Seen(26, (0.4,), None, seconds=5.96),
    ),
    "segment.mkv": (lambda path: film(path, clock=lambda time: time + 3000), Seen()),
    "early-sound.mp4": (
        lambda path: film(path, range(1000, 2000, 40), flashes=(400, 1400), sound=(0, 2000)),
        Seen(25, (1.4,), 2, beeps=(0.4, 1.4)),
    ),
    "empty.nut": (
        lambda path: film(path, empty=range(15, 20), codec="mjpeg", form="yuvj420p"),
        Seen(20),
    ),
    "stands.nut": (
        lambda path: film(
            path,
            range(0, 3000, 40),
            empty=range(20, 75),
            sound=(0, 3000),
            codec="mjpeg",
            form="yuvj420p",
        ),
        Seen(21, sound=3, seconds=3),
    ),
    "prores.mov": (lambda path: film(path, codec="prores_ks", form="yuva444p10le"), Seen()),
    "opencv.avi": (
        lambda path: film(
            path,
            range(0, 1000, 67),
            lambda time: time // 66,
            sound=(),
            rate=15,
            base=Fraction(66667, 1_000_000),
        ),
        Seen(15, (0.4,), None, 15),
    ),
    "b-frames.avi": (
        lambda path: film(
            path,
            clock=lambda time: time // 40,
            base=Fraction(1, 25),
            sound=(),
            options={"bf": "2", "g": "25"},
        ),
        Seen(sound=None, seconds=1),
    ),
    "cropped.mkv": (
        lambda path: film(path, options={"x264-params": "crop-rect=8,0,8,0"}),
        Seen(size=(48, 48)),
    ),
    "behind-junk.ts": (lambda path: behind(path, b"ID3" + bytes(500)), Seen()),
    "joined.h264": (
        lambda path: parts(path, {"sound": ()}, {"sound": (), "form": "yuv422p"}),
        Seen(50, (0.4, 1.4), None),
    ),
    "raw.h264": (
        lambda path: film(
            path,
            range(0, 1000, 20),
            lambda time: time // 20,
            sound=(),
            rate=50,
            base=Fraction(1, 50),
        ),
        Seen(50, sound=None, rate=50, seconds=1),
    ),
    "programmes.ts": (programmes, Seen()),
    "camera.mjpg": (
        lambda path: film(path, sound=(), codec="mjpeg", form="yuvj420p"),
        Seen(sound=None),
    ),
    "stuck.mkv": (lambda path: film(path, clock=lambda _: 0, sound=()), Seen(sound=None)),
    "grey.mov": (lambda path: film(path, codec="png", form="ya8"), Seen()),
}


@pytest.mark.parametrize("name", INPUTS)
def test_what_comes_out_is_what_went_in(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make, wanted = INPUTS[name]
    source, stream, target = make(tmp_path / name), tmp_path / "it.gsv", tmp_path / "back.mkv"
    settings = gsvc.EncoderSettings(preset="fast", level=3, low_delay=True)
    report = gsvc.encode(source, stream, settings=settings)
    assert report.frames == wanted.frames
    assert (report.width, report.height) == wanted.size
    assert wanted.seconds in (None, pytest.approx(report.duration, abs=0.02))
    gsvc.decode(stream, target, settings=gsvc.DecoderSettings(steps=0))
    assert float(gsvc.info(stream).header.format.frame_rate) == pytest.approx(wanted.rate, rel=0.05)
    flashes = flashes_of(target)
    assert flashes == pytest.approx(wanted.flashes, abs=0.03)
    beeps, seconds = beeps_of(target)
    assert seconds == (wanted.sound and pytest.approx(wanted.sound, abs=0.15))
    if wanted.sound is not None:
        assert beeps == pytest.approx(wanted.beeps or flashes, abs=0.02)
    assert "cut off" not in caplog.text


def test_sound_of_another_time_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = film(tmp_path / "it.mkv", range(700_000, 701_000, 40), flashes=())
    assert not list(read_audio(path))
    assert "none of its sound" in caplog.text


def test_tracks_that_begin_on_the_way_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_video(parts(tmp_path / "it.ts", {}, {"muxer": OTHER})) as video:
        assert len(list(video)) == 25
    assert "begin later on are left out: the first one has 25 frames" in caplog.text


def test_a_part_begins_with_the_picture_that_stands_there(tmp_path: Path) -> None:
    """Its sound goes on after the last picture, as in the whole."""
    times = [*range(0, 1000, 40), *range(6000, 6400, 40)]
    source = film(tmp_path / "it.mkv", times, flashes=(400, 6000), sound=(0, 8000))
    whole, part = tmp_path / "whole.gsv", tmp_path / "part.gsv"
    settings = gsvc.EncoderSettings(preset="fast", level=3, low_delay=True)
    gsvc.encode(source, whole, settings=settings)
    gsvc.encode(source, part, settings=settings, start=2)
    for stream, start in ((whole, 2), (part, 0)):
        target = tmp_path / f"{start}.mp4"
        gsvc.decode(stream, target, settings=gsvc.DecoderSettings(steps=0), start=start)
        assert flashes_of(target) == pytest.approx([4], abs=0.03)
        beeps, seconds = beeps_of(target)
        assert beeps == pytest.approx([4], abs=0.05)
        assert seconds == pytest.approx(6, abs=0.15)


@pytest.mark.parametrize(
    ("name", "start", "flash"), [("early-sound.mp4", 1.2, 0.2), ("b-frames.avi", 0.3, 0.1)]
)
def test_a_part_has_the_times_of_the_whole(
    name: str, start: float, flash: float, tmp_path: Path
) -> None:
    """Also where sound begins first, and where a container tells times of decoding alone."""
    with open_video(INPUTS[name][0](tmp_path / name), start=start) as video:
        base = video.format.time_base
        lit = [frame.pts * base for frame in video if frame.pixels.mean() > 128]
    assert float(lit[0]) == pytest.approx(flash, abs=0.045)


def test_a_track_that_begins_on_the_way_ends_nothing(tmp_path: Path) -> None:
    """Here one of texts. An address is no pattern, whatever letters it has."""
    path = film(tmp_path / "it.flv", range(0, 6000, 40), sound=(0, 6000))
    data, at = path.read_bytes(), 13
    while at < path.stat().st_size * 2 // 3:
        at += 15 + int.from_bytes(data[at + 1 : at + 4])
    text = b"\2\0\x0aonTextData\x08\0\0\0\2\0\4type\2\0\4Text\0\4text\2\0\2hi\0\0\x09"
    tag = b"\x12" + len(text).to_bytes(3) + data[at + 4 : at + 8] + bytes(3) + text
    path.write_bytes(data[:at] + tag + len(tag).to_bytes(4) + data[at:])
    with open_video(path) as video:
        assert len(list(video)) == 150
    with pytest.raises(gsvc.InputError, match="nothing comes"):
        open_video("tcp://127.0.0.1:1/a.mp4?a=[1]")


CUT = {
    "it.avi": "mjpeg",
    "it.flv": "libx264",
    "it.gif": "gif",
    "it.h264": "libx264",
    "it.hevc": "libx265",
    "it.mjpeg": "mjpeg",
    "it.mpg": "libx264",
    "it.nut": "libx264",
    "it.ogv": "libvpx",
    "it.rm": "rv20",
    "it.wmv": "wmv2",
}
"""Files → their codecs."""


@pytest.mark.parametrize("name", CUT)
def test_a_file_that_is_cut_is_told(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    form = {"mjpeg": "yuvj420p", "gif": "rgb8"}.get(CUT[name], "yuv420p")
    sound = (0, 3000) if name == "it.flv" else ()
    path = film(tmp_path / name, range(0, 3000, 40), sound=sound, codec=CUT[name], form=form)
    for kept in (1, 0.41):
        path.write_bytes(path.read_bytes()[: round(path.stat().st_size * kept)])
        error = ""
        with open_video(path) as video:
            try:
                list(video)
            except gsvc.InputError as refused:
                error = str(refused)
        assert ("may have been longer" in caplog.text or "truncated" in error) == (kept < 1)


@pytest.mark.parametrize("name", ["it.mp4", "it.mov", "it.flv", "it.wmv"])
def test_a_file_behind_another_is_told(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / name
    codec = "wmv2" if name == "it.wmv" else "libx264"
    parts(path, *2 * [{"sound": (), "codec": codec}])
    with open_video(path) as video:
        assert len(list(video)) == 25
    assert "begins after 25 frames" in caplog.text


def test_damaged_sound_is_told_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = film(tmp_path / "it.flv")
    data, at = bytearray(path.read_bytes()), 13
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 4])
        if data[at] == 8 and at > len(data) // 2:
            data[at + 13 : at + 11 + size] = b"\xff" * (size - 2)
        at += 15 + size
    path.write_bytes(data)
    assert list(encode_audio(path, Fraction(0), None))
    assert caplog.text.count("damaged audio packets") == 1


def test_a_pipe_is_opened_once(tmp_path: Path) -> None:
    whole, pipe = film(tmp_path / "it.mkv"), tmp_path / "pipe"
    os.mkfifo(pipe)
    Thread(target=pipe.write_bytes, args=(whole.read_bytes(),), daemon=True).start()
    with open_video(pipe) as video:
        assert len(list(video)) == 25


def test_lost_packets_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those of one recording, not those between two."""
    path = parts(tmp_path / "it.ts", {"sound": (0, 1000)}, {})
    data = path.read_bytes()
    for lost in (0, 188 * 9):
        path.write_bytes(data[: 188 * 50] + data[188 * 50 + lost :])
        with open_video(path) as video:
            list(video)
        assert ("lack data" in caplog.text) == (lost > 0)


def test_another_shape_of_pixels_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "it.ts"
    wide = film(path, tags={"sample_aspect_ratio": Fraction(4, 3)}).read_bytes()
    path.write_bytes(film(path).read_bytes() + wide)
    with open_video(path) as video:
        assert video.format.pixel_aspect == 1
        assert len(list(video)) == 50
    assert "pixels of shape 4/3" in caplog.text
    with open_video(path, start=1.2) as video:
        assert video.format.pixel_aspect == Fraction(4, 3)


def flashes_of(path: Path) -> list[float]:
    """When the picture becomes bright."""
    with av.open(str(path)) as file:
        seen = [
            (frame.time, frame.to_ndarray(format="gray").mean()) for frame in file.decode(video=0)
        ]
    return [
        t for (t, light), (_, before) in zip(seen[1:], seen, strict=False) if light > 128 > before
    ]


def beeps_of(path: Path) -> tuple[list[float], float | None]:
    """When the sound becomes loud, and how long it is."""
    with av.open(str(path)) as file:
        if not file.streams.audio:
            return [], None
        frames = list(file.decode(audio=0))
        sound = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    loud = np.abs(sound[: len(sound) // 480 * 480]).reshape(-1, 480).max(1) > 0.1
    begin = frames[0].time or 0.0
    starts = np.flatnonzero(loud[1:] & ~loud[:-1]) + 1
    return [begin + at / 100 for at in starts], len(sound) / RATE


PQ: dict[str, int | str | Fraction] = {"color_trc": 16, "color_primaries": 9, "colorspace": 9}
SECRET = {"encryption_key": 16 * "0f", "encryption_kid": 16 * "a7"}
REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "secret.mp4": (
        lambda path: film(path, muxer={"encryption_scheme": "cenc-aes-ctr", **SECRET}),
        "encrypted",
    ),
    "pq.mkv": (lambda path: film(path, tags=PQ), "PQ"),
    "dolby.mp4": (lambda path: film(path, tags={"codec_tag": "dvh1"}, codec="libx265"), "Dolby"),
}


TILES = (
    "c-muNV30{GsVqn=%S>Yc0uY^>nP!-"
    "qnF!=F9?nfINo0Tk#f+4kA}E`oATzmy0S)jKWR~QDS&TrOkeQR83}U!2Ft7qe7@^`Iz`?)-"
    "Q^)umNXsxV!}v_hU_J|+FAwIk!ui%fS`>)OGc)tRP6o?~0y(KnP&MgAnJElNf{Y;R63Yw>Q3aW?39?`lWJL%nWEQ2SLA"
    "@c8l9`(h*24rej0NnF#>|4E0wC>^S&*C$Qj=L+kP21b0L92+4p7XKSZ3(l$iM><6DY{6$OJK%IXF0glx}80E-"
    "V&+LCM4jw2+ypnT3HFOtOGURxk<FoSBjcj2cEppj9Bt3Uh&cE;b3#`o9Y}jD&<5AojgJd#CBh#x=%u!kBVz7>{o>n0R1"
    ")U;`F?$3O4=!If(Ayb~_R4U>E1!~y`;wO^<"
)
"""An AVIF of four pictures of 64x64 in one of 128x128."""


def test_a_picture_in_tiles_is_refused(tmp_path: Path) -> None:
    """Not read as one of them."""
    path = tmp_path / "it.avif"
    path.write_bytes(zlib.decompress(b85decode(TILES)))
    for source in (path, tmp_path / "*.avif"):
        with pytest.raises(gsvc.InputError, match="in 4 tiles"):
            open_video(source)


CROPPED = {
    b"avc1": h264(5),
    b"rle ": Clip(h264(5).pictures, "qtrle", "rgb24", CFR),
    b"png ": Clip(h264(5).pictures, "png", "rgb24", CFR),
}
"""By the name of a codec in MOV: Matroska refuses the last two."""


@pytest.mark.parametrize("entry", CROPPED)
def test_a_crop_that_only_the_container_states_is_applied(entry: bytes, tmp_path: Path) -> None:
    """A clean aperture (ISO/IEC 14496-12) of 48x40 in 64x48 pixels."""
    data = bytearray(CROPPED[entry].write(tmp_path / "it.mp4", "mov").read_bytes())
    begin, sizes = 0, []
    for name in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", entry):
        while bytes(data[begin + 4 : begin + 8]) != name:
            begin += struct.unpack_from(">I", data, begin)[0]
        sizes.append(begin)
        begin += 16 if name == b"stsd" else 8
    end = sizes[-1] + struct.unpack_from(">I", data, sizes[-1])[0]
    data[end:end] = struct.pack(">I4s8I", 40, b"clap", 48, 1, 40, 1, 0, 1, 0, 1)
    for at in sizes:
        struct.pack_into(">I", data, at, struct.unpack_from(">I", data, at)[0] + 40)
    (tmp_path / "cropped.mp4").write_bytes(data)
    _, whole = read(tmp_path / "it.mp4")
    _, cropped = read(tmp_path / "cropped.mp4")
    for frame, source in zip(cropped, whole, strict=True):
        np.testing.assert_array_equal(frame.pixels, source.pixels[4:44, 8:56])


def test_a_tiff_of_jpeg_is_no_black_picture(tmp_path: Path) -> None:
    Image.fromarray(np.full((48, 64, 3), 200, np.uint8)).save(
        tmp_path / "it.tif", compression="jpeg"
    )
    for source in (tmp_path / "it.tif", tmp_path / "*.tif"):
        with pytest.raises(gsvc.InputError, match="a TIFF with JPEG inside"):
            open_video(source)


def test_a_pipe_among_images_is_refused(tmp_path: Path) -> None:
    """Not waited for."""
    os.mkfifo(tmp_path / "it.png")
    with pytest.raises(gsvc.InputError, match="a pipe among images"):
        open_video(tmp_path / "*.png")


def test_a_file_with_a_hollow_end_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = film(tmp_path / "it.mkv", range(0, 6000, 40), sound=())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) // 2))
    with open_video(path) as video:
        assert len(list(video)) < 140
    assert "cut off" in caplog.text


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shown_is_refused(name: str, tmp_path: Path) -> None:
    make, words = REFUSED[name]
    with pytest.raises(gsvc.UnsupportedInputError, match=words):
        gsvc.encode(make(tmp_path / name), tmp_path / "it.gsv")
