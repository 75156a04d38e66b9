"""`gsvc plan`: the settings that reach the best quality within budgets; `gsvc profile`.

With --vram also the pretrained model to take on a GPU, by counts alone, beside the plan.
"""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from gsvc.codec.bitstream.audio_and_text import AUDIO_CODINGS
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.command import arguments
from gsvc.codec.command.main import Verb
from gsvc.codec.media.output import atomic_output, refuse_foreign
from gsvc.codec.media.video_reader import fitted_size
from gsvc.codec.planning import budgets as asked
from gsvc.codec.planning.budgets import JUDGES, Budgets, HeldModel, VideoClass
from gsvc.codec.planning.process import RADIOS
from gsvc.encoders.tuning import shape_for

if TYPE_CHECKING:
    from gsvc.codec.planning.machine_profile import Profile, ResourceUsage
    from gsvc.codec.planning.plan_search import BudgetPlan, BudgetPlanner

_KINDS = {
    "whole": "whole",
    "offload": "a part at a time: slower",
    "groups": "a few layers at a time: slowest",
}


@dataclass(frozen=True)
class Chosen:
    """A model for a video."""

    model: HeldModel
    flops: float
    """Operations for a second of video; of a model of pictures as if each frame were coded."""
    size: tuple[int, int]
    """Width and height at which it is held: the video's own, or smaller."""


class PretrainedChoice:
    """What a GPU of so much memory holds, and which model of it to take.

    The fastest way to hold one comes first, then the largest network; `--decoder-flops` leaves out
    what computes more. No quality and no time is foretold: neither was measured on a GPU.
    """

    def __init__(self, budgets: Budgets, size: tuple[int, int], rate: float) -> None:
        """`size`: width and height in pixels; `rate`: frames a second. Raises as `held_within`."""
        assert budgets.vram is not None
        self._vram, self._flops, self._rate = budgets.vram, budgets.decoder_flops, rate
        self._size, self._text = size, f"{budgets.vram / 1e9:g}G"
        self.models = asked.held_within(self._vram, *size)
        """All, at the video's own size."""
        self.chosen = self._chosen()
        """None where nothing fits, whatever the size."""

    def as_json(self, source: str) -> dict[str, object]:
        """Values by name; quality and seconds are null: nobody measured them."""
        chosen = self.chosen and {
            **asdict(self.chosen.model),
            "flops": self.chosen.flops,
            "size": list(self.chosen.size),
            "quality": None,
            "seconds": None,
            "commands": self._commands(source, self.chosen.model),
        }
        return {"vram": [asdict(model) for model in self.models], "pretrained": chosen}

    def as_lines(self, source: str) -> list[str]:
        """For people."""
        size = arguments.shown_dimensions(self._size)
        lines = ["", f"--vram {self._text} holds, besides, at {size}:"]
        for one in asked.preferred(self.models):
            lines.append(f"  {one.name:<16}{one.memory / 1e9:>5.1f} GB  {_KINDS[one.kind or '']}")
        if missing := [m for m in self.models if m.kind is None]:
            told = ", ".join(f"{m.name} ({m.memory / 1e9:.1f} GB)" for m in missing)
            lines.append(f"  not {told}")
        return [*lines, *self._told(source)]

    def _told(self, source: str) -> list[str]:
        if self.chosen is None:
            if asked.preferred(self.models):
                return ["--decoder-flops is too little for any of them: the plan needs none"]
            least = min(self.models, key=lambda model: model.memory)
            nearest = f"{least.memory / 1e9 + 0.05:.1f}G, {least.name}"
            return [f"no pretrained model fits: the nearest that can be met is --vram {nearest}"]
        model, scaled = self.chosen.model, self.chosen.size != self._size
        size = arguments.shown_dimensions(self.chosen.size)
        at = f", the video scaled to {size} first" if scaled else ""
        how = _KINDS[model.kind or ""].partition(":")[0]
        told = (
            f"by counts alone: {model.name}{at}, the largest network held {how}; {model.steps} "
            f"steps take {self.chosen.flops / 1e12:,.1f} TFLOP for a second of video. What its "
            "pictures are worth and how long it takes was not measured: the plan above does not "
            "need it"
        )
        return [told, *self._commands(source, model)]

    def _chosen(self) -> Chosen | None:
        for size in (self._size, *asked.smaller_sizes(*self._size)):
            for model in asked.preferred(asked.held_within(self._vram, *size)):
                flops = flops_of(model, size, self._rate)
                if self._flops is None or flops <= self._flops:
                    return Chosen(model, flops, size)
        return None

    def _commands(self, source: str, model: HeldModel) -> list[str]:
        stream = f"{Path(source).stem}.gsv"
        steps = ["--steps", str(model.steps), "--vram", self._text, "--device", "cuda"]
        return [
            shlex.join(["gsvc", "models", "pull", model.name]),
            shlex.join(["gsvc", "decode", stream, "--backend", model.name, *steps]),
        ]


def flops_of(model: HeldModel, size: Sequence[int], rate: float) -> float:
    """Operations for a second of video, counted; a multiply-add is two."""
    from gsvc.decoders.keyframes.pretrained.architecture_work import ArchitectureWork, architecture
    from gsvc.eval.compute import count_flops

    form, (width, height) = architecture(model.name), size
    work = ArchitectureWork(form, height, width, asked.WINDOW if form.time else 1)
    total = count_flops(work.once) + model.steps * count_flops(work.step)
    return total * rate / max(1, work.frames - 1)


_USUAL = VideoClass(asked.CLASSES[0])
USAGE = f"""Find the best settings of encoder and decoder within budgets. gsvc predicts them
from a quick trial of the video and the profile of this machine (gsvc profile). It optimises the
first of quality, bandwidth, decoding time and encoding time that has no budget.

source [IN]             the video; omit it with --class
--class {{{",".join(asked.CLASSES)}}} -> kind  plan for a typical
                        video of this kind, without a video; silent unless --audio opus
--size LINES|WxH|auto   scale down to this shorter side or into WxH; auto: choose size and frame
                        rate by the rate; source: never scale (source, or auto if live or the rate
                        is far too low); with --class: WxH ({_USUAL.width}x{_USUAL.height})
--fps N                 at most N frames a second; with --class: its frame rate ({_USUAL.rate:g})
--seconds S             with --class: duration ({_USUAL.seconds:g})
--start
--frames N              plan for at most N frames of the source
--bandwidth RATE        rate of the link in bit/s, sound and headers included: 12k
--decoder-time TIME     time to decode: 1x (the video's duration), 90s, 10min
--decoder-flops FLOPS   operations of the decoder's networks for a second of video: 20G
--encoder-time TIME     time to encode: 5x, 90s, 10min
--memory BYTES          memory of each process: 4G
--vram BYTES            GPU memory; also suggests a pretrained model that fits
--latency TIME          longest playout delay without loss: 2s; below 8s, sent live
--energy ENERGY         energy of encoding and decoding: 500J, 1Wh
--quality JUDGE:N       quality to reach: at least jod:6, or at most texture:0.2
--judge {{{",".join(JUDGES)}}}   measure of quality ({JUDGES[0]}, or that of --quality)
--receiver FILE         profile of the decoding machine (this one)
--watts W               power while computing, if no counter tells
--radio {{{",".join(RADIOS)}}}  add the energy of sending over this radio
--audio {{{",".join(AUDIO_CODINGS)}}}     send the sound, or drop it (sent if the bandwidth allows)
--mtu N                 largest datagram of a live link in bytes, without 28 of IP and UDP
--no-feedback -> not feedback  plan for a live link without a way back
--loss SHARE            share of packets lost without a way back: chooses copies and parity (=0.05)
--no-measure -> not measure  predict JOD from SSIM instead of measuring CVVDP; a third faster
--quiet --json
"""
TYPES = {"--bandwidth": str}


def run(options: Namespace) -> int:
    """Plan, and show the plan."""
    from gsvc.codec.command.planned import in_pieces
    from gsvc.codec.planning import plan_search
    from gsvc.codec.planning.video_trial import clips_of

    budgets = budgets_of(options)
    kind = kind_of(options, budgets)
    if not (options.feedback or budgets.is_live):
        told = "--no-feedback is for live video: add a --latency below 8s, or send a file in pieces"
        raise ConfigError(f"{told}: {in_pieces(options, budgets.bandwidth)}")
    with arguments.without_warnings(options.quiet):
        plan = _planned(options, kind or options.source, budgets)
    source = options.source or f"{options.kind}.mp4"
    models = PretrainedChoice(budgets, plan.size, plan.frame_rate) if budgets.vram else None
    if options.json:
        held = models.as_json(source) if models else {}
        arguments.json_lines(options).put("plan", **plan_search.as_json(source, plan), **held)
        return 0
    lines = plan_search.as_lines(source, plan)
    if kind is not None:
        told = kind.name + ", without sound (--audio opus)" * (options.audio != "opus")
        lines.insert(0, f"{told}: by {clips_of(kind)} clips; a trial of a video is nearer")
    if models:
        lines += models.as_lines(source)
    print("\n".join(lines))
    return 0


def _planned(options: Namespace, source: str | VideoClass, budgets: Budgets) -> "BudgetPlan":
    """The plan. Raises ConfigError, which names a bandwidth only after it was tried."""
    try:
        return planner_of(options, source, budgets).plan(budgets, options.judge or JUDGES[0])
    except asked.UnmetError as error:
        if error.more is not None:
            _planned(options, source, error.more)
        raise


def kind_of(options: Namespace, budgets: Budgets) -> VideoClass | None:
    """The video of --class; None: there is one to try. Raises ConfigError for both or neither."""
    from gsvc.codec.command.planned import link_of_class

    if options.kind is None:
        if options.source is None:
            raise ConfigError("name the video, or its --class where there is none yet")
        if options.seconds is not None:
            raise ConfigError("--seconds is of a --class: the video tells its own")
        return None
    if options.source is not None:
        raise ConfigError("--class is for a video that is not there yet: leave out one of them")
    if options.start or options.frames is not None:
        raise ConfigError("--start and --frames need the video: of a --class write --seconds")
    usual = VideoClass(options.kind)
    own = usual.width, usual.height
    size = options.size or ("auto" if budgets.is_live and budgets.bandwidth else own)
    rate = usual.rate if options.fps is None else options.fps
    if size == "auto" and budgets.bandwidth is not None:
        room = link_of_class(usual, budgets, options).pictures(budgets.bandwidth)
        lines, rate = shape_for(room, *own, rate, is_asked=True) or (None, rate)
        size = fitted_size(*own, lines)
    if not isinstance(size, tuple):
        raise ConfigError(f"--size {size} needs the video: of a --class write 640x360")
    seconds = usual.seconds if options.seconds is None else options.seconds
    return VideoClass(options.kind, size[0], size[1], rate, seconds)


def budgets_of(options: Namespace) -> Budgets:
    """Those of the command line. Raises ConfigError."""
    given = asked.parse_budgets({one.name: getattr(options, one.name) for one in fields(Budgets)})
    if options.judge and given.quality and options.judge != given.quality[0]:
        raise ConfigError(f"--judge {options.judge} beside --quality {given.quality[0]}: take one")
    return given


def planner_of(options: Namespace, source: str | VideoClass, budgets: Budgets) -> "BudgetPlanner":
    """The planner of a video, which is tried, or of a class; profiles are asked for first."""
    from gsvc.codec.command.planned import Carried, carried, link_of_class, trial_judge
    from gsvc.codec.planning.machine_profile import load_profile
    from gsvc.codec.planning.plan_search import planner_for

    if options.watts is not None and not 0 < options.watts < float("inf"):
        raise ConfigError(f"--watts {options.watts:g}: a power is above 0")
    receiver = options.receiver and load_profile(Path(options.receiver), foreign=True)
    joules = RADIOS[options.radio].joules_per_bit if options.radio else 0.0
    if isinstance(source, VideoClass):
        found = Carried(link_of_class(source, budgets, options))
    else:
        found = carried(source, budgets, options)
        told = "takes half a minute, several where this machine has other work"
        arguments.begin(options, f"{source}: trying it at three rates {told}")
    with trial_judge(options.measure and isinstance(source, str)) as judge:
        return planner_for(
            source, budgets, receiver=receiver, watts=options.watts, joules_per_bit=joules,
            judge=judge, link=found.link, **found.opened,
        )  # fmt: skip


_PROFILE = """Measure how long encoding and decoding take on this machine, for gsvc plan. This takes
a minute or two on an idle machine. The cache keeps the profile for this processor and this gsvc.

--show                  show the existing profile instead of measuring
-o FILE -> output       also write the profile to FILE, for gsvc plan --receiver
--quiet --json
"""
_HEADER = (
    f"{'':<26}{'start s':>7}{'ns a pixel: frame':>19}{'drawn':>8}{'key':>8}{'MB':>7}"
    f"{'bytes a pixel':>15}"
)


def _profile(options: Namespace) -> int:
    from gsvc.codec.planning import machine_profile

    with ExitStack() as opened:
        copy: Path | None = None
        if options.output is not None:  # a target that is none is told of before a minute's work
            refuse_foreign(options.output, machine_profile.BEGINNING)
            copy = opened.enter_context(atomic_output(options.output, overwrite=True))
        profile = machine_profile.load_profile() if options.show else _measured(options)
        if copy is not None:
            profile.save(copy)
    if options.json:
        path = str(machine_profile.profile_path())
        arguments.json_lines(options).put("profile", path=path, **asdict(profile))
    elif not options.quiet:
        print("\n".join(_lines(profile, machine_profile.profile_path())))
    return 0


def _measured(options: Namespace) -> "Profile":
    from gsvc.codec.planning import machine_profile

    silent = options.quiet or options.json
    profile = machine_profile.measure(lambda line: None if silent else print(line, file=sys.stderr))
    profile.save(machine_profile.profile_path())
    return profile


def _lines(profile: "Profile", where: Path) -> list[str]:
    told = profile.machine
    lines = [f"{told['cpu']}, {told['cores']} cores, gsvc {profile.gsvc}: {where}", _HEADER]
    lines += [_line(f"encode, {name}", usage) for name, usage in profile.encode.items()]
    return lines + [_line(f"decode, {name}", usage) for name, usage in profile.decode.items()]


def _line(name: str, usage: "ResourceUsage") -> str:
    times = 1e9 * usage.frame, 1e9 * usage.drawn, 1e9 * usage.key
    return (
        f"{name:<26}{usage.start:>7.2f}{times[0]:>19.1f}{times[1]:>8.1f}{times[2]:>9.0f}"
        f"{usage.memory / 1e6:>7.0f}{usage.memory_per_pixel:>15.1f}"
    )


PROFILE = Verb(_PROFILE, _profile)
