"""gsvc itself on the protocol: frames to a `.gsv` without audio, and back to frames, with times."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from gsvc.codec.container import StreamReader, StreamWriter
from gsvc.codec.decoder import Decoder, DecoderSettings
from gsvc.codec.encoder import Encoder, EncoderSettings
from gsvc.codec.errors import InputError
from gsvc.codec.frames import Color, Frame, Picture, VideoFormat
from gsvc.codec.packet import PacketType
from gsvc.codec.stream_file import create_stream
from gsvc.codec.stream_info import StreamInfo
from gsvc.decoders.refiner import model_id

_BT709 = Color(primaries=1, transfer=1, matrix=1)


@dataclass(frozen=True)
class Decoded:
    """Frames of a stream, RGB uint8 (H, W, 3), and the wall-clock time from its bytes to them."""

    frames: list[Picture] = field(repr=False)
    seconds: float


def encode_stream(
    frames: Sequence[Picture], frame_rate: Fraction, level: int, target: Path
) -> float:
    """Code RGB uint8 frames (H, W, 3) of one size, BT.709, at a level of 0-3, into the file `target`.

    Returns the wall-clock time from frames to bytes in seconds, loading of models included. Raises
    InputError without frames, OutputError, MissingModelError when a model is not on this machine.
    """
    if not frames:
        raise InputError("there are no frames to encode: pass at least one")
    height, width = frames[0].shape[:2]
    video = VideoFormat(width, height, 1 / frame_rate, frame_rate, color=_BT709)
    settings = EncoderSettings(level=level, model_id=model_id("compact"))
    start = time.perf_counter()
    encoder = Encoder(video, settings)
    with create_stream(target, overwrite=True) as file:
        writer = StreamWriter(file, encoder.header)
        for pts, frame in enumerate(frames):
            for packet in encoder.push(Frame(frame, pts)):
                writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    return time.perf_counter() - start


def decode_stream(source: Path, steps: int) -> Decoded:
    """Decode on the CPU with `steps` of the compact refiner (0: none). Errors as of `Decoder`."""
    start = time.perf_counter()
    with source.open("rb") as file:
        reader = StreamReader(file)
        decoder = Decoder(reader.header, DecoderSettings(steps=steps))
        frames = [frame.pixels for packet in reader for frame in decoder.push(packet)]
    return Decoded(frames, time.perf_counter() - start)


def key_frames(info: StreamInfo) -> list[int]:
    """Indices of the frames that were sent as pictures."""
    pictures = (PacketType.INTRA, PacketType.INTER)
    return [packet.time - 1 for packet in info.packets if packet.type in pictures]
