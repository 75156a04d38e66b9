from pathlib import Path

import cv2
import pytest

import gsvc
from demo import run
from gsvc import GsvcError
from gsvc.codec.media.video_reader import open_video
from gsvc.eval.layout import markdown
from needs import need_clip, need_models


def test_markdown_is_aligned() -> None:
    table = markdown(["name", "bits"], [["a", "1"], ["longer", "1000"]])
    assert len({len(line) for line in table.splitlines()}) == 1


@pytest.mark.slow
def test_demo_writes_what_it_promises(tmp_path: Path) -> None:
    need_clip("city")
    need_models()
    lines: list[str] = []
    table = run(tmp_path / "demo", 3, lines.append)
    info = gsvc.info(tmp_path / "demo" / "city.gsv")
    assert info.frames == 3
    for what in (str(8 * info.size), "steps 0", "steps 1", "SVT-AV1", "x265"):
        assert what in table
    with open_video(tmp_path / "demo" / "city.mp4") as video:
        assert len(list(video)) == 3
    sheet = cv2.imread(str(tmp_path / "demo" / "city.png"))
    assert sheet is not None and sheet.shape[1] == 3 * 512


def test_demo_needs_a_folder_it_can_write(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a file")
    need_clip("city")
    with pytest.raises(GsvcError, match="demo"):
        run(tmp_path / "demo", 1, lambda line: None)
