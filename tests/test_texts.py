"""Title, chapters and subtitles: through the stream and back into a container; what is lost is
named."""

import logging
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.container import OutputContainer
from av.video.stream import VideoStream
from hypothesis import given, strategies as st

import gsvc
from gsvc import BitstreamError, LimitError, Limits, Packet, PacketType
from gsvc.codec.bitstream.audio_and_text import (
    Subtitles,
    Texts,
    TimedText,
    moved,
    read_texts,
    text_packets,
)
from gsvc.codec.bitstream.container import varint
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, HeldBytes
from gsvc.codec.media.muxer import TextTrack
from gsvc.codec.media.track_source import Wanted, read_beside
from video_clips import SAME

TEXTS = Texts(
    {"title": "Stadt – ein Film", "artist": "Someone"},
    (TimedText(0, 400, "First"), TimedText(400, 200, ""), TimedText(600, 200, "Second")),
    (
        Subtitles(
            "ger", "Text", (TimedText(80, 200, "Guten Tag"), TimedText(480, 120, "zwei\nZeilen"))
        ),
    ),
)
LIVE = gsvc.EncoderSettings(level=3, preset="fast", low_delay=True)
"""Texts go beside the pictures, however these are coded."""
SPANS = st.builds(TimedText, st.integers(0, 1 << 30), st.integers(0, 1 << 30), st.text(max_size=30))


def held(limits: Limits = DEFAULT_LIMITS) -> HeldBytes:
    return HeldBytes(limits)


# The payload


def test_the_payload_is_what_the_format_says() -> None:
    texts = Texts(
        {"title": "T"}, (TimedText(300, 5, "c"),), (Subtitles("deu", "n", (TimedText(9, 1, "s"),)),)
    )
    (packet,) = text_packets(texts)
    assert packet.payload == (
        b"\x00\x07\x05titleT\x01\x04\xac\x02\x05c\x02\x05\x03deun\x03\x03\x09\x01s"
    )


@given(
    st.dictionaries(st.text(max_size=9), st.text(max_size=30), max_size=3),
    st.lists(SPANS, max_size=3),
    st.lists(st.lists(SPANS, max_size=4), max_size=2),
)
def test_any_texts_come_back(
    tags: dict[str, str], chapters: list[TimedText], tracks: list[list[TimedText]]
) -> None:
    in_order = (tuple(sorted(cues, key=lambda cue: cue.start)) for cues in tracks)
    texts = Texts(tags, tuple(chapters), tuple(Subtitles("", "x", cues) for cues in in_order))
    assert read_texts(text_packets(texts), held()) == texts


def test_many_texts_take_several_packets_and_unknown_entries_are_skipped() -> None:
    cues = tuple(TimedText(1000 * index, 900, f"line {index}" * 20) for index in range(1000))
    texts = Texts({}, (), (Subtitles("eng", "", cues),))
    packets = list(text_packets(texts))
    assert len(packets) > 1 and max(len(packet.payload) for packet in packets) <= 1 << 16
    packets.insert(1, Packet(PacketType.TEXT, 0, varint(9) + varint(3) + b"new"))
    assert read_texts(packets, held()) == texts


@pytest.mark.parametrize(
    "data", [b"\x00", b"\x00\x05\x09ab", b"\x03\x02\x01\x80", b"\x00\x02\x00\xff"]
)
def test_damaged_texts_are_refused(data: bytes) -> None:
    track = b"\x02\x01\x00"
    with pytest.raises(BitstreamError):
        read_texts([Packet(PacketType.TEXT, 0, track + data)], held())


def test_texts_hold_no_more_memory_than_the_limits_say() -> None:
    packet = Packet(PacketType.TEXT, 0, b"\x01\x02\x00\x00" * 1000)
    with pytest.raises(LimitError):
        read_texts([packet], held(Limits(held_bytes=100_000)))
    with pytest.raises(LimitError):
        read_texts(
            [Packet(PacketType.TEXT, 0, b"\x01\x06" + varint((1 << 35) - 1) + b"\0")], held()
        )


def test_a_part_has_its_texts() -> None:
    part = moved(TEXTS, 200, 300)
    assert part.chapters == (TimedText(0, 200, "First"), TimedText(200, 100, ""))
    assert part.subtitles[0].cues == (
        TimedText(0, 80, "Guten Tag"),
        TimedText(280, 20, "zwei\nZeilen"),
    )


# Files


def film(path: Path, texts: Texts = TEXTS, attachment: bool = False) -> Path:
    """20 frames of 64x48, with texts."""
    with av.open(str(path), "w") as container:
        assert isinstance(container, OutputContainer)
        video = container.add_stream("libx264", rate=25, options=SAME)
        assert isinstance(video, VideoStream)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        track = TextTrack(container, texts)
        if attachment:
            container.add_attachment("note.txt", "text/plain", b"hello")
        for index in range(20):
            picture = np.full((48, 64, 3), 5 * index, np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = index, Fraction(1, 25)
            container.mux(video.encode(frame))
            track.write_until(Fraction(index, 25))
        container.mux(video.encode(None))
    return path


def texts_of(path: Path) -> Texts:
    return read_beside(path, Fraction(0), None, Wanted(False, None, True))


@pytest.mark.parametrize("suffix", ["mkv", "mp4", "mov", "webm"])
def test_texts_come_back(tmp_path: Path, suffix: str) -> None:
    source = film(tmp_path / "a.mkv")
    report = gsvc.encode(source, tmp_path / "a.gsv", settings=LIVE)
    info = gsvc.info(tmp_path / "a.gsv")
    assert report.text_size > info.bits["text"] / 8 > 50
    assert info.bpp == pytest.approx(report.bpp)
    plain = gsvc.encode(source, tmp_path / "plain.gsv", settings=LIVE, texts=False)
    assert (plain.text_size, plain.size) == (0, report.size - report.text_size)
    back = tmp_path / f"back.{suffix}"
    gsvc.decode(tmp_path / "a.gsv", back, settings=gsvc.DecoderSettings(steps=0))
    assert texts_of(back) == TEXTS


def test_a_part_of_a_stream_and_of_a_source_has_its_texts(tmp_path: Path) -> None:
    steps_0 = gsvc.DecoderSettings(steps=0)
    source = film(tmp_path / "a.mp4")
    gsvc.encode(source, tmp_path / "a.gsv", settings=LIVE)
    gsvc.decode(tmp_path / "a.gsv", tmp_path / "a.mkv", settings=steps_0, start=0.2, frames=10)
    gsvc.encode(source, tmp_path / "b.gsv", settings=LIVE, start=0.2, frames=10)
    gsvc.decode(tmp_path / "b.gsv", tmp_path / "b.mkv", settings=steps_0)
    wanted = moved(TEXTS, 200, 400)
    for name in ("a.mkv", "b.mkv"):
        assert texts_of(tmp_path / name) == wanted


def test_one_line_names_all_that_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = replace(TEXTS, tags={"title": "T", "lyrics": "la"})
    source = film(tmp_path / "a.mkv", texts, attachment=True)
    with caplog.at_level(logging.WARNING, "gsvc"):
        gsvc.encode(source, tmp_path / "a.gsv", settings=LIVE)
        target = tmp_path / "a.avi"
        gsvc.decode(tmp_path / "a.gsv", target, settings=gsvc.DecoderSettings(steps=0))
    first, second = (record.getMessage() for record in caplog.records)
    assert first == f"{source}: not carried: tag lyrics; attachment note.txt"
    assert second.startswith("avi cannot carry chapters and subtitles")


def test_languages_that_a_container_cannot_name_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (track,) = TEXTS.subtitles
    tracks = tuple(replace(track, language=name) for name in ("eng", "nob", "pt-BR"))
    source = film(tmp_path / "a.mkv", replace(TEXTS, subtitles=tracks))
    gsvc.encode(source, tmp_path / "a.gsv", settings=LIVE)
    for name, lost in (("a.mov", "nob, pt-BR"), ("a.mp4", "pt-BR"), ("a.m4v", "pt-BR")):
        target = tmp_path / name
        gsvc.decode(tmp_path / "a.gsv", target, settings=gsvc.DecoderSettings(steps=0))
        assert f"{name}: cannot name these languages" in caplog.text
        assert f"left out: {lost}: use .mkv" in caplog.text
        assert texts_of(target).subtitles[0].language == "eng"


_ASS = """[Script Info]
ScriptType: v4.00+
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:00.10,0:00:00.50,Default,,0,0,0,,{\\i1\\p1}m 0 0 l 9{\\p0}both{note},{\\b1}so\\Nnew
"""


@pytest.mark.parametrize(
    ("name", "content", "text", "lost"),
    [
        ("a.ass", _ASS, "both,so\nnew", "drawings in subtitles"),
        ("a.srt", "1\n00:00:00,100 --> 00:00:00,500\n{so} <i>it</i> is\n", "{so} it is", ""),
    ],
)
def test_style_and_drawings_are_no_text(
    name: str, content: str, text: str, lost: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_text(content)
    with caplog.at_level(logging.WARNING, "gsvc"):
        ((cue,),) = (track.cues for track in texts_of(tmp_path / name).subtitles)
    assert cue.text == text
    assert [record.getMessage().partition("carried: ")[2] for record in caplog.records] == (
        [lost] if lost else []
    )


def test_targets_of_pictures_alone_say_what_they_leave_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gsvc.encode(film(tmp_path / "a.mkv"), tmp_path / "a.gsv", settings=LIVE)
    lost = "subtitles and chapters and title or other tags"
    for name, told in (
        ("a.y4m", f"a.y4m carries no {lost}: left out, use .mp4 or .mkv"),
        ("a/%05d.png", f"%05d.png carries no {lost}: left out"),
        ("a.gif", "gif cannot carry chapters and subtitles, which are left out"),
    ):
        for start, frames in ((0.0, None), (0.2, 5)):
            caplog.clear()
            gsvc.decode(
                tmp_path / "a.gsv",
                tmp_path / name,
                settings=gsvc.DecoderSettings(steps=0),
                start=start,
                frames=frames,
                overwrite=True,
            )
            (record,) = caplog.records
            assert told in record.getMessage()
