"""Training for machines without gsvc: a module and all that it imports, as one file.

The file is a zip archive that Python runs, as `python -m zipapp` makes them. It needs Python,
torch, numpy, Pillow and safetensors.
"""

import ast
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from gsvc.codec.media.output import atomic_output

_START = """import sys

from {main} import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
"""


def write_app(path: Path, main: str, files: Mapping[str, str] | None = None) -> None:
    """Write one file, whole or not at all, that calls `main` of the module of that name.

    In it are the module and what it imports, at its top, of gsvc and of its own package. `files`:
    text by path, beside the modules. Raises OutputError.
    """
    texts = {f"{name.replace('.', '/')}.py": text for name, text in _modules(main)}
    folders = {str(folder) for name in texts for folder in Path(name).parents[:-1]}
    texts |= {f"{folder}/__init__.py": "" for folder in folders}
    texts |= {"__main__.py": _START.format(main=main), **(files or {})}
    with atomic_output(path, overwrite=True) as part, ZipFile(part, "w", ZIP_DEFLATED) as app:
        for name, text in sorted(texts.items()):
            app.writestr(name, text)


def _modules(main: str) -> Iterator[tuple[str, str]]:
    own = "gsvc.", main.partition(".")[0] + "."
    waiting, seen = [main], set[str]()
    while waiting:
        name = waiting.pop()
        spec = find_spec(name)
        if name in seen or spec is None or spec.origin is None:
            continue
        seen.add(name)
        text = Path(spec.origin).read_text(encoding="utf-8")
        yield name, text
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(own):
                spec = find_spec(str(node.module))
                if spec is not None and spec.submodule_search_locations:
                    waiting += [f"{node.module}.{alias.name}" for alias in node.names]
                else:
                    waiting.append(str(node.module))
