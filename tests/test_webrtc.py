"""The example of WebRTC data channels, between two peers in one process."""

import asyncio
import runpy
from pathlib import Path

import pytest

from test_network import frames
from video_clips import Clip, read

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "webrtc.py"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="runs in a checkout, not on an installed wheel")
def test_video_goes_over_data_channels(tmp_path: Path) -> None:
    pytest.importorskip("aiortc")
    source = Clip([frame.pixels for frame in frames(40)]).write(tmp_path / "in.mkv")
    example = runpy.run_path(str(EXAMPLE))
    count = asyncio.run(
        asyncio.wait_for(example["relay"](str(source), str(tmp_path / "out.mkv")), 60)
    )
    assert count == len(read(tmp_path / "out.mkv")[1]) > 10  # a busy machine drops some
