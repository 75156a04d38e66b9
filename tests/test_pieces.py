"""Pieces: a budget of bytes is kept, and whatever arrives, in any order, shows something."""

import json
import os
import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gsvc
from commands import FAILED, USAGE, assert_one_line, run_gsvc
from gsvc import BitstreamError, ConfigError, InputError, OutputError
from gsvc.codec.api.inspection import info_lines
from gsvc.codec.bitstream.pieces import gather, split

Pictures = Callable[..., list[gsvc.Picture]]
FAST = gsvc.EncoderSettings(preset="fast", face_weight=1)
BARE = "--preset", "fast", "--face-weight", "1"
PLAIN = gsvc.DecoderSettings(steps=0)
SHOWN = gsvc.DecoderSettings(steps=0, conceal=True)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, moving_pictures: Pictures) -> Path:
    """192x128."""
    path = tmp_path_factory.mktemp("image") / "photo.png"
    cv2.imwrite(str(path), moving_pictures(1, (192, 128))[0])
    return path


@pytest.fixture(scope="module")
def still(image: Path) -> list[bytes]:
    """At most 8 pieces of at most 90 bytes."""
    folder = image.parent / "still"
    report = gsvc.encode_pieces(image, folder, packets=8, packet_bytes=90, settings=FAST)
    pieces = read(folder)
    assert report.pieces == len(pieces) and report.size == sum(map(len, pieces))
    assert report.preview is not None and report.frames == 1
    return pieces


@pytest.fixture(scope="module")
def video(
    tmp_path_factory: pytest.TempPathFactory,
    moving_pictures: Pictures,
    write_video: Callable[..., Path],
) -> Path:
    """128x96, 50 frames, 2 s of sound."""
    path = tmp_path_factory.mktemp("video") / "video.mp4"
    return write_video(path, moving_pictures(50, (128, 96)), sound=2)


def read(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def write(folder: Path, pieces: list[bytes]) -> Path:
    """Under names that tell nothing of their order."""
    folder.mkdir()
    for number, piece in enumerate(pieces):
        (folder / f"{hash(piece) & 0xFFFF}-{number}").write_bytes(piece)
    return folder


def test_the_budget_is_kept(still: list[bytes]) -> None:
    assert 4 <= len(still) <= 8 and all(len(piece) <= 90 for piece in still)
    assert sum(map(len, still)) > 0.85 * 8 * 90


def test_pieces_in_any_order_make_the_same_stream(still: list[bytes], tmp_path: Path) -> None:
    whole = gather(still)
    assert not whole.missing and not whole.is_preview
    mixed = random.sample([*still, *still[:3]], len(still) + 3)  # some of them twice
    assert gather(mixed) == whole
    (tmp_path / "a.gsv").write_bytes(whole.stream)
    assert gsvc.info(tmp_path / "a.gsv").frames == 1
    told = "\n".join(info_lines(gsvc.info(tmp_path / "a.gsv")))
    assert "1, a still" in told and re.search(r" rate +\d\.\d+ bpp\n", told)
    for source in (write(tmp_path / "mixed", mixed), tmp_path / "a.gsv"):
        gsvc.decode(source, tmp_path / "a.png", settings=PLAIN, overwrite=True)
        with Image.open(tmp_path / "a.png") as shown:
            assert shown.size == (192, 128)


def test_a_stream_is_the_same_after_pieces_of_any_size(still: list[bytes]) -> None:
    stream = gather(still).stream
    for size in (30, 64, 200, 5000):
        pieces = split(stream, None, 4096, size)
        assert all(len(piece) <= size for piece in pieces)
        assert gather(pieces[::-1]).stream == stream
    with pytest.raises(ConfigError, match="do not fit"):
        split(stream, None, 2, 30)


@pytest.mark.parametrize("lost", range(8))
def test_each_lost_piece_leaves_something_to_see(
    still: list[bytes], tmp_path: Path, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Without piece 0 the picture, without 1 the preview, else the upper part over the preview."""
    if lost >= len(still):
        pytest.skip("there are fewer pieces")
    folder, most = write(tmp_path / "some", still[:lost] + still[lost + 1 :]), len(still) - 1
    report = gsvc.decode(folder, tmp_path / "a.png", settings=SHOWN)
    told = f"missing pieces: {lost} (of 0 to {most}); {most} came, {most + 1} are needed; "
    assert told in caplog.text
    with Image.open(tmp_path / "a.png") as shown:
        assert shown.size == (report.width, report.height)
    assert report.width < 192 if lost == 1 else report.width == 192
    (folder / "late").write_bytes(still[lost])
    caplog.clear()
    assert gsvc.decode(folder, tmp_path / "b.png", settings=PLAIN).width == 192
    assert "missing" not in caplog.text


def test_each_third_of_the_pieces_brings_the_picture_nearer(
    still: list[bytes], tmp_path: Path
) -> None:
    """From the top down it is the whole picture, also where the preview is lost."""

    def shown(pieces: list[bytes]) -> NDArray[np.int16]:
        folder = write(tmp_path / f"{len(list(tmp_path.iterdir()))}", pieces)
        gsvc.decode(folder, tmp_path / "a.png", settings=SHOWN, overwrite=True)
        with Image.open(tmp_path / "a.png") as picture:
            return np.asarray(picture.resize((192, 128)), np.int16)

    whole, third = shown(still), len(still) // 3
    parts = [whole, shown(still[: 2 * third]), shown(still[:third]), shown(still[:1])]
    errors = [np.abs(part - whole).mean() for part in parts]
    assert errors == sorted(errors) and len(set(errors)) == 4
    without_preview = shown(still[1 : 2 * third])
    assert np.abs(without_preview - whole)[:32, :32].mean() < 1
    assert (without_preview[-8:, -32:] == 128).all()
    assert gather(still[1 : 2 * third]).shown == "the upper part of a picture"


def test_a_piece_that_shows_nothing_of_the_picture_is_told(
    still: list[bytes], tmp_path: Path
) -> None:
    assert gather(still[:2]).without_drafts().shown == "the preview"
    pieces = split(gather(still).stream, None, 150, 40)
    with pytest.raises(
        gsvc.BitstreamError, match="1 of .* show nothing yet: have 1 sent again, then 2, "
    ):
        gsvc.decode(write(tmp_path / "a", pieces[:1]), tmp_path / "a.png", settings=PLAIN)


@pytest.mark.parametrize(("count", "parity"), [(1, 2), (12, 3), (40, 4), (200, 56)])
def test_parity_makes_any_lost_pieces_good(still: list[bytes], count: int, parity: int) -> None:
    stream = gather(still).stream
    size = len(stream) // count + 20
    pieces = split(stream, None, count, size, parity)
    own = len(pieces) - parity
    assert own <= count and all(len(piece) <= size for piece in pieces)
    for _ in range(5):
        here = random.sample(range(len(pieces)), own)
        found = gather([pieces[number] for number in here])
        assert found.stream == stream and not found.missing
        assert sorted(found.repaired) == sorted(set(range(own)) - set(here))
    if own > 1:
        with pytest.raises(BitstreamError, match="show nothing yet"):
            gather(random.sample(pieces[1:], own - 1))
        if 2 < parity < own:
            told = f"^{parity} of the {own} .* nothing yet: any {own - parity} more show all$"
            with pytest.raises(BitstreamError, match=told):
                gather(pieces[-parity:])


def test_damaged_parity_makes_nothing_good(still: list[bytes]) -> None:
    *own, first, second = split(gather(still).stream, None, 40, 60, 2)
    changed = first[:-1] + bytes([first[-1] ^ 1])
    with pytest.raises(BitstreamError, match="damaged"):
        gather([*own[1:], changed])
    with pytest.raises(BitstreamError, match="different lengths"):
        gather([*own[2:], first[:-3], second])
    with pytest.raises(BitstreamError, match="piece 250 of"):
        gather([*own[1:], first[:3] + b"\xfa\x01" + first[4:]])
    assert not gather([*own, changed]).missing  # nothing is lost: it is not looked at


def test_lost_pieces_of_a_folder_are_told_and_made_good(image: Path, tmp_path: Path) -> None:
    budget = "--packets", 8, "--packet-bytes", 90, "--parity", 2
    done = run_gsvc("encode", image, "-o", tmp_path / "a", *budget, *BARE)
    assert done.returncode == 0, done.stderr
    paths = sorted((tmp_path / "a").iterdir())
    sent = sum(path.stat().st_size + 28 for path in paths)
    assert f" ({sent} over UDP) in {len(paths) - 2} pieces" in done.stderr.decode()
    assert len(paths) <= 8 + 2 and max(len(path.read_bytes()) for path in paths) <= 90
    for path in paths[1:3]:
        path.unlink()
    done = run_gsvc("decode", tmp_path / "a", tmp_path / "a.png", "--steps", 0)
    assert done.returncode == 0 and b"missing" not in done.stderr
    with Image.open(tmp_path / "a.png") as shown:
        assert shown.size == (192, 128)
    told = run_gsvc("info", tmp_path / "a").stdout.decode()
    assert re.search(r"made good +1, 2\n", told) and re.search(r"missing +none\n", told)
    assert re.search(r" here +\d of \d \(0 to \d\), and 2 of parity\n", told)
    here = sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    assert f" {here} bytes of pieces\n" in told
    for rate in ("frames/s", "kbit/s", "start-up"):
        assert rate not in told, "a still has none"
    paths[3].unlink()
    info, lack = run_gsvc("info", tmp_path / "a"), "missing pieces: 1, 2, 3 (of 0 to "
    told = info.stdout.decode()
    assert re.search(r"missing +1, 2, 3\n", told) and "the preview" in told
    assert_one_line(info, FAILED, lack, " and 2 of parity came, ", " are needed; ")
    (tmp_path / "a.png").unlink()
    done = run_gsvc("decode", tmp_path / "a", tmp_path / "a.png", "--steps", 0)
    assert_one_line(done, FAILED, lack, "the preview is shown as a still")
    picture = (tmp_path / "a.png").read_bytes()
    done = run_gsvc("decode", tmp_path / "a", tmp_path / "a.png", "--steps=0", "--conceal", "-y")
    assert done.returncode == 0 and lack.encode() in done.stderr
    assert (tmp_path / "a.png").read_bytes() == picture
    (line, *_) = run_gsvc("info", tmp_path / "a", "--json").stdout.decode().splitlines()
    assert json.loads(line)["missing"] == [1, 2, 3]


def test_a_loss_chooses_the_parity_with_which_a_transfer_in_100_fails_at_most(
    image: Path, tmp_path: Path
) -> None:
    budget = "--packets", 8, "--packet-bytes", 90, *BARE
    done = run_gsvc("encode", image, "-o", tmp_path / "a", *budget, "--loss", "10%")
    told = re.search(
        rb" in (\d) pieces \+ (\d) of parity, \d+ to send, of which any \2 may be lost, at 10 % "
        rb"loss ([\d.]+) % of transfers fail, ",
        done.stderr,
    )
    assert told is not None, done.stderr
    count, parity = int(told[1]), int(told[2])
    draw, trials = random.Random(1), 20_000
    for fewer, is_enough in ((0, True), (1, False)):
        most = parity - fewer
        lost = (sum(draw.random() < 0.1 for _ in range(count + most)) for _ in range(trials))
        share = sum(n > most for n in lost) / trials
        assert (share <= 0.01) is is_enough
        if is_enough:
            assert share == pytest.approx(float(told[3]) / 100, abs=0.003)
    own = gsvc.encode_pieces(
        image, tmp_path / "b", packets=8, packet_bytes=90, loss=0.1, parity=1, settings=FAST
    )
    assert (own.parity, own.loss) == (1, 0.1)
    with pytest.raises(ConfigError, match="0.1 for 10 %"):
        gsvc.encode_pieces(image, tmp_path / "c", packets=8, packet_bytes=90, loss=10.0)


def test_a_receiver_knows_when_it_has_enough(still: list[bytes]) -> None:
    pieces = split(gather(still).stream, None, 20, 60, 3)
    own, here = len(pieces) - 3, list[bytes]()
    assert gsvc.pieces_needed(here) > 0
    for number, piece in enumerate(random.sample(pieces, len(pieces))):
        here += [piece, piece]
        assert gsvc.pieces_needed(here) == max(0, own - number - 1)
        if not gsvc.pieces_needed(here):
            assert gather(here).stream == gather(still).stream
    for other in (b"GSV", still[0]):
        with pytest.raises(BitstreamError):
            gsvc.pieces_needed([*here, other])


def test_what_is_no_set_of_pieces_is_refused(still: list[bytes], tmp_path: Path) -> None:
    changed = bytearray(still[1])
    changed[1] ^= 1  # of another stream
    with pytest.raises(BitstreamError, match="different streams"):
        gather([*still, bytes(changed)])
    changed = bytearray(still[2])
    changed[-1] ^= 1
    with pytest.raises(BitstreamError, match="different streams"):
        gather([*still, bytes(changed)])  # the same number, other bytes
    with pytest.raises(BitstreamError, match="damaged"):
        gather([*still[:2], bytes(changed), *still[3:]])
    with pytest.raises(BitstreamError, match="not a piece"):
        gather([*still, b"GSV"])
    with pytest.raises(BitstreamError, match="show nothing yet"):
        gather(still[2:4])
    for cut in range(1, 6):
        with pytest.raises(BitstreamError):
            gather([still[0][:cut]])
    with pytest.raises(BitstreamError, match="no piece"):
        gsvc.decode([], tmp_path / "a.png")
    with pytest.raises(InputError, match="folder"):
        gsvc.decode(write(tmp_path / "none", [b"", b"GSV", b"text"]), tmp_path / "a.png")


@pytest.mark.slow
def test_seconds_of_a_video_without_its_sound(video: Path, tmp_path: Path) -> None:
    done = run_gsvc(
        "encode", video, "-o", tmp_path / "v", "--packets", 8, "--packet-bytes", 120, *BARE
    )
    assert done.returncode == 0, done.stderr
    pieces = read(tmp_path / "v")
    assert len(pieces) <= 8 and max(map(len, pieces)) <= 120
    told = gsvc.info(tmp_path / "v")
    assert told.frames > 5 and not told.header.audio
    frames = []
    for lost in range(len(pieces)):
        some = write(tmp_path / f"without{lost}", pieces[:lost] + pieces[lost + 1 :])
        target = tmp_path / f"{lost}.mp4"
        with pytest.raises(gsvc.TruncatedStreamError, match=f"missing pieces: {lost} "):
            gsvc.decode(some, target, settings=PLAIN)
        frames.append(gsvc.decode(some, target, settings=SHOWN, overwrite=True).frames)
    assert min(frames) >= 1 and max(frames) >= told.frames
    names = sorted((tmp_path / "v").iterdir())[::-1]
    assert run_gsvc("decode", *names, tmp_path / "all.mp4", "--steps", 0).returncode == 0
    assert gsvc.decode(names, tmp_path / "again.mp4", settings=PLAIN).frames == told.frames


def test_what_cannot_be_is_told(image: Path, tmp_path: Path) -> None:
    def refused(*options: object) -> str:
        done = run_gsvc("encode", image, "-o", tmp_path / "a", *options, *BARE)
        assert done.returncode != 0 and not list(tmp_path.iterdir())
        (line,) = done.stderr.decode().splitlines()[-1:]
        return line

    assert "go together" in refused("--packets", 3)
    assert "go together" in refused("--packet-bytes", 237)
    assert "allow" in refused("--packets", 3, "--packet-bytes", 4)
    assert "--parity is for pieces" in refused("--parity", 3)
    assert "--loss is for pieces" in refused("--loss", "10%")
    assert "write 10% or 0.1" in refused("--packets", 3, "--packet-bytes", 90, "--loss", "10")
    assert "fewer, larger" in refused("--packets", 250, "--packet-bytes", 90, "--loss", "10%")
    assert "0 to 6" in refused("--packets", 250, "--packet-bytes", 90, "--parity", 7)
    assert "not allowed with" in refused("--packets", 3, "--packet-bytes", 90, "--target-size", 9)
    assert "leave one out" in refused("--packets", 3, "--packet-bytes", 90, "-n")
    with pytest.raises(ConfigError, match=r"about the least is \d+ x 40") as told:
        gsvc.encode_pieces(image, tmp_path / "a", packets=1, packet_bytes=40, settings=FAST)
    with pytest.raises(ConfigError, match="read but once"):
        gsvc.encode_pieces("-", tmp_path / "a", packets=9, packet_bytes=90)
    assert not list(tmp_path.iterdir())
    os.mkfifo(pipe := tmp_path / "pipe")
    for goal in ("--packets=9 --packet-bytes=90", "--target-size=900", "--total-bitrate=9k"):
        out = ("-o", tmp_path / "a.gsv", *goal.split())
        assert_one_line(run_gsvc("encode", pipe, *out), USAGE, "pipe can be read but once")
    pipe.unlink()
    least = int(re.findall(r"(\d+) x 40", str(told.value))[-1])
    gsvc.encode_pieces(image, tmp_path / "a", packets=least, packet_bytes=40, settings=FAST)


def test_pieces_are_replaced_only_when_asked(image: Path, tmp_path: Path) -> None:
    def made(count: int, *, overwrite: bool = False) -> int:
        folder = tmp_path / "a"
        done = gsvc.encode_pieces(
            image, folder, packets=count, packet_bytes=180, settings=FAST, overwrite=overwrite
        )
        return done.pieces

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.piece").write_text("mine")
    made(3)
    with pytest.raises(OutputError, match="has pieces already"):
        made(2)
    count = made(2, overwrite=True)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [*(f"{n}.piece" for n in range(count)), "notes.piece"]


@pytest.mark.slow
def test_a_still_of_few_bytes_shrinks_until_it_fits(tmp_path: Path) -> None:
    noise = cv2.randu(cv2.UMat(480, 640, cv2.CV_8UC3), 0, 255).get()
    cv2.imwrite(str(tmp_path / "noise.png"), noise)
    sizes = []
    for target in (400, 2000):
        made = gsvc.encode(
            tmp_path / "noise.png", tmp_path / f"{target}.gsv", settings=FAST, target_size=target
        )
        assert made.size <= target
        sizes.append(made.width)
    assert all(small < large for small, large in pairwise(sizes))
