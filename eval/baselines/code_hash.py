"""Hashes of what decides a stream and its pictures: the code that coding uses, and the weights.

Code that was moved or rewritten makes the same bytes under another hash. Once `packaged_streams.py`
has coded the packaged clips with the old code and the new and found every byte equal, it writes
`same_bytes.json`, and the new code goes by the old code's hash: cells that were coded stay valid.
Code that nobody compared has a hash of its own.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import gsvc
from gsvc.codec.weights.model_files import sha256_of
from gsvc.decoders.keyframes.backends import find_backend

_ROOTS = ("gsvc.codec.api.encoder", "gsvc.codec.api.decoder", "gsvc.codec.bitstream.container")
_TABLES = "decoders/interpolation/face_table.json", "codec/weights/hub.toml"
SAME_BYTES = Path(__file__).with_name("same_bytes.json")
"""The hash of code whose bytes were compared ("code"), and of the code that they equal ("as")."""


@cache
def code_hash() -> str:
    """Of the code that coding a clip uses, or of older code that was shown to make its bytes."""
    compared = json.loads(SAME_BYTES.read_text())
    here = own_hash()
    return str(compared["as"]) if here == compared["code"] else here


def measured_by(run: str | Path) -> Iterator[str]:
    """A line on the code that a run's summary.md names, if any: whether this code makes its bytes.

    `run`: its folder or its summary.csv.
    """
    page = (root if (root := Path(run)).is_dir() else root.parent) / "summary.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    if named := re.search(r"\| +gsvc [\d.]+ ([0-9a-f]{16})-", text):
        shown = "gives" if named[1] == code_hash() else "was not shown to give"
        same = f"this code ({own_hash()}) {shown} the same bytes (tools/packaged_streams.py)"
        yield f"gsvc's streams are those of its code {named[1]}; {same}."


def own_hash() -> str:
    """Of the modules that coding a clip uses, without comments and docstrings, and their tables."""
    code = [f"{name}\n{ast.unparse(tree)}\n" for name, tree in sorted(used_modules().items())]
    code += [Path(gsvc.__file__).parent.joinpath(table).read_text() for table in _TABLES]
    return hashlib.sha256("".join(code).encode()).hexdigest()[:16]


@cache
def weights_hash(backends: tuple[str, ...]) -> str:
    """Of the files that these back ends load, with their settings. Raises as `Backend.files`."""
    weights = [path for backend in backends for path in find_backend(backend).files]
    settings = (path.with_suffix(".json") for path in weights)
    files = [*weights, *(path for path in settings if path.is_file())]
    return hashlib.sha256("".join(map(sha256_of, files)).encode()).hexdigest()[:8]


def used_modules() -> dict[str, ast.AST]:
    """Modules that coding imports, at once or late or by name, and their bare code; by name."""
    root = Path(gsvc.__file__).parent
    paths = {}
    for path in root.glob("*/**/*.py"):
        name = ".".join(("gsvc", *path.relative_to(root).with_suffix("").parts))
        paths[name.removesuffix(".__init__")] = path
    found: dict[str, ast.AST] = {}
    waiting = set(_ROOTS)
    while waiting:
        name = waiting.pop()
        found[name] = _WithoutDocstrings().visit(ast.parse(paths[name].read_text()))
        waiting |= (set(_named(found[name])) & set(paths)) - set(found)
    return found


def _named(tree: ast.AST) -> Iterator[str]:
    """Names that a module imports, of modules and of what is in them, and its strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]  # registries name "module:Class"


class _WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else node
