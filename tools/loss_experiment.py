"""`python tools/loss_experiment.py`: what packet loss does to the picture, and the latency.

A sender in a process of its own, `gsvc send` in real time and low delay, a relay that loses
datagrams both ways, and a receiver here; steps 0, unless `--steps`. Prints tables in Markdown:
shares of frames shown and concealed, distances to the source and to what a lossless network showed,
times to heal; latencies by stage; rates with all headers.
"""

import argparse
import asyncio
import json
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.errors import GsvcError, OutputError
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.media.video_writer import open_writer
from gsvc.codec.network.rtp import RTP_HEADER_BYTES
from gsvc.codec.network.stats import IP_UDP_BYTES, ReceiverStats
from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.datasets.clips.packaged import packaged_clip
from gsvc.eval.layout import markdown
from gsvc.eval.metrics.perceptual import StLpips
from lossy_relay import Loss, LossyRelay

_STRIDE = 101
"""One frame in so many is compared."""
_SHARES = (0.01, 0.05, 0.2)
_BURST = 4.0
_SILENCE = 20.0
_BARE = ("--redundancy", "0", "--parity", "0")
"""Options of the sender without protection."""
_SENDER = "from gsvc.codec.command.main import main; raise SystemExit(main())"


@dataclass(frozen=True)
class Case:
    """One run."""

    loss: Loss
    protected: bool = True
    """With redundancy, parity and feedback."""

    def __str__(self) -> str:
        way = "none" if not self.loss.share else f"{self.loss.share:.0%}"
        way += f", bursts of {self.loss.burst:g}" if self.loss.burst > 1 else ""
        return way if self.protected else f"{way}, unprotected"


@dataclass(frozen=True)
class LossOutcome:
    """What a run showed."""

    case: Case
    frames: Sequence[tuple[int, bool]]
    """Index of every frame shown, and whether it was concealed."""
    pictures: dict[int, Picture] = field(repr=False)
    """One frame in `_STRIDE`, by index."""
    sent: dict[str, Any]
    """The sender's statistics."""
    received: ReceiverStats
    lost: float
    """Share of the datagrams."""

    @property
    def healing(self) -> list[int]:
        """The length of each disturbance in frames."""
        runs = groupby(self.frames, key=lambda frame: frame[1])
        return [len(list(run)) for concealed, run in runs if concealed]


async def run_case(case: Case, clip: Path, options: argparse.Namespace) -> LossOutcome:
    """Send `clip` over and over for the seconds asked for."""
    port = _free_port()
    decoding = DecoderSettings(steps=options.steps)
    settings = ReceiveSettings(decoding, feedback=case.protected, silence=_SILENCE)
    receiver = VideoReceiver(f"udp://@127.0.0.1:{port}", settings)
    frames: list[tuple[int, bool]] = []
    pictures: dict[int, Picture] = {}

    async def watch() -> None:
        async for frame in receiver.frames():
            assert receiver.header is not None  # known with the first frame
            index = round(frame.pts / receiver.header.frame_ticks)
            frames.append((index, frame.concealed))
            if index % _STRIDE == 0:
                pictures[index] = frame.pixels

    async with LossyRelay(port, case.loss) as relay:
        watching = asyncio.create_task(watch())
        sent = await _send(clip, relay.port, case, options)
        await watching
        lost = relay.lost / max(1, relay.lost + relay.passed)
    return LossOutcome(case, frames, pictures, sent, receiver.stats(), lost)


async def _send(clip: Path, port: int, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Run `gsvc send` for the seconds asked for; returns its statistics."""
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder, "stats.json")
        command = ["send", clip, f"udp://127.0.0.1:{port}", "--loop", "--stats", stats]
        command += ["--level", options.level, *([] if case.protected else _BARE)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SENDER, *map(str, command)
        )
        while not stats.exists() and process.returncode is None:
            await asyncio.sleep(0.05)
        await asyncio.sleep(options.seconds)
        process.send_signal(signal.SIGINT)
        if await process.wait():
            raise OutputError("the sender failed: see what it said above")
        values: dict[str, Any] = json.loads(stats.read_text().splitlines()[-1])
    return values


def loss_table(outcomes: Sequence[LossOutcome], rate: float) -> str:
    """Shares of the encoded frames that were shown, and of those that were concealed; kbit/s with
    all headers."""
    header = (
        "loss",
        "lost",
        "shown",
        "concealed",
        "disturbances",
        "to heal: mean",
        "longest",
        "packets lost",
        "repaired",
        "repeated",
        "sent again",
        "kbit/s",
    )
    rows = []
    for outcome in outcomes:
        sent, received, healing = outcome.sent, outcome.received, outcome.healing
        encoded, shown = sent["frames"] - sent["dropped"], len(outcome.frames)
        wire = sent["bytes"] + IP_UDP_BYTES * sent["datagrams"]
        rows.append(
            (
                str(outcome.case),
                f"{outcome.lost:.1%}",
                f"{min(1, shown / encoded):.1%}",
                f"{sum(concealed for _, concealed in outcome.frames) / shown:.1%}",
                str(len(healing)),
                f"{fmean(healing) / rate:.2f} s" if healing else "",
                f"{max(healing) / rate:.2f} s" if healing else "",
                str(received.packets_lost),
                str(received.repaired),
                str(received.repeated),
                str(received.retransmitted),
                f"{8 * wire / (sent['frames'] / rate) / 1000:.1f}",
            )
        )
    return markdown(header, rows)


def distance_table(outcomes: Sequence[LossOutcome], source: Sequence[Picture]) -> str:
    """ST-LPIPS AlexNet of all frames that were shown, concealed ones too."""
    lossless, rows = outcomes[0].pictures, []
    for outcome in outcomes:
        originals = {index: source[index % len(source)] for index in outcome.pictures}
        to_source = _distance(outcome.pictures, originals)
        rows.append((str(outcome.case), to_source, _distance(outcome.pictures, lossless)))
    return markdown(("loss", "ST-LPIPS to the source", "to lossless"), rows)


def latency_table(outcome: LossOutcome) -> str:
    """Where the time goes without loss, in milliseconds."""
    sent, received = outcome.sent, outcome.received
    stages = (
        ("a frame waits for the encoder", sent["waiting"]),
        ("encoding of a coded picture with its interval", sent["encoding"]),
        ("decoding of a packet, all its frames", vars(received.decoding)),
        ("capture of a frame to its decoded picture", vars(received.latency)),
    )
    rows = [
        (name, str(values["count"]), *(_milliseconds(values[p]) for p in ("p50", "p95", "p99")))
        for name, values in stages
    ]
    rows.append(("there and back, by the reports", "1", _milliseconds(sent["round_trip"]), "", ""))
    return markdown(("stage", "count", "p50, ms", "p95", "p99"), rows)


def rate_lines(outcome: LossOutcome, rate: float) -> Iterator[str]:
    """The rate by parts."""
    sent = outcome.sent
    seconds = sent["frames"] / rate
    coded, headers = sum(sent["bits"].values()) / 8, RTP_HEADER_BYTES * sent["datagrams"]
    outer = IP_UDP_BYTES * sent["datagrams"]
    sizes = {
        "packets as in a file": coded,
        "repeated packets, parity, headers in band, reports": sent["bytes"] - coded - headers,
        "RTP, UDP and IPv4 headers": headers + outer,
        "all": sent["bytes"] + outer,
    }
    rows = [(name, f"{8 * size / seconds / 1000:.2f}") for name, size in sizes.items()]
    yield markdown(("part", "kbit/s"), rows)
    yield f"{sent['datagrams'] / seconds:.1f} datagrams a second."


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.1f}"


def _distance(pictures: dict[int, Picture], others: dict[int, Picture]) -> str:
    common = sorted(set(pictures) & set(others))
    if not common:
        return ""
    ours, theirs = [pictures[index] for index in common], [others[index] for index in common]
    clip = TestClip("theirs", theirs, Fraction(25))
    return f"{StLpips('alex').measure(clip, [ours], range(len(common))).mean():.4f}"


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python tools/loss_experiment.py", description=(__doc__ or "").split("\n\n")[1]
    )
    add = parser.add_argument
    add("--clip", default="bikes", help="of the packaged set (bikes)")
    add("--seconds", type=float, default=40.0, help="of each run (40)")
    add("--level", type=int, default=1, metavar="0..3", help="(1)")
    add("--steps", type=int, default=0, metavar="0|1|2|4|8", help="of the refiner (0)")
    add("--latency-only", action="store_true", help="only the run without loss")
    options = parser.parse_args(arguments)
    try:
        frames, rate = load_clip(packaged_clip(options.clip), None)
        outcomes = _outcomes(frames, rate, options)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    height, width, _ = frames[0].shape
    size = f"{width}x{height}, {float(rate):g} frames a second"
    print(f"{options.clip}, {size}, level {options.level}, low delay, steps {options.steps}\n")
    print(loss_table(outcomes, float(rate)), latency_table(outcomes[0]), sep="\n\n")
    print("", *rate_lines(outcomes[0], float(rate)), sep="\n")
    dropped = sum(outcome.sent["dropped"] for outcome in outcomes)
    print(f"Frames that the encoder had no time for, in all runs: {dropped}.\n", flush=True)
    if len(outcomes) > 1:
        print(distance_table(outcomes, frames))
    return 0


def _outcomes(
    frames: Sequence[Picture], rate: Fraction, options: argparse.Namespace
) -> list[LossOutcome]:
    """The lossless run, then those with loss unless only latency is asked for."""
    height, width, _ = frames[0].shape
    cases = [Case(Loss(0.0))]
    if not options.latency_only:
        cases += [Case(Loss(share, burst)) for burst in (1.0, _BURST) for share in _SHARES]
        cases += [Case(Loss(share), protected=False) for share in _SHARES[1:]]
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder, "clip.nut")
        with open_writer(clip, VideoFormat(width, height, 1 / rate, rate)) as writer:
            for pts, picture in enumerate(frames):
                writer.write(Frame(picture, pts))
        for case in cases:
            print(f"loss: {case}", file=sys.stderr, flush=True)
            outcomes.append(asyncio.run(run_case(case, clip, options)))
    return outcomes


if __name__ == "__main__":
    sys.exit(_main())
