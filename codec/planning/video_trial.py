"""The quick trial: the beginning of a video, coded with the fastest preset at three levels.

What comes out says of this content how quality, coded pictures and time follow from the rate. Where
there is no video yet, its class stands for it: means over development clips of 288 lines
(`classes.json`, made by `python tools/class_trials.py`). How far the clips of a class
lie apart widens what is foretold of quality.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from itertools import pairwise
from statistics import fmean
from time import perf_counter
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.container import Packet, decoded_frames
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header
from gsvc.codec.media.video_reader import Size, open_video
from gsvc.codec.planning.budgets import VideoClass
from gsvc.codec.planning.machine_profile import Profile
from gsvc.decoders.interpolation.optical_flow import gray
from gsvc.encoders.coding.group_coder import CutDetector

Judge = Callable[[Sequence[Picture], Sequence[Picture], Fraction], float | None]
"""Frames as they were, as they are decoded, and their rate → what a viewer would say, in JOD; None
of what cannot be judged."""
TRIAL_LEVELS = 0, 1, 3
_MOST_FRAMES, _LEAST_FRAMES, _PIXELS = 97, 25, 20_000_000
"""Frames of a trial: as many as have so many pixels together, within bounds."""
_EVERY = 6
"""One frame in so many is compared with its source."""
_C1, _C2 = 6.5025, 58.5225
"""Constants of SSIM for luma of 0 to 255."""


@dataclass(frozen=True)
class TrialPoint:
    """What came out at one level."""

    bpp: float
    """Bits per pixel of a frame, headers included."""
    likeness: float
    """-ln(1 - SSIM) of luma at half the size, from 0 up: what CVVDP follows best of what is
    cheap (docs/planning.md)."""
    keys: float
    """Coded pictures in a frame, 0 to 1."""
    seconds: float
    """Encoding, per pixel of a frame."""
    jod: float | None = None
    """What the judge said; None: there was none."""


@dataclass(frozen=True)
class VideoTrial:
    """Of one video."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    rate: float
    """Frames per second."""
    frames: int
    """Of the whole video, as far as it tells; else of the trial."""
    points: tuple[TrialPoint, ...]
    """By rising rate."""
    motion: float
    """Mean change of luma from frame to frame, 0-255."""
    detail: float
    """Mean gradient of luma."""
    cuts: int
    """Scene cuts seen."""
    low_delay: bool = False
    """Whether it was coded without look-ahead."""
    tried: int = 97
    """Frames of the trial."""
    jod_apart: float = 0.0
    """How far videos of its class lie apart, where it is a class's (`classes`)."""
    likeness_apart: float = 0.0
    """The same of likeness."""

    @property
    def pixels(self) -> int:
        """Of a frame."""
        return self.width * self.height


def try_video(
    source: str,
    *,
    low_delay: bool = False,
    judge: Judge | None = None,
    clock: Callable[[], float] = perf_counter,
    size: Size | None = None,
    fps: float | None = None,
) -> VideoTrial:
    """The trial of a file: some seconds; `judge`, `clock`: as of `try_pictures`.

    `size`, `fps`: as of `open_video`.

    Raises InputError as of `open_video`.
    """
    with open_video(source, size=size, fps=fps) as video:
        form, total = video.format, video.frame_count
        pixels = form.width * form.height
        most = min(_MOST_FRAMES, max(_LEAST_FRAMES, _PIXELS // pixels))
        frames = [frame for frame, _ in zip(video, range(most), strict=False)]
    times = VideoFormat(form.width, form.height, 1 / form.frame_rate, form.frame_rate)
    form = replace(times, color=form.color)
    pictures = [frame.pixels for frame in frames]
    trial = try_pictures(pictures, form, low_delay=low_delay, judge=judge, clock=clock)
    return replace(trial, frames=max(total or 0, trial.frames))


def try_pictures(
    pictures: Sequence[Picture],
    video: VideoFormat,
    *,
    low_delay: bool = False,
    judge: Judge | None = None,
    clock: Callable[[], float] = perf_counter,
) -> VideoTrial:
    """The trial of pictures, RGB uint8 (H, W, 3); `video` has a time base of one frame.

    `judge`: of every frame at every level; without it likeness alone foretells quality. `clock`:
    what seconds are measured by.
    """
    trials = _Trials(pictures, video, low_delay, judge, clock)
    points = [trials.point(level) for level in TRIAL_LEVELS]
    grays = [gray(picture).astype(np.float32) for picture in pictures]
    is_cut = CutDetector()
    changes = [float(np.abs(b - a).mean()) for a, b in pairwise(grays)]
    return VideoTrial(
        width=video.width,
        height=video.height,
        rate=float(video.frame_rate),
        frames=len(pictures),
        points=tuple(sorted(points, key=lambda point: point.bpp)),
        motion=fmean(changes or [0.0]),
        detail=fmean(float(np.abs(cv2.Sobel(g, -1, 1, 0)).mean()) for g in grays[::_EVERY]),
        cuts=sum([is_cut(picture) for picture in pictures]),
        low_delay=low_delay,
        tried=len(pictures),
    )


@dataclass(frozen=True)
class _Trials:
    """What the trials of a video share."""

    pictures: Sequence[Picture]
    video: VideoFormat
    low_delay: bool
    judge: Judge | None
    clock: Callable[[], float]

    def point(self, level: int) -> TrialPoint:
        """Encode at a level, decode, compare."""
        packets, header, seconds = self._coded(level)
        with Decoder(header, DecoderSettings(steps=0)) as decoder:
            shown = [f.pixels for f in decoded_frames(decoder, ((p, True) for p in packets))]
        pictures = self.pictures
        pixels = self.video.width * self.video.height * len(pictures)
        size = len(header.to_bytes()) + sum(len(packet.to_bytes()) for packet in packets)
        parser = GroupReader(header)
        keys = sum(_keys(parser, packet) for packet in packets)
        pairs = zip(pictures[::_EVERY], shown[::_EVERY], strict=True)
        unlike = 1 - fmean(likeness(a, b) for a, b in pairs)
        return TrialPoint(
            bpp=8 * size / pixels,
            likeness=float(-np.log(max(1e-4, unlike))),
            keys=keys / len(pictures),
            seconds=seconds / pixels,
            jod=None if self.judge is None else self._judged(self.judge, shown),
        )

    def _coded(self, level: int) -> tuple[list[Packet], Header, float]:
        """The packets, their header, and the seconds that coding took."""
        settings = EncoderSettings(level=level, preset="fast", low_delay=self.low_delay)
        began = self.clock()
        with Encoder(self.video, settings) as encoder:
            packets = [
                packet
                for pts, picture in enumerate(self.pictures)
                for packet in encoder.encode(Frame(picture, pts))
            ]
            packets += encoder.flush()
        return packets, encoder.header, self.clock() - began

    def _judged(self, judge: Judge, shown: Sequence[Picture]) -> float | None:
        return judge(self.pictures, shown, self.video.frame_rate)


def _keys(parser: GroupReader, packet: Packet) -> int:
    return len(parser.read(packet).units) if packet.is_picture else 0


def likeness(a: Picture, b: Picture) -> float:
    """SSIM (Wang et al., 2004) of luma at half the size, -1 to 1; RGB uint8 (H, W, 3)."""
    x, y = (_half(gray(picture)) for picture in (a, b))
    mx, my = _soft(x), _soft(y)
    vx, vy, both = _soft(x * x) - mx * mx, _soft(y * y) - my * my, _soft(x * y) - mx * my
    light = (2 * mx * my + _C1) / (mx * mx + my * my + _C1)
    return float((light * (2 * both + _C2) / (vx + vy + _C2)).mean())


def _half(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    small = cv2.resize(
        picture.astype(np.float32), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA
    )
    return np.asarray(small, np.float32)


def _soft(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), 1.5), np.float32)


def trial_of(kind: VideoClass, profile: Profile) -> VideoTrial:
    """What a trial of such a video would come to, on the machine of `profile`.

    Bits per pixel are those of the class's clips, whatever the size.
    """
    told = _measured()[kind.name]
    unit = profile.encode["fast"].frame
    points = [TrialPoint(**{**one, "seconds": one["seconds"] * unit}) for one in told["points"]]
    return VideoTrial(
        width=kind.width,
        height=kind.height,
        rate=kind.rate,
        frames=round(kind.rate * kind.seconds),
        points=tuple(points),
        motion=told["motion"],
        detail=told["detail"],
        cuts=0,
        jod_apart=told["jod_apart"],
        likeness_apart=told["likeness_apart"],
    )


def clips_of(kind: VideoClass) -> int:
    """How many clips its class was measured on."""
    return int(_measured()[kind.name]["clips"])


@cache
def _measured() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        files("gsvc.codec.planning").joinpath("classes.json").read_text()
    )
    return found
