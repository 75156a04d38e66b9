"""Decoding with learned motion: `DecoderSettings(motion="rife")`, and what it costs."""

import io
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gsvc
from gsvc.codec.bitstream.scaffold import Place
from gsvc.codec.bitstream.stream_info import read_info
from gsvc.codec.command.main import main
from gsvc.datasets.clips.clip_reader import ClipFormat
from gsvc.decoders.interpolation.rife import load_rife
from gsvc.eval.baselines.gsvc import Gsvc
from gsvc.eval.compute import count_flops
from needs import need
from plain_refiners import PlainWindows

DIS = gsvc.DecoderSettings(steps=0)
LEARNED = gsvc.DecoderSettings(steps=0, motion="rife")
GOLDEN = Path(__file__).parent / "golden"


def stream(name: str) -> bytes:
    return (GOLDEN / f"{name}.gsv").read_bytes()


def decode(
    data: bytes, settings: gsvc.DecoderSettings, lost: int | None = None
) -> list[gsvc.Frame]:
    """All frames; without packet `lost`."""
    reader = gsvc.StreamReader(io.BytesIO(data))
    with gsvc.Decoder(reader.header, settings) as decoder:
        kept = (packet for number, packet in enumerate(reader) if number != lost)
        return [frame for packet in kept for frame in decoder.decode(packet)] + decoder.flush()


def drawn_between(data: bytes) -> list[bool]:
    """Of each frame, whether it is drawn from two coded pictures by motion."""
    found: list[bool] = []
    for packet in read_info(io.BytesIO(data)).packets:
        for one in packet.intervals:
            moves = one.place is Place.BETWEEN and not one.dissolves
            found += [moves and n < one.frames for n in range(1, one.frames + 1)]
    return found


@pytest.fixture(autouse=True, scope="module")
def weights() -> None:
    with need("rife"):
        load_rife()


@pytest.mark.parametrize("name", ["every_tool", "dissolving", "held_and_moved"])
def test_only_frames_between_pictures_change(name: str) -> None:
    """Pictures, and frames that hold one or dissolve, are shown as ever."""
    data = stream(name)
    plain, learned = decode(data, DIS), decode(data, LEARNED)
    assert [frame.pts for frame in plain] == [frame.pts for frame in learned]
    pairs = zip(plain, learned, drawn_between(data), strict=True)
    for a, b, between in pairs:
        assert between or np.array_equal(a.pixels, b.pixels)
    changed = [not np.array_equal(a.pixels, b.pixels) for a, b in zip(plain, learned, strict=True)]
    assert sum(changed) > 0.9 * sum(drawn_between(data))


def test_losses_are_concealed_as_ever() -> None:
    data = stream("every_tool")
    settings = gsvc.DecoderSettings(steps=0, motion="rife", conceal=True)
    whole, shown = decode(data, LEARNED), decode(data, settings, lost=2)
    assert [frame.pts for frame in shown] == [frame.pts for frame in whole]
    assert any(frame.concealed for frame in shown)
    for a, b in zip(whole, shown, strict=True):
        assert b.concealed or np.array_equal(a.pixels, b.pixels)


def test_windows_take_what_it_draws() -> None:
    name = f"{PlainWindows.__module__}:{PlainWindows.__name__}"
    data = stream("every_tool")
    windows = gsvc.DecoderSettings(steps=1, backend=name, motion="rife")
    shown, whole = decode(data, windows), decode(data, LEARNED)
    assert [frame.pts for frame in shown] == [frame.pts for frame in whole]
    for a, b in zip(shown, whole, strict=True):
        assert np.array_equal(a.pixels, b.pixels)


def test_without_weights_the_decoder_says_at_once_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    header = gsvc.StreamReader(io.BytesIO(stream("one_small_frame"))).header
    with pytest.raises(gsvc.MissingModelError, match="run: gsvc models pull rife$"):
        gsvc.Decoder(header, LEARNED)
    source = str(GOLDEN / "one_small_frame.gsv")
    assert main(("decode", source, f"{tmp_path}/a.mp4", "--steps", "0", "--motion", "rife")) == 1
    assert capsys.readouterr().err.endswith("run: gsvc models pull rife\n")
    assert not (tmp_path / "a.mp4").exists()


def test_an_unknown_motion_is_refused() -> None:
    with pytest.raises(gsvc.ConfigError, match="choose one of dis, rife$"):
        gsvc.DecoderSettings(motion="raft")


def test_where_nothing_is_drawn_the_network_is_not_loaded() -> None:
    script = """
import sys
import gsvc
with open(sys.argv[1], "rb") as file:
    reader = gsvc.StreamReader(file)
    decoder = gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=0, motion="rife"))
    frames = [frame for packet in reader for frame in decoder.decode(packet)]
sys.exit("torch" in sys.modules or not frames)
"""
    command = [sys.executable, "-c", script, str(GOLDEN / "one_small_frame.gsv")]
    assert subprocess.run(command, check=False).returncode == 0


def test_motion_is_a_way_to_decode_that_old_ways_do_not_name() -> None:
    ways = Gsvc(steps=(0, 1), motion=("dis", "rife")).ways_to_decode({})
    assert ways == [
        {"steps": 0},
        {"steps": 1},
        {"steps": 0, "motion": "rife"},
        {"steps": 1, "motion": "rife"},
    ]


@pytest.mark.slow
def test_its_cost_is_what_decoding_really_runs() -> None:
    data = stream("held_and_moved")
    info = read_info(io.BytesIO(data))
    width, height = info.header.format.width, info.header.format.height
    clip = ClipFormat(width, height, Fraction(25), info.frames)
    codec = Gsvc(steps=0, motion="rife")
    (way,) = codec.ways_to_decode({})
    run = count_flops(lambda: codec.decode(data, clip, {}, way))
    cost = codec.compute(data, clip, {}, way)
    assert cost is not None and run > 0
    assert cost.flops_per_pixel * width * height * info.frames == pytest.approx(run)
    assert cost.model_bytes > 20_000_000
