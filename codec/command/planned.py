"""Carrying plans out: `gsvc encode --plan`, `gsvc decode --time-budget` and `--deadline`.

What a job took is written beside what was foretold of it, for the next plan to be nearer.
"""

import logging
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from typing import Any

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encode_job import AUTO_SIZE, SOURCE_SIZE, EncodeJob, suited
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.api.inspection import info
from gsvc.codec.api.reports import EncodeReport
from gsvc.codec.api.target_size import SOUND, sized, sound_bitrate
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command.arguments import has_watcher, limits_of, shown_dimensions
from gsvc.codec.media import places
from gsvc.codec.network import link_rate as live
from gsvc.codec.network.depacketizer import UNDER_WAY
from gsvc.codec.network.rtp import WireSettings
from gsvc.codec.planning import plan_search, prediction, process, realtime
from gsvc.codec.planning.budgets import Budgets, VideoClass, option, read_budgets, time_of
from gsvc.codec.planning.machine_profile import known_profile
from gsvc.codec.planning.video_trial import Judge
from gsvc.codec.weights.extras import EXTRAS
from gsvc.encoders.tuning import LIVE_GOP

_log = logging.getLogger(__name__)


@contextmanager
def trial_judge(wanted: bool = True) -> Iterator[Judge | None]:
    """CVVDP, where gsvc[eval] is installed and it is wanted; else None."""
    if not wanted or EXTRAS["eval"].missing:
        yield None
        return
    from gsvc.eval.metrics.cvvdp import jod

    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield lambda source, shown, rate: pool.submit(jod, source, shown, rate).result()


TCP = 1 + 52 / 1400
"""Bits on a link for a bit of a file: headers of IP and TCP with time stamps, of each segment."""
_LOSSY, _COPIES, _HEAVY = 0.02, 2, 0.05
"""Share of datagrams lost from which copies and parity pay one way; how many then, as of
`WireSettings`: at 5 and 10 % loss 0.6 and 1.6 dB better than the usual, in a simulation. From the
last share on, groups end after 4 s: at 5 % loss 2 to 5 % of frames follow a loss, else 3 to 9 %, at
10 % 7 to 14 %, else 14 to 22 % (three faces at 8 kbit/s in datagrams of 240 bytes), for half a dB
without loss."""
_HEARD = 30  # seconds whose sound says what all of it takes


@dataclass(frozen=True)
class Carried:
    """What a link carries of a video, and how to open it."""

    link: plan_search.LinkLoad
    opened: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `open_video`."""
    audio_bitrate: int | None = None


def carried(source: str, budgets: Budgets, options: Namespace) -> Carried:
    """What the bandwidth leaves to pictures: RTP takes of it where the latency is short, else TCP.

    `options`: audio, size, fps, start and frames. Raises ConfigError where nothing is left.
    """
    total, is_heard, is_live = budgets.bandwidth, options.audio != "none", budgets.is_live
    job = EncodeJob(
        source, EncoderSettings(), options.start, options.frames, options.fps, is_heard,
        texts=False, size=options.size, sound_may_go=options.audio is None,
    )  # fmt: skip
    sound = 0.0
    if total is None:
        job, how = suited(job, None), "opus" * is_live if is_heard else "none"
    else:
        job, how, sound = _with_sound(job, total, options, is_live=is_live)
    size = None if isinstance(job.size, str) else job.size
    link = _link(job, how, sound, budgets, options)
    opened = {"size": size, "fps": job.fps, "start": job.start, "frames": job.frames}
    return Carried(link, opened, job.audio_bitrate)


def link_of_class(kind: VideoClass, budgets: Budgets, options: Namespace) -> plan_search.LinkLoad:
    """What a link carries of a video that is not there yet: sound only where `options.audio` asks
    for it, at its lowest rate. Raises ConfigError as of `carried`."""
    total, size = budgets.bandwidth, (kind.width, kind.height)
    job = EncodeJob("", EncoderSettings(), fps=kind.rate, size=size, sound=options.audio == "opus")
    if total and job.sound:
        job.audio_bitrate = SOUND[0]
        job.sound = not (budgets.is_live and _too_slow(total, options))
    sound = live.sound_bits(job.audio_bitrate) - live.SOUND_HEADERS if job.audio_bitrate else 0.0
    return _link(job, options.audio or "none", sound, budgets, options)


def _link(
    job: EncodeJob, how: str, sound: float, budgets: Budgets, options: Namespace
) -> plan_search.LinkLoad:
    """What carries the job; `how`: as of `_with_sound`, `sound`: bits per second of it."""
    total, size = budgets.bandwidth, None if isinstance(job.size, str) else job.size
    # All is told, what is usual too: that follows from the rate, and a plan may take less of it.
    told = ["--size", shown_dimensions(size or SOURCE_SIZE)]
    told += ["--fps", f"{job.fps:.6g}"] if job.fps else []
    told += _part(job.start, job.frames)
    told += ["--audio", how] if how else []
    told += ["--audio-bitrate", str(job.audio_bitrate)] if job.audio_bitrate else []
    told += _told_live(options) * budgets.is_live
    part, loss = tuple(_part(options.start, options.frames)), getattr(options, "loss", None) or 0.0
    link = plan_search.LinkLoad(TCP, TCP * sound, tuple(told), most=total, loss=loss, part=part)
    if not budgets.is_live:
        return link
    heads = live.SOUND_HEADERS * job.sound if total else 0.0
    wait = min(UNDER_WAY, (budgets.latency or 0.0) / 2)  # a repetition may come within the rest
    link = replace(link, is_live=True, beside=heads + sound, wait=wait)
    return _over_rtp(link, (job.audio_bitrate or 0) if heads else None, options)


def _with_sound(
    job: EncodeJob, total: float, options: Namespace, *, is_live: bool
) -> tuple[EncodeJob, str, float]:
    """The job that fits a link of `total` bits per second; what `--audio` is told, "" where the
    video has no sound; bits per second of sound, without headers."""
    with job.open() as video:
        most, had_sound = round(_HEARD * video.format.frame_rate), video.has_sound
    if options.audio == "opus" and not had_sound:
        _log.warning("%s has no sound", job.source)
    job.sound = job.sound and had_sound and not (is_live and _too_slow(total, options))
    most = min(most, options.frames or most)
    job, heads = replace(job, frames=most), live.SOUND_HEADERS * (is_live and job.sound)
    size = int((total - heads if is_live else total / TCP) * job.seconds / 8)
    job = _shaped_live(job, total, _wire(options)) if is_live else job
    if heads:  # as gsvc send chooses it
        room_now = live.pictures_within(total, heads, _wire(options))
        with job.open() as video:
            job.audio_bitrate = sound_bitrate(job.settings, video.format, room_now)
    job, _, room = sized(job, size)
    sound = 8 * (size - room) / float(job.seconds)
    job.frames = options.frames and round(options.frames * (job.frames or most) / most)
    return job, ("opus" if job.sound else "none") * had_sound, sound


def _over_rtp(
    link: plan_search.LinkLoad, audio: int | None, options: Namespace
) -> plan_search.LinkLoad:
    """A live link with what datagrams take of it; `audio`: bits per second of sound, None without
    any."""
    wire, total, heard = _wire(options), link.most, float(audio is not None)
    if audio is not None and total:
        verdict = live.sound_verdict(total, live.sound_bits(audio), wire)
        # Sound that leaves a live link too little leaves pieces too little, too.
        part = *link.part, "--audio", "none" if verdict else "opus"
        silent = live.pictures_within(total, 0.0, wire)
        link = replace(link, verdict=verdict, silent=silent, part=part)
    rate = total or 1.0
    factor = rate / live.pictures_within(rate + heard, heard, wire)
    intra = live.intra_seconds(total - link.beside) if total else 0.0
    link = replace(link, factor=factor, intra=intra)
    if not getattr(options, "feedback", True):
        wire = replace(wire, redundancy=0, parity_span=0)
        bare = live.pictures_within(rate + heard, heard, wire)
        link = replace(link, one_way=factor * bare / rate - 1)
    return link


def in_pieces(options: Namespace, rate: float | None) -> str:
    """What makes pieces of a video that fill a link of so many bits per second."""
    job = EncodeJob(options.source, EncoderSettings(), options.start, options.frames)
    seconds = job.seconds if options.source and rate else 0
    bits, part = (rate or 0) * float(seconds), _part(options.start, options.frames)
    return plan_search.pieces_command(options.source or "", bits, options.loss, part)


def _wire(options: Namespace) -> WireSettings:
    """How a live link's datagrams are cut and, without a way back, protected from their loss."""
    wire = WireSettings(mtu=getattr(options, "mtu", None) or WireSettings.mtu)
    if getattr(options, "feedback", True):
        return wire
    copies = _COPIES * (options.loss >= _LOSSY)
    return replace(wire, redundancy=copies, parity_span=copies)


def _told_live(options: Namespace) -> list[str]:
    """Options of a live link: its datagrams, and shorter groups where many get lost one way."""
    wire = _wire(options)
    told = ["--mtu", str(wire.mtu)] if wire.mtu != WireSettings.mtu else []
    if wire.redundancy != WireSettings.redundancy:  # one way
        told += ["--redundancy", str(wire.redundancy), "--parity", str(wire.parity_span)]
        told += ["--gop", f"{LIVE_GOP:g}"] if options.loss >= _HEAVY else []
    return told


def _part(start: float, frames: int | None) -> list[str]:
    """The options that tell of which part of a video a plan is."""
    told = ["--start", f"{start:g}"] if start else []
    return told + (["--frames", str(frames)] if frames else [])


def _too_slow(total: float, options: Namespace) -> bool:
    """Whether a live link has no room for sound. Raises ConfigError where it is asked for."""
    if total < (least := live.LEAST_WITH_SOUND):
        told = f"a live link carries sound from {least / 1000:g} kbit/s"
        if options.audio is not None:
            raise ConfigError(f"{told}: take --audio none")
        _log.warning("without sound: %s", told)
    return total < least


def _shaped_live(job: EncodeJob, total: float, wire: WireSettings) -> EncodeJob:
    """At the size and frame rate of `gsvc send --size auto`, unless another is asked for."""
    if job.size not in (None, AUTO_SIZE):
        return job
    sound = live.sound_bits(SOUND[0]) if job.sound else 0.0
    rate = live.pictures_within(total, sound, wire)
    return suited(replace(job, size=AUTO_SIZE), rate, total, beside_sound=sound > 0)


_ENCODING = "level", "bpp", "bitrate", "quality", "preset", "low_delay", "low_memory", "gop"
_DECODING = "steps", "backend", "motion"  # options that a plan decides


@dataclass(frozen=True)
class Foretold:
    """What a job is to come to: by name, the prediction and its value before any correction."""

    job: str
    numbers: Mapping[str, tuple[prediction.Range, float]]

    def note(self, measured: Mapping[str, float | None]) -> None:
        """Write the truth beside it, in the log of predictions. Raises OutputError."""
        truth = {
            name: prediction.Truth(*self.numbers[name], value)
            for name, value in measured.items()
            if value is not None
        }
        prediction.note(self.job, truth)


def planned_encoding(options: Namespace) -> tuple[plan_search.BudgetPlan, Foretold]:
    """Plan for the budgets of the file `options.plan`; the options then say what was chosen.

    Raises ConfigError for budgets that cannot be met, and for options that a plan decides.
    """
    _refuse(options, EncoderSettings(), _ENCODING, "--plan")
    if options.target_size is not None or options.total_bitrate is not None:
        raise ConfigError("--plan decides the rate: leave --target-size and --total-bitrate out")
    if options.task is not None:
        raise ConfigError("--plan is for pictures, and a --task sends none: leave one of them out")
    if places.is_read_once(options.source):
        raise ConfigError("--plan tries the video first: not a pipe, save it as a file")
    budgets = read_budgets(options.plan)
    found = carried(options.source, budgets, options)
    with trial_judge() as judge:
        planner = plan_search.planner_for(
            options.source, budgets, judge=judge, link=found.link, **found.opened
        )
    plan = planner.plan(budgets)
    chosen = plan_search.encoder_settings(plan.best.settings)
    options.bitrate, options.preset = chosen.bitrate, chosen.preset
    options.low_delay, options.low_memory = chosen.low_delay, chosen.low_memory
    vars(options).update(found.opened, gop=chosen.gop, size=found.opened["size"] or SOURCE_SIZE)
    options.audio_bitrate = options.audio_bitrate or found.audio_bitrate
    seen, raw = plan.best.prediction, planner.model.uncorrected.predict(plan.best.settings)
    numbers = {
        "rate": (seen.bitrate, raw.bitrate.mean),
        "encode_seconds": (seen.encode_seconds, raw.encode_seconds.mean),
        f"encode_seconds {chosen.preset}": (seen.encode_seconds, raw.encode_seconds.mean),
        "encode_memory": (seen.encode_memory, raw.encode_memory.mean),
    }
    return plan, Foretold(f"encode {options.source}", numbers)


def log_predictions(
    options: Namespace, plan: plan_search.BudgetPlan, foretold: Foretold, report: EncodeReport
) -> None:
    """After encoding: log what was predicted and what came out; tell a watcher how to decode."""
    preset = plan.best.settings.preset
    if options.start == 0 and options.frames is None:  # else it is another job than foretold
        seconds = report.elapsed + known_profile().encode[preset].start
        seen = {"rate": report.bitrate, "encode_memory": process.peak_memory()}
        foretold.note({**seen, "encode_seconds": seconds, f"encode_seconds {preset}": seconds})
    if has_watcher(options) and not options.json:
        way = plan.best.settings.way.arguments
        print(f"as planned: {shlex.join(['gsvc', 'decode', report.target, *way])}", file=sys.stderr)


def budgeted_decoding(options: Namespace) -> tuple[DecoderSettings, Foretold]:
    """The best way that keeps `options.time_budget`. Raises ConfigError where none does."""
    time = time_of("--time-budget", options.time_budget)
    _check_whole(options, "--time-budget")
    fitted, stream = prediction.own_numbers(), info(options.source, limits=limits_of(options))
    found = realtime.spendings(stream, known_profile(), fitted)
    chosen = realtime.within(found, time.seconds(stream.duration), options.judge, fitted)
    numbers = {
        "decode_seconds": (chosen.seconds, chosen.raw),
        "decode_memory": (chosen.memory, chosen.raw_memory),
    }
    return _settings(options, chosen.way.settings), Foretold(f"decode {options.source}", numbers)


def deadline_decoding(options: Namespace) -> tuple[DecoderSettings, realtime.DeadlinePace]:
    """The settings and the pace that use the time `options.deadline`, from the process's start.

    Raises ConfigError where plain decoding alone takes longer.
    """
    time = time_of("--deadline", options.deadline)
    _check_whole(options, "--deadline")
    stream, profile = info(options.source, limits=limits_of(options)), known_profile()
    seconds = time.seconds(stream.duration)
    way, pace = realtime.decoding_by_deadline(
        stream, profile, prediction.own_numbers(), seconds, process.process_seconds()
    )
    return _settings(options, way.settings), pace


def _check_whole(options: Namespace, name: str) -> None:
    _refuse(options, DecoderSettings(), _DECODING, name)
    if places.is_read_once(options.source):
        raise ConfigError(f"{name} looks at the stream first: not a pipe, save it")
    if options.start or options.frames is not None or options.conceal:
        raise ConfigError(f"{name} is for whole streams: leave out --start, --frames, --conceal")


def _settings(options: Namespace, chosen: DecoderSettings) -> DecoderSettings:
    return DecoderSettings(**{**asdict(chosen), "device": options.device, "seed": options.seed})


def _refuse(options: Namespace, usual: object, decided: Iterable[str], name: str) -> None:
    given = [one for one in decided if getattr(options, one) != getattr(usual, one)]
    if given:
        raise ConfigError(f"{option(given[0])} is what {name} decides: leave one of them out")
