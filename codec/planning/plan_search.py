"""The search for a plan: all settings are foretold, so the best is exact within the model."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import signature
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

import gsvc
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.api.target_size import AIM
from gsvc.codec.bitstream.erasure import rows_within
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.network.link_rate import FACES, intra_seconds
from gsvc.codec.network.stats import IP_UDP_BYTES
from gsvc.codec.planning.budgets import (
    JUDGES,
    LONG_LATENCY,
    Budgets,
    Time,
    UnmetError,
    VideoClass,
    option,
    parse_budgets,
)
from gsvc.codec.planning.machine_profile import WAYS, Profile, Way, known_profile
from gsvc.codec.planning.prediction import PlanSettings, Prediction, Predictor, Range, own_numbers
from gsvc.codec.planning.video_trial import Judge, trial_of, try_video
from gsvc.encoders import tuning

_RATES = 33
_RARER = 3.0
"""A live rate below those that were tried, down to a third: `send` then codes fewer pictures."""
_MARGIN, _CALM = 1.25, 2.0
"""Of the time that a live video has, in proportion to what encoding or decoding takes: at least,
and where any settings leave so much, as both may run on one machine, which has other work too."""
_GOALS = "quality", "bandwidth", "decoder_time", "encoder_time"
"""What is optimised: the first that is no constraint."""
_RELAXED = {"bandwidth": 1.2, "quality": 0.5}
"""By how much a constraint is loosened to find its price, JOD for quality; else twofold."""
_ALIKE = {"jod": 0.02, "texture": 0.001}
"""Differences of quality that are far below the model's errors: they are worth no time."""
_PIECE = 240  # bytes of a piece, as small radios take them
_MEASURED = {
    "bandwidth": ("rate",),
    "decoder_time": ("decode_seconds",),
    "encoder_time": ("encode_seconds",),
    "memory": ("encode_memory", "decode_memory"),
}
"""What tells whether a budget was kept."""


@dataclass(frozen=True)
class LinkLoad:
    """What a link carries: the pictures, what they take beside their bits, and sound."""

    factor: float = 1.0
    """Bits on the link for a bit of the pictures: headers, copies, parity."""
    beside: float = 0.0
    """Bits per second of sound on the link."""
    arguments: tuple[str, ...] = ()
    """What `gsvc encode` or `send` is told of size, frame rate and sound."""
    is_live: bool = False
    """Whether it is sent as it plays."""
    wait: float = 0.0
    """Seconds that its receiver may wait for a missing packet."""
    intra: float = 0.0
    """Seconds that an intra picture may occupy it: what is sent behind one is as much later."""
    most: float | None = None
    """Bits per second that it carries; None: not told."""
    one_way: float | None = None
    """Bits of copies and parity for a bit of the pictures, where nobody answers; else None."""
    loss: float = 0.0
    """Share of packets that it loses, one way or for a file in pieces."""
    silent: float = 0.0
    verdict: str = ""
    """Live: bits per second of pictures without the sound; what to do where it leaves too few."""
    part: tuple[str, ...] = ()
    """Arguments of `gsvc encode` for the same part of the video, and its sound, in pieces."""

    def total(self, pictures: float) -> float:
        """Bits per second on the link, of those of the pictures."""
        return self.factor * pictures + self.beside

    def pictures(self, total: float) -> float:
        """Bits per second that the pictures may take of `total`; below 0 where there is no room."""
        return (total - self.beside) / self.factor


@dataclass(frozen=True)
class PlanChoice:
    """Settings, and what they would come to."""

    settings: PlanSettings
    prediction: Prediction


@dataclass(frozen=True)
class Price:
    """What a constraint costs."""

    budget: str
    """Its name."""
    by: float
    """It is loosened by so much: a factor, JOD for quality."""
    gain: float
    """What the goal would gain: JOD, or a share of the bits or the time; 0: it does not bind."""


@dataclass(frozen=True)
class BudgetPlan:
    """The answer."""

    best: PlanChoice
    runners_up: tuple[PlanChoice, ...]
    """The best with another preset or way to decode."""
    goal: str
    """What was optimised, a name of a budget."""
    judge: str
    """What quality means: "jod" or "texture"."""
    prices: tuple[Price, ...]
    """Of each constraint."""
    is_judged: bool
    """Whether CVVDP was measured in the trial."""
    link: LinkLoad
    """What carries it."""
    size: tuple[int, int]
    """Width and height of the coded video, in pixels."""
    frame_rate: float
    """Its frames per second."""
    duration: float
    """Its seconds."""
    most: float
    """Bits per second of the trial's highest level: no plan takes more for pictures."""
    real_time: Price
    """What real time on this machine costs, live; its budget is "encoding" or "decoding", `by` the
    pictures' rate on a faster one."""
    silent: Range
    """JOD of the best settings at the rate that pictures have without the sound."""


class BudgetPlanner:
    """Plans for one video."""

    def __init__(
        self, model: Predictor, joules_per_bit: float = 0.0, link: LinkLoad | None = None
    ) -> None:
        """`joules_per_bit`: of a radio, by a stated model; `link`: what bandwidth is of, all that
        is sent; None: the pictures alone."""
        self.model, self._joules_per_bit = model, joules_per_bit
        self._link = link or LinkLoad()
        self._duration = model.trial.frames / model.trial.rate

    def plan(self, budgets: Budgets, judge: str = "jod") -> BudgetPlan:
        """The best settings within budgets, judged at the unfavourable ends of the intervals.

        Raises ConfigError where there are none: it says which budget binds, and what can be met.
        """
        if budgets.quality is not None:
            judge = budgets.quality[0]
        plain = self.model.predict(self._plain(self.model.rates[0]))
        if budgets.energy is not None and plain.joules is None:
            raise ConfigError(
                "--energy needs counters (RAPL), which this machine's profile lacks: state the "
                "power with --watts, or leave it out"
            )
        goal = next(name for name in (*_GOALS, "none") if name not in budgets.given)
        ranked = self._ranked(budgets, goal, judge)
        if not ranked:
            raise self._unmet(budgets)
        best, trial = ranked[0], self.model.trial
        priced = [name for name in budgets.given if name != "vram"]  # nothing planned takes any
        prices = tuple(self._price(budgets, name, goal, judge, best) for name in priced)
        # The two best that differ from the best and each other in more than the rate.
        kinds = {(c.settings.preset, c.settings.way): c for c in reversed(ranked)}
        others = tuple(sorted(kinds.values(), key=ranked.index)[1:3])
        rate = max(best.settings.bitrate, min(self._link.silent, self.model.rates[1]))
        silent = self.model.predict(replace(best.settings, bitrate=rate)).jod
        return BudgetPlan(
            best, others, goal, judge, prices, self.model.is_judged, self._link,
            (trial.width, trial.height), trial.rate, self._duration, self.model.rates[1],
            self._real_time(budgets, goal, judge, best), silent,
        )  # fmt: skip

    def choices(self, budgets: Budgets) -> list[PlanChoice]:
        """All that there is to choose from."""
        low, high = self.model.rates
        rates = list(np.geomspace(low, high, _RATES))
        if budgets.bandwidth is not None:
            share = 1.0  # whoever sends live keeps to the link
            if not self._link.is_live:
                share = self.model.predict(self._plain(low)).bitrate.high / low
            rates.append(min(high, self._link.pictures(budgets.bandwidth) / share))
            low /= _RARER if budgets.is_live else 1
        gop = tuning.FILE_GOP if budgets.memory is budgets.latency is None else tuning.LIVE_GOP
        # The same stream in less memory, for more time: only where memory has a limit.
        is_short = budgets.memory is not None and not self.model.trial.low_delay
        found = []
        for rate, preset, spares in product(rates, tuning.PRESETS, (False, True)[: 1 + is_short]):
            for name in self.model.ways_at(float(rate)) if rate >= low else ():
                plain = self._plain(float(rate))
                settings = replace(plain, preset=preset, way=WAYS[name], low_memory=spares, gop=gop)
                found.append(PlanChoice(settings, self.model.predict(settings)))
        return found

    def excess(self, choice: PlanChoice, budgets: Budgets) -> dict[str, float]:
        """By budget, what is asked for over what is allowed; above 1 it is not kept."""
        seen, found = choice.prediction, {}
        for name in budgets.given:
            allowed = getattr(budgets, name)
            if name == "quality":
                judge, value = allowed
                low = exp(value - seen.jod.low)
                found[name] = low if judge == "jod" else seen.texture.high / value
            elif name == "bandwidth" and self._link.is_live:
                share = self._link.total(choice.settings.bitrate) / allowed
                found[name] = round(share, 9)  # a rate that fills the link keeps to it
            else:
                found[name] = self._asked(seen, name) / self._limit(allowed)
        return found

    def kept(self, budgets: Budgets, measured: Mapping[str, float]) -> dict[str, bool]:
        """Of what was measured, by the names of a log of predictions: is each budget kept?"""
        found = {}
        for name, numbers in _MEASURED.items():
            if (allowed := getattr(budgets, name)) is not None:
                found[name] = max(measured[one] for one in numbers) <= self._limit(allowed)
        return found

    def joules(self, seen: Prediction) -> float | None:
        """Of computing and sending."""
        sent = self._joules_per_bit * self._link.total(seen.bitrate.mean) * self._duration
        return None if seen.joules is None else seen.joules + sent

    def _limit(self, allowed: Time | float) -> float:
        return allowed.seconds(self._duration) if isinstance(allowed, Time) else allowed

    def _asked(self, seen: Prediction, name: str) -> float:
        return {
            "bandwidth": self._link.total(seen.bitrate.high),
            "decoder_time": seen.decode_seconds.high, "decoder_flops": seen.flops,
            "encoder_time": seen.encode_seconds.high,
            "memory": max(seen.encode_memory.high, seen.decode_memory.high), "vram": 0.0,
            "latency": seen.latency + self._link.intra, "energy": self.joules(seen) or 0.0,
        }[name]  # fmt: skip

    def _ranked(
        self, budgets: Budgets, goal: str, judge: str, *, at_once: bool = False
    ) -> list[PlanChoice]:
        """`at_once`: as if this machine computed in no time."""
        kept = [one for one in self.choices(budgets) if self._worst(one, budgets) <= 1]
        if budgets.is_live and not at_once:
            able = sorted((c for c in kept if _MARGIN * self._pace(c) <= 1), key=self._pace)
            kinds = [(c.settings.preset, c.settings.way) for c in able]
            fastest = [c for c, kind in zip(able, kinds, strict=True) if kind == kinds[0]]
            kept = [c for c in able if _CALM * self._pace(c) <= 1] or fastest
        ranked = sorted(kept, key=lambda choice: _rank(choice, goal, judge))
        if not ranked or goal not in ("quality", "none"):
            return ranked
        # Of the best one and those of its rate that look alike, the one that takes least time.
        rate, least = ranked[0].settings.bitrate, quality_of(ranked[0], judge) - _ALIKE[judge]
        alike = [c for c in ranked if c.settings.bitrate == rate and quality_of(c, judge) >= least]
        first = min(alike, key=_times)
        return [first, *(choice for choice in ranked if choice is not first)]

    def _price(self, budgets: Budgets, name: str, goal: str, judge: str, best: PlanChoice) -> Price:
        by, allowed = _RELAXED.get(name, 2.0), getattr(budgets, name)
        if name == "quality":
            loose: object = (judge, allowed[1] - by if judge == "jod" else allowed[1] * (1 + by))
        elif isinstance(allowed, Time):
            loose = replace(allowed, value=by * allowed.value)
        elif name == "latency" and budgets.is_live:  # longer, it would be no longer live
            by = min(by, 0.99 * LONG_LATENCY / allowed)
            loose = by * allowed
        else:
            loose = by * allowed
        looser = replace(budgets, **{name: loose})  # type: ignore[arg-type]
        freer = self._ranked(looser, goal, judge) or [best]
        return Price(name, by, _gain(freer[0], best, goal, judge))

    def _real_time(self, budgets: Budgets, goal: str, judge: str, best: PlanChoice) -> Price:
        free = self._ranked(budgets, goal, judge, at_once=True)[0]
        seen = free.prediction
        what = "encoding" if seen.encode_seconds.mean > seen.decode_seconds.mean else "decoding"
        return Price(what, free.settings.bitrate, _gain(free, best, goal, judge))

    def _unmet(self, budgets: Budgets) -> ConfigError:
        """Says which budgets bind, and what the nearest settings ask for."""
        everything = [*self.choices(budgets), *self.choices(replace(budgets, bandwidth=None))]

        def distance(one: PlanChoice) -> tuple[int, float]:  # the fewest budgets give way
            over = [n for n in self.excess(one, budgets).values() if n > 1]
            return len(over), sum(over)

        nearest = min(everything, key=distance)
        if budgets.is_live and self._worst(nearest, budgets) <= 1:
            seen = min(everything, key=self._pace).prediction
            return ConfigError(
                f"no settings keep up with this video live: {self._duration:.1f} s of it take "
                f"{seen.encode_seconds.mean:.1f} s to encode and {seen.decode_seconds.mean:.1f} s "
                "to decode at the fastest; take a smaller --size or a lower --fps"
            )
        over = {n: r for n, r in self.excess(nearest, budgets).items() if r > 1}
        shown = {n: _shown(budgets, n, nearest, r) for n, r in over.items()}
        more = parse_budgets(shown).bandwidth if list(over) == ["bandwidth"] else None
        error = UnmetError(
            f"no settings keep all budgets for this video: {' and '.join(map(option, over))} "
            f"{'bind' if len(over) > 1 else 'binds'}; the nearest that can be met: "
            f"{' and '.join(f'{option(n)} {text}' for n, text in shown.items())}"
            f"{''.join(self._ways_out(budgets, over))}"
        )
        error.more = replace(budgets, bandwidth=more) if more else None
        return error

    def _ways_out(self, budgets: Budgets, over: Iterable[str]) -> Iterator[str]:
        """What else helps where the budgets `over` are not kept."""
        link, trial, total = self._link, self.model.trial, budgets.bandwidth
        if "bandwidth" in over and total is not None:
            room, own = max(0.0, link.pictures(total)), (trial.width, trial.height, trial.rate)
            if not link.is_live:
                yield ", or --size auto"
            elif shape := tuning.shape_for(room, *own, is_asked=True):
                yield ", or --size {} --fps {:.3g}".format(*shape)
            yield ", or a file in pieces (gsvc encode --packets)" * link.is_live
        if total and link.beside:
            factor = total / link.silent if link.silent else link.factor
            intra = intra_seconds(total) if link.is_live else 0.0
            silent = replace(link, factor=factor, beside=0.0, intra=intra)
            other = BudgetPlanner(self.model, self._joules_per_bit, silent)
            if other._ranked(budgets, "none", JUDGES[0]):
                yield "; all are met without the sound: --audio none"
        if "latency" in over and link.intra:
            yield f"; at any --size a first picture takes {link.intra:.1f} s of this link"

    def _worst(self, choice: PlanChoice, budgets: Budgets) -> float:
        return max(self.excess(choice, budgets).values(), default=0.0)

    def _pace(self, choice: PlanChoice) -> float:
        """Time to encode, or to decode, over the video's own."""
        seen = choice.prediction
        return max(seen.encode_seconds.mean, seen.decode_seconds.mean) / self._duration

    def _plain(self, rate: float) -> PlanSettings:
        return PlanSettings(rate, "medium", self.model.trial.low_delay, WAYS["dis"])


def quality_of(choice: PlanChoice, judge: str) -> float:
    """Higher is better."""
    seen = choice.prediction
    return seen.jod.mean if judge == "jod" else -seen.texture.mean


def _rank(choice: PlanChoice, goal: str, judge: str) -> tuple[float, ...]:
    """Lower is better: the goal, then what costs less."""
    seen, quality = choice.prediction, round(-quality_of(choice, judge), 3)
    times = _times(choice)
    other = {"bandwidth": seen.bitrate.mean, "decoder_time": times[0], "encoder_time": times[1]}
    return other.get(goal, quality), quality, *times


def _gain(freer: PlanChoice, best: PlanChoice, goal: str, judge: str) -> float:
    if goal in ("quality", "none"):
        return max(0.0, quality_of(freer, judge) - quality_of(best, judge))
    return max(0.0, 1 - _rank(freer, goal, judge)[0] / _rank(best, goal, judge)[0])


def _times(choice: PlanChoice) -> tuple[float, float]:
    seen = choice.prediction
    return seen.decode_seconds.mean, seen.encode_seconds.mean


def _shown(budgets: Budgets, name: str, nearest: PlanChoice, ratio: float) -> str:
    allowed = getattr(budgets, name)
    if name == "quality":
        jod, texture = nearest.prediction.jod.low, nearest.prediction.texture.high
        return f"jod:{jod:.2f}" if allowed[0] == "jod" else f"texture:{texture:.3f}"
    units = {"latency": ("s", 1.0), "energy": ("J", 1.0), "bandwidth": ("k", 1e3)}
    unit, size = units.get(name, ("M", 1e6))
    if isinstance(allowed, Time):
        unit, size = "x" if allowed.is_multiple else "s", 1.0
        allowed = allowed.value
    value = 1.1 * ratio * allowed / size  # what just can be met is easily missed
    return f"{value:.2g}{unit}" if value < 10 else f"{value:.0f}{unit}"


def planner_for(
    source: str | VideoClass,
    budgets: Budgets,
    *,
    receiver: Profile | None = None,
    watts: float | None = None,
    joules_per_bit: float = 0.0,
    judge: Judge | None = None,
    link: LinkLoad | None = None,
    **opened: Any,
) -> BudgetPlanner:
    """The planner of a video file, which is tried: some seconds; or of a class of video.

    Where memory is too short for any preset's look-ahead, the encoder does without.

    `receiver`, `watts`: as of `Predictor`; `joules_per_bit`, `link`: as of `BudgetPlanner`;
    `judge`: as of `try_pictures`; `opened`: as of `open_video`. Raises as `try_video`.
    """
    profile, fitted = known_profile(), own_numbers()

    def model_of(low_delay: bool) -> Predictor:
        if isinstance(source, VideoClass):
            trial = trial_of(source, profile, low_delay=low_delay)
        else:
            trial = try_video(source, low_delay=low_delay, judge=judge, **opened)
        return Predictor(trial, profile, receiver, watts=watts, fitted=fitted)

    model = model_of(budgets.is_live)
    if not budgets.is_live and budgets.memory is not None:
        plain = PlanSettings(model.rates[0], tuning.DEFAULT_PRESET, False, Way(), low_memory=True)
        needs = (model.predict(replace(plain, preset=n)).encode_memory.high for n in tuning.PRESETS)
        if min(needs) > budgets.memory:
            model = model_of(True)
    return BudgetPlanner(model, joules_per_bit, link)


_SCALES = (
    "pictures in bit/s; JOD: against the video at {}x{}, {:.3g} frames/s, lower once enlarged (do "
    "not compare sizes by it); 10 is perfect, three in four see a step of 1; texture: ST-LPIPS "
    "VGG, 0 is perfect"
)
_UNJUDGED = "JOD is predicted from SSIM; where gsvc[eval] is installed, the trial measures CVVDP"


def encoder_settings(settings: PlanSettings) -> EncoderSettings:
    """What the encoder is told."""
    return EncoderSettings(
        bitrate=round(settings.bitrate), preset=settings.preset, low_delay=settings.low_delay,
        low_memory=settings.low_memory, gop=settings.gop,
    )  # fmt: skip


def commands(source: str, settings: PlanSettings, link: LinkLoad | None = None) -> list[str]:
    """The commands that carry a plan out: sending and receiving where it is live."""
    link, way = link or LinkLoad(), settings.way.arguments
    told = [text for pair in _told(settings, link).items() for text in pair if text]
    if link.is_live:
        send = ["gsvc", "send", source, "udp://HOST:5004", *told]
        receive = ["gsvc", "recv", "udp://@:5004", "-o", f"{Path(source).stem}.received.mp4"]
        receive += ["--wait", f"{1000 * link.wait:.0f}", "--load", "0.8x", *way]
        receive += ["--no-feedback"] if link.one_way is not None else []
        return [shlex.join(receive), shlex.join(send)]
    stream = f"{Path(source).stem}.gsv"
    encode = ["gsvc", "encode", source, "-o", stream, *told]
    return [shlex.join(encode), shlex.join(["gsvc", "decode", stream, *way])]


def _told(settings: PlanSettings, link: LinkLoad) -> dict[str, str]:
    """Options of `gsvc encode` or `send` and their values, empty for switches."""
    rate = "--bitrate" if link.most is None else "--total-bitrate"
    told = {rate: f"{_rate(settings, link):.0f}", "--preset": settings.preset}
    told |= zip(link.arguments[::2], link.arguments[1::2], strict=True)
    if not link.is_live:
        switches = {"--low-delay": settings.low_delay, "--low-memory": settings.low_memory}
        told |= {name: "" for name, is_on in switches.items() if is_on}
        if not settings.low_delay and settings.gop != tuning.FILE_GOP:
            told["--gop"] = f"{settings.gop:g}"
    return told


def _rate(settings: PlanSettings, link: LinkLoad) -> float:
    """Bits per second that the command names: in all where the link's are known."""
    rate = settings.bitrate
    if link.most is not None and link.is_live:  # all of it where it binds
        return link.most if link.total(rate) > 0.8 * link.most else link.total(rate)
    # Of the file: pictures that aim as high, and what is beside them.
    return rate if link.most is None else rate / AIM + link.beside / link.factor


def python_line(source: str, settings: PlanSettings, link: LinkLoad) -> str:
    """What encodes or sends as the command does, for the library; `sound`, of `AudioChunk`s, is the
    caller's."""
    told = _told(settings, link)
    told = {n: text for n, text in told.items() if not link.is_live or text != "source"}
    names = (name[2:].replace("-", "_").replace("parity", "parity_span") for name in told)
    given = dict(zip(names, map(_literal, told.values()), strict=True))
    if not link.is_live:
        given["settings"] = _call("EncoderSettings", given)
        return _call("encode", given, repr(source), repr(f"{Path(source).stem}.gsv"))
    given |= {"bitrate": f"{settings.bitrate:.0f}", "low_delay": "True"}
    given |= {"wire": _call("WireSettings", given), "audio": str(given.get("audio") == "'opus'")}
    encoder = _call("Encoder", given, "video.format", _call("EncoderSettings", given))
    return (
        f"video = {_call('open_video', given, repr(source))}; encoder = {encoder}; "
        f"sender = gsvc.VideoSender('udp://HOST:5004', encoder, {_call('SendSettings', given)}); "
        f"asyncio.run(sender.run(video{', sound' * ('audio=True' in encoder)}))"
    )


def _literal(text: str) -> str:
    """The value of an option in Python: a size, a number, a word, or True of a switch."""
    if text.replace("x", "", 1).replace(".", "", 1).isdigit():
        return f"({text.replace('x', ', ')})" if "x" in text else text
    return repr(text) if text else "True"


def _call(name: str, given: dict[str, str], *values: str) -> str:
    """A call with those of `given` that it has parameters for, which are taken out."""
    names = [one for one in signature(getattr(gsvc, name)).parameters if one in given]
    return f"gsvc.{name}({', '.join((*values, *(f'{one}={given.pop(one)}' for one in names)))})"


def pieces_command(source: str, bits: float, loss: float, part: Sequence[str] = ()) -> str:
    """What makes pieces of so many bits in all, headers and parity too; only the option's name
    where they are too few or too many. `part`: as of `LinkLoad`."""
    if not (count := rows_within(int(bits / 8 / (_PIECE + IP_UDP_BYTES)), loss)):
        return "gsvc encode --packets"
    folder, told = f"{Path(source).stem}.pieces", ["--loss", f"{100 * loss:g}%"]
    command = ["gsvc", "encode", source, "-o", folder, *part, "--packets", str(count)]
    return shlex.join([*command, "--packet-bytes", str(_PIECE), *told])


def as_json(source: str, plan: BudgetPlan) -> dict[str, object]:
    """The plan's values by name."""
    return {
        "goal": plan.goal, "judge": plan.judge, "is_judged": plan.is_judged,
        "best": _choice_json(source, plan.best, plan.link),
        "runners_up": [_choice_json(source, choice, plan.link) for choice in plan.runners_up],
        "prices": [asdict(price) for price in plan.prices], "link": asdict(plan.link),
        "size": list(plan.size), "frame_rate": plan.frame_rate,
    }  # fmt: skip


def as_lines(source: str, plan: BudgetPlan) -> list[str]:
    """The plan for people."""
    rows = zip(("best", "second", "third"), (plan.best, *plan.runners_up), strict=False)
    seen, jod = plan.best.prediction, "JOD, live 0-2 less" if plan.link.is_live else "JOD"
    passes = ", 1 to 4 times" * (plan.link.most is not None and not plan.link.is_live)
    told = f"{plan.link.verdict}. JOD at this size: {seen.jod.mean:.1f}, "
    told += f"without sound {plan.silent.mean:.1f}"
    return [
        *([told, ""] if plan.link.verdict else ()),
        f"{'':<11}{'pictures':>8}{'preset':>8}  {'decoding':<22}{jod:>20}{'texture':>9}",
        *(_row(name, choice) for name, choice in rows),
        _SCALES.format(*plan.size, plan.frame_rate),
        "",
        _link_line(plan),
        f"encoding {_seconds(seen.encode_seconds)}{passes}, {_megabytes(seen.encode_memory)}; "
        f"decoding {_seconds(seen.decode_seconds)}, {_megabytes(seen.decode_memory)}, "
        f"{seen.flops / 1e9:.3g} GFLOP/s; playout delay {seen.latency + plan.link.intra:.1f} s"
        + ("" if seen.joules is None else f"; {seen.joules:.0f} J to compute"),
        *(_price_line(plan, price) for price in plan.prices),
        *([_price_line(plan, plan.real_time)] if plan.real_time.gain >= _NO_GAIN else ()),
        *(() if plan.is_judged else (_UNJUDGED,)),
        *(_live_lines(source, plan) if plan.link.is_live else ()),
        "",
        *commands(source, plan.best.settings, plan.link),
        f"# Python: import {'asyncio, ' * plan.link.is_live}gsvc; "
        + python_line(source, plan.best.settings, plan.link),
    ]


def _live_lines(source: str, plan: BudgetPlan) -> Iterator[str]:
    seen, link = plan.best.prediction, plan.link
    shares = [s.mean / plan.duration for s in (seen.encode_seconds, seen.decode_seconds)]
    told = "live, encoding takes {:.0%} of the time, decoding {:.0%}".format(*shares)
    told += ": much, a lower --fps is safer" if _CALM * max(shares) > 1 else ""
    pictures = plan.best.settings.bitrate
    if is_hurried := plan.real_time.by > 1.5 * pictures:
        yield (
            f"this machine encodes only {pictures / 1000:.2f} kbit/s of pictures in real time, of "
            f"{plan.real_time.by / 1000:.2f}: end its other work, or take a smaller --size"
        )
    elif found := tuning.shape_instead(pictures, *plan.size, plan.frame_rate):
        yield "{}: plan with --size {} --fps {:.3g}".format(*found)
    lost = "a lost packet" if link.one_way is None else "waiting for copies or parity"
    yield f"{told}; {lost} adds {link.wait:g} s (--wait) to the playout delay"
    if link.beside:
        yield "sound is sent once: what the link loses of it is silent"
    if link.one_way is None:
        yield "for a link without a way back, plan with --no-feedback"
    else:
        copies = link.one_way * pictures / 1000
        told = f"one way: {copies:.2f} kbit/s of copies and parity for {100 * link.loss:g} % loss"
        most = "" if "--gop" in link.arguments else " to 12"
        yield f"{told} (--loss), and an intra picture every {tuning.LIVE_GOP:g}{most} s"
    if link.most is not None and pictures < FACES and not is_hurried:
        how = pieces_command(source, plan.duration * link.most, link.loss, link.part)
        told = f"below {FACES / 1000:g} kbit/s of pictures the first stands for {link.intra:.2g} s,"
        told += " faces and fast motion smear: a file looks better, one way in pieces, for"
        yield f"{told} {100 * link.loss:g} % loss (--loss): {how}"


def _choice_json(source: str, choice: PlanChoice, link: LinkLoad) -> dict[str, object]:
    settings, predicted = choice.settings, choice.prediction
    return {
        **{n: getattr(settings, n) for n in ("bitrate", "preset", "low_delay", "low_memory")},
        **asdict(settings.way.settings),
        "predicted": {
            name: value._asdict() if isinstance(value, Range) else value
            for name, value in vars(predicted).items()
        },
        "total_bitrate": link.total(settings.bitrate),
        "commands": commands(source, settings, link),
    }


def _row(name: str, choice: PlanChoice) -> str:
    settings, seen = choice.settings, choice.prediction
    jod = f"{seen.jod.mean:.2f} ({seen.jod.low:.2f}-{seen.jod.high:.2f})"
    return (
        f"{name:<11}{settings.bitrate:>8.0f}{settings.preset:>8}  {settings.way.name:<22}{jod:>20}"
        f"{seen.texture.mean:>9.3f}"
    )


def _link_line(plan: BudgetPlan) -> str:
    link, pictures, (width, height) = plan.link, plan.best.settings.bitrate, plan.size
    video = f"video of {width}x{height} at {plan.frame_rate:.3g} frames/s"
    headers = (link.factor - 1) * pictures
    parts = f"{pictures / 1000:.2f} for {video}"
    if link.beside:
        parts += f", {link.beside / 1000:.2f} for sound" + " with headers" * link.is_live
    what = "copies, parity and " * (link.is_live and link.one_way != 0) + "headers"
    total = f"{link.total(pictures) / 1000:.2f}"
    sent = ""
    if link.most is not None:
        total += f" of {link.most / 1000:g}"
        seconds = link.total(pictures) / link.most * plan.duration
        sent = f"; {plan.duration:.1f} s take {seconds:.1f} s to send" * (not link.is_live)
    return f"on the link {total} kbit/s in all: {parts}, {headers / 1000:.2f} for {what}{sent}"


_NO_GAIN = 0.005


def _price_line(plan: BudgetPlan, price: Price) -> str:
    name = option(price.budget)
    more = "half a JOD less" if price.budget == "quality" else f"{price.by:.2g} times as much"
    if price.gain < _NO_GAIN:
        is_highest = price.budget == "bandwidth" and plan.best.settings.bitrate > 0.98 * plan.most
        highest = "level 3, the highest, takes no more of this video"
        return f"{name} does not bind: {highest if is_highest else f'{more} would gain nothing'}"
    if price is plan.real_time:
        seen, spare = plan.best.prediction, plan.duration / _CALM
        is_calm = max(seen.encode_seconds.mean, seen.decode_seconds.mean) <= spare
        name = f"{'half of the time kept free' if is_calm else 'real time binds'} here"
        more = "a faster machine, a smaller --size or a lower --fps"
    gain = f"{100 * price.gain:.0f} % of {plan.goal.replace('_', ' ')}"
    if plan.goal == "quality":
        gain = f"{price.gain:.2f} {'JOD' if plan.judge == 'jod' else 'of texture'}"
    return f"{name}: {more} would be worth {gain}"


def _seconds(seen: Range) -> str:
    return f"{seen.mean:.1f} s ({seen.low:.1f}-{seen.high:.1f})"


def _megabytes(seen: Range) -> str:
    return f"{seen.mean / 1e6:.0f} MB ({seen.low / 1e6:.0f}-{seen.high / 1e6:.0f})"
