"""A source in streams of some seconds each, for links that come and go: store and forward.

    python segments.py VIDEO FOLDER [SECONDS]

Each segment appears under its name when it is complete, and decodes without the others: send them
in any order, when there is a link. VIDEO may be a camera's address, anything FFmpeg reads.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import av

import gsvc


def segments(source: str, folder: Path, seconds: float) -> Iterator[Path]:
    """Write 000000.gsv, 000001.gsv ... into `folder`; yields each when it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    with av.open(source) as container:
        stream = container.streams.video[0]
        assert stream.time_base is not None and stream.average_rate is not None
        video = gsvc.VideoFormat(stream.width, stream.height, stream.time_base, stream.average_rate)
        waiting: list[av.VideoFrame] = []
        for frame in container.decode(video=0):
            if waiting and frame.time - waiting[0].time >= seconds:
                yield write_segment(video, waiting, folder)
                waiting = []
            waiting.append(frame)
        if waiting:
            yield write_segment(video, waiting, folder)


def write_segment(video: gsvc.VideoFormat, frames: list[av.VideoFrame], folder: Path) -> Path:
    """Write frames as the folder's next stream, under its name when it is complete."""
    target = folder / f"{len(list(folder.glob('*.gsv'))):06}.gsv"
    partial = target.with_suffix(".partial")
    with gsvc.Encoder(video, gsvc.EncoderSettings(level=1)) as encoder, partial.open("wb") as file:
        writer = gsvc.StreamWriter(file, encoder.header)
        for frame in frames:
            for packet in encoder.encode(frame):
                writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    return partial.rename(target)


if __name__ == "__main__":
    source, folder, *rest = sys.argv[1:]
    for path in segments(source, Path(folder), float(rest[0]) if rest else 10.0):
        print(path, path.stat().st_size, "bytes", flush=True)
