"""The values that pass between stages: comparison and repr."""

import numpy as np

from gsvc import AudioChunk, Frame


def test_frames_compare_by_pixels_time_and_flag() -> None:
    black, white = np.zeros((2, 3, 3), np.uint8), np.full((2, 3, 3), 255, np.uint8)
    assert Frame(black, 1) == Frame(black.copy(), 1)
    assert Frame(black, 1) != Frame(white, 1)
    assert Frame(black, 1) != Frame(black, 2)
    assert Frame(black, 1) != Frame(black, 1, concealed=True)
    assert Frame(black, 1) != "frame"


def test_repr_leaves_out_pixels_and_packets() -> None:
    frame = Frame(np.zeros((2, 3, 3), np.uint8), 7)
    assert repr(frame) == "Frame(shape=(2, 3, 3), pts=7, concealed=False)"
    chunk = AudioChunk(0, 2, 960, 312, (b"opus",))
    assert repr(chunk) == "AudioChunk(pts=0, channels=2, packet_samples=960, pre_skip=312)"
