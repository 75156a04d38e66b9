"""`Encoder`: push frames, get packets. One group of pictures is held back, at most `GROUP_SECONDS` long."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from gsvc.codec.errors import ConfigError, InputError
from gsvc.codec.frames import Frame, Picture, VideoFormat
from gsvc.codec.header import Header, storable_format
from gsvc.codec.levels import GROUP_SECONDS, LEVELS
from gsvc.codec.limits import DEFAULT_LIMITS
from gsvc.codec.packet import Packet, PacketType
from gsvc.codec.payload import join_payload
from gsvc.codec.scaffold import Geometry, Interval, Sample
from gsvc.codec.scaffold_syntax import Prediction, Tools, code_interval, code_picture
from gsvc.codec.syntax import Writer
from gsvc.codec.timing import nominal_time
from gsvc.codec.varint import varint
from gsvc.decoders.pictures import PictureDecoder
from gsvc.encoders.pictures import can_code, encode_pictures
from gsvc.encoders.placement import CutDetector, place_key_pictures
from gsvc.encoders.rate import RateControl
from gsvc.encoders.scaffold import ScaffoldExtractor


@dataclass(frozen=True)
class EncoderSettings:
    """How to encode.

    `level` 0-3, or None to let the rate choose (1 without a rate); `bpp` (bits per pixel of a frame) or
    `bitrate` (bit/s): a rate to come near to, audio not counted, at most one of them; `tools`: scaffold layers;
    `preset` 0-13 of SVT-AV1, lower is slower; `seed` 0-65535 and `model_id` (4 bytes) for the decoder's refiner.
    """

    level: int | None = None
    bpp: float | None = None
    bitrate: float | None = None
    tools: Tools = field(default_factory=Tools)
    preset: int = 4
    seed: int = 0
    model_id: bytes = bytes(4)

    def __post_init__(self) -> None:
        if self.level is not None and not 0 <= self.level < len(LEVELS):
            raise ConfigError(f"level {self.level}: choose 0, 1, 2 or 3")
        if self.bpp is not None and self.bitrate is not None:
            raise ConfigError("give a rate in bits per pixel or in bits per second, not both")
        if any(rate is not None and not 0 < rate < inf for rate in (self.bpp, self.bitrate)):
            raise ConfigError("the rate must be a positive number")
        if not 0 <= self.preset <= 13:
            raise ConfigError(f"preset {self.preset} is out of range: 0 (slowest) to 13")

    def target_bpp(self, video: VideoFormat) -> float | None:
        """The rate asked for, in bits per pixel."""
        if self.bitrate is None:
            return self.bpp
        return float(self.bitrate / (video.width * video.height * video.frame_rate))

    def chosen_level(self, video: VideoFormat) -> int:
        """The level: as set, or the lowest whose usual rate reaches the target."""
        target = self.target_bpp(video)
        if self.level is not None:
            return self.level
        if target is None:
            return 1
        return sum(target > most for most in (0.0012, 0.004, 0.010))


class Encoder:
    """Encodes one stream. `push` every frame in order, then `flush` once; both return packets.

    Write `header` first, then the packets in order; see `gsvc.codec.container.StreamWriter`.
    Raises MissingModelError when made, if a scaffold tool's model is not on this machine.
    """

    def __init__(
        self, video: VideoFormat, settings: EncoderSettings | None = None, *, audio: bool = False
    ) -> None:
        settings = settings or EncoderSettings()
        video = storable_format(video)
        _check_size(video)
        level = settings.chosen_level(video)
        self.header = Header(
            format=video,
            level=level,
            tools=settings.tools,
            audio=audio,
            seed=settings.seed,
            model_id=settings.model_id,
        )
        self._level = LEVELS[level]
        self._geometry = Geometry(video.width, video.height)
        self._preset = settings.preset
        self._rate = RateControl(self._level, settings.target_bpp(video), self._geometry)
        self._extractor = ScaffoldExtractor(self._level, settings.tools, self._geometry)
        self._is_cut = CutDetector()
        self._group: list[Frame] = []
        self._leading: list[Frame] = []
        self._last_key: tuple[Picture, Picture] | None = None  # as it was, as decoded
        self._closing: Sample | None = None
        self._frames = 0
        self._clock = -nominal_time(1, self.header.frame_ticks)
        self._packets = 0

    def push(self, frame: Frame) -> list[Packet]:
        """Take one frame (pixels of the format's size, pts above the last); returns packets that are ready."""
        expected = (self._geometry.height, self._geometry.width, 3)
        if frame.pixels.shape != expected or frame.pixels.dtype != "uint8":
            raise ConfigError(f"a frame of {frame.pixels.shape}: uint8 {expected} is needed")
        packets = []
        if self._is_cut(frame.pixels) and self._group:
            packets = self._encode_group(self._group, open_ended=False)
            self._group, self._last_key, self._closing = [], None, None
        self._group.append(frame)
        if len(self._group) > self._frames_of(GROUP_SECONDS):
            packets += self._encode_group(self._group, open_ended=True)
            self._group = self._group[-1:]
        return packets

    def flush(self) -> list[Packet]:
        """Encode what is held back and end the stream."""
        packets = self._encode_group(self._group, open_ended=False) if self._group else []
        self._group = []
        end = Packet(PacketType.END, self._frames, varint(self._packets))
        return [*packets, end]

    def _frames_of(self, seconds: float) -> int:
        frames = round(seconds * self.header.format.frame_rate)
        return min(max(1, frames), DEFAULT_LIMITS.interval)

    def _encode_group(self, frames: Sequence[Frame], *, open_ended: bool) -> list[Packet]:
        """Encode a group. Open-ended: the last frame is the next group's intra picture, not ours."""
        pictures = [frame.pixels for frame in frames]
        keys = place_key_pictures(
            pictures,
            longest=self._frames_of(self._level.spacing),
            shortest=self._frames_of(self._level.closest),
            tolerance=self._level.tolerance,
        )
        if open_ended:
            keys.pop()
        covered = len(self._leading) + (len(frames) - 1 if open_ended else len(frames))
        crf, eighths, units = self._rate.encode(
            covered,
            lambda crf, eighths: encode_pictures(
                [pictures[k] for k in keys],
                size=self._geometry.coded_size(eighths),
                crf=crf,
                color=self.header.format.color,
                preset=self._preset,
            ),
        )
        packets = self._write_group(frames, keys, units, crf, eighths)
        self._leading = list(frames[keys[-1] + 1 : -1]) if open_ended else []
        self._rate.spent(sum(len(packet.payload) + 8 for packet in packets))
        self._packets += len(packets)
        return packets

    def _write_group(
        self,
        frames: Sequence[Frame],
        keys: Sequence[int],
        units: Sequence[bytes],
        crf: int,
        eighths: int,
    ) -> list[Packet]:
        geometry, size = self._geometry, self._geometry.coded_size(eighths)
        decoder = PictureDecoder((geometry.width, geometry.height), self.header.format.color)
        writer, prediction = Writer(), Prediction(self.header.frame_ticks)
        code_picture(writer, crf, eighths)
        packets: list[Packet] = []
        start = 0
        for key, unit in zip(keys, units, strict=True):
            covered = (
                [*self._leading, *frames[start : key + 1]]
                if start == 0
                else frames[start : key + 1]
            )
            start = key + 1
            decoded = decoder.decode(unit, size)
            sources = [frame.pixels for frame in covered]
            if self._last_key is None:
                samples: tuple[Sample, ...] = (self._extractor.begin_scene(sources[0]),)
            else:
                before, left = self._last_key
                samples = self._extractor.extract(
                    [before, *sources], left, decoded, self._closing, crf
                )
            interval = code_interval(
                writer,
                prediction,
                geometry,
                self.header.tools,
                len(covered),
                Interval(self._ticks(covered), samples),
            )
            self._last_key, self._closing = (sources[-1], decoded), interval.closing_sample
            self._frames += len(covered)
            scaffold = writer.finish()
            packets.append(
                Packet(
                    PacketType.INTER if packets else PacketType.INTRA,
                    self._frames,
                    join_payload(scaffold, unit),
                )
            )
        return packets

    def _ticks(self, frames: Sequence[Frame]) -> tuple[int, ...]:
        ticks = []
        for frame in frames:
            if frame.pts <= self._clock:
                raise ConfigError(f"frame times must rise: {frame.pts} follows {self._clock}")
            ticks.append(frame.pts - self._clock)
            self._clock = frame.pts
        return tuple(ticks)


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
