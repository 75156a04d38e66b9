"""The repository as a package: links, wheel, versions."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gsvc

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("codec", "encoders", "decoders", "eval", "datasets")

in_checkout = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="runs in a checkout, not on an installed wheel"
)


@in_checkout
@pytest.mark.parametrize("folder", FOLDERS)
def test_development_links_are_relative(folder: str) -> None:
    link = ROOT / "src" / "gsvc" / folder
    assert os.readlink(link) == f"../../{folder}"


@in_checkout
def test_wheel_has_every_module_and_nothing_else(tmp_path: Path) -> None:
    # A subprocess: hatchling finds the project by the working folder.
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {
        f"gsvc/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    }
    package = {f"gsvc/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    weights = {f"gsvc/{path.relative_to(ROOT)}" for path in (ROOT / "decoders").rglob("weights/*")}
    assert modules | package | weights <= names
    shared = {name for name in names if ".data/data/share/" in name}
    assert {name.partition("/share/")[2] for name in shared} == {
        "man/man1/gsvc.1",
        "bash-completion/completions/gsvc",
        "zsh/site-functions/_gsvc",
        "fish/vendor_completions.d/gsvc.fish",
    }
    assert all(name.startswith("gsvc/") for name in names - shared)
    assert not [name for name in names if name.endswith((".jpg", ".pyc"))]


@in_checkout
def test_versions_agree() -> None:
    assert f'version = "{gsvc.__version__}"' in (ROOT / "pyproject.toml").read_text()
    released = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released and released[1] == gsvc.__version__
