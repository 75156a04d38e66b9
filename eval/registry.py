"""Finds what the modules of a package declare: the codecs and metrics of the benchmark."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any


def declared(package: str, table: str) -> Iterator[Any]:
    """The entries of `table`, a tuple that any module directly in `package` may have.

    Modules without it are not imported: some load torch, which takes seconds.
    """
    (folder,) = import_module(package).__path__
    has_table = re.compile(rf"^{table}\b.*=", re.MULTILINE)
    for module in iter_modules([folder]):
        if has_table.search(Path(folder, f"{module.name}.py").read_text()):
            yield from getattr(import_module(f"{package}.{module.name}"), table)
