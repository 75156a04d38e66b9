"""`gsvc bench surface`: quality over bits and computation, exchange rates, a page with sliders."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.media.output import make_folder
from gsvc.codec.weights.extras import need

DESCRIPTION = """Draw what bits, computation and memory buy of each other, from a run with gsvc,
CVVDP and ST-LPIPS VGG: contours of quality, bits at one quality over computation, what memory
saves, a table of exchange rates, and index.html, a page with sliders for three budgets."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc bench surface`."""
    add = parser.add_argument
    source = "a run's folder, or its summary.csv: then the page has no stills"
    add("run", type=Path, metavar="RUN", help=source)
    add("--out", "-o", required=True, type=Path, metavar="OUT", help="the folder of the results")
    clips = "clips whose windows a cache of latents is tried on, all frames (packaged)"
    add("--clips", action="append", metavar="CLIP", help=clips)


def run(options: Namespace) -> int:
    """Read the points, draw, and write the page."""
    need("eval", "gsvc bench surface")
    from gsvc.codec.planning.prediction import shipped
    from gsvc.datasets.clips.sets import find_clips
    from gsvc.eval.layout import write_bytes, write_text
    from gsvc.eval.planning import surface as surface_plots
    from gsvc.eval.planning.surface import curve, exchange_table, page, read_points, stills_of
    from gsvc.eval.report.style import image

    folder = options.run if options.run.is_dir() else None
    points = read_points(folder / "summary.csv" if folder else options.run)
    make_folder(options.out)  # before half a minute's work
    sources = find_clips(options.clips or ["packaged"])
    seen = curve([one.load("288", None).frames for one in sources], _CAPACITIES)
    figures = {
        "contours": surface_plots.contours(points),
        "iso-quality": surface_plots.iso_quality(points),
        "memory": surface_plots.memory(seen),
    }
    plots = {name: image(figure, "svg") for name, figure in figures.items()}
    for name, data in plots.items():
        write_bytes(options.out / f"{name}.svg", data)
    table = exchange_table(points, shipped(), seen)
    stills = stills_of(points, folder / "streams") if folder else {}
    text = page(points, stills, [plot.decode() for plot in plots.values()], table, _NOTE)
    write_text(options.out / "index.html", text)
    write_text(options.out / "exchange.md", table + "\n")
    print(table)
    print(
        f"{options.out / 'index.html'}: {len(points)} points, {len(stills)} stills", file=sys.stderr
    )
    return 0


_CAPACITIES = 0, 1, 2, 4, 8, 16, 32, 64
_NOTE = """Decoding time was measured by the run. Memory's saving is the share of steps that windows
of 33 frames would leave out by their similarity; what pictures lose by it was not judged. Energy of
sending is that of a bit by a stated model: Huang et al., MobiSys 2012 (LTE, Wi-Fi), and the data
sheet of the SX1276 (LoRa)."""
