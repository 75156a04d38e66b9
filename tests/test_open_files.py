"""Open binary files in place of paths: read from where they stand, written to, left open."""

import io
import os
import threading
from pathlib import Path
from typing import cast

import pytest

import gsvc

FAST = gsvc.DecoderSettings(steps=0)
PLAIN = gsvc.EncoderSettings(level=0, preset="fast")


def test_a_video_in_memory_becomes_the_stream_that_its_file_does(
    clip: Path, stream: Path, bare_settings: gsvc.EncoderSettings
) -> None:
    made, source = io.BytesIO(), io.BytesIO(b"before" + clip.read_bytes())
    source.seek(len(b"before"))
    report = gsvc.encode(source, made, settings=bare_settings)
    assert made.getvalue() == stream.read_bytes()
    assert report.size == len(made.getvalue()) and report.target == "the open file"
    with open(clip, "rb") as file:
        gsvc.encode(file, again := io.BytesIO(), settings=bare_settings)
        assert not file.closed
    assert again.getvalue() == made.getvalue()


def test_a_stream_in_memory_decodes_as_its_file_does(stream: Path, tmp_path: Path) -> None:
    gsvc.decode(stream, tmp_path / "a.y4m", settings=FAST)
    made = io.BytesIO()
    report = gsvc.decode(io.BytesIO(stream.read_bytes()), made, settings=FAST)
    assert made.getvalue() == (tmp_path / "a.y4m").read_bytes() and report.frames
    source = io.BytesIO(b"head" + stream.read_bytes())
    source.seek(4)
    part = gsvc.decode(source, tmp_path / "b.y4m", settings=FAST, start=0.2, frames=3)
    assert part.frames == 3
    with open(stream, "rb") as file, open(tmp_path / "c.y4m", "wb") as target:
        gsvc.decode(file, target, settings=FAST)
    assert (tmp_path / "c.y4m").read_bytes() == made.getvalue()


def test_a_pipe_decodes_as_its_bytes_come(stream: Path) -> None:
    reads, writes = os.pipe()

    def feed() -> None:
        with open(writes, "wb") as end:
            end.write(stream.read_bytes())

    feeding = threading.Thread(target=feed)
    feeding.start()
    with open(reads, "rb") as source:
        report = gsvc.decode(source, io.BytesIO(), settings=FAST)
    feeding.join()
    assert report.frames == gsvc.info(stream).frames


def test_info_and_analyse_take_open_files_and_mapped_ones(stream: Path, tmp_path: Path) -> None:
    told = gsvc.info(stream)
    assert gsvc.info(io.BytesIO(stream.read_bytes())) == told
    settings = gsvc.AnalysisSettings(detector="none")
    seen = gsvc.analyse(io.BytesIO(stream.read_bytes()), settings=settings)
    assert len(seen.frames) == told.frames
    for suffix in (".mp4", ".mkv"):
        mapped = tmp_path / f"it{suffix}"
        gsvc.mux(stream, mapped)
        assert gsvc.info(mapped) == told
        assert gsvc.info(io.BytesIO(mapped.read_bytes())) == told


def test_what_cannot_be_read_or_written_is_named(clip: Path, stream: Path, tmp_path: Path) -> None:
    video = tmp_path / "out.mp4"
    with open(video, "wb") as file:
        with pytest.raises(gsvc.WrongTypeError, match="out.mp4 cannot be read: open it in binary"):
            gsvc.info(file)
        with pytest.raises(gsvc.ConfigError, match="takes y4m, not what .*out.mp4 says"):
            gsvc.decode(stream, file, settings=FAST)
    with open(stream, "rb") as file, pytest.raises(gsvc.WrongTypeError, match="cannot be written"):
        gsvc.encode(clip, file, settings=PLAIN)
    text = cast("io.BytesIO", io.StringIO("text"))
    with pytest.raises(gsvc.WrongTypeError, match="give a path, a file opened in binary"):
        gsvc.decode(text, video, settings=FAST)


def test_errors_name_the_open_file_not_its_copy() -> None:
    with pytest.raises(gsvc.BitstreamError, match=r"^the open file: "):
        gsvc.info(io.BytesIO(b"no stream at all, but long enough for a header of one" * 3))
    with pytest.raises(gsvc.InputError, match=r"^the open file: not a video"):
        gsvc.encode(io.BytesIO(b"no video"), io.BytesIO(), settings=PLAIN)
