"""The standalone trainer as one file: its modules one after the other, in order of dependence."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gsvc import __version__

_MAIN = "gsvc.decoders.training.standalone.main"
_PLAIN = "gsvc.decoders.training.standalone.plain_models"
_REPLACED = "diffusers."
_USAGE = '''"""Trains networks of gsvc {version} on a pack. Needs Python, torch, numpy and Pillow.

    python3 train_standalone.py PACK RUN --recipe nano --minutes 9

Written by gsvc train export, from the modules that the headings name.
"""'''
_START = """if __name__ == "__main__":
    raise SystemExit(ended(main(sys.argv[1:], RECIPES)))
"""


@dataclass(frozen=True)
class _Part:
    """A module, taken apart."""

    name: str
    needs: list[str]
    """Modules that it imports and that must be there before it."""
    imports: dict[str, str]
    """From each name that it gets from elsewhere to the import of it."""
    names: list[str]
    """That it defines."""
    body: str
    """Its source without imports."""


def standalone_script(recipes: Mapping[str, str]) -> str:
    """The file's text. `recipes`: text by name.

    Raises ValueError where two modules define the same name, or import under another name.
    """
    embedded = "".join(f"    {name!r}: '''{text}''',\n" for name, text in recipes.items())
    return one_file(_MAIN, _USAGE, f"RECIPES = {{\n{embedded}}}\n\n\n{_START}")


def one_file(main: str, usage: str, end: str) -> str:
    """A module with all that it imports of gsvc and of its own package, between two texts.

    In `usage`, {version} is that of gsvc. Errors as of `standalone_script`.
    """
    parts = list(_in_order(main, set(), ("gsvc.", main.partition(".")[0] + ".")))
    _check_names(parts)
    imports = sorted({line for part in parts for line in part.imports.values()}, key=_import_order)
    bodies = [f"# {'-' * 8} {part.name}\n\n{part.body.strip()}\n" for part in parts]
    return "\n\n".join([usage.format(version=__version__), "\n".join(imports), *bodies, end])


def read_recipes() -> dict[str, str]:
    """The recipes that come with gsvc: text by name."""
    folder = Path(__file__).parent / "recipes"
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.toml"))}


def _in_order(name: str, seen: set[str], own: tuple[str, ...]) -> Iterator[_Part]:
    """A module after all that it needs; `own`: what the names of such modules begin with."""
    if name in seen:
        return
    seen.add(name)
    part = _part(name, own)
    for need in part.needs:
        yield from _in_order(need, seen, own)
    yield part


def _part(name: str, own: tuple[str, ...]) -> _Part:
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines, tree = source.splitlines(), ast.parse(source)
    needs: list[str] = []
    imports: dict[str, str] = {}
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines[node.lineno - 1 : node.end_lineno] = [""] * _length(node)
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module is not None and module.startswith((*own, _REPLACED)):
                _check_no_alias(name, node)
                needs.append(module if module.startswith(own) else _PLAIN)
            else:
                imports |= _lines_of(node)
        names += _defined(node)
    inner = (n for each in tree.body for n in ast.walk(each) if n is not each)
    if any(isinstance(n, ast.Import | ast.ImportFrom) for n in inner):
        raise ValueError(f"{name} imports within a function: it cannot be in one file with others")
    return _Part(name, needs, imports, names, "\n".join(lines))


def _length(node: ast.Import | ast.ImportFrom) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _check_no_alias(name: str, node: ast.Import | ast.ImportFrom) -> None:
    for alias in node.names:
        if alias.asname:
            raise ValueError(f"{name} imports {alias.name} as {alias.asname}: leave its name")


def _lines_of(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """An import, a line for each name."""
    start = f"from {node.module} import" if isinstance(node, ast.ImportFrom) else "import"
    return {
        alias.asname or alias.name.split(".")[0]: f"{start} {ast.unparse(alias)}"
        for alias in node.names
    }


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [
        n.id for target in targets if target for n in ast.walk(target) if isinstance(n, ast.Name)
    ]


def _check_names(parts: list[_Part]) -> None:
    owners: dict[str, str] = {}
    for part in parts:
        for name in part.names:
            if name in owners and owners[name] != part.name:
                raise ValueError(f"{name} is defined in {owners[name]} and in {part.name}")
            owners[name] = part.name
    meant: dict[str, str] = {}
    for part in parts:
        for name, line in part.imports.items():
            if name in owners or meant.setdefault(name, line) != line:
                raise ValueError(f"{name} means something else in {part.name} than elsewhere")


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line
