"""The Python of the README runs as it stands, block after block."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import gsvc

README = Path(__file__).resolve().parent.parent / "README.md"


@pytest.mark.skipif(not README.exists(), reason="runs in a checkout, not on an installed wheel")
def test_python_examples_run(
    clip: Path,
    moving_pictures: Callable[..., list[gsvc.Picture]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch")
    pictures = moving_pictures(40, (512, 288))
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
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 7
    counts = []
    for block in blocks:
        shown.clear()
        exec(compile(block, str(README), "exec"), names)  # noqa: S102
        counts.append(len(shown))
    assert counts[1] == 40 and counts[6] > 0
    assert 10 < counts[3] < 43 and 0 < counts[4] <= 10
    assert 0 < counts[5] <= 10  # the newest win where a busy machine is too slow
    assert Path("again.mp4").stat().st_size > 1000
