"""`Encoder`: frames in, packets out."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any, Protocol, Self, TypeAlias

import av
import numpy as np

from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream import errors
from gsvc.codec.bitstream.container import Packet, PacketType, varint
from gsvc.codec.bitstream.frames import Frame, VideoFormat, check_picture
from gsvc.codec.bitstream.header import Header, Tools, storable_format
from gsvc.codec.bitstream.layers import GUIDE, POSE, SEGMENTATION
from gsvc.codec.bitstream.scaffold import MOST_TICKS, nominal_time
from gsvc.codec.media.color import LOOSE, rgb_picture
from gsvc.codec.media.video_reader import fitted_size
from gsvc.codec.media.video_source import Matrices, oriented
from gsvc.decoders.interpolation.optical_flow import MOTION_ESTIMATOR
from gsvc.decoders.keyframes.restorer.runtime import RestorerNetwork
from gsvc.encoders.coding.cuts import CutDetector
from gsvc.encoders.coding.events_only import EventsOnly
from gsvc.encoders.coding.group_coder import GroupCoder, NoPictures, Target
from gsvc.encoders.coding.lookahead import Lookahead
from gsvc.encoders.coding.low_delay import LowDelay
from gsvc.encoders.config import CodedPacket, CodingConfig
from gsvc.encoders.svt_av1 import check_size
from gsvc.encoders.tuning import LEVELS, PRESETS, TUNES, shape_instead

_log = logging.getLogger(__name__)


class Tensor(Protocol):
    """A `torch.Tensor`."""

    def detach(self) -> Any: ...


AnyFrame: TypeAlias = Frame | np.ndarray[Any, Any] | Tensor | av.VideoFrame
"""What `Encoder.encode` takes; what an array holds is checked then, as OpenCV does not state it."""


def group_coder(settings: EncoderSettings, config: CodingConfig) -> GroupCoder:
    """The coder of a stream's pictures."""
    if settings.task is not None:
        return NoPictures()
    coder: GroupCoder = LowDelay(config) if settings.low_delay else Lookahead(config)
    if settings.events_only:
        return EventsOnly(coder, config.header, config.longest_interval, settings.pre_roll)
    return coder


def header_of(settings: EncoderSettings, video: VideoFormat, *, audio: bool) -> Header:
    """The header of a stream. Raises InputError for pictures that are too large or too small."""
    check_size(video.width, video.height)
    tools, model = _tools(settings), settings.named_model()
    if GUIDE.name in tools:
        model = RestorerNetwork().id  # what its guides were chosen for
    return Header(
        format=video,
        level=settings.chosen_level(video),
        tools=tools,
        audio=audio,
        returns=settings.returning_shots,
        motion_estimator=MOTION_ESTIMATOR,
        seed=settings.seed,
        model_id=model,
    )


def _tools(settings: EncoderSettings) -> Tools:
    """The stream's layers. Segmentation and pose are dropped with a warning if their models are
    missing and only the preset asked for them."""
    tools = settings.chosen_tools()
    if settings.low_delay or settings.named_model() not in (bytes(4), RestorerNetwork().id):
        # Restoring takes longer than a picture may wait, and other models have no use for it.
        tools = tools.without(GUIDE.name)
    if settings.tools is not None or settings.semantics:
        return tools
    from gsvc.decoders.detection.people import PoseEstimator  # late: most encoders find no people
    from gsvc.encoders.scaffold.segmentation_extractor import PersonSegmenter

    for layer, finder in ((SEGMENTATION, PersonSegmenter), (POSE, PoseEstimator)):
        if layer.name in tools:
            try:
                finder()
            except (errors.MissingModelError, errors.MissingDependencyError) as cause:
                _log.warning("%s is not tried: %s", layer.name, cause)
                tools = tools.without(layer.name)
    return tools


def config_of(settings: EncoderSettings, header: Header) -> CodingConfig:
    """The configuration of the group coder."""
    video = header.format
    level = LEVELS[header.level].suited_to(video.width * video.height, float(video.frame_rate))
    target = settings.target_bpp(video)
    limit = level.most_bpp if settings.quality is None else inf
    return CodingConfig(
        header=header,
        level=level,
        effort=PRESETS[settings.preset],
        bpp=limit if target is None else target,
        exact=target is not None,
        tune=TUNES[settings.tune],
        face_weight=settings.face_weight,
        faces=settings.faces,
        semantics=settings.semantics,
        quality=settings.quality,
        low_memory=settings.low_memory,
        max_bitrate=settings.max_bitrate,
        packet_bytes=settings.max_packet_bytes,
        gop=settings.longest_group(),
        is_gop_asked=settings.gop is not None,
        lookahead=inf if settings.lookahead is None else settings.lookahead,
    )


@errors.sealed
@errors.typed
class Encoder:
    """Encodes one stream, frame by frame.

    Pass every frame to `encode` in order, then call `flush` once; both return packets. Write
    `header` first, then the packets in order (`gsvc.StreamWriter`). Call `close` at the end, or use
    the encoder in a `with` block. Use it from one thread at a time: while it is at work, `encode`
    and `flush` raise ConfigError in another, and `close` takes effect when that work is done.
    """

    header: Header
    """The stream's, which whoever decodes needs before the packets."""

    def __init__(
        self, video: VideoFormat, settings: EncoderSettings | None = None, *, audio: bool = False
    ) -> None:
        """Prepare a stream.

        Args:
            video: Size, times and colour of the frames.
            settings: How to encode; level 1 by default.
            audio: Whether the stream may hold AUDIO packets.

        Raises:
            ConfigError: The format does not fit a stream's header.
            InputError: The pictures are too large or too small.
            MissingModelError: A scaffold layer needs a model that is not installed.
        """
        settings = settings or EncoderSettings()
        self.header = header_of(settings, storable_format(video), audio=audio)
        self._settings, self._pace = settings, list[float]()
        self._coder = group_coder(settings, config_of(settings, self.header))
        self._warn_of_size()
        self._objects = None
        if settings.objects or settings.task is not None:  # late: most streams have none
            from gsvc.encoders.scaffold.object_coder import ObjectCoder

            how = settings.task, settings.detector
            self._objects = ObjectCoder(self.header, *how, low_delay=settings.low_delay)
        self._input = FrameInput(self.header.format)
        self._cut_detector = CutDetector()
        self._opens_group = self._has_begun = self._announces = self._is_answered = False
        # Times of the last frame taken and of the last one sent.
        self._clock = self._sent = -max(1, nominal_time(1, self.header.frame_ticks))
        self._packets = self._intra = 0
        self._is_over = False
        self._process: int | None = None  # that has its threads
        self._turn = errors.OneThread("encoder")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release threads and coders; frames not flushed are lost. May be called again."""
        self._is_over = True
        if self._process in (None, os.getpid()):
            self._turn.end(self._coder.close)

    def watch(self, report: Callable[[float], None]) -> None:
        """With look-ahead, have `report` told how far a group is, in frames' worth of work."""
        self._coder.watch(report)

    @property
    def has_pictures(self) -> bool:
        """Whether the stream has pictures; not for a `task`."""
        return self._settings.task is None

    @property
    def has_frames(self) -> bool:
        """Whether it has taken any."""
        return self._clock >= 0

    @property
    def origin(self) -> int:
        """Ticks to add to the stream's times for those given; 0 unless the first is above 2^30."""
        return self._input.origin or 0

    @property
    def is_low_delay(self) -> bool:
        """Whether it codes without look-ahead."""
        return self._settings.low_delay

    @property
    def delay(self) -> int:
        """Most frames that follow a frame before its packet is ready; `flush` waits for none.

        With low delay: the frames up to the next key picture, 4 (level 3) to 19 (level 0) at 25
        frames a second; with a `LinkRate` up to 2 s. With look-ahead: the longest group and, for
        frames after its last key picture, the next one; `gop` and `lookahead` limit both. The
        decoder adds no delay.
        """
        return self._coder.delay

    @property
    def estimated_quality(self) -> float | None:
        """ST-LPIPS AlexNet of the frames coded so far, drawn without a refiner: an estimate. None
        without a `quality`, and where a limit on a second or a packet may have moved it."""
        return self._coder.quality

    @property
    def target_bitrate(self) -> float | None:
        """Bits per second to meet, with headers and without sound; None lets the level decide.

        Set it at any time. It takes effect with the next group. With low delay, a rate that falls
        by a fifth or rises by half opens a group at the next key picture, whose intra picture may
        take twice the new rate for a second: a `LinkRate` spreads it. The level's lambda and
        spacing stay, and the size may: after a fall to less than half, a smaller one gained .1 JOD
        on three clips, .9 on one. Raises ConfigError for a rate that is too low, with a `quality`,
        and after `flush` or `close`.
        """
        return self._settings.target_bitrate(self.header.format)

    @target_bitrate.setter
    def target_bitrate(self, bitrate: float | None) -> None:
        self._check_open()
        settings = replace(self._settings, bitrate=bitrate, bpp=None)  # checks it
        config = config_of(settings, self.header)
        self._coder.retarget(Target(config.bpp, config.exact))
        self._settings = settings

    @property
    def keyframes_on_request(self) -> bool:
        """Whether receivers ask for an intra picture where they need one (`force_keyframe`). With
        low delay and no `gop` in the settings, none is then sent otherwise, unless a scene begins
        or much finer or coarser pictures meet the rate. Set it at any time. False at first."""
        return self._is_answered

    @keyframes_on_request.setter
    def keyframes_on_request(self, are_asked_for: bool) -> None:
        errors.check_type("keyframes_on_request", are_asked_for, bool)
        settings = self._settings
        if are_asked_for != self._is_answered and settings.low_delay and settings.gop is None:
            self._coder.regroup(inf if are_asked_for else settings.longest_group())
        self._is_answered = are_asked_for

    @property
    def preset(self) -> str:
        """How much time it takes: a name of `gsvc.encoders.tuning.PRESETS`."""
        return self._settings.preset

    def follow(self, bitrate: float, level: int, preset: str | None = None) -> None:
        """Meet another rate, as `target_bitrate`, by the lambda and spacing of another level.

        For senders without look-ahead that follow a network. The header keeps its level. `preset`:
        of the key pictures from the next group on; None: as before. Raises ConfigError as
        `target_bitrate` does, and for a level or preset that is not there.
        """
        settings = replace(self._settings, bitrate=bitrate, bpp=None, level=level)  # checks them
        settings = replace(settings, preset=preset or self.preset)
        new = config_of(settings, replace(self.header, level=level))
        self._coder.retarget(Target(new.bpp, new.exact, new.level, new.effort))
        self._settings = settings

    def hold(self, *, is_held: bool, intra_bits: float | None = None, fills: bool = False) -> None:
        """Without look-ahead: let frames wait for the next key picture, or code again.
        `intra_bits`: what an intra picture may take, if it can; None: no limit. `fills`: pictures
        follow each other as soon as they are not held, and so meet the rate; a group's quantiser
        has only to keep them about the level's spacing apart."""
        self._coder.hold(is_held=is_held, intra_bits=intra_bits, fills=fills)

    def hurry(self) -> bool:
        """Without look-ahead: leave out what takes most time for least from now on, the motion of
        faces. Gives whether it was sent until now."""
        return self._coder.hurry()

    def force_keyframe(self) -> None:
        """Start a group with the next frame: an intra picture, where a receiver can join.

        With low delay its packet is ready at once (with a `LinkRate`, when there is room), else the
        group before it. It costs an intra picture: answer receivers once a round trip. Raises
        ConfigError after `flush` or `close`.
        """
        self._check_open()
        self._opens_group = self._announces = True

    def encode(self, frame: AnyFrame, pts: int | None = None) -> list[Packet]:
        """Take one frame; return the packets that are ready.

        Args:
            frame: A Frame, an array or a tensor, RGB uint8 (H, W, 3), a tensor also (3, H, W), or
                an `av.VideoFrame` of any pixel format and time base: both are converted. Do not
                write to a Frame's pixels before its packet is returned; other arrays, also what
                NumPy makes of a PIL image, are copied.
            pts: Time in ticks of the time base, above that of the last frame, by 2^30 at most. None
                takes the frame's own, or one nominal duration after the last frame. A first time
                above 2^30 (a camera's clock) becomes 0; the others count from it, see `origin`.

        Raises:
            ConfigError: The shape, type or time is wrong; the frame is not taken. Or `max_bitrate`
                or `max_packet_bytes` cannot be kept; then this frame and all waiting ones are
                dropped, and the next frame starts a group.
            UnsupportedInputError: The frame is HDR or has alpha; it is not taken.
        """
        with self._turn:
            self._check_open()
            self._process, taken = os.getpid(), self._input.frame(frame, pts)
            is_cut = self._cut_detector(taken.pixels)
            opens_group, self._opens_group = self._opens_group, False
            ticks, self._clock = taken.pts - self._clock, taken.pts
            self._watch_pace(float(ticks / self.header.frame_ticks))
            given, payloads = (taken.pixels, ticks), list[bytes]()
            if self._objects is not None:
                payloads = self._objects.push(*given, is_cut=is_cut)
            with self._dropped_if_refused():
                coded = self._coder.push(*given, is_cut=is_cut, opens_group=opens_group)
            return [*self._object_packets(payloads), *self._announced(self._packets_of(coded))]

    def flush(self) -> list[Packet]:
        """Encode what waits, and end the stream: its last packets. After an error, call again."""
        with self._turn:
            self._check_open()
            payloads = [] if self._objects is None else self._objects.flush()
            with self._dropped_if_refused():
                packets = self._packets_of(self._coder.flush())
            self.close()
        packets = [*self._object_packets(payloads), *packets]
        return [*packets, Packet(PacketType.END, 0, varint(self._packets), max(0, self._sent), 0)]

    def _warn_of_size(self) -> None:
        video, rate = self.header.format, self.target_bitrate if self.is_low_delay else None
        own = video.width, video.height
        if rate and (found := shape_instead(rate, *own, float(video.frame_rate))):
            why, shorter, most = found
            size = fitted_size(*own, shorter)
            better = "" if size == own else f"{size[0]}x{size[1]}, "
            _log.warning("%s: %s%.3g frames/s suits", why, better, most)

    def _watch_pace(self, intervals: float) -> None:
        """Warn of first frames at another rate than the format's, by which each gets its bits."""
        if self.is_low_delay and self.target_bitrate and len(self._pace) < 100:
            self._pace.append(min(20.0, intervals))  # a pause says little
            if len(self._pace) == 100 and not 2 / 3 < (mean := sum(self._pace) / 100) < 3 / 2:
                own = float(self.header.format.frame_rate)
                told = "%.2g frames come a second, not %.3g: the stream misses its rate as much, "
                _log.warning(told + "correct the frame rate or times", own / mean, own)

    @contextmanager
    def _dropped_if_refused(self) -> Iterator[None]:
        """Frames that cannot be coded are not tried again: the stream goes on after them."""
        try:
            yield
        except errors.ConfigError:
            self._coder.drop()
            self._clock = self._sent
            raise

    def _check_open(self) -> None:
        if self._is_over:
            raise errors.ConfigError("this encoder was flushed or closed: make another")
        if self._process not in (None, os.getpid()):
            raise errors.ConfigError("this encoder belongs to another process: make one in this")

    def _object_packets(self, payloads: Sequence[bytes]) -> list[Packet]:
        """OBJECTS packets of some payloads; the stream's first one says that there are objects."""
        given = list(payloads)
        if self._objects is not None and not self._has_begun:
            self._has_begun = True
            given.insert(0, self._objects.opening())
        return [Packet(PacketType.OBJECTS, 0, one, pts=self._sent, duration=0) for one in given]

    def _announced(self, pictures: list[Packet]) -> list[Packet]:
        """After an intra picture that was asked for: that there are objects, for who joins."""
        at = next((n for n, packet in enumerate(pictures, 1) if packet.is_intra), 0)
        if not (self._objects and self._announces and at):
            return pictures
        self._announces = False
        opening = Packet(PacketType.OBJECTS, 0, self._objects.opening(), self._sent, 0)
        return [*pictures[:at], opening, *pictures[at:]]

    def _packets_of(self, coded: Sequence[CodedPacket]) -> list[Packet]:
        packets: list[Packet] = []
        for one in coded:
            self._intra = self._packets if one.is_intra else self._intra
            self._sent += one.ticks
            place = self._sent, one.ticks, self._packets, self._intra
            packets.append(Packet(one.type, one.frames, one.payload, *place))
            self._packets += 1
        return packets


class FrameInput:
    """Converts inputs to frames of `video`, in order."""

    def __init__(self, video: VideoFormat) -> None:
        self._video = video
        self._interval = 1 / (video.frame_rate * video.time_base)
        self._due = Fraction(0)
        self._last = -max(1, nominal_time(1, self._interval))
        self.origin: int | None = None
        self._matrix = Matrices()

    def frame(self, given: AnyFrame, pts: int | None = None) -> Frame:
        """The frame of an input, as of `Encoder.encode`; PyAV frames are rotated, too."""
        own: int | None = None
        if given is None:
            raise errors.WrongTypeError("a frame is None: the capture gave no picture")
        if isinstance(given, Frame):
            picture, own = given.pixels, given.pts
        elif isinstance(given, av.VideoFrame):
            picture = oriented(rgb_picture(given, LOOSE), self._matrix(given))
            if given.pts is not None and pts is None:
                if not given.time_base:
                    raise errors.ConfigError("a PyAV frame has pts, but no time_base: set it")
                own = round(given.pts * given.time_base / self._video.time_base)
        else:
            picture = _array(given)
        check_picture(picture, (self._video.height, self._video.width, 3))
        time = own if pts is None else pts
        errors.check_type("pts", time, int | None)
        return Frame(picture, self._stamp(None if time is None else int(time)))

    def _stamp(self, pts: int | None) -> int:
        origin = self.origin
        if origin is None:
            origin = pts if pts is not None and pts > MOST_TICKS else 0
        # Where a frame takes about a tick or less, times of their own would not rise.
        due = max(self._due, Fraction(self._last + 1)) if pts is None else Fraction(pts - origin)
        time = round(due)
        given, last = time + origin, self._last + origin  # by the clock of whoever gives frames
        if time <= self._last:
            if self.origin is None:
                raise errors.ConfigError(f"the first frame's time is {time}: begin at 0 or later")
            told = f"frame times must rise: {given} follows {last}, give {last + 1}"
            raise errors.ConfigError(f"{told} or more, or take a finer time_base")
        if time > self._last + MOST_TICKS + self._interval:
            raise errors.ConfigError(
                f"frame time {given} follows {last}: a stream holds no gap above {MOST_TICKS} "
                "ticks, take a coarser time base or begin another stream"
            )
        self._due, self._last, self.origin = due + self._interval, time, origin
        return time


def _array(given: Any) -> Any:
    """A copy of an array; of a tensor with the channels last."""
    torch = sys.modules.get("torch")  # the caller of a tensor has imported it
    with suppress(ValueError, TypeError, RuntimeError):
        if torch is not None and isinstance(given, torch.Tensor):
            given = given.detach().cpu().numpy()
            given = given.transpose(1, 2, 0) if len(given) == 3 == given.ndim else given
        array = np.array(given, order="C")
        if array.dtype.kind in "buif":
            return array
    what = "an array of objects" if isinstance(given, np.ndarray) else "no array"
    raise errors.WrongTypeError(
        f"a frame of type {type(given).__name__} is {what}: decode a picture first, and give its "
        "time as encode(array, pts) or Frame(array, pts)"
    )
