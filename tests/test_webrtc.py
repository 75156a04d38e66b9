"""The example of WebRTC data channels, between two peers in one process."""

import subprocess
import sys
from pathlib import Path

import pytest

from live import frames
from needs import need_package
from video_clips import Clip, read

SCRIPT = Path(__file__).resolve().parent.parent / "examples" / "webrtc.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="runs in a checkout")
def test_video_goes_over_data_channels(tmp_path: Path) -> None:
    need_package("aiortc")
    source = Clip([frame.pixels for frame in frames(40)]).write(tmp_path / "in.mkv")
    target = tmp_path / "out.mkv"
    command = [sys.executable, str(SCRIPT), str(source), str(target)]
    told = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    assert int(told.split()[0]) == len(read(target)[1]) > 0  # a busy machine drops some
