"""A source in streams of some seconds each, for links that come and go: store and forward.

    python segments.py VIDEO FOLDER [SECONDS]

Each segment appears under its name when it is complete, and decodes without the others: send them
in any order, when there is a link. VIDEO may be a camera's address, anything FFmpeg reads; FOLDER
must be new.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import av

import gsvc


def segments(source: str, seconds: float) -> Iterator[tuple[gsvc.VideoFormat, list[av.VideoFrame]]]:
    """The frames of each segment, which is `seconds` long; the last one may be shorter."""
    with av.open(source) as container:
        stream = container.streams.video[0]
        assert stream.time_base and stream.average_rate, "the source tells no times"
        video = gsvc.VideoFormat(stream.width, stream.height, stream.time_base, stream.average_rate)
        waiting: list[av.VideoFrame] = []
        for frame in container.decode(video=0):
            if waiting and frame.time - waiting[0].time >= seconds:
                yield video, waiting
                waiting = []
            waiting.append(frame)
        if waiting:
            yield video, waiting


def write(video: gsvc.VideoFormat, frames: list[av.VideoFrame], target: Path) -> None:
    """Write frames as a stream whose first frame has time 0; `target` appears complete."""
    partial = target.with_suffix(".partial")
    with gsvc.Encoder(video, gsvc.EncoderSettings(level=1)) as encoder, partial.open("wb") as file:
        writer = gsvc.StreamWriter(file, encoder.header)
        for frame in frames:
            time = frame.time - frames[0].time
            for packet in encoder.encode(frame, round(time / video.time_base)):
                writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    partial.rename(target)


if __name__ == "__main__":
    source, folder, *rest = sys.argv[1:]
    Path(folder).mkdir(parents=True)
    for number, (video, frames) in enumerate(segments(source, float(rest[0]) if rest else 10.0)):
        target = Path(folder) / f"{number:06}.gsv"
        write(video, frames, target)
        print(target, target.stat().st_size, "bytes", flush=True)
