"""`Decoder`: packets in, frames out."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Self

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.container import Packet, is_alone
from gsvc.codec.bitstream.errors import ConfigError, VersionError
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.bitstream.typed import typed
from gsvc.decoders.interpolation.optical_flow import MOTION_ESTIMATOR
from gsvc.decoders.interpolation.rendering import IntervalRenderer, MakeRenderer
from gsvc.decoders.keyframes.refiner import Refiner
from gsvc.decoders.streams.concealment import Concealer
from gsvc.decoders.streams.pace import Pace, paced_motion
from gsvc.decoders.streams.reconstruction import DrawnFrame, Reconstruction, Refine, StrictTimeline
from gsvc.decoders.streams.windows import Windows

if TYPE_CHECKING:
    from gsvc.decoders.detection.overlay import Schematic


@typed
class Decoder:
    """Decodes one stream, packet by packet.

    Pass every packet to `decode` in order, then call `flush`. Start at any INTRA packet; after
    `reset`, again. Frames between that packet's keyframe and the one before it are then left
    out. Frames take their packet's `pts`; without one they count on from the last frame, or
    from 0.

    Call `close` at the end, or use the decoder in a `with` block. Use it from one thread at a time.
    Unless it conceals, it raises BitstreamError for a packet that is damaged or, by the numbers,
    missing. A closed decoder raises ConfigError. Of a stream without pictures it draws a schematic
    of the objects, and says so.
    """

    def __init__(
        self,
        header: Header,
        settings: DecoderSettings | None = None,
        limits: Limits = DEFAULT_LIMITS,
        refiner: Refiner | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Prepare to decode the stream of `header`.

        Args:
            header: The stream's header.
            settings: How to decode; one step of the default refiner by default.
            limits: What the stream may ask for. The default admits everything that gsvc encodes;
                use `Limits.restrictive()` for untrusted senders.
            refiner: A refiner to use instead of the settings' own, already loaded for example.
            pace: Decides where there is time for refiner and learned motion; None: always. The
                refiner must be one of keyframes.

        Raises:
            VersionError: The stream needs a newer gsvc.
            ConfigError: The settings name no known refiner, or one that has no pace.
            DeviceError: The device is not available, or has too little memory.
            MissingDependencyError: Refiner or motion need an extra that is not installed.
            MissingModelError: Weights of the refiner or of the motion are missing or damaged.
        """
        settings = settings or DecoderSettings()
        if header.motion_estimator != MOTION_ESTIMATOR:
            raise VersionError(
                f"motion estimator {header.motion_estimator} is not known: install a newer gsvc"
            )
        if settings.device != "cpu":  # steps 0 need none, but who asks for one is to know
            from gsvc.decoders.keyframes.backends import check_device

            check_device(settings.device)
        refine, self._windows = _restoring(header, settings, refiner, pace)
        make_renderer = _drawing(settings, pace)
        chain = Reconstruction(header, GroupReader(header, limits), refine, make_renderer)
        policy = Concealer if settings.conceal else StrictTimeline
        self._timeline: StrictTimeline | Concealer | None = policy(header, chain, limits)
        self._header, self._limits, self._conceals = header, limits, settings.conceal
        self._schematic: Schematic | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def delay(self) -> int:
        """Frames by which output may be late: those of a window, 0 with other refiners."""
        return self._windows.delay if self._windows else 0

    def close(self) -> None:
        """Release the picture decoder and the refiner. May be called again."""
        self._timeline = self._windows = None

    def reset(self) -> None:
        """Forget all packets and frames, as for a seek. The next packet may be any INTRA packet."""
        self._opened().reset()
        if self._schematic:
            self._schematic.reset()
        if self._windows:
            self._windows.reset()

    def decode(self, packet: Packet) -> list[Frame]:
        """Decode one packet; return the frames that it completes, in order.

        Only picture packets complete frames. A concealing decoder puts the concealed frames of
        missing packets before them; the END packet returns those missing at the end.
        """
        return list(self.frames(packet))

    @typed
    def frames(self, packet: Packet) -> Iterator[Frame]:
        """`decode` frame by frame, in the memory of one. Exhaust it before the next packet."""
        yield from self._out(self._opened().frames(packet))
        if is_alone(packet):
            yield from self._drawn_schematic().frames(packet)

    @typed
    def skip(self, packet: Packet) -> None:
        """Take a packet without drawing its frames, on the way to a later one."""
        self._opened().skip(packet)

    def flush(self) -> list[Frame]:
        """The frames that a `WindowRefiner` holds back; none with other refiners.

        More packets may follow.
        """
        self._opened()
        return list(_owned(self._windows.flush())) if self._windows else []

    @typed
    def conceal_until(self, pts: int) -> list[Frame]:
        """Concealed frames up to `pts`, in ticks, one nominal duration apart.

        For a receiver whose clock runs on while no packet arrives. A packet that arrives later
        does not show these frames again. Before the first picture there are none. Frames that
        repeat a picture share its pixels.

        Raises ConfigError unless the decoder conceals.
        """
        timeline = self._opened()
        if not isinstance(timeline, Concealer):
            raise ConfigError("this decoder does not conceal: set DecoderSettings(conceal=True)")
        return list(self._out(timeline.until(pts), share=True))

    def _out(self, drawn: Iterable[DrawnFrame], *, share: bool = False) -> Iterator[Frame]:
        frames = self._windows.frames(drawn) if self._windows else (one.frame for one in drawn)
        return _owned(frames, share=share)

    def _drawn_schematic(self) -> "Schematic":
        """What draws the frames of a stream that has no pictures."""
        if self._schematic is None:
            from gsvc.decoders.detection.overlay import Schematic

            self._schematic = Schematic(self._header, self._limits, conceal=self._conceals)
        return self._schematic

    def _opened(self) -> StrictTimeline | Concealer:
        if self._timeline is None:
            raise ConfigError("this decoder is closed: make another")
        return self._timeline


def _restoring(
    header: Header, settings: DecoderSettings, refiner: Refiner | None, pace: Pace | None
) -> tuple[Refine, Windows | None]:
    """What restores keyframes, and what restores windows of frames if the refiner does that."""
    if settings.steps:
        from gsvc.codec.api.refiner_options import restoring

        return restoring(header, settings, refiner, pace)
    for name in ("cache", "latent_cache", "vram", "quantize", "resume", "paste_keys"):
        if getattr(settings, name):
            raise ConfigError(
                f"{name} is for a refiner, and with steps=0 there is none: leave one of them out"
            )
    return attrgetter("picture"), None


def _drawing(settings: DecoderSettings, pace: Pace | None) -> MakeRenderer:
    """What draws the frames between keyframes. Raises as `rife_renderer`."""
    if settings.motion == "dis":
        return IntervalRenderer
    from gsvc.decoders.interpolation.rife import rife_renderer

    make = rife_renderer(settings.device)
    return paced_motion(make, pace) if pace else make


def _owned(frames: Iterable[Frame], *, share: bool = False) -> Iterator[Frame]:
    """Frames with pixels of their own, because the decoder still needs its pictures.

    With `share`, frames that repeat a picture share one copy.
    """
    last, copy = None, None
    for frame in frames:
        if copy is None or not share or frame.pixels is not last:
            last, copy = frame.pixels, frame.pixels.copy()
        yield replace(frame, pixels=copy)
