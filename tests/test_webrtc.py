"""The example of WebRTC data channels, between two peers in one process."""

import asyncio
from pathlib import Path

from live import frames
from needs import need_package
from video_clips import Clip, read


def test_video_goes_over_data_channels(tmp_path: Path) -> None:
    need_package("aiortc")
    from gsvc.codec.network.examples.webrtc import relay

    source = Clip([frame.pixels for frame in frames(40)]).write(tmp_path / "in.mkv")
    target = tmp_path / "out.mkv"
    count = asyncio.run(asyncio.wait_for(relay(str(source), str(target)), 120))
    assert count == len(read(target)[1]) > 0  # a busy machine drops some
