import os
import subprocess
import sys
from fractions import Fraction
from functools import partial
from typing import Any

import av
import numpy as np
import pytest

from gsvc import Color, Picture
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.encoders import svt_av1 as pictures
from gsvc.encoders.svt_av1 import encode_pictures
from gsvc.eval.baselines.svtav1 import SvtAv1

ONE_PICTURE: list[Picture] = [np.full((128, 128, 3), 90, np.uint8)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives root real-time priority")
def test_encoding_leaves_the_priority_of_the_process_alone() -> None:
    before = os.sched_getscheduler(0)
    encode_pictures(ONE_PICTURE, size=(128, 128), crf=60, color=Color())
    clip = TestClip("one", ONE_PICTURE, Fraction(25))
    SvtAv1().encode(clip, {"preset": 4, "crf": 60, "scale": "1"})
    threads = os.listdir("/proc/self/task")
    assert {os.sched_getscheduler(int(thread)) for thread in threads} == {before}


def test_closing_before_the_end_prints_nothing() -> None:
    program = """
import av, numpy as np
from fractions import Fraction
from functools import partial
from gsvc.encoders.svt_av1 import quiet_and_ordinary
coder = av.CodecContext.create("libsvtav1", "w")
coder.width, coder.height, coder.pix_fmt, coder.time_base = 64, 64, "yuv420p", Fraction(1, 25)
frame = av.VideoFrame.from_ndarray(np.zeros((96, 64), np.uint8), "yuv420p")
frame.pts = 0
with quiet_and_ordinary():
    coder.encode(frame)
"""
    environment = {name: value for name, value in os.environ.items() if name != "SVT_LOG"}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, check=False, capture_output=True, env=environment)
    assert (run.returncode, run.stderr) == (0, b"")


def test_a_sequence_that_ends_too_soon_is_coded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = partial(encode_pictures, size=(64, 64), crf=60, color=Color(), preset=10)
    sequence = [np.full((64, 64, 3), 10 * n, np.uint8) for n in range(4)]
    whole = encode(sequence)
    opened: list[EndsTooSoon] = []

    def open_coder(*arguments: Any) -> EndsTooSoon:
        opened.append(EndsTooSoon(_open(*arguments), whole=len(opened) == 1))
        return opened[-1]

    _open = pictures._open
    monkeypatch.setattr(pictures, "_open", open_coder)
    assert encode(sequence) == whole and len(opened) == 2
    with pytest.raises(RuntimeError, match="units for 4 pictures"):
        encode(sequence)


class EndsTooSoon:
    """A coder that keeps its last packets to itself, unless it is `whole`."""

    def __init__(self, coder: av.VideoCodecContext, *, whole: bool) -> None:
        self._coder, self._whole = coder, whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coder, name)

    def encode(self, frame: av.VideoFrame | None) -> list[Any]:
        packets = self._coder.encode(frame)
        return packets if self._whole or frame is not None else packets[:-1]
