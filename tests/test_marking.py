"""What trained models drew says so: in containers and images, after a remux, to `gsvc info`."""

import io
import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import gsvc
from commands import assert_one_line, run_gsvc
from gsvc import DecoderSettings
from gsvc.codec.api.decoder_settings import mark_of
from gsvc.codec.bitstream.audio_and_text import Texts
from gsvc.codec.media.marks import SOURCE_TYPE, Mark, find_marks, marked_comment, read_marks
from gsvc.codec.media.video_writer import open_writer
from needs import need_package

GOLDEN = Path(__file__).parent / "golden" / "one_small_frame.gsv"
MARK = Mark("0.1.0", 1, "compact:nano", "dis")
OTHER = Mark("0.0.9", 4, "compact:base", "rife")


def write(path: Path, mark: Mark | None, texts: Texts = Texts()) -> Path:  # noqa: B008
    form = gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25))
    with open_writer(path, form, mark=mark, texts=texts) as writer:
        writer.write(gsvc.Frame(np.full((48, 64, 3), 90, np.uint8), 0))
    return path


def remuxed(source: Path, target: Path) -> Path:
    """As `ffmpeg -c copy` does it: packets and tags."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        new.metadata.update(old.metadata)
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(video=0):
            if packet.size:
                packet.stream = stream
                packet.dts = packet.pts
                new.mux(packet)
    return target


def test_only_trained_models_mark() -> None:
    assert mark_of(DecoderSettings(steps=0)) is None
    refined = mark_of(DecoderSettings(steps=2, backend="compact:nano"))
    assert refined is not None and (refined.steps, refined.backend) == (2, "compact:nano")
    moved = mark_of(DecoderSettings(steps=0, motion="rife"))
    assert moved is not None and (moved.backend, moved.motion) == ("none", "rife")
    own = mark_of(DecoderSettings(steps=1, backend="/home/me/no name|x.safetensors"))
    assert own is not None and own.backend == "no-name-x.safetensors"
    assert find_marks(str(own)) == (own,)


def test_earlier_marks_stay() -> None:
    assert find_marks(marked_comment(MARK, marked_comment(OTHER, "by hand"))) == (MARK, OTHER)
    assert marked_comment(MARK, str(MARK)) == str(MARK)
    assert find_marks("gsvc 1 decoded this: synthetic=maybe") == ()
    assert len(find_marks(f"{MARK} " * 99)) == 16


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv", "webm", "avi", "ogv", "nut", "png", "jpg"])
def test_files_carry_the_mark(tmp_path: Path, suffix: str) -> None:
    assert read_marks(write(tmp_path / f"a.{suffix}", MARK)) == (MARK,)
    assert read_marks(write(tmp_path / f"b.{suffix}", None)) == ()


@pytest.mark.parametrize(("old", "new"), [("mp4", "mkv"), ("mkv", "mp4"), ("mp4", "mov")])
def test_a_remux_keeps_mark_and_comment(tmp_path: Path, old: str, new: str) -> None:
    texts = Texts(tags={"comment": f"{OTHER} | mine", "title": "A film"})
    made = write(tmp_path / f"a.{old}", MARK, texts)
    again = remuxed(made, tmp_path / f"b.{new}")
    assert read_marks(again) == (MARK, OTHER)
    with av.open(str(again)) as container:
        tags = {name.lower(): text for name, text in container.metadata.items()}
    assert tags["title"] == "A film" and tags["comment"].endswith("mine")


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_images_say_it_in_xmp_and_look_the_same(tmp_path: Path, suffix: str) -> None:
    image = need_package("PIL.Image")
    marked, plain = write(tmp_path / f"a.{suffix}", MARK), write(tmp_path / f"b.{suffix}", None)
    with image.open(io.BytesIO(marked.read_bytes())) as one, image.open(plain) as other:
        assert np.array_equal(np.asarray(one), np.asarray(other))
        xmp = one.info["xmp"].decode()
    assert f'Iptc4xmpExt:DigitalSourceType="{SOURCE_TYPE}"' in xmp


@pytest.mark.parametrize("suffix", ["ts", "bmp"])
def test_formats_without_room_say_so(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_marks(write(tmp_path / f"a.{suffix}", MARK)) == ()
    assert "cannot say that trained models drew it" in caplog.text
    caplog.clear()
    write(tmp_path / f"b.{suffix}", None)
    assert not caplog.text


def test_decoding_marks_and_info_tells(tmp_path: Path) -> None:
    need_package("torch")
    gsvc.decode(GOLDEN, tmp_path / "a.png", settings=DecoderSettings(steps=1))
    gsvc.decode(GOLDEN, tmp_path / "b.png", settings=DecoderSettings(steps=0))
    assert read_marks(tmp_path / "b.png") == ()
    told = run_gsvc("info", tmp_path / "a.png")
    assert told.returncode == 0 and b"yes: in part drawn by trained models" in told.stdout
    told = run_gsvc("info", tmp_path / "a.png", tmp_path / "b.png", "--json")
    decoded, shown = map(json.loads, told.stdout.splitlines())
    assert decoded["marks"][0]["source_type"] == SOURCE_TYPE and shown["type"] == "video"


def test_files_of_strangers_are_not_opened_by_ffmpeg(tmp_path: Path) -> None:
    told = run_gsvc("info", write(tmp_path / "a.mp4", MARK), "--untrusted")
    assert_one_line(told, 1, "not a gsvc stream")
