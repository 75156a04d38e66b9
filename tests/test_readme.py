"""The README and the pages of docs/: their Python runs as it stands, block after block of a page;
gsvc and tools/ take their commands; the files they name exist; the API reference shows every
public name."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import gsvc
from gsvc.codec.command.main import main
from needs import need_package
from pages import PAGES, ROOT, blocks

pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").exists(), reason="runs in a checkout, not on an installed wheel"
)


_BETWEEN = re.compile(r' (?:\||&&|&|>)(?: |$)(?=(?:[^"]*"[^"]*")*[^"]*$)')
"""Between two commands, and not within quotes."""


def commands() -> Iterator[list[str]]:
    """The arguments of every gsvc command in a block without a language."""
    for page in PAGES:
        for block in blocks(page, ""):
            for line in block.replace("\\\n", " ").splitlines():
                for command in _BETWEEN.split(line):
                    words = shlex.split(command, comments=True)
                    if words[:1] == ["gsvc"]:
                        yield words[1:]


class Parsed(BaseException):
    """The arguments of a command were parsed: instead of running it."""


def test_the_commands_are_ones_that_gsvc_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = ArgumentParser.parse_args

    def parse_only(self: ArgumentParser, *arguments: object) -> Namespace:
        parse(self, *arguments)  # type: ignore[call-overload]
        raise Parsed

    monkeypatch.setattr(ArgumentParser, "parse_args", parse_only)
    found = list(commands())
    assert len(found) > 30
    for arguments in found:
        with pytest.raises(Parsed):
            main(arguments)


TRY_TOOLS = """
import json, runpy, sys
from argparse import ArgumentParser
from pathlib import Path

class Parsed(BaseException):
    pass

def parse_only(self, *given):
    raise Parsed(parse(self, *given)[1])

tools, clip = Path(sys.argv[1]), sys.argv[2]
parse, path = ArgumentParser.parse_known_args, [str(tools), *sys.path]
ArgumentParser.parse_known_args = parse_only
for line in sys.stdin:
    name, given = json.loads(line)
    sys.argv[:] = [str(tools / name), *(given or ())]
    sys.path[:] = path
    parses = given is not None and "ArgumentParser(" in Path(sys.argv[0]).read_text()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__" if parses else "tool")
        assert not parses, sys.argv
    except Parsed as parsed:
        assert not parsed.args[0] or name == "train_beside.py", sys.argv
    for module in [one for one in sys.modules if (tools.parent / "tests" / f"{one}.py").exists()]:
        del sys.modules[module]
ArgumentParser.parse_known_args = parse
sys.argv[:] = ["stage_times.py", clip, "--lines", "48", "--frames", "9"]
runpy.run_path(str(tools / "stage_times.py"), run_name="__main__")
starts = runpy.run_path(str(tools / "search_starts.py"))
pictures, rate = starts["load_clip"](clip, 9, 48)
starts["encoded"](starts["TestClip"]("one", pictures, rate), 1, 1)
"""
"""Runs tools up to their arguments, one a line, as a script runs: without tests/ in its path; then
those that patch the package."""


def test_the_tools_run_as_pages_print_them(clip: Path) -> None:
    for package in ("c2pa", "shtab", "torch"):
        need_package(package)
    printed = re.compile(r"python\s+tools/(\w+\.py)([^`&]*?)(?:`| &|\n\n)")
    given = [one for page in PAGES for one in printed.findall(page.read_text())]
    assert len(given) > 25
    lines = [json.dumps([name, shlex.split(re.sub(r"[][]", "", more))]) for name, more in given]
    others = {path.name for path in (ROOT / "tools").glob("*.py")} - {name for name, _ in given}
    lines += [json.dumps([name, None]) for name in sorted(others)]
    command = [sys.executable, "-c", TRY_TOOLS, str(ROOT / "tools"), str(clip)]
    done = subprocess.run(
        command, input="\n".join(lines), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for stage in ("placement", "probes", "references", "final coding", "guides", "texture"):
        assert stage in done.stdout


def test_the_pages_with_examples_are_known() -> None:
    counts = {str(page.relative_to(ROOT)): len(blocks(page, "python")) for page in PAGES}
    assert {page: count for page, count in counts.items() if count} == {
        "README.md": 1,
        "docs/cookbook.md": 3,
        "docs/pipelines.md": 1,
        "docs/python.md": 11,
    }


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_python_examples_run(
    name: str,
    clip: Path,
    moving_pictures: Callable[..., list[gsvc.Picture]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_package("torch")
    pictures = moving_pictures(40, (256, 144))
    shown: list[tuple[object, ...]] = []

    async def camera() -> AsyncIterator[gsvc.Picture]:
        for picture in pictures[:10]:
            yield picture
            await asyncio.sleep(0.04)

    def show(*what: object) -> None:
        shown.append(what)

    monkeypatch.chdir(tmp_path)
    shutil.copy(clip, "video.mp4")
    names: dict[str, object] = {"pictures": pictures, "camera": camera, "show": show}
    counts = []
    for block in blocks(ROOT / name, "python"):
        shown.clear()
        small = block.replace("VideoFormat(512, 288", "VideoFormat(256, 144")  # costs a quarter
        exec(compile(small, name, "exec"), names)  # noqa: S102
        counts.append(len(shown))
    assert Path("again.mp4").stat().st_size > 1000
    if name == "docs/python.md":
        with gsvc.open_video("frames.mp4") as written:
            assert len(list(written)) == counts[4] == 40 and counts[8] > 0
        assert 10 <= gsvc.info("begin.gsv").frames <= gsvc.info("video.gsv").frames
        assert 10 < counts[3] < 43 and 0 < counts[6] <= 10
        assert 0 < counts[7] <= 10  # the newest win where a busy machine is too slow


def test_the_reference_shows_every_public_name() -> None:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "\n".join(page.read_text() for page in pages)
    names = re.findall(r"^::: gsvc\.(\w+)$", text, re.MULTILINE)
    assert sorted(names) == sorted(set(dir(gsvc)) - {"__version__"})


def test_the_files_that_pages_name_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = {
        (page.name, path)
        for page in pages
        if page.name != "changelog.md"
        for path in re.findall(
            r"`((?:codec|encoders|decoders|eval|datasets|tests)/[^`*]*|tools/\w+\.py)`",
            page.read_text(),
        )
    }
    assert len(named) > 40
    assert not {
        (page, path) for page, path in named if "NAME" not in path and not (ROOT / path).exists()
    }


def test_links_of_the_root_pages_lead_somewhere() -> None:
    """Those of docs/ are `make docs`'s to check."""
    assert (ROOT / "docs/changelog.md").is_symlink(), "a copy goes its own way"
    for page in ROOT.glob("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            if "://" in link:
                continue
            assert (ROOT / path).exists(), f"{page.name}: {link}"
            headings = (
                re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE) if anchor else []
            )
            slugs = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
            assert not anchor or anchor in slugs, link
