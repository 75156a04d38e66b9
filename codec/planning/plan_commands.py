"""A plan as commands to type, in words and in JSON."""

import shlex
from dataclasses import asdict
from pathlib import Path

from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.planning.budgets import option
from gsvc.codec.planning.plan_search import BudgetPlan, PlanChoice, Price
from gsvc.codec.planning.prediction import PlanSettings, Range
from gsvc.encoders.tuning import LIVE_GOP

_HEADER = f"{'':<11}{'bit/s':>8}{'preset':>8}  {'decoding':<22}{'JOD':>20}{'texture':>9}"

_UNJUDGED = "JOD is foretold from SSIM; where gsvc[eval] is installed, the trial measures CVVDP"


def encoder_settings(settings: PlanSettings) -> EncoderSettings:
    """What the encoder is told."""
    return EncoderSettings(
        bitrate=settings.bitrate,
        preset=settings.preset,
        low_delay=settings.low_delay,
        low_memory=settings.lean,
        gop=LIVE_GOP,
    )


def commands(source: str, settings: PlanSettings) -> list[str]:
    """The two commands that carry a plan out."""
    stream = str(Path(source).with_suffix(".gsv"))
    encode = ["gsvc", "encode", source, "-o", stream, "--bitrate", f"{settings.bitrate:.0f}"]
    encode += ["--preset", settings.preset, *(["--low-delay"] if settings.low_delay else [])]
    encode += ["--low-memory"] if settings.lean else []
    encode += [] if settings.low_delay else ["--gop", f"{LIVE_GOP:g}"]
    return [shlex.join(encode), shlex.join(["gsvc", "decode", stream, *settings.way.arguments])]


def as_json(source: str, plan: BudgetPlan) -> dict[str, object]:
    """The plan's values by name."""
    return {
        "goal": plan.goal,
        "judge": plan.judge,
        "is_judged": plan.is_judged,
        "best": _choice_json(source, plan.best),
        "runners_up": [_choice_json(source, choice) for choice in plan.runners_up],
        "prices": [asdict(price) for price in plan.prices],
    }


def as_lines(source: str, plan: BudgetPlan) -> list[str]:
    """The plan for people."""
    rows = zip(("best", "second", "third"), (plan.best, *plan.runners_up), strict=False)
    seen = plan.best.prediction
    return [
        _HEADER,
        *(_row(name, choice) for name, choice in rows),
        "",
        f"encoding {_seconds(seen.encode_seconds)}, {_megabytes(seen.encode_memory)}; "
        f"decoding {_seconds(seen.decode_seconds)}, {_megabytes(seen.decode_memory)}, "
        f"{seen.flops / 1e9:.3g} GFLOP/s; latency {seen.latency:.2f} s"
        + ("" if seen.joules is None else f"; {seen.joules:.0f} J to compute"),
        *(_price_line(plan, price) for price in plan.prices),
        *(() if plan.is_judged else (_UNJUDGED,)),
        "",
        *commands(source, plan.best.settings),
    ]


def _choice_json(source: str, choice: PlanChoice) -> dict[str, object]:
    settings, predicted = choice.settings, choice.prediction
    return {
        "bitrate": settings.bitrate,
        "preset": settings.preset,
        "low_delay": settings.low_delay,
        "lean": settings.lean,
        **asdict(settings.way.settings),
        "predicted": {
            name: value._asdict() if isinstance(value, Range) else value
            for name, value in vars(predicted).items()
        },
        "commands": commands(source, settings),
    }


def _row(name: str, choice: PlanChoice) -> str:
    settings, seen = choice.settings, choice.prediction
    jod = f"{seen.jod.mean:.2f} ({seen.jod.low:.2f}-{seen.jod.high:.2f})"
    return (
        f"{name:<11}{settings.bitrate:>8.0f}{settings.preset:>8}  {settings.way.name:<22}{jod:>20}"
        f"{seen.texture.mean:>9.3f}"
    )


def _price_line(plan: BudgetPlan, price: Price) -> str:
    name = option(price.budget)
    more = "half a JOD less" if price.budget == "quality" else f"{price.by:g} times as much"
    if price.gain < 0.005:
        return f"{name} does not bind: {more} would gain nothing"
    units = {"quality": "JOD" if plan.judge == "jod" else "of texture"}
    gain = (
        f"{price.gain:.2f} {units[plan.goal]}"
        if plan.goal in units
        else (f"{100 * price.gain:.0f} % of {plan.goal.replace('_', ' ')}")
    )
    return f"{name}: {more} would be worth {gain}"


def _seconds(seen: Range) -> str:
    return f"{seen.mean:.1f} s ({seen.low:.1f}-{seen.high:.1f})"


def _megabytes(seen: Range) -> str:
    return f"{seen.mean / 1e6:.0f} MB ({seen.low / 1e6:.0f}-{seen.high / 1e6:.0f})"
