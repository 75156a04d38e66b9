"""Encoding in less memory, the same stream."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import pytest

import gsvc
from gsvc.encoders import frame_buffer
from gsvc.encoders.frame_buffer import FrameBuffer, JoinedFrames

FORM = gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25))
USUAL = gsvc.EncoderSettings(level=2, preset="fast", faces=False, face_weight=1)


def coded(pictures: list[gsvc.Picture], settings: gsvc.EncoderSettings) -> list[bytes]:
    with gsvc.Encoder(FORM, settings) as encoder:
        packets = []
        for number, picture in enumerate(pictures):
            if number == 18:  # the group before goes on from it
                encoder.force_keyframe()
            packets += encoder.encode(gsvc.Frame(picture, number))
        return [packet.to_bytes() for packet in [*packets, *encoder.flush()]]


@pytest.mark.parametrize("preset", ["fast", "medium"])
def test_an_encoder_that_holds_less_memory_makes_the_same_stream(
    moving_pictures: Callable[..., list[gsvc.Picture]], preset: str
) -> None:
    pictures = moving_pictures(30)
    usual = replace(USUAL, preset=preset, semantics=False)
    assert coded(pictures, replace(usual, low_memory=True)) == coded(pictures, usual)


@pytest.mark.parametrize("size", [(33, 35), (48, 64), (1, 1), (37, 301)])
def test_packed_frames_come_back_as_they_were(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (*size, 3), np.uint8) for _ in range(4)]
    waiting = FrameBuffer(low_memory=True)
    for picture in pictures:
        waiting.append(picture)
    shown = JoinedFrames(waiting[1:], pictures[:1])
    for found, true in zip(
        [*waiting, *shown], [*pictures, *pictures[1:], pictures[0]], strict=True
    ):
        assert np.array_equal(found, true)
    assert np.array_equal(shown[1:][-1], pictures[0]) and len(shown[1:]) == 3


@pytest.mark.parametrize("is_full", [False, True])
def test_frames_beyond_a_size_wait_in_files_if_there_is_room(
    monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    pictures = [np.full((48, 64, 3), number, np.uint8) for number in range(4)]
    monkeypatch.setattr(frame_buffer, "_IN_MEMORY", 2 * pictures[0].nbytes)
    made = []

    def file() -> IO[bytes]:
        if is_full:
            raise OSError("no space left on device")
        made.append(TemporaryFile())  # noqa: SIM115 - closed with the frames
        return made[-1]

    monkeypatch.setattr(frame_buffer, "TemporaryFile", file)
    assert np.array_equal(FrameBuffer(pictures), pictures)
    assert len(made) == (not is_full)


def test_files_of_packed_frames_end_with_the_last_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_buffer, "_FILE_BYTES", 1)
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("no list of open files")
    before = len(list(folder.iterdir()))
    waiting = FrameBuffer([np.full((48, 64, 3), n, np.uint8) for n in range(8)], low_memory=True)
    last = waiting[-1:]
    assert len(list(folder.iterdir())) >= before + 8
    del waiting
    assert len(list(folder.iterdir())) <= before + 2 and last[0].max() == 7
