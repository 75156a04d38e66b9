"""`Decoder`: packets in, frames out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

from gsvc.codec.errors import BitstreamError, ConfigError, VersionError
from gsvc.codec.frames import Frame, Picture
from gsvc.codec.limits import DEFAULT_LIMITS, Limits
from gsvc.codec.scaffold.place import Place
from gsvc.codec.scaffold.timing import nominal_time
from gsvc.codec.stream.group import GroupReader
from gsvc.codec.stream.header import Header
from gsvc.codec.stream.packet import Packet
from gsvc.decoders.concealment import Concealer
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.motion.estimation import ESTIMATORS
from gsvc.decoders.reconstruction import Reconstruction, Step
from gsvc.decoders.refiners.base import Refiner, WindowRefiner
from gsvc.decoders.refiners.registry import check_device, load_refiner

STEPS = (0, 1, 2, 4, 8)


@dataclass(frozen=True)
class DecoderSettings:
    """How much compute to spend.

    `steps` of the refiner on each key picture: 0 (show it as decoded), 1, 2, 4 or 8; `backend`: which refiner (see
    `gsvc.decoders.refiners.registry`); `device`: "cpu", "cuda" or "cuda:N"; `seed` 0-65535 replaces the stream's. `conceal`: never
    raise for packets that are damaged or missing, but show what can be made without them, flagged.
    """

    steps: int = 1
    backend: str = "compact"
    device: str = "cpu"
    seed: int | None = None
    conceal: bool = False

    def __post_init__(self) -> None:
        if self.steps not in STEPS:
            raise ConfigError(f"steps {self.steps}: choose one of {', '.join(map(str, STEPS))}")
        if self.seed is not None and not 0 <= self.seed < 1 << 16:
            raise ConfigError(f"seed {self.seed} is out of range: 0 to 65535")


class Decoder:
    """Decodes one stream: `decode` every packet in order, frames come back as soon as they can be made.

    Begin at any INTRA packet, and after `reset` again. Without the key picture before it, frames between the two cannot
    be made and are left out. Times are the packets' own where they have `pts`; else they count on from the frame
    before, or from 0.

    `limits`: what the stream may ask for. The default permits all that gsvc encodes; give `Limits.restrictive()` where
    nobody vouches for the sender. `close` it at the end, or use it in a `with` block. Not to be used by two threads at
    once. Raises BitstreamError for packets that are not valid or, by their numbers, missing, unless it conceals that;
    and when made: ConfigError, DeviceError or MissingModelError if the refiner cannot be had.
    """

    def __init__(
        self,
        header: Header,
        settings: DecoderSettings | None = None,
        limits: Limits = DEFAULT_LIMITS,
        refiner: Refiner | None = None,
    ) -> None:
        """`refiner`: one that is loaded, in place of loading that of the settings when the first picture comes."""
        settings = settings or DecoderSettings()
        if header.motion_estimator not in ESTIMATORS:
            raise VersionError(
                f"motion estimator {header.motion_estimator} is not known: install a newer gsvc"
            )
        self._header = header
        self._steps = settings.steps
        self._seed = header.seed if settings.seed is None else settings.seed
        self._refiner: Refiner | None = None
        check_device(settings.device)  # steps 0 need none, but who asks for one is to know
        if settings.steps:
            self._refiner = refiner or load_refiner(settings.backend, settings.device)
        self._chain = Reconstruction(header, GroupReader(header, limits), self._refine)
        self._concealer = Concealer(header, self._chain, limits) if settings.conceal else None
        self._is_closed = False
        self.reset()
        self._may_join = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the picture decoder and the refiner. May be called again."""
        self.reset()
        self._refiner = None
        self._is_closed = True

    def reset(self) -> None:
        """Forget all packets so far, to go on at any INTRA packet, after a seek for example."""
        self._chain.reset()
        if self._concealer:
            self._concealer.reset()
        self._clock: int | None = None
        self._next: int | None = None
        self._may_join = True

    def decode(self, packet: Packet) -> list[Frame]:
        """Decode one packet: the frames that it completes, in order. Other packets than pictures give none.

        A decoder that conceals puts before them what stands for packets that are missing, and the END packet gives
        what is missing at the end.
        """
        return list(self.frames(packet))

    def skip(self, packet: Packet) -> None:
        """Take in a packet without making its frames, on the way to one that is wanted: faster than `decode`."""
        self._check_open()
        if self._concealer:
            self.decode(packet)
        elif packet.is_picture:
            self._taken(packet)

    def flush(self) -> list[Frame]:
        """Frames that are still held back: none, every packet gives all of its frames at once."""
        self._check_open()
        return []

    def conceal_until(self, pts: int) -> list[Frame]:
        """Frames that are due up to `pts`, in ticks, without a packet, one nominal duration apart: for a receiver whose
        clock runs on. What arrives of them later is not shown again. None before the first picture. Frames that repeat a
        picture share its pixels: there may be many.

        Raises ConfigError for a decoder that was not told to conceal.
        """
        self._check_open()
        if self._concealer is None:
            raise ConfigError("this decoder does not conceal: set DecoderSettings(conceal=True)")
        return list(_owned(self._concealer.until(pts), share=True))

    def frames(self, packet: Packet) -> Iterator[Frame]:
        """`decode` one frame at a time, in the memory of one; use it up before the next packet."""
        self._check_open()
        shown = self._concealer.frames(packet) if self._concealer else self._complete(packet)
        yield from _owned(shown)

    def _complete(self, packet: Packet) -> Iterator[Frame]:
        """The frames of a packet of which nothing is missing."""
        if not packet.is_picture:
            return
        step, times = self._taken(packet)
        interval = step.interval
        is_partial = step.before is None and interval.place is Place.BETWEEN
        skip = interval.length - 1 if is_partial else 0
        for pts, pixels in zip(times[skip:], self._chain.draw(step, skip), strict=True):
            yield Frame(pixels, pts)

    def _taken(self, packet: Packet) -> tuple[Step, list[int]]:
        """The picture packet decoded, and the times of its frames."""
        self._check_order(packet)
        step = self._chain.read(packet)
        is_partial = step.before is None and step.interval.place is Place.BETWEEN
        if is_partial and step.interval.length > 1 and not self._may_join:
            self._lose_track()
            raise BitstreamError("the stream does not begin with a key picture: it is damaged")
        return step, self._times(packet, step)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigError("this decoder is closed: make another")

    def _check_order(self, packet: Packet) -> None:
        """Note the packet's number; a gap means that packets were lost."""
        expected, number = self._next, packet.number
        if number is None:
            return
        if expected is not None and number != expected:
            self._lose_track()
            raise BitstreamError(
                f"picture packet {number} follows {expected - 1}: packets were lost, go on at an intra one"
            )
        self._may_join |= expected is None and number > 0
        self._next = number + 1

    def _lose_track(self) -> None:
        self._chain.end_group()
        self._next, self._may_join = None, True

    def _times(self, packet: Packet, step: Step) -> list[int]:
        """When the frames of the packet are shown."""
        ticks = step.interval.ticks
        if step.before is None and packet.pts is not None:
            self._clock = packet.pts - sum(ticks)
        elif self._clock is None:
            self._clock = -nominal_time(1, self._header.frame_ticks)
        times = [self._clock + t for t in accumulate(ticks)]
        self._clock = times[-1]
        return times

    def _refine(self, key: KeyPicture) -> Picture:
        if self._refiner is None or isinstance(self._refiner, WindowRefiner):
            return key.picture
        return self._refiner.refine(key, steps=self._steps, seed=self._seed)


def _owned(frames: Iterable[Frame], *, share: bool = False) -> Iterator[Frame]:
    """Frames that their receiver may write on: the decoder goes on from its own pictures. `share`: one copy of a picture
    does for all frames that repeat it."""
    last, copy = None, None
    for frame in frames:
        if copy is None or not share or frame.pixels is not last:
            last, copy = frame.pixels, frame.pixels.copy()
        yield replace(frame, pixels=copy)
