"""`Encoder`: frames in, packets out.

One group of pictures is held back, at most `GROUP_SECONDS` long; with low delay only what lies between key pictures.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Self

from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.frames import Frame, VideoFormat
from gsvc.codec.limits import DEFAULT_LIMITS
from gsvc.codec.media.frame_input import FrameInput
from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.timing import nominal_time
from gsvc.codec.scaffold.tools import Tools
from gsvc.codec.stream.header import HEADER_BYTES, Header, storable_format
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.stream.varint import varint
from gsvc.encoders.cuts import CutDetector
from gsvc.encoders.extraction import Before
from gsvc.encoders.look_ahead import CodedPicture, GroupEncoder
from gsvc.encoders.low_delay import LowDelayEncoder
from gsvc.encoders.pictures import can_code
from gsvc.encoders.rate import RateControl, WindowCap
from gsvc.encoders.tuning import DEFAULT_PRESET, GROUP_SECONDS, LEVELS, PRESETS, Level

if TYPE_CHECKING:
    from gsvc.codec.media.frame_input import AnyFrame


_LEAST_PACKET = 64


@dataclass(frozen=True)
class EncoderSettings:
    """How to encode.

    `level` 0-3, or None to let the rate choose (1 without a rate); `bpp` (bits per pixel of a frame) or
    `bitrate` (bit/s): the rate to meet, headers included, audio not; `quality`: the ST-LPIPS AlexNet of the
    rendering to come near to; at most one of the three. `max_bitrate`: bits that no second may exceed, headers
    included; `max_packet_bytes`: bytes that no packet may exceed, framing included: key pictures get coarser and
    smaller until they fit. `preset`: "fast", "medium" or "slow"; `semantics`: send segmentation and pose even where
    they do not pay; `tools`: scaffold layers, None for texture and camera, at preset slow also flow, segmentation and
    pose, with `semantics` the last two at any;
    `low_delay`: no look-ahead, a frame waits for the next key picture only, at the price of more bits (see
    `Encoder.delay`);
    `seed` 0-65535 and `model_id` (4 bytes) for the decoder's refiner.
    """

    level: int | None = None
    bpp: float | None = None
    bitrate: float | None = None
    quality: float | None = None
    max_bitrate: float | None = None
    max_packet_bytes: int | None = None
    tools: Tools | None = None
    preset: str = DEFAULT_PRESET
    semantics: bool = False
    low_delay: bool = False
    seed: int = 0
    model_id: bytes = bytes(4)

    def __post_init__(self) -> None:
        if self.level is not None and not 0 <= self.level < len(LEVELS):
            raise ConfigError(f"level {self.level}: choose 0, 1, 2 or 3")
        if sum(goal is not None for goal in (self.bpp, self.bitrate, self.quality)) > 1:
            raise ConfigError("give bits per pixel, bits per second or a quality, only one of them")
        rates = self.bpp, self.bitrate, self.max_bitrate
        if any(rate is not None and not 0 < rate < inf for rate in rates):
            raise ConfigError("the rate must be a positive number")
        if self.quality is not None and not 0 < self.quality < 1:
            raise ConfigError("quality is a distance: choose one between 0.02 (good) and 0.4 (bad)")
        if self.low_delay and (self.quality is not None or self.max_bitrate is not None):
            raise ConfigError(
                "a quality or a cap needs look-ahead: leave low delay out, or give a bitrate"
            )
        if self.max_packet_bytes is not None and self.max_packet_bytes < _LEAST_PACKET:
            raise ConfigError(
                f"packets of {self.max_packet_bytes} bytes hold no picture: allow {_LEAST_PACKET} or more"
            )
        if self.preset not in PRESETS:
            raise ConfigError(f"preset {self.preset!r}: choose one of {', '.join(PRESETS)}")

    def chosen_tools(self) -> Tools:
        """The layers: as set, or those that are worth their time at the preset."""
        if self.tools is not None:
            return self.tools
        seen = self.semantics or self.preset == "slow"
        return Tools(segmentation=seen, pose=seen, flow=self.preset == "slow")

    def target_bpp(self, video: VideoFormat) -> float | None:
        """The rate asked for, in bits per pixel."""
        if self.bitrate is None:
            return self.bpp
        return float(self.bitrate / (video.width * video.height * video.frame_rate))

    def target_bitrate(self, video: VideoFormat) -> float | None:
        """The rate asked for, in bits per second."""
        if self.bpp is None:
            return self.bitrate
        return float(self.bpp * video.width * video.height * video.frame_rate)

    def chosen_level(self, video: VideoFormat) -> int:
        """The level: as set, or the lowest whose usual rate reaches the target."""
        target = self.target_bpp(video)
        if self.level is not None:
            return self.level
        if target is None:
            return 1
        return sum(target > level.usual_bpp for level in LEVELS)


_FIXED_BITS = 8 * (HEADER_BYTES + 7)
"""Header and END packet."""


class Encoder:
    """Encodes one stream. `encode` every frame in order, then `flush` once; both return packets.

    Write `header` first, then the packets in order; see `gsvc.codec.stream.container.StreamWriter`. `close` it at the end, or
    use it in a `with` block. Not to be used by two threads at once.
    Raises MissingModelError when made, if a scaffold tool's model is not on this machine.
    """

    def __init__(
        self, video: VideoFormat, settings: EncoderSettings | None = None, *, audio: bool = False
    ) -> None:
        settings = settings or EncoderSettings()
        video = storable_format(video)
        _check_size(video)
        number, tools = settings.chosen_level(video), settings.chosen_tools()
        level = LEVELS[number].suited_to(video.width * video.height, float(video.frame_rate))
        self.header = Header(
            format=video,
            level=number,
            tools=tools,
            audio=audio,
            seed=settings.seed,
            model_id=settings.model_id,
        )
        self._settings, self._level = settings, level
        self._target = settings.target_bitrate(video)
        self._rate = _rate_control(settings, video, level)
        self._coder: GroupEncoder | LowDelayEncoder
        arguments = level, self.header, PRESETS[settings.preset]
        if settings.low_delay:
            self._coder = LowDelayEncoder(
                *arguments,
                self._rate,
                semantics=settings.semantics,
                packet_bytes=settings.max_packet_bytes,
            )
        else:
            most = settings.max_bitrate
            self._coder = GroupEncoder(
                *arguments,
                semantics=settings.semantics,
                quality=settings.quality,
                cap=None if most is None else WindowCap(most, _FIXED_BITS),
                packet_bytes=settings.max_packet_bytes,
            )
        self._input = FrameInput(video)
        self._opens_group = False
        self._is_cut = CutDetector()
        self._group: list[Frame] = []
        self._leading: list[
            Frame
        ] = []  # frames after the last key picture that no packet has completed yet
        self._scene: Before | None = None
        self._clock = self._sent = -nominal_time(1, self.header.frame_ticks)
        self._packets = 0
        self._intra = 0
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release threads and coders; what was not flushed is lost. May be called again."""
        self._is_over = True
        self._group, self._leading, self._scene = [], [], None
        self._coder.close()

    @property
    def delay(self) -> int:
        """Frames that must be given after a frame before its packet comes, at most (`flush` asks for none).

        With low delay: those up to the next key picture, 4 (level 3) to 19 (level 0) at 25 frames a second. With
        look-ahead: a group of four seconds and, for frames after its last key picture, the next one, 199 at 25
        frames a second. A decoder adds none: all frames of a packet come with it.
        """
        if isinstance(self._coder, LowDelayEncoder):
            return self._coder.spacing - 1
        return 2 * self._longest - 1

    @property
    def target_bitrate(self) -> float | None:
        """Bits a second to meet, headers included and sound not; None: the level decides, under its limit.

        It may be set at any time and holds from the next group on; with low delay a rate that falls by a fifth or
        rises by half opens a group with the next key picture. The level's price and spacing stay. Raises ConfigError
        for rates that are not positive and where a quality was asked for.
        """
        return self._target

    @target_bitrate.setter
    def target_bitrate(self, bitrate: float | None) -> None:
        settings = replace(self._settings, bitrate=bitrate, bpp=None)  # checks it
        bpp, before = _bpp(settings, self.header.format, self._level), self._rate.bpp
        self._rate.retarget(bpp, exact=bitrate is not None)
        self._settings, self._target = settings, bitrate
        if isinstance(self._coder, LowDelayEncoder):
            self._coder.follow_rate(at_once=not 0.8 <= bpp / before <= 1.5)

    def force_keyframe(self) -> None:
        """Let the next frame begin a group: it becomes an intra picture, at which a receiver can begin.

        With low delay its packet comes at once; with look-ahead the group before it does.
        """
        self._opens_group = True

    def encode(self, frame: "AnyFrame", pts: int | None = None) -> list[Packet]:
        """Take one frame; returns the packets that are ready.

        `frame`: a Frame, an array or a tensor, RGB uint8 (H, W, 3), a tensor also (3, H, W), or an `av.VideoFrame` of
        any pixel format. `pts`: its time in ticks of the time base, above that of the last; None: the frame's own, or
        one nominal duration after the last. A Frame's pixels must not be written over until their packet is there;
        other arrays are copied. Raises ConfigError for another shape, type or time and UnsupportedInputError for HDR
        and alpha, without taking the frame; ConfigError too where `max_bitrate` or `max_packet_bytes` cannot be kept:
        then this frame and all that wait are dropped, and the next one begins a group.
        """
        self._check_open()
        taken = self._input.frame(frame, pts)
        is_cut = self._is_cut(taken.pixels)
        opens_group, self._opens_group = self._opens_group, False
        with self._dropped_if_refused():
            return self._encode(taken, is_cut=is_cut, opens_group=opens_group)

    def flush(self) -> list[Packet]:
        """Encode what is held back and end the stream: nothing can be encoded after it.

        Raises ConfigError where a limit cannot be kept, as `encode` does: then nothing is held any more, and another
        `flush` ends the stream.
        """
        self._check_open()
        with self._dropped_if_refused():
            packets = self._encode_rest()
        self.close()
        return [*packets, Packet(PacketType.END, 0, varint(self._packets), self._sent, 0)]

    def _encode(self, taken: Frame, *, is_cut: bool, opens_group: bool) -> list[Packet]:
        if isinstance(self._coder, LowDelayEncoder):
            (ticks,) = self._ticks([taken])
            self._clock = taken.pts
            return self._packets_of(
                self._coder.push(taken.pixels, ticks, is_cut=is_cut, opens_group=opens_group)
            )
        packets = []
        if is_cut and self._group:
            packets = self._encode_group(self._coder, self._group, open_ended=False)
            self._group, self._scene = [], None
        self._group.append(taken)
        if len(self._group) > self._longest or (opens_group and len(self._group) > 1):
            packets += self._encode_group(self._coder, self._group, open_ended=True)
            self._group = self._group[-1:]
        return packets

    def _encode_rest(self) -> list[Packet]:
        if isinstance(self._coder, LowDelayEncoder):
            return self._packets_of(self._coder.flush())
        if self._group:
            return self._encode_group(self._coder, self._group, open_ended=False)
        return []

    @contextmanager
    def _dropped_if_refused(self) -> Iterator[None]:
        """Frames that cannot be coded are not tried again: the stream goes on after them."""
        try:
            yield
        except ConfigError:
            self._group, self._leading, self._scene = [], [], None
            self._clock = self._sent
            if isinstance(self._coder, LowDelayEncoder):
                self._coder.drop()
            raise

    def _check_open(self) -> None:
        if self._is_over:
            raise ConfigError("this encoder was flushed or closed: make another for another stream")

    @property
    def _longest(self) -> int:
        """Frames of a group, at most."""
        frames = round(GROUP_SECONDS * self.header.format.frame_rate)
        return min(max(1, frames), self._longest_interval)

    @property
    def _longest_interval(self) -> int:
        """Frames of a packet, at most."""
        video = self.header.format
        return DEFAULT_LIMITS.longest_interval(video.width, video.height)

    def _encode_group(
        self, coder: GroupEncoder, frames: Sequence[Frame], *, open_ended: bool
    ) -> list[Packet]:
        """Encode a group. Open-ended: the last frame is the next group's intra picture, not ours."""
        own = len(frames) - 1 if open_ended else len(frames)
        unsent = [*self._leading, *(frames[:-1] if open_ended else frames)]
        group = coder.encode(
            [frame.pixels for frame in frames],
            self._ticks(unsent),
            self._scene,
            self._rate.budget(own),
            open_ended=open_ended,
            longest=self._longest_interval,
        )
        sent = sum(picture.frames for picture in group.pictures)
        self._scene, self._leading, self._clock = group.scene, unsent[sent:], unsent[sent - 1].pts
        self._rate.spent(sum(picture.bits for picture in group.pictures), own)
        return self._packets_of(group.pictures)

    def _packets_of(self, pictures: Sequence[CodedPicture]) -> list[Packet]:
        packets: list[Packet] = []
        for picture in pictures:
            if picture.is_intra:
                self._intra = self._packets
            self._sent += picture.ticks
            packets.append(
                Packet(
                    PacketType.INTRA if picture.is_intra else PacketType.INTER,
                    picture.frames,
                    picture.payload,
                    pts=self._sent,
                    duration=picture.ticks,
                    number=self._packets,
                    group=self._intra,
                )
            )
            self._packets += 1
        return packets

    def _ticks(self, frames: Sequence[Frame]) -> tuple[int, ...]:
        """Time from each frame to the next in units of the time base, from the last frame sent on."""
        times = [self._clock, *(frame.pts for frame in frames)]
        return tuple(after - before for before, after in pairwise(times))


def _bpp(settings: EncoderSettings, video: VideoFormat, level: Level) -> float:
    """Bits per pixel to meet or, where none are asked for, to stay under."""
    if settings.quality is not None:
        return inf
    target = settings.target_bpp(video)
    return level.most_bpp if target is None else target


def _rate_control(settings: EncoderSettings, video: VideoFormat, level: Level) -> RateControl:
    return RateControl(
        _bpp(settings, video, level),
        video.width * video.height,
        exact=settings.target_bpp(video) is not None,
        header_bits=_FIXED_BITS,
        second=float(video.frame_rate),
    )


def _check_size(video: VideoFormat) -> None:
    width, height, limits = video.width, video.height, DEFAULT_LIMITS
    if width * height > limits.pixels or max(width, height) > limits.side:
        raise InputError(
            f"pictures of {width}x{height}: at most {limits.pixels} pixels and {limits.side} a side can be "
            "coded, shrink the video"
        )
    if not can_code(Geometry(width, height).coded_size(8)):
        raise InputError(
            f"pictures of {width}x{height} are too small or thin: make both sides at least 32"
        )
