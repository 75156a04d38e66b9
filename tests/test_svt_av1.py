import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from gsvc.codec.frames import Color, Picture
from gsvc.datasets.clips import TestClip
from gsvc.encoders.pictures import encode_pictures
from gsvc.eval.codecs.svtav1 import SvtAv1

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
