"""Dependencies point one way: who may import whom, and who does without heavy packages."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import gsvc

LAYERS = {
    "bitstream": ("gsvc.codec.bitstream",),
    "media": ("gsvc.codec.media",),
    "weights": ("gsvc.codec.weights",),
    "datasets": ("gsvc.datasets",),
    "decoders": ("gsvc.decoders",),
    "encoders": ("gsvc.encoders",),
    "api": ("gsvc.codec.api",),
    "network": ("gsvc.codec.network",),
    "player": ("gsvc.codec.player",),
    "package": ("gsvc",),
    "planning": ("gsvc.codec.planning",),
    "command": ("gsvc.codec.command", "gsvc.codec.network.examples", "gsvc.__main__"),
    "eval": ("gsvc.eval",),
    "training": ("gsvc.decoders.training",),
}
"""From the lowest up. The longest prefix gives a module's layer; it imports none from above."""

BY_COMMANDS = {"eval", "training"}
"""Only a command may import these from below, and only when it runs."""

TORCH = {"torch", "diffusers", "safetensors"}
WITHOUT = {
    ("gsvc.codec.bitstream",): {"cv2", "av", *TORCH},
    ("gsvc.encoders", "gsvc.codec.api.encoder"): TORCH,
}
"""Modules, and the packages that nothing they import may import, late imports included."""


class Import(NamedTuple):
    """What a module imports, and when."""

    name: str
    """A module of the package, or another package."""
    late: bool
    """Within a function, or by name: a string that is a module's."""
    typing: bool
    """Under `if TYPE_CHECKING`."""


Graph = dict[str, set[Import]]


def import_graph(package: Path) -> Graph:
    """Every module under the folder of the package, with its imports."""
    paths = {}
    for path in [*package.glob("*.py"), *package.glob("*/**/*.py")]:
        *parents, stem = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parents if stem == "__init__" else [*parents, stem])] = path
    return {
        module: {found for found in imports(path, set(paths)) if found.name != module}
        for module, path in paths.items()
    }


def imports(path: Path, modules: set[str]) -> Iterator[Import]:
    pending: list[tuple[ast.AST, bool, bool]] = [(ast.parse(path.read_text()), False, False)]
    while pending:
        node, late, typing = pending.pop()
        if isinstance(node, ast.Import):
            yield from (Import(_known(alias.name, modules), late, typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {_known(f"{node.module}.{alias.name}", modules) for alias in node.names}
            yield from (Import(name, late, typing) for name in names)
        elif isinstance(node, ast.Constant) and str(node.value).startswith("gsvc."):
            name = str(node.value).partition(":")[0]
            yield from (Import(known, True, typing) for known in modules & {name})
        late |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing |= isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        pending += ((child, late, typing) for child in ast.iter_child_nodes(node))


def _known(name: str, modules: set[str]) -> str:
    """The module in a dotted name, or the package that it begins with."""
    while name not in modules and "." in name:
        name = name.rpartition(".")[0]
    return name


def layer(module: str) -> str:
    _, found = max(
        (len(prefix), layer)
        for layer, prefixes in LAYERS.items()
        for prefix in prefixes
        if is_in(module, prefix)
    )
    return found


def is_in(module: str, *prefixes: str) -> bool:
    return any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes)


def wrong_ways(graph: Graph) -> list[str]:
    """Imports of a higher layer."""
    order = list(LAYERS)
    wrong = set()
    for module, found in graph.items():
        for other in (each for each in found if each.name in graph):
            lower, higher = layer(module), layer(other.name)
            unrun = other.late or other.typing
            by_command = lower == "command" and higher in BY_COMMANDS and unrun
            if order.index(lower) < order.index(higher) and not by_command:
                wrong.add(f"{lower} imports {higher}: {module} imports {other.name}")
    return sorted(wrong)


def circles(graph: Graph) -> list[list[str]]:
    """Modules that lead to each other."""
    arrows = {module: {other.name for other in found} for module, found in graph.items()}
    ahead = {module: reached(arrows[module], arrows) for module in graph}
    together = {
        tuple(sorted(other for other in ahead[module] & set(graph) if module in ahead[other]))
        for module in graph
    }
    return [list(modules) for modules in sorted(together) if modules]


def reached(names: set[str], arrows: dict[str, set[str]]) -> set[str]:
    """All that arrows lead to from these names, themselves included."""
    seen: set[str] = set()
    pending = set(names)
    while pending:
        seen |= pending
        pending = {other for name in pending for other in arrows.get(name, ())} - seen
    return seen


def heavy(graph: Graph, starts: tuple[str, ...], without: set[str]) -> list[str]:
    """Imports of packages that some modules shall not lead to."""
    arrows = {
        module: {other.name for other in found if not other.typing}
        for module, found in graph.items()
    }
    modules = reached({module for module in graph if is_in(module, *starts)}, arrows)
    return sorted(
        f"{module} imports {package}"
        for module in modules
        for package in arrows.get(module, set()) & without
    )


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(Path(gsvc.__file__).parent)


def test_tables_name_what_there_is(graph: Graph) -> None:
    prefixes = {prefix for prefixes in [*LAYERS.values(), *WITHOUT] for prefix in prefixes}
    assert not [prefix for prefix in prefixes if not any(is_in(m, prefix) for m in graph)]


def test_dependencies_point_one_way(graph: Graph) -> None:
    assert wrong_ways(graph) == []


def test_no_module_imports_itself_in_a_circle(graph: Graph) -> None:
    assert circles(graph) == []


@pytest.mark.parametrize(("starts", "without"), WITHOUT.items())
def test_heavy_packages_stay_out(graph: Graph, starts: tuple[str, ...], without: set[str]) -> None:
    assert heavy(graph, starts, without) == []


def test_encoding_and_plain_decoding_do_without_torch(clip: Path, tmp_path: Path) -> None:
    code = f"""
import sys
import gsvc
tools = gsvc.Tools(segmentation=False, pose=False)
gsvc.encode({str(clip)!r}, "it.gsv", settings=gsvc.EncoderSettings(tools=tools, preset="fast"))
gsvc.info("it.gsv")
gsvc.decode("it.gsv", "it.mkv", settings=gsvc.DecoderSettings(steps=0))
print(*sorted({TORCH!r} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stdout.strip() == b""
