"""What bits, computation and memory buy of each other: the surface of measured points.

The table of exchange rates gives bits, computation and energy for each other. The surface is
drawn, and shown on a page with sliders for budgets of bits, computation and memory: the best
measured point within them, and its still.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from shlex import join
from statistics import fmean, geometric_mean

import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import ConfigError, GsvcError
from gsvc.codec.bitstream.stream_info import StreamIndex
from gsvc.codec.planning.machine_profile import WAYS, Way
from gsvc.codec.planning.process import RADIOS
from gsvc.encoders.tuning import PRESETS
from gsvc.eval.report import report_page, sheets
from gsvc.eval.report.exhibits import INK, Figure, label, legend, log_scale, new_figure, plain
from gsvc.eval.summary import bd_comparisons, bd_rate
from gsvc.eval.summary.bd_comparisons import PUBLISHED, exchange, frontier, mean_exchange, targets
from gsvc.eval.summary.rate_tables import Table

JUDGES = {"jod": "CVVDP, JOD", "texture": "ST-LPIPS VGG"}
COLUMNS = {"jod": "cvvdp", "texture": "st_lpips_vgg"}
_PLAIN = "steps 0"


@dataclass(frozen=True)
class MeasuredPoint:
    """One decoded stream of a run."""

    clip: str
    key: str
    """Of its cell in the run."""
    preset: str
    """Of the encoder."""
    way: str
    """How it was decoded, as the run tells it."""
    bpp: float
    kbps: float
    seconds: float
    """Of the processor, decoding a second of video; wall clock in a run without such times."""
    flops: float
    """Of the decoder's networks, for each second of video."""
    memory: float
    """Bytes at the peak of decoding, as the run measured them."""
    jod: float
    texture: float

    def distance(self, judge: str) -> float:
        """Lower is better."""
        return -self.jod if judge == "jod" else self.texture


def measured_points(path: Path) -> list[MeasuredPoint]:
    """gsvc's points of a summary.csv that have both judges. Raises ConfigError for other files."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = [line for line in csv.DictReader(file) if _is_ours(line)]
        has_processor_time = all(line.get("decode_cpu_seconds") for line in lines)
        time = "decode_cpu_seconds" if has_processor_time else "decode_seconds"
        return [_point(line, time) for line in lines]
    except (OSError, KeyError, ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"{path} is no summary.csv of gsvc bench run: {error}") from error


def read_points(path: Path) -> list[MeasuredPoint]:
    """Those of preset medium. Raises ConfigError where none has steps 0."""
    found = [point for point in measured_points(path) if point.preset == "medium"]
    if not any(point.way == _PLAIN for point in found):
        raise ConfigError(
            f"{path} has no points of gsvc with steps 0, CVVDP and ST-LPIPS VGG: run gsvc bench "
            "run with --codec gsvc:steps=0+1 --metric cvvdp --metric st_lpips_vgg"
        )
    return found


def way_told(text: str) -> str | None:
    """The name of a way to decode, as a run tells it; None for one that no planner chooses."""
    told = text.split(", ")
    motion = next((one for one in ("dis", "rife") if f"motion {one}" in told), "dis")
    model = next((one for one in ("nano", "small") if f"model {one}" in told), "nano")
    if "steps 0" in told:
        return Way(motion).name
    name = Way(motion, f"compact:{model}").name
    return name if "steps 1" in told and name in WAYS else None


def clips_of(points: Sequence[MeasuredPoint]) -> list[str]:
    """Their names, each once."""
    return list(dict.fromkeys(point.clip for point in points))


def dials(points: Sequence[MeasuredPoint], clip: str, judge: str) -> list[bd_comparisons.Dial]:
    """The ways to decode a clip, by rising computation: 1 is plain decoding."""
    own = [point for point in points if point.clip == clip]
    unit = fmean([p.seconds for p in own if p.way == _PLAIN] or [1.0])
    found = []
    for way in dict.fromkeys(point.way for point in own):
        mine = [point for point in own if point.way == way]
        hull = bd_rate.lower_hull([(point.bpp, point.distance(judge)) for point in mine])
        found.append(bd_comparisons.Dial(way, fmean(p.seconds for p in mine) / unit, hull))
    return sorted(found, key=lambda dial: dial.compute)


def best(found: Sequence[bd_comparisons.Dial], bpp: float, compute: float) -> float | None:
    """The least distance at a rate with ways of at most that computation."""
    distances = (bd_rate.hull_at(dial.hull, bpp) for dial in found if dial.compute <= compute)
    return min((distance for distance in distances if distance is not None), default=None)


def surface(
    points: Sequence[MeasuredPoint], judge: str, rates: Sequence[float], computes: Sequence[float]
) -> NDArray[np.float64]:
    """Quality, a mean over clips, (computes, rates); NaN where a clip has none."""
    every = [dials(points, clip, judge) for clip in clips_of(points)]
    grid = np.full((len(computes), len(rates)), np.nan)
    for row, compute in enumerate(computes):
        for column, bpp in enumerate(rates):
            found = [best(clip, bpp, compute) for clip in every]
            reached = [one for one in found if one is not None]
            if len(reached) == len(every):
                grid[row, column] = fmean(reached) * (-1 if judge == "jod" else 1)
    return grid


def exchanges(
    points: Sequence[MeasuredPoint], judge: str
) -> dict[str, list[bd_comparisons.Exchange]]:
    """What computation buys at three qualities, by clip; a clip with one way only is absent."""
    found = {}
    for clip in clips_of(points):
        ways = dials(points, clip, judge)
        each = [exchange(frontier(ways, target)) for target in targets(ways)]
        if some := [one for one in each if one is not None]:
            found[clip] = some
    return found


def _is_ours(line: Mapping[str, str]) -> bool:
    odd = any(one.startswith(("tune", "people")) for one in line["settings"].split(", "))
    return line["codec"] == "gsvc" and not odd and all(line[name] for name in COLUMNS.values())


def _point(line: Mapping[str, str], time: str) -> MeasuredPoint:
    numerator, _, denominator = line["frame_rate"].partition("/")
    rate = float(numerator) / float(denominator or 1)
    frames, pixels = int(line["frames"]), int(line["width"]) * int(line["height"])
    return MeasuredPoint(
        clip=line["clip"],
        key=line["key"],
        preset=next(p for p in PRESETS if f"preset {p}" in line["settings"].split(", ")),
        way=line["way"],
        bpp=int(line["bits"]) / (pixels * frames),
        kbps=int(line["bits"]) / frames * rate / 1000,
        seconds=float(line[time]) * rate / frames,
        flops=float(line["flops_per_pixel"] or 0) * pixels * rate,
        memory=float(line["peak_memory"] or 0),
        jod=float(line["cvvdp"]),
        texture=float(line["st_lpips_vgg"]),
    )


_PERCENT = 100
_GAP = "–"


def exchange_table(points: Sequence[MeasuredPoint]) -> Table:
    """Rows of what is given, what is saved, at what rate."""
    rows = _compute_rows(points)
    rows.append(
        ["decoding time for bits, published", f"{PUBLISHED.compute:g}-fold",
         f"all but a {PUBLISHED.compression:g}th of the bits",
         f"bits ~ time^-{PUBLISHED.exponent:.2f}"]
    )  # fmt: skip
    header = "given for saved", "given", "saved", "rate"
    return Table("Exchange rates", "", header, [*rows, *_energy_rows(points)])


def _compute_rows(points: Sequence[MeasuredPoint]) -> list[list[str]]:
    rows = []
    for judge, name in JUDGES.items():
        found, clips = exchanges(points, judge), clips_of(points)
        part = f" ({len(found)} of {len(clips)} clips)" if len(found) < len(clips) else ""
        cells = [_GAP, _GAP, _GAP]
        if found:
            mean = mean_exchange([one for each in found.values() for one in each])
            saved = f"{_PERCENT * (1 - 1 / mean.compression):.1f} % of the bits"
            cells = [f"{mean.compute:.3g}-fold", saved, f"bits ~ time^-{mean.exponent:.3f}"]
        rows.append([f"decoding time for bits, by {name}{part}", *cells])
    return rows


def _energy_rows(points: Sequence[MeasuredPoint]) -> list[list[str]]:
    """What a processor may draw for its computation to cost less than the bits that it saves. Both
    for a second of video: bits by texture, and seconds computed for them; a mean of clips."""
    bits, seconds = [], []
    for clip, each in exchanges(points, "texture").items():
        own, mean = [p for p in points if p.clip == clip], mean_exchange(each)
        plain = fmean([p.seconds for p in own if p.way == _PLAIN] or [0.0])
        bits.append(1000 * fmean(p.kbps for p in own) * (1 - 1 / mean.compression))
        seconds.append(plain * (mean.compute - 1))
    saved, spent = (fmean(each or [0.0]) for each in (bits, seconds))
    rows = []
    for name, radio in RADIOS.items():
        cells = [_GAP, _GAP, _GAP]
        if saved > 0 and spent > 0:
            limit = 1000 * saved * radio.joules_per_bit / spent
            cells = [f"{spent:.3g} s per second", f"{saved / 1000:.3g} kbit per second",
                     f"pays below {limit:.3g} mW"]  # fmt: skip
        rows.append([f"energy of sending over {name} for that of computing", *cells])
    return rows


_RATES, _COMPUTES = 40, 40
_BITS, _COMPUTE = "bits per pixel", "decoding time, multiples of plain decoding"


def contours(points: Sequence[MeasuredPoint]) -> Figure:
    """Quality over bits and computation, a mean over clips; the measured ways as lines."""
    figure = new_figure("Quality over bits and computation, mean of clips", 3.2, 2)
    rates, computes = _axes(points)
    for axis, judge in zip(figure.subplots(1, 2), JUDGES, strict=True):
        plain(axis)
        grid = np.ma.masked_invalid(surface(points, judge, rates, computes))
        if grid.count():
            shown = axis.contourf(rates, computes, grid, 12, cmap="viridis", alpha=0.85)
            lines = axis.contour(rates, computes, grid, 12, colors="white", linewidths=0.5)
            axis.clabel(lines, fontsize=6)
            figure.colorbar(shown, ax=axis).ax.tick_params(labelsize=7, colors=INK)
        for compute in _dial_computes(points):
            axis.axhline(compute, color=INK, linewidth=0.6, linestyle=":")
        log_scale(axis.xaxis)
        log_scale(axis.yaxis)
        label(axis, JUDGES[judge], _BITS, _COMPUTE)
    return figure


def iso_quality(points: Sequence[MeasuredPoint]) -> Figure:
    """Bits that a quality takes over computation, in parts of plain decoding's, and the claim."""
    figure = new_figure("Bits at one quality over computation", 3.2, 2)
    for axis, judge in zip(figure.subplots(1, 2), JUDGES, strict=True):
        plain(axis)
        for clip in clips_of(points):
            ways = dials(points, clip, judge)
            goals = targets(ways)
            found = frontier(ways, goals[1]) if goals else []
            reached = [(point.compute, point.bpp) for point in found if point.bpp]
            if reached:
                first = reached[0][1]
                across, up = [c for c, _ in reached], [bpp / first for _, bpp in reached]
                axis.plot(across, up, marker="o", markersize=3, linewidth=1.2, label=clip)
        most = np.array([1.0, 100.0])
        axis.plot(most, most**-PUBLISHED.exponent, color=INK, linestyle="--", linewidth=1,
                  label="published: 100-fold computation, a quarter of the bits")  # fmt: skip
        log_scale(axis.xaxis)
        log_scale(axis.yaxis)
        label(axis, JUDGES[judge], _COMPUTE, "bits, of plain decoding's")
    legend(figure)
    return figure


def _axes(points: Sequence[MeasuredPoint]) -> tuple[list[float], list[float]]:
    rates = [[p.bpp for p in points if p.clip == clip] for clip in clips_of(points)]
    low, high, most = max(map(min, rates)), min(map(max, rates)), max(_dial_computes(points))
    across = np.geomspace(low, max(high, 1.01 * low), _RATES)
    return across.tolist(), np.geomspace(1, max(1.5, 1.2 * most), _COMPUTES).tolist()


def _dial_computes(points: Sequence[MeasuredPoint]) -> list[float]:
    found: dict[str, list[float]] = {}
    for clip in clips_of(points):
        for dial in dials(points, clip, "jod"):
            found.setdefault(dial.name, []).append(dial.compute)
    return [geometric_mean(each) for each in found.values()]


def page(
    points: Sequence[MeasuredPoint],
    stills: Mapping[str, str],
    plots: Sequence[str],
    table: Table,
    note: str,
) -> str:
    """The page as HTML that needs nothing else; `plots` are SVG."""
    told = [{**asdict(p), **_commands(p), "still": still_name(p)} for p in points]
    text = files("gsvc.eval.planning").joinpath("surface.html").read_text()
    for name, value in {
        "PLOTS": "".join(f"<figure>{svg[svg.index('<svg') :]}</figure>" for svg in plots),
        "TABLE": report_page.table_html(table),
        "NOTE": escape(note),
        "POINTS": _inline(told),
        "STILLS": _inline(stills),
    }.items():
        text = text.replace(name, value, 1)
    return text


def still_name(point: MeasuredPoint) -> str:
    """Of a point's still."""
    return f"{point.key} {point.way}"


def stills_of(points: Sequence[MeasuredPoint], streams: Path) -> dict[str, str]:
    """The middle frame of each point whose stream is here and can be decoded, as a data URI."""
    found = {}
    for point in points:
        stream = streams / f"{point.key}.gsv"
        if (name := way_told(point.way)) and stream.exists():
            with suppress(GsvcError):  # without weights or packages there is no picture to show
                found[still_name(point)] = _still(stream, name)
    return found


def _still(stream: Path, way: str) -> str:
    from gsvc.codec.api.decoder import Decoder

    with stream.open("rb") as file:
        index = StreamIndex(file)
        with Decoder(index.header, WAYS[way].settings) as decoder:
            (frame,) = index.decode(decoder, len(index.times) // 2, 1)
    return sheets.picture_uri(frame.pixels)


def _commands(point: MeasuredPoint) -> dict[str, str]:
    name = way_told(point.way)
    arguments = WAYS[name].arguments if name else []
    return {
        "encode": f"gsvc encode IN -o OUT.gsv --bitrate {round(1000 * point.kbps)}",
        "decode": join(["gsvc", "decode", "OUT.gsv", *arguments]),
    }


def _inline(value: object) -> str:
    return json.dumps(value).replace("</", "<\\/")
