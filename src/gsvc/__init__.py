"""gsvc: the generative semantic video codec toolkit.

    gsvc.encode("city.mp4", "city.gsv", settings=gsvc.EncoderSettings(level=1))
    gsvc.decode("city.gsv", "back.mp4", settings=gsvc.DecoderSettings(steps=4))
    gsvc.info("city.gsv").bits

Every name is loaded when it is first used: importing gsvc, and encoding, do not load torch. The
public names are listed in one place, `__init__.pyi`, which type checkers read too.
"""

from functools import cache
from importlib import import_module

__version__ = "0.1.0"


@cache
def _homes() -> dict[str, str]:
    """The module of each public name, as the stub imports it."""
    import ast
    from pathlib import Path

    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text())
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module or "" for node in imports for alias in node.names}


class _Doc:
    """The docstring of a class with those of its fields, read when `help` asks for it."""

    def __init__(self, text: str | None) -> None:
        self._text = text or ""

    def __get__(self, _: object, owner: type) -> str:
        import ast
        from contextlib import suppress
        from inspect import cleandoc, getsource
        from itertools import pairwise

        told = [cleandoc(self._text) + "\n"]
        with suppress(OSError):  # installed without its source
            tree = ast.parse(getsource(owner)).body[0]
            for field, doc in pairwise(tree.body if isinstance(tree, ast.ClassDef) else ()):
                match field, doc:
                    case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        told.append(f"{name}: {cleandoc(text)}")
        return "\n".join(told).strip()


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name not in _homes():
        raise AttributeError(f"module 'gsvc' has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(_homes()[name]), name)
    if type(thing) is type:  # no enumeration
        thing.__doc__ = _Doc(thing.__doc__)  # type: ignore[assignment]
    return thing


def __dir__() -> list[str]:
    return sorted([*_homes(), "__version__"])
