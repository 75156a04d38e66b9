"""Does a stream follow its network? `python tools/follow_network.py`

A sender chooses its rate by a rule: one that stays, a plain one, and gsvc's own. A viewer sees the
frames whose packets came in time, and held ones else.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import chain, cycle, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.container import Packet
from gsvc.codec.bitstream.errors import GsvcError
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.bitstream.header import Header
from gsvc.codec.network.congestion_control import Adaptation, Reception
from gsvc.codec.network.depacketizer import ReorderLimits
from gsvc.codec.network.link_rate import RateAdapter
from gsvc.codec.network.rtp_session import RtpReceiver, RtpSender
from gsvc.codec.network.stats import IP_UDP_BYTES, LayerMeter
from gsvc.codec.planning.video_trial import likeness
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.eval.layout import markdown
from network_traces import HELD_OUT, TRACES, Link, Trace, recorded

BOUNDS = Adaptation(3_000, 60_000)


class Fixed:
    """A rate that stays."""

    def __init__(self, encoder: Encoder) -> None:
        """`encoder` has its rate."""

    def heard(self, rtp: RtpSender, meter: LayerMeter) -> None:
        """Take no notice."""

    def sent(self, rtp: RtpSender) -> None:
        """Take no notice."""

    def steer(self) -> bool:
        """Stay."""
        return True


class Throughput:
    """The plain rule: a tenth more than came in the last second, or a fifth less after loss."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._taken: Reception | None = None
        self._before = 0, 0
        self._rate: float | None = None

    def heard(self, rtp: RtpSender, meter: LayerMeter) -> None:
        """Take a new report."""
        seen = rtp.reception
        if seen is None or seen is self._taken:
            return
        self._taken = seen
        now = sum(meter.bits.values()), 8 * (rtp.bytes + IP_UDP_BYTES * rtp.datagrams)
        packets, sent = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        wanted = seen.bitrate * (0.8 if seen.lost else 1.1) * packets / max(1, sent)
        self._rate = min(BOUNDS.most, max(BOUNDS.least, wanted))

    def sent(self, rtp: RtpSender) -> None:
        """Take no notice."""

    def steer(self) -> bool:
        """Meet it."""
        if self._rate is not None and self._rate != self._encoder.target_bitrate:
            self._encoder.target_bitrate = self._rate
        return True


class FollowingRule:
    """What `gsvc send --adapt` does."""

    def __init__(self, encoder: Encoder, clock: Callable[[], float]) -> None:
        self._adapter, self._clock = RateAdapter(encoder, BOUNDS, clock), clock

    def heard(self, rtp: RtpSender, meter: LayerMeter) -> None:
        """Take a new report."""
        rtp.protect(self._clock(), is_answered=True)
        self._adapter.heard(rtp, meter.bits, 0)

    def sent(self, rtp: RtpSender) -> None:
        """Take note of what is under way."""
        self._adapter.sent(rtp)

    def steer(self) -> bool:
        """Follow."""
        return self._adapter.steer()


Rule = Fixed | Throughput | FollowingRule


_EVERY = 5
"""One frame in so many is compared."""


@dataclass(frozen=True)
class Viewing:
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
) -> Viewing:
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
    return Viewing(len(missed) / frames, alike, max(1, round(rate / _EVERY)))


_TICK = 0.02
_WAIT = ReorderLimits(seconds=0.7)
"""As `gsvc recv --wait 700`: a copy comes with the next packet, half a second later."""
_BEGINNING = 8_000.0
_FIXED = 2.0, 3.0, 4.5, 7.0
"""Kilobits per second."""


@dataclass(frozen=True)
class Sent:
    """A session in virtual time."""

    came: Sequence[tuple[float, Packet]]
    """What the receiver got, each with when."""
    rates: Sequence[float]
    """Bits per second that the encoder was to meet, at each frame."""
    frames: int


class FollowSession:
    """One sender and one receiver over a link, in virtual time."""

    def __init__(self, video: VideoFormat, trace: Trace, rule: str, bitrate: float) -> None:
        self.now = 0.0
        settings = EncoderSettings(bitrate=bitrate, preset="fast", low_delay=True)
        self._encoder = Encoder(video, settings)
        self._rule = self._made(rule)
        self.header = self._encoder.header
        self._rtp, self._receiver = RtpSender(self.header), RtpReceiver(reorder=_WAIT)
        self._meter, self._link, self._delay = LayerMeter(self.header), Link(trace), trace.delay
        self._forth: list[tuple[float, int, bytes]] = []
        self._back: list[tuple[float, int, bytes]] = []
        self._count = 0
        self._reported = float("-inf")
        self.reports_lost = 0.0
        """Share of the datagrams that the receiver sends."""
        self._chance = np.random.default_rng(7)
        self._got: list[tuple[float, Packet]] = []

    def run(self, pictures: Iterator[Picture], seconds: float) -> Sent:
        """Send that much of the pictures, then wait for what is under way."""
        rate = self.header.format.frame_rate
        frames, rates = int(seconds * rate), list[float]()
        for step in range(round((seconds + 4) / _TICK)):
            self.now = step * _TICK
            while len(rates) < frames and len(rates) / rate <= self.now:
                sends = self._rule.steer()
                rates.append(self._encoder.target_bitrate or 0.0)
                frame = Frame(next(pictures), len(rates) - 1)
                packets = self._encoder.encode(frame) if sends else []
                if packets:
                    self._report(len(rates) - 1)
                    self._send(packets)
            self._deliver()
        self._encoder.close()
        return Sent(self._got, rates, frames)

    def _made(self, rule: str) -> Rule:
        kinds: dict[str, Callable[[], Rule]] = {
            "throughput rule": lambda: Throughput(self._encoder),
            "following": lambda: FollowingRule(self._encoder, lambda: self.now),
        }
        return kinds.get(rule, lambda: Fixed(self._encoder))()

    def _send(self, packets: Sequence[Packet]) -> None:
        for packet in packets:
            self._meter.add(packet)
        self._put(self._rtp.send(packets))
        self._rule.sent(self._rtp)

    def _report(self, pts: int) -> None:
        if self.now - self._reported >= 1:
            self._reported = self.now
            at = float(pts * self.header.format.time_base)
            self._put([self._rtp.report_capture(pts, at, self.now)])

    def _put(self, datagrams: Sequence[bytes]) -> None:
        for data in datagrams:
            arrival = self._link.send(len(data) + IP_UDP_BYTES, self.now)
            self._count += 1
            if arrival is not None:
                heappush(self._forth, (arrival, self._count, data))

    def _deliver(self) -> None:
        """What arrives by now, on both sides."""
        packets = list[Packet]()
        while self._forth and self._forth[0][0] <= self.now:
            packets += self._receiver.receive(heappop(self._forth)[2], self.now)
        packets += self._receiver.poll(self.now)
        self._got += [(self.now, packet) for packet in packets]
        for data, _ in self._receiver.feedback(self.now):
            self._count += 1
            if self._chance.random() >= self.reports_lost:
                heappush(self._back, (self.now + self._delay, self._count, data))
        while self._back and self._back[0][0] <= self.now:
            repeated, begins = self._rtp.take_feedback(heappop(self._back)[2], self.now)
            self._put(repeated)
            if begins:
                self._encoder.force_keyframe()
            self._rule.heard(self._rtp, self._meter)


def there_and_back(pictures: Sequence[Picture]) -> Iterator[Picture]:
    """Forwards, backwards and so on: no cut where the clip begins again."""
    return cycle(chain(pictures, pictures[-2:0:-1]))


def values_of(sent: Sent, shown: Viewing, rate: float) -> list[float]:
    """What a line of the table says; see `HEADER`."""
    logs = np.abs([np.log(b / a) for a, b in pairwise(sent.rates)])
    minutes = sent.frames / rate / 60
    return [
        float(np.mean(sent.rates)) / 1000,
        100 * shown.missed,
        shown.mean,
        shown.worst,
        float(np.sum(logs > 0.02)) / minutes,
        float(np.sum(logs)) / minutes,
    ]


def _shown(values: NDArray[np.float64]) -> list[str]:
    formats = "{:.1f}", "{:.1f} %", "{:.3f}", "{:.3f}", "{:.1f}", "{:.2f}"
    return [one.format(value) for one, value in zip(formats, values, strict=True)]


HEADER = (
    "",
    "kbit/s asked for",
    "frames late or lost",
    "SSIM, mean",
    "worst tenth of seconds",
    "changes a minute",
    "their size, nats a minute",
)


def main() -> int:
    """Run every rule over every trace, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--clip", default="carphone", help="a packaged clip, or a video's path (%(default)s)")
    add("--lines", type=int, default=144, help="its short side (%(default)s)")
    add("--seconds", type=float, default=60.0, help="of each session (%(default)g)")
    add("--deadline", type=float, default=1.5, help="seconds from capture to show (%(default)g)")
    add("--seed", type=int, default=0, help="of the first trace (%(default)s)")
    add("--traces", type=int, default=1, help="of each kind, by seeds that follow (%(default)s)")
    add("--trace", help="a recorded trace in its place: a file as Mahimahi has them")
    add(
        "--mean",
        type=float,
        default=30_000.0,
        help="bits per second that a recorded trace is scaled to (%(default)g)",
    )
    options = parser.parse_args()
    try:
        kinds = _kinds(options)
        is_file = Path(options.clip).is_file()
        clip = options.clip if is_file else packaged_clip(options.clip)
        pictures, rate = load_clip(clip, short_side=options.lines)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    height, width = pictures[0].shape[:2]
    video = VideoFormat(width, height, 1 / rate, rate)
    for name, traces in kinds.items():
        every = [list(_values(video, one, pictures, options)) for one in traces]
        rows = [
            [rule, *_shown(np.mean([each[n][1] for each in every], axis=0))]
            for n, (rule, _) in enumerate(every[0])
        ]
        mean = np.mean([trace.mean for trace in traces]) / 1000
        print(f"{name}: {mean:.1f} kbit/s on average\n\n{markdown(HEADER, rows)}\n", flush=True)
    return 0


def _kinds(options: argparse.Namespace) -> dict[str, list[Trace]]:
    """Traces by the name of their kind. Raises InputError for a file that is none."""
    if options.trace:
        every = recorded(options.trace, options.seconds, options.mean)
        at = range(options.seed, options.seed + options.traces)
        return {Path(options.trace).name: [every[n % len(every)] for n in at]}
    return {
        name: [make(options.seconds, options.seed + n) for n in range(options.traces)]
        for name, make in {**TRACES, **HELD_OUT}.items()
    }


def _values(
    video: VideoFormat, trace: Trace, pictures: Sequence[Picture], options: argparse.Namespace
) -> Iterator[tuple[str, list[float]]]:
    """Each rule over a trace."""
    rules = {
        **{f"fixed, {kilobits:g} kbit/s": 1000 * kilobits for kilobits in _FIXED},
        "fixed, a quarter of the mean": trace.mean / 4,
        "throughput rule": _BEGINNING,
        "following": _BEGINNING,
    }
    rate: Fraction = video.frame_rate
    for name, bitrate in rules.items():
        session = FollowSession(video, trace, name, bitrate)
        sent = session.run(there_and_back(pictures), options.seconds)
        truth = there_and_back(pictures)
        shown = shown_of(session.header, sent.came, truth, sent.frames, options.deadline)
        print(f"{name}: done", file=sys.stderr)
        yield name, values_of(sent, shown, float(rate))


if __name__ == "__main__":
    sys.exit(main())
