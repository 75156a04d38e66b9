"""`Decoder`: packets in, frames out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

from gsvc.codec.errors import ConfigError, VersionError
from gsvc.codec.frames import Frame, Picture
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.stream.group import GroupReader
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet
from gsvc.decoders.concealment import Concealer
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.motion.estimation import ESTIMATORS
from gsvc.decoders.reconstruction import Reconstruction
from gsvc.decoders.refiners.base import Refiner, WindowRefiner
from gsvc.decoders.refiners.registry import check_device, load_refiner
from gsvc.decoders.timeline import DrawnFrame, Strict
from gsvc.decoders.windows import Windows

STEPS = (0, 1, 2, 4, 8)


@dataclass(frozen=True)
class DecoderSettings:
    """How much compute to spend. Raises ConfigError for values out of range."""

    steps: int = 1
    """Of the refiner: 1, 2, 4 or 8; 0 shows pictures as they are decoded and moved."""
    backend: str = "compact"
    """Which refiner, by a name of `gsvc.decoders.refiners.registry`."""
    device: str = "cpu"
    """What the refiner runs on: "cpu", "cuda" or "cuda:N"."""
    seed: int | None = None
    """0 to 65535, in place of the stream's."""
    conceal: bool = False
    """Raise for no packet that is damaged or missing: show what can be made without it, flagged."""

    def __post_init__(self) -> None:
        if self.steps not in STEPS:
            raise ConfigError(f"steps {self.steps}: choose one of {', '.join(map(str, STEPS))}")
        if self.seed is not None and not 0 <= self.seed < 1 << 16:
            raise ConfigError(f"seed {self.seed} is out of range: 0 to 65535")


class Decoder:
    """Decodes one stream: `decode` every packet in order, then `flush`.

    Begin at any INTRA packet, and after `reset` again. Without the key picture before it, frames
    between the two cannot be made and are left out. Times are the packets' own where they have
    `pts`; else they count on from the frame before, or from 0.

    `close` it at the end, or use it in a `with` block. Not to be used by two threads at once.
    Raises BitstreamError for packets that are not valid or, by their numbers, missing, unless it
    conceals that; ConfigError once it is closed.
    """

    def __init__(
        self,
        header: Header,
        settings: DecoderSettings | None = None,
        limits: Limits = DEFAULT_LIMITS,
        refiner: Refiner | None = None,
    ) -> None:
        """Make a decoder for the stream of `header`.

        `limits`: what the stream may ask for. The default permits all that gsvc encodes; give
        `Limits.restrictive()` where nobody vouches for the sender.
        `refiner`: one to use in place of that of the settings, for example one that is loaded.

        Raises VersionError for a stream of a newer gsvc; ConfigError, DeviceError,
        MissingModelError or MissingDependencyError if the refiner cannot be had.
        """
        settings = settings or DecoderSettings()
        if header.motion_estimator not in ESTIMATORS:
            raise VersionError(
                f"motion estimator {header.motion_estimator} is not known: install a newer gsvc"
            )
        self._steps = settings.steps
        self._seed = header.seed if settings.seed is None else settings.seed
        check_device(settings.device)  # steps 0 need none, but who asks for one is to know
        self._refiner, self._windows = None, None
        if settings.steps:
            refiner = refiner or load_refiner(settings.backend, settings.device)
            if isinstance(refiner, WindowRefiner):
                self._windows = Windows(refiner, self._steps, self._seed)
            else:
                self._refiner = refiner
        chain = Reconstruction(header, GroupReader(header, limits), self._refine)
        policy = Concealer if settings.conceal else Strict
        self._timeline: Strict | Concealer = policy(header, chain, limits)
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the picture decoder and the refiner. May be called again."""
        self.reset()
        self._refiner, self._windows = None, None
        self._is_closed = True

    def reset(self) -> None:
        """Forget all packets and frames: the next packet may be any INTRA one, as after a seek."""
        self._timeline.reset()
        if self._windows:
            self._windows.reset()

    def decode(self, packet: Packet) -> list[Frame]:
        """Decode one packet: the frames that are complete with it, in order.

        Only pictures complete frames. A decoder that conceals puts before them what stands for
        packets that are missing; the END packet gives what is missing at the end.
        """
        return list(self.frames(packet))

    def frames(self, packet: Packet) -> Iterator[Frame]:
        """`decode` one frame at a time, in the memory of one; use it up before the next packet."""
        self._check_open()
        yield from self._out(self._timeline.frames(packet))

    def skip(self, packet: Packet) -> None:
        """Take in a packet without its frames, on the way to one that is wanted."""
        self._check_open()
        self._timeline.skip(packet)

    def flush(self) -> list[Frame]:
        """The frames that a refiner of windows holds back. More packets may follow."""
        self._check_open()
        return list(_owned(self._windows.flush())) if self._windows else []

    def conceal_until(self, pts: int) -> list[Frame]:
        """Frames that are due up to `pts`, in ticks, without a packet, one nominal duration apart.

        For a receiver whose clock runs on: what arrives of them later is not shown again. None
        before the first picture. Frames that repeat a picture share its pixels: there may be many.

        Raises ConfigError for a decoder that was not told to conceal.
        """
        self._check_open()
        if not isinstance(self._timeline, Concealer):
            raise ConfigError("this decoder does not conceal: set DecoderSettings(conceal=True)")
        return list(self._out(self._timeline.until(pts), share=True))

    def _out(self, drawn: Iterable[DrawnFrame], *, share: bool = False) -> Iterator[Frame]:
        frames = self._windows.frames(drawn) if self._windows else (one.frame for one in drawn)
        return _owned(frames, share=share)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigError("this decoder is closed: make another")

    def _refine(self, key: KeyPicture) -> Picture:
        if self._refiner is None:
            return key.picture
        return self._refiner.refine(key, steps=self._steps, seed=self._seed)


def _owned(frames: Iterable[Frame], *, share: bool = False) -> Iterator[Frame]:
    """Frames that their receiver may write on: the decoder goes on from its own pictures.

    `share`: one copy of a picture does for all frames that repeat it.
    """
    last, copy = None, None
    for frame in frames:
        if copy is None or not share or frame.pixels is not last:
            last, copy = frame.pixels, frame.pixels.copy()
        yield replace(frame, pixels=copy)
