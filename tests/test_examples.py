"""The scripts of examples/, run as a user runs them."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

import gsvc
from commands import run_gsvc
from needs import need_package
from panning import write_clip

FOLDER = Path(__file__).resolve().parent.parent / "examples"

if not FOLDER.exists():
    pytest.skip("runs in a checkout, not on an installed wheel", allow_module_level=True)


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(FOLDER / script), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_contact_sheet_shows_the_frames(stream: Path, tmp_path: Path) -> None:
    run("contact_sheet.py", stream, tmp_path / "sheet.png", 5)
    sheet = cv2.imread(str(tmp_path / "sheet.png"))
    assert sheet is not None and sheet.shape == (2 * 48, 3 * 64, 3)
    with stream.open("rb") as file:
        index = gsvc.StreamIndex(file)
        with gsvc.Decoder(index.header, gsvc.DecoderSettings(steps=0)) as decoder:
            (last,) = index.decode(decoder, index.frames - 1, 1)
    assert np.abs(sheet[48:, 64:128, ::-1].astype(int) - last.pixels).max() <= 1
    assert not sheet[48:, 128:].any()


def test_datagrams_keep_a_rate_and_survive_losses_and_a_restart(tmp_path: Path) -> None:
    source = tmp_path / "moving.mp4"
    write_clip(source, [1, 2], frames=95)
    told = run("datagrams.py", source, tmp_path / "shown.mkv", 30_000)
    found = re.fullmatch(r"([\d.]+) kbit/s in all, (\d+) frames, (\d+) concealed\n", told)
    assert found and float(found[1]) < 31
    assert int(found[2]) > 110 and int(found[3]) < int(found[2]) / 2


def test_pieces_come_over_udp_until_there_are_enough(clip: Path, tmp_path: Path) -> None:
    folder, come = tmp_path / "pieces", tmp_path / "come"
    made = gsvc.encode_pieces(clip, folder, packets=6, packet_bytes=200, parity=2)
    first, *paths = sorted(folder.iterdir())
    first.unlink()  # lost
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(FOLDER / "pieces_udp.py"), "receive", str(port), str(come)]
    with subprocess.Popen(command) as receiver:
        wait_until(lambda: Path("/proc/net/udp").read_text().count(f":{port:04X} ") > 0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for datagram in (b"no piece", paths[0].read_bytes(), b"", paths[0].read_bytes()):
                other.sendto(datagram, ("127.0.0.1", port))
        run("pieces_udp.py", "send", folder, "127.0.0.1", port, 1_000_000)
        assert receiver.wait(30) == 0
    assert len(list(come.iterdir())) == made.pieces
    back = tmp_path / "back.mp4"
    assert gsvc.decode(come, back, settings=gsvc.DecoderSettings(steps=0)).frames == made.frames


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_segments_decode_alone_and_lose_no_frame(clip: Path, tmp_path: Path) -> None:
    shown = run("segments.py", clip, tmp_path / "out", 0.3).splitlines()
    made = sorted((tmp_path / "out").iterdir())
    assert [line.split()[0] for line in shown] == [str(path) for path in made]
    assert [path.name for path in made] == ["000000.gsv", "000001.gsv", "000002.gsv"]
    settings, back = gsvc.DecoderSettings(steps=0), tmp_path / "back.mkv"
    reports = [gsvc.decode(path, back, settings=settings, overwrite=True) for path in made]
    assert [report.frames for report in reports] == [8, 8, 4]
    assert [report.duration for report in reports] == pytest.approx([0.32, 0.32, 0.16])


def test_a_receiver_asks_for_a_keyframe_after_a_loss(clip: Path, tmp_path: Path) -> None:
    for every, is_lost in ((100, False), (2, True)):
        target = tmp_path / f"{every}.mp4"
        told = run("lossy_pipe.py", clip, target, every)
        frames, concealed, asked = map(int, re.findall(r"\d+", told))
        assert (concealed > 0) is (asked > 0) is is_lost, told
        assert frames == 20


def test_a_refiner_of_ones_own_changes_the_frames(stream: Path, tmp_path: Path) -> None:
    frames = []
    for steps in (0, 2):
        target = tmp_path / f"{steps}.mkv"
        backend = ("--backend", "sharpen:Sharpen") if steps else ()
        done = run_gsvc("decode", stream, "-o", target, "--steps", steps, *backend, cwd=FOLDER)
        assert done.returncode == 0, done.stderr
        with av.open(target) as container:
            frames.append(next(container.decode(video=0)).to_ndarray(format="gray").astype(float))
    assert np.diff(frames[1]).std() > 1.05 * np.diff(frames[0]).std()


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_package("IPython")
    (tmp_path / "video.mp4").write_bytes(clip.read_bytes())
    monkeypatch.chdir(tmp_path)
    cells = json.loads((FOLDER / "tour.ipynb").read_text())["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102
    shown = capsys.readouterr().out
    assert "20 frames" in shown and "key pictures" in shown and "level 3:" in shown
    assert not any(cell.get("outputs") for cell in cells), "clear the outputs before committing"
