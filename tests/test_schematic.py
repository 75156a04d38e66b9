"""A stream without pictures decodes to a schematic of its objects, which says so."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gsvc
from gsvc.codec.bitstream.objects import Anchor
from gsvc.codec.command.main import main
from test_analyse_objects import GOLDEN, run_of, stream_of, walker

PLAIN = gsvc.DecoderSettings(steps=0)


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    runs = [
        run_of(Anchor(1, (walker(1, 100),)), Anchor(4, (walker(1, 120),)), begins=True),
        run_of(Anchor(5, late={1: 0})),
    ]
    return stream_of(runs, tmp_path / "alone.gsv")


def decoded(path: Path, settings: gsvc.DecoderSettings = PLAIN) -> list[gsvc.Frame]:
    with path.open("rb") as file:
        reader = gsvc.StreamReader(file)
        with gsvc.Decoder(reader.header, settings) as decoder:
            return [frame for packet in reader for frame in decoder.decode(packet)]


def test_boxes_are_drawn_where_they_were_sent(
    alone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    frames = decoded(alone)
    assert [frame.pts for frame in frames] == list(range(10))
    assert [record.message for record in caplog.records] == [
        "the stream has no pictures: shown is a schematic of its objects"
    ]
    first, empty = frames[0].pixels, frames[-1].pixels
    assert first.shape == (192, 320, 3)
    assert first[70, 110].mean() > 1.5 * first[70, 200].mean()
    assert np.ptp(empty[:140]) == 0 and empty[140:].max() == 255  # nothing, and the note


def test_the_commands_take_it(
    alone: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "it.mp4"
    assert main(["decode", str(alone), "-o", str(target), "--steps", "0"]) == 0
    assert "schematic" in capfd.readouterr().err
    assert main(["decode", str(alone), "-o", str(target), "-y", "--start", "0.1"]) == 1
    assert "no pictures to seek" in capfd.readouterr().err
    assert main(["analyse", str(alone), "--draw", str(tmp_path / "seen.mp4"), "--quiet"]) == 0
    assert (tmp_path / "seen.mp4").stat().st_size > 1000


def test_a_lost_packet_ends_it_or_is_concealed(alone: Path) -> None:
    with alone.open("rb") as file:
        reader = gsvc.StreamReader(file)
        first, second, _ = reader
    damaged = replace(second, payload=b"\x09" + second.payload[1:])
    with gsvc.Decoder(reader.header, PLAIN) as decoder:
        assert len(decoder.decode(first)) == 5
        with pytest.raises(gsvc.BitstreamError, match="missing"):
            decoder.decode(damaged)
    with gsvc.Decoder(reader.header, replace(PLAIN, conceal=True)) as decoder:
        assert len(decoder.decode(first)) == 5 and not decoder.decode(damaged)


def test_objects_beside_pictures_draw_nothing() -> None:
    assert len(decoded(GOLDEN / "with_objects.gsv")) == 17
