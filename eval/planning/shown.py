"""What a viewer saw of packets that came when they came: frames in time, and the rest held."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gsvc.codec.decoder import Decoder
from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.frames import Picture
from gsvc.codec.planning.trial import likeness
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet

_EVERY = 5
"""One frame in so many is compared."""


@dataclass(frozen=True)
class Shown:
    """Of one session."""

    missed: float
    """Share of frames whose packet was late or lost."""
    likeness: Sequence[float]
    """SSIM of luma at half the size, of one frame in five over time."""
    per_second: int
    """How many of them a second has."""

    @property
    def mean(self) -> float:
        """Of all."""
        return float(np.mean(self.likeness))

    @property
    def worst(self) -> float:
        """Mean of the tenth of all seconds that was worst."""
        count = self.per_second
        seconds = [
            float(np.mean(self.likeness[at : at + count]))
            for at in range(0, len(self.likeness) - count + 1, count)
        ]
        return float(np.mean(sorted(seconds)[: max(1, len(seconds) // 10)]))


def shown_of(
    header: Header,
    came: Sequence[tuple[float, Packet]],
    truth: Iterator[Picture],
    frames: int,
    deadline: float,
) -> Shown:
    """Decode packets, each with when it came, in seconds from the first capture; show each frame
    `deadline` seconds after its capture, or the one before it."""
    rate = float(header.format.frame_rate)
    pictures: dict[int, Picture] = {}
    missed = set(range(frames))
    with Decoder(header, DecoderSettings(steps=0, conceal=True)) as decoder:
        for at, packet in came:
            for frame in decoder.decode(packet):
                in_time = at <= frame.pts / rate + deadline
                if in_time and not frame.concealed:
                    missed.discard(frame.pts)
                if in_time and frame.pts % _EVERY == 0:
                    pictures[frame.pts] = frame.pixels
    alike, held = list[float](), None
    for number, source in zip(range(frames), truth, strict=False):
        held = pictures.get(number, held)
        if number % _EVERY == 0:
            alike.append(0.0 if held is None else likeness(source, held))
    return Shown(len(missed) / frames, alike, max(1, round(rate / _EVERY)))
