"""The house in numbers: what a command imports and runs, and how the source is cut into files.

    python tools/house.py                      the table
    python tools/house.py --check              and exit 1 where a bar is missed
    python tools/house.py --check --static     without running a command
    python tools/house.py --walks              the three walks of the design page, as Markdown
    python tools/house.py --root TREE          another checkout, such as that of an older commit

The commands run on the first frames of the packaged clip carphone (`make clips`). A profiler in
each of their processes notes every function of gsvc the first time that it is called.
"""

import argparse
import ast
import os
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

FOLDERS = "codec", "encoders", "decoders", "eval", "datasets"
PLUG_INS = (
    *("*/__init__.py", "codec/command/*", "*/layers/*", "encoders/scaffold/*", "eval/metrics/*"),
    *("eval/baselines/*", "decoders/keyframes/*", "datasets/annotated/*"),
)
"""Where each file is one line of a table: a verb, a layer, a metric, a baseline, a back end, a
format of annotations. Such a file is as short as it likes."""
SMALL = 60
"""Lines of a file that hardly holds an idea."""
BARS = {
    "files of at most 60 lines, no plug-in": 30,
    "imports, % of the lines": 6.0,
    "class names defined twice or more": 10,
    "encode: files run": 55,
    "decode: files run": 31,
    "decode: modules imported": 120,
    "decode: modules of the encoder or of analysis": 0,
    "decode --help: modules of FFmpeg, OpenCV or torch": 0,
    "info: modules of FFmpeg, OpenCV or torch": 0,
    "bench: files run in command, datasets and eval": 45,
}
"""The most that `--check` accepts."""
HEAVY = "av", "cv2", "torch"
CLIP = os.path.expanduser("~/.cache/gsvc/clips/carphone.mp4")
"""Where `make clips` puts it."""
_CO_OPTIMIZED = 1  # of functions; the bodies of modules and classes lack it
_HOOK = "HOUSE_TRACE"


@dataclass(frozen=True)
class Source:
    """One file of the source."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """Their number."""
        return self.text.count("\n")

    @property
    def name(self) -> str:
        """The module's."""
        return "gsvc." + self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def import_lines(self) -> int:
        """Lines that import statements take."""
        kinds = ast.Import, ast.ImportFrom
        found = (node for node in ast.walk(self.tree) if isinstance(node, kinds))
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)

    @property
    def imported(self) -> set[tuple[str, str]]:
        """Module and name of what it imports from gsvc."""
        return {
            (node.module, alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gsvc")
            for alias in node.names
            if node.module
        }

    @property
    def is_plug_in(self) -> bool:
        """Whether it is one line of a table."""
        return any(fnmatch(self.path, pattern) for pattern in PLUG_INS)


def sources(root: Path) -> list[Source]:
    """The Python files of the package, below a checkout."""
    paths = (path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return [Source(one.relative_to(root).as_posix(), one.read_text()) for one in sorted(paths)]


def counted(files: list[Source]) -> dict[str, float]:
    """What can be told without running anything."""
    lines = sum(one.lines for one in files)
    small = [one for one in files if one.lines <= SMALL]
    classes = Counter(
        node.name for one in files for node in ast.walk(one.tree) if isinstance(node, ast.ClassDef)
    )
    importers = Counter(name for one in files for name in one.imported)
    public = [name for one in files for name in _public(one)]
    names = Counter(one.path.rpartition("/")[2] for one in files)
    return {
        "files of Python": len(files),
        "lines of Python": lines,
        "longest file": max(one.lines for one in files),
        "files of at most 60 lines": len(small),
        "files of at most 60 lines, no plug-in": sum(not one.is_plug_in for one in small),
        "imports, % of the lines": 100 * sum(one.import_lines for one in files) / lines,
        "public definitions": len(public),
        "public definitions with one importing module": sum(importers[one] == 1 for one in public),
        "class names defined twice or more": sum(count > 1 for count in classes.values()),
        "file names used twice or more": sum(
            count > 1 for name, count in names.items() if name != "__init__.py"
        ),
    }


def browser_lines(root: Path) -> int:
    """Lines of the browser's decoder and its pages, without what is built of them."""
    suffixes = {".ts", ".mjs", ".css", ".html"}
    ours = (one for one in root.glob("*/**/web/**/*") if one.suffix in suffixes)
    return sum(one.read_text().count("\n") for one in ours if "node_modules" not in one.parts)


def _public(source: Source) -> Iterator[tuple[str, str]]:
    for node in source.tree.body:
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield source.name, node.name


def by_folder(files: list[Source]) -> list[tuple[str, int, int]]:
    """Folder, files and lines in it."""
    found: dict[str, list[int]] = defaultdict(list)
    for one in files:
        found[one.path.rpartition("/")[0]].append(one.lines)
    return [(folder, len(lines), sum(lines)) for folder, lines in sorted(found.items())]


@dataclass(frozen=True)
class Called:
    """A function of gsvc that was called, or a module that was imported."""

    path: str
    name: str
    is_module: bool

    @property
    def folder(self) -> str:
        """Where its file is."""
        return self.path.rpartition("/")[0]


class Trace:
    """What a command called, each function once and in the order of the first calls."""

    def __init__(self, root: Path, *arguments: str) -> None:
        """Run `gsvc` of a checkout. Raises SystemExit when it fails."""
        with TemporaryDirectory() as folder:
            found = Path(folder, "found")
            Path(folder, "sitecustomize.py").write_text("import house; house.start()\n")
            paths = folder, str(Path(__file__).parent), str(root / "src")
            more = {"PYTHONPATH": os.pathsep.join(paths), _HOOK: f"{root}{os.pathsep}{found}"}
            command = [sys.executable, "-m", "gsvc", *arguments]
            done = subprocess.run(
                command, check=False, env={**os.environ, **more}, capture_output=True
            )
            if done.returncode:
                raise SystemExit(f"gsvc {' '.join(arguments)}: {done.stderr.decode()}")
            lines = dict.fromkeys(found.read_text().splitlines())
        self._lines = [line.split("\t") for line in lines]
        self.called = [Called(p, n, k == "module") for k, p, n in self._lines if k != "heavy"]
        self.heavy = sorted({name for kind, _, name in self._lines if kind == "heavy"})
        """Packages of `HEAVY` that were imported."""

    @property
    def modules(self) -> list[str]:
        """Files of the modules that were imported."""
        return list(dict.fromkeys(one.path for one in self.called if one.is_module))

    @property
    def files(self) -> list[str]:
        """Files of which a function was called, in the order of the first calls."""
        return list(dict.fromkeys(one.path for one in self.called if not one.is_module))

    def walk(self) -> Iterator[str]:
        """A line of Markdown for each of `files`, with the functions that were called in it."""
        names: dict[str, list[str]] = {path: [] for path in self.files}
        for one in self.called:
            if not one.is_module and "<" not in one.name:
                names[one.path].append(one.name)
        for number, (path, called) in enumerate(names.items(), 1):
            shown = ", ".join(f"`{name}`" for name in called[:6])
            yield f"{number}. `{path}`: {shown}" + (" ..." if len(called) > 6 else "")


def start() -> None:
    """Note what this process calls, for the `Trace` that started it."""
    if _HOOK not in os.environ:
        return
    root, target = os.environ[_HOOK].split(os.pathsep)
    folders = {str((Path(root) / name).resolve()): name for name in FOLDERS}
    seen: set[object] = set()
    lock = threading.Lock()

    def relative(path: str) -> str | None:
        real = os.path.realpath(path)
        for folder, name in folders.items():
            if real.startswith(folder + os.sep):
                return name + real.removeprefix(folder)
        return None

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in seen:
            return
        is_module = code.co_name == "<module>"
        path = relative(code.co_filename)
        if path is None:
            seen.add(code)
            package = frame.f_globals.get("__name__", "")
            if is_module and package in HEAVY:
                write("heavy", "", package)
        elif is_module or (code.co_flags & _CO_OPTIMIZED and not _imports(frame)):
            seen.add(code)
            write("module" if is_module else "function", path, code.co_qualname)

    def write(kind: str, path: str, name: str) -> None:
        with lock, open(target, "a") as file:
            file.write(f"{kind}\t{path}\t{name}\n")

    sys.setprofile(note)
    threading.setprofile(note)


def _imports(frame: FrameType | None) -> bool:
    """Whether a function is called while a module is imported: for a table, or as a decorator."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__":
            return True
        frame = frame.f_back
    return False


def walks(root: Path, clip: str, folder: Path) -> dict[str, Trace]:
    """The traces of the commands, by name; what they write goes to a folder."""
    stream, run = str(folder / "clip.gsv"), str(folder / "run")
    codecs = "--codec", "x265", "--metric", "psnr_y", "--jobs", "1"
    traces = {
        "encode": Trace(root, "encode", clip, stream, "--frames", "60", "--quiet"),
        "decode": Trace(root, "decode", stream, str(folder / "back.mp4"), "--steps", "0", "-q"),
        "decode --help": Trace(root, "decode", "--help"),
        "info": Trace(root, "info", stream),
    }
    traces["bench"] = Trace(root, "bench", "run", clip, "-o", run, *codecs, "--frames", "8")
    traces["bench table"] = Trace(root, "bench", "table", run)
    return traces


def measured(traces: dict[str, Trace]) -> dict[str, float]:
    """What running the commands tells."""
    found: dict[str, float] = {}
    for name, trace in traces.items():
        found[f"{name}: modules imported"] = len(trace.modules)
        found[f"{name}: files run"] = len(trace.files)
        found[f"{name}: modules of FFmpeg, OpenCV or torch"] = len(trace.heavy)
    others = "encoders/", "decoders/analysis/", "decoders/detection/"
    decoding = traces["decode"].modules
    wrong = sum(path.startswith(others) for path in decoding)
    found["decode: modules of the encoder or of analysis"] = wrong
    both = {path for name in ("bench", "bench table") for path in traces[name].files}
    found["bench, run and table: files run"] = len(both)
    own = "codec/command/", "datasets/", "eval/"
    found["bench: files run in command, datasets and eval"] = sum(p.startswith(own) for p in both)
    return found


def main() -> int:
    """Print the table, or the walks; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=here, metavar="TREE", help="a checkout")
    parser.add_argument("--clip", default=CLIP, metavar="VIDEO", help="(%(default)s)")
    parser.add_argument("--static", action="store_true", help="run no command")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bar is missed")
    parser.add_argument("--walks", action="store_true", help="print the walks alone")
    options = parser.parse_args()
    root = options.root.resolve()
    files = sources(root)
    found = counted(files)
    found["lines of the browser's decoder"] = browser_lines(root)
    if not options.static:
        with TemporaryDirectory() as folder:
            traces = walks(root, options.clip, Path(folder))
        if options.walks:
            for name in ("encode", "decode", "bench"):
                print(f"### {name}\n", *traces[name].walk(), "", sep="\n")
            return 0
        found |= measured(traces)
    for folder, count, lines in by_folder(files):
        print(f"{folder:<52} {count:>5} files {lines:>7} lines")
    missed = 0
    for name, value in found.items():
        is_missed = value > BARS.get(name, value)
        missed += is_missed
        bar = f"  (at most {BARS[name]})" if name in BARS else ""
        print(f"{name:<52} {value:>11.1f}".removesuffix(".0") + bar + "  MISSED" * is_missed)
    return int(options.check and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
