"""What `import gsvc` offers, and that the list of it is true."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import gsvc
from gsvc.codec.bitstream import errors


def test_the_list_is_sorted_and_everything_on_it_is_there() -> None:
    assert sorted(gsvc.__all__) == gsvc.__all__ == dir(gsvc)
    for name in gsvc.__all__:
        assert getattr(gsvc, name) is not None


def test_every_public_thing_says_what_it_is() -> None:
    for name in gsvc.__all__:
        thing = getattr(gsvc, name)
        if callable(thing) and name != "Picture":
            assert thing.__doc__ and thing.__doc__.strip(), name


def test_names_that_do_not_exist_fail_as_attributes_do() -> None:
    with pytest.raises(AttributeError, match="no attribute 'transcode'"):
        gsvc.transcode  # noqa: B018


def test_every_error_is_public_and_a_natural_built_in_too() -> None:
    own = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert set(own) <= set(gsvc.__all__)
    for name, kind in own.items():
        assert issubclass(kind, gsvc.GsvcError)
        assert kind is gsvc.GsvcError or len(kind.__mro__) > 4, name


def test_type_checkers_see_the_same_names() -> None:
    """The lazy table and the imports for type checkers must not drift apart."""
    listed = {"__version__"}
    for node in ast.walk(ast.parse(Path(gsvc.__file__).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gsvc."):
            for name in node.names:
                shown = name.asname or name.name
                listed.add(shown)
                home = import_module(node.module or "")
                assert getattr(gsvc, shown) is getattr(home, name.name)
    assert listed == set(gsvc.__all__)


def test_importing_is_light() -> None:
    code = (
        "import sys, gsvc; print(*{'torch', 'cv2', 'av', 'numpy', 'diffusers'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert shown.stdout.strip() == b""
