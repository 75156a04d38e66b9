import os
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
