"""Small videos of cameras that pan, for tests of prepared data."""

from pathlib import Path

import av
import cv2
import numpy as np

from video_clips import SAME


def write_clip(
    path: Path,
    scenes: list[int],
    crf: int = 18,
    frames: int = 18,
    lines: int = 144,
    late: bool = False,
) -> None:
    """Cameras that pan over random pictures, one a scene; 4:3.

    `late`: packets have the times at which they are decoded, as writers give that do not know what
    B-frames are.
    """
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": str(crf), **SAME})
        assert isinstance(stream, av.video.stream.VideoStream)
        columns = lines * 4 // 3 // 2 * 2
        stream.width, stream.height, stream.pix_fmt = columns, lines, "yuv420p"
        packets = []
        for seed in scenes:
            coarse = np.random.default_rng(seed).integers(0, 255, (10, 24, 3)).astype(np.uint8)
            wide = cv2.resize(coarse, (480, 192), interpolation=cv2.INTER_CUBIC)
            for index in range(frames):
                part = wide[24 : 24 + lines, 3 * index : 3 * index + columns]
                picture = np.ascontiguousarray(part)
                packets += stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24"))
        packets += stream.encode(None)
        for number, packet in enumerate(packets):
            if late:
                packet.pts = packet.dts = number * round(1 / 25 / packet.time_base)
            container.mux(packet)
