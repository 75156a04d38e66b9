"""`Decoder`: packets in, frames out; and what its settings ask of a refiner."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream import errors
from gsvc.codec.bitstream.container import Packet, is_alone
from gsvc.codec.bitstream.frames import Frame, Picture
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import Header
from gsvc.codec.weights.extras import need
from gsvc.decoders.interpolation import optical_flow, rendering
from gsvc.decoders.keyframes import backends, keyframe
from gsvc.decoders.keyframes.refiner import Budget, Refiner, WindowRefiner
from gsvc.decoders.keyframes.restorer.backend import RestorerBackend
from gsvc.decoders.streams.concealment import Concealer
from gsvc.decoders.streams.reconstruction import (
    DrawnFrame,
    Pace,
    Reconstruction,
    Refine,
    StrictTimeline,
    paced_motion,
    paced_refine,
)
from gsvc.decoders.streams.windows import KeptWindows, Windows

if TYPE_CHECKING:
    from gsvc.decoders.detection.overlay import Schematic


def _restoring(
    header: Header, settings: DecoderSettings, refiner: Refiner | None, pace: Pace | None
) -> tuple[Refine, Windows | None]:
    """What restores keyframes, and the restorer of windows, if any. Raises as `Decoder`."""
    if not settings.steps:
        for name in ("cache", "latent_cache", "vram", "quantize", "resume", "paste_keys"):
            if getattr(settings, name):
                why = "is for a refiner, and with steps=0 there is none"
                raise errors.ConfigError(f"{name} {why}: leave one of them out")
        return attrgetter("picture"), None
    seed = header.seed if settings.seed is None else settings.seed
    refiner = refiner or backends.load_refiner(settings.backend, settings.device)
    set_options(refiner, settings)
    refiner.check(header.format.height, header.format.width, steps=settings.steps)
    if isinstance(refiner, WindowRefiner):
        if pace is not None:
            raise errors.ConfigError(
                f"{settings.backend} restores windows of frames, which cannot be left out one by "
                "one: choose a back end of keyframes, such as compact:nano"
            )
        kept = _kept(settings, refiner, seed)
        return attrgetter("picture"), Windows(refiner, settings.steps, seed, kept)
    if settings.resume is not None:
        raise errors.ConfigError(f"resume: {refiner.name} restores no windows: leave it out")
    is_guided = header.model_id == refiner.id  # what was chosen for other weights is no guide

    def refined(key: keyframe.Keyframe, steps: int) -> Picture:
        key = key if is_guided else replace(key, guide=None)
        return refiner.refine(key, steps=steps, seed=seed)

    plain = partial(refined, steps=settings.steps)
    return plain if pace is None else paced_refine(refined, settings.steps, pace), None


def _kept(settings: DecoderSettings, refiner: WindowRefiner, seed: int) -> KeptWindows | None:
    if settings.resume is None:
        return None
    asked = settings.steps, settings.cache, settings.vram == "fp8"
    who = f"{refiner.name} {refiner.id.hex()} {refiner.revision}"
    return KeptWindows(Path(settings.resume), f"{who}, {seed}, {asked}, {settings.device}")


def set_options(refiner: Refiner, settings: DecoderSettings) -> None:
    """Give a refiner what the settings ask of it. Raises ConfigError for what it cannot do."""
    if settings.cache is not None:
        from gsvc.decoders.keyframes.transformer_cache import TransformerCache

        cache = TransformerCache(settings.cache)
        _refuse(not refiner.keeps_steps, refiner, "cache", "keeps nothing from step to step")
        refiner.step_cache = cache
    if settings.latent_cache is not None:
        _refuse(not refiner.keeps_latents, refiner, "latent_cache", "begins no loop late")
        from gsvc.decoders.keyframes.latent_cache import LatentCache

        refiner.latents = LatentCache(*folder_and_capacity(settings.latent_cache))
    if settings.vram is not None:
        _refuse(refiner.extra != "pretrained", refiner, "vram", "needs little memory")
        refiner.memory = Budget.of(settings.vram)
    if settings.quantize is not None:
        _quantize(refiner)
    if settings.look != DecoderSettings.look:
        if not isinstance(refiner, RestorerBackend):
            raise errors.ConfigError(f"look: {refiner.name} draws in one way: leave it out")
        refiner.look = settings.look
    if settings.paste_keys:
        is_window = isinstance(refiner, WindowRefiner)
        _refuse(not is_window, refiner, "paste_keys", "restores keyframes alone")
        refiner.pastes_keys = True


def _quantize(refiner: Refiner) -> None:
    """Have the weights in 8 bits, where that goes with how they are held."""
    _refuse(not refiner.can_quantize, refiner, "quantize", "has no weights for it")
    need("quantize", 'quantize="int8"', ", or leave it out")
    kind = refiner.memory.kind if refiner.memory else None
    if kind in ("groups", "fp8"):
        raise errors.ConfigError(f"quantize goes with vram 8G, whole or offload, not with {kind}")
    refiner.quantize = True


def folder_and_capacity(text: str) -> tuple[Path, int]:
    """A folder and bytes, from FOLDER or FOLDER:2G. Raises ConfigError for a size that is none."""
    folder, colon, size = text.rpartition(":")
    if not colon or "/" in size or "\\" in size:
        return Path(text), 2_000_000_000
    try:
        unit = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}.get(size[-1:].upper())
        return Path(folder), round(float(size[:-1] if unit else size) * (unit or 1))
    except (ValueError, OverflowError):
        raise errors.ConfigError(f"latent cache {text!r}: write FOLDER or FOLDER:2G") from None


def _refuse(wrong: bool, refiner: Refiner, option: str, why: str) -> None:
    if wrong:
        raise errors.ConfigError(f"{option}: {refiner.name} {why}: leave it out")


@errors.sealed
@errors.typed
class Decoder:
    """Decodes one stream, packet by packet.

    Pass every packet to `decode` in order, then call `flush`. Start at any INTRA packet; after
    `reset`, again. Frames between that packet's keyframe and the one before it are then left out.
    Frames take their packet's `pts`; without one they count on from the last frame, or from 0.

    Call `close` at the end, or use the decoder in a `with` block. Use it from one thread at a time:
    while it is at work, `decode` raises ConfigError in another. Unless it conceals, it raises
    BitstreamError for a packet that is damaged and, once, for one that does not follow the last by
    its number; then any INTRA packet goes on, also that one. A closed decoder raises ConfigError.
    Of a stream without pictures it draws a schematic, and says so.
    """

    header: Header
    """The stream's."""

    def __init__(
        self,
        header: Header,
        settings: DecoderSettings | None = None,
        limits: errors.Limits = errors.DEFAULT_LIMITS,
        refiner: Refiner | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Prepare to decode the stream of `header`.

        Args:
            header: The stream's header.
            settings: How to decode; one step of the default refiner by default.
            limits: What the stream may ask for; `Limits.restrictive()` for untrusted senders.
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
        if header.motion_estimator not in optical_flow.MOTION_ESTIMATORS:
            why = f"motion estimator {header.motion_estimator} is not known: install a newer gsvc"
            raise errors.VersionError(why)
        if settings.device != "cpu":  # steps 0 need none, but who asks for one is to know
            backends.check_device(settings.device)
        refine, self._windows = _restoring(header, settings, refiner, pace)
        make_renderer = _drawing(settings, pace)
        self._pictures = Reconstruction(header, GroupReader(header, limits), refine, make_renderer)
        policy = Concealer if settings.conceal else StrictTimeline
        self._timeline: StrictTimeline | Concealer | None = policy(header, self._pictures, limits)
        self.header = header
        self._limits, self._conceals = limits, settings.conceal
        self._schematic: Schematic | None = None
        self._turn = errors.OneThread("decoder")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def delay(self) -> int:
        """Frames by which output may be late: those of a window, 0 with other refiners."""
        return self._windows.delay if self._windows else 0

    @property
    def needs_key(self) -> bool:
        """Whether there are no frames, or concealed ones alone, before an INTRA packet, which the
        sender is to be asked for: at first, and after a loss or damage up to where that packet, or
        the missing one after all, comes. False where the stream has no pictures."""
        return self._schematic is None and not self._pictures.goes_on

    def close(self) -> None:
        """Release the picture decoder and the refiner. May be called again."""
        self._timeline = self._windows = None

    def reset(self) -> None:
        """Forget all packets and frames, as for a seek. The next packet may be any INTRA packet."""
        self._open_timeline().reset()
        if self._schematic:
            self._schematic.reset()
        if self._windows:
            self._windows.reset()

    def decode(self, packet: Packet) -> list[Frame]:
        """Decode one packet; return the frames that it completes, in order.

        Only picture packets complete frames. A concealing decoder puts the concealed frames of
        missing packets before them; the END packet returns those missing at the end.
        """
        with self._turn:
            return list(self.frames(packet))

    @errors.typed
    def frames(self, packet: Packet, times: range | None = None) -> Iterator[Frame]:
        """`decode` frame by frame, in the memory of one. Exhaust it before the next packet.

        `times`: pts that are wanted, in ticks. Other frames may be left out, which saves drawing
        them; a `WindowRefiner` needs them all.
        """
        yield from self._out(self._open_timeline().frames(packet, None if self._windows else times))
        if is_alone(packet):
            if self._schematic is None:
                from gsvc.decoders.detection.overlay import Schematic

                self._schematic = Schematic(self.header, self._limits, conceal=self._conceals)
            yield from self._schematic.frames(packet)

    @errors.typed
    def skip(self, packet: Packet) -> None:
        """Take a packet without drawing its frames, on the way to a later one."""
        self._open_timeline().skip(packet)

    def flush(self) -> list[Frame]:
        """The frames that a `WindowRefiner` holds back, else none. More packets may follow."""
        self._open_timeline()
        return list(_owned(self._windows.flush())) if self._windows else []

    @errors.typed
    def conceal_until(self, pts: int) -> list[Frame]:
        """Concealed frames up to `pts`, in ticks, one nominal duration apart.

        For a receiver whose clock runs on while no packet arrives: a later packet does not show
        these frames again. Before the first picture there are none, and a call gives no more than
        a packet may hold (`Limits.interval`). Frames that repeat a picture share its pixels.
        Raises ConfigError unless the decoder conceals.
        """
        timeline = self._open_timeline()
        if not isinstance(timeline, Concealer):
            why = "this decoder does not conceal: set DecoderSettings(conceal=True)"
            raise errors.ConfigError(why)
        return list(self._out(timeline.until(pts), share=True))

    def _out(self, drawn: Iterable[DrawnFrame], *, share: bool = False) -> Iterator[Frame]:
        frames = self._windows.frames(drawn) if self._windows else (one.frame for one in drawn)
        return _owned(frames, share=share)

    def _open_timeline(self) -> StrictTimeline | Concealer:
        if self._timeline is None:
            raise errors.ConfigError("this decoder is closed: make another")
        return self._timeline


def _drawing(settings: DecoderSettings, pace: Pace | None) -> rendering.MakeRenderer:
    """The maker of renderers of frames between keyframes. Raises as `rife_renderer`."""
    if settings.motion == "dis":
        return rendering.IntervalRenderer
    from gsvc.decoders.interpolation.rife import rife_renderer

    make = rife_renderer(settings.device)
    return paced_motion(make, pace) if pace else make


def _owned(frames: Iterable[Frame], *, share: bool = False) -> Iterator[Frame]:
    """Frames with pixels of their own; with `share`, those that repeat a picture share one copy."""
    last, copy = None, None
    for frame in frames:
        if copy is None or not share or frame.pixels is not last:
            last, copy = frame.pixels, frame.pixels.copy()
        yield replace(frame, pixels=copy)
