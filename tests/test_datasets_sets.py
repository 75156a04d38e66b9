"""Finding clips by name, in local copies of the known sets and in the user's own folders."""

import os
import pickle
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from gsvc import ConfigError, Frame, InputError, Picture, VideoFormat
from gsvc.codec.media.video_writer import Y4mEncoder
from gsvc.datasets.clips.clip_reader import RawFormat, format_from_name
from gsvc.datasets.clips.published_sets import MANIFESTS
from gsvc.datasets.clips.sets import SETS, ClipSource, find_clips

LENGTHS = {"uvg": 16, "mcl-jcv": 30, "hevc-b": 5, "hevc-c": 4}


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the copies of the sets lie: empty at first."""
    monkeypatch.setenv("GSVC_DATASETS", str(tmp_path / "library"))
    (tmp_path / "library").mkdir()
    return tmp_path / "library"


def _raw(path: Path, frames: int = 1, *, luma: int = 0, form: RawFormat | None = None) -> Path:
    """A raw file of the shape that its name says: one luma value everywhere, or a sparse file."""
    form = form or format_from_name(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        if luma:
            area = form.width * form.height
            one = bytes([luma]) * area + bytes([128]) * (form.frame_bytes - area)
            file.write(one * frames)
        else:
            file.truncate(frames * form.frame_bytes)
    return path


def _video(path: Path, frames: int = 5, size: tuple[int, int] = (64, 48), rate: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(_picture(*size, index), format="rgb24")
            container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode(None))
    return path


def _picture(width: int, height: int, index: int) -> Picture:
    return np.full((height, width, 3), 20 * index + 30, np.uint8)


def _names(sources: list[ClipSource]) -> list[str]:
    return [source.name for source in sources]


def _y4m(path: Path, pictures: list[Picture], rate: int) -> Path:
    height, width = pictures[0].shape[:2]
    with path.open("wb") as file:
        form = VideoFormat(width, height, Fraction(1, rate), Fraction(rate))
        encoder = Y4mEncoder(file, form, path.name)
        for index, picture in enumerate(pictures):
            encoder.write(Frame(picture, index))
    return path


def _images(folder: Path, pictures: list[Picture], first: int = 0) -> Path:
    folder.mkdir(parents=True)
    for index, picture in enumerate(pictures, first):
        with av.open(str(folder / f"im{index}.png"), "w", format="image2") as container:
            stream = container.add_stream("png")
            stream.height, stream.width = picture.shape[:2]
            stream.pix_fmt = "rgb24"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
    return folder


PUBLISHED = [
    f"{manifest.name}/{sequence.name}"
    for manifest in MANIFESTS.values()
    for sequence in manifest.sequences
]


def test_the_sets_are_complete_and_no_two_names_are_alike() -> None:
    for name, length in LENGTHS.items():
        assert len(find_clips([name])) == length
    everything = find_clips(SETS)
    assert len(everything) == sum(LENGTHS.values()) + 5 + 6 + 6
    assert len({source.name.lower() for source in everything}) == len(everything)
    assert all(source.description for source in everything)


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_sequence_is_read_by_its_official_file_name(library: Path, name: str) -> None:
    set_name, _, member = name.partition("/")
    sequence = MANIFESTS[set_name].sequence(member)
    _raw(library / set_name / sequence.file_name, 2)
    [source] = find_clips([name])
    clip = source.load(frames=2)
    width, height = sequence.sizes[0]
    assert (source.name, source.set) == (sequence.name, set_name)
    assert clip.format.height == 288
    assert abs(clip.format.width - 288 * width / height) <= 1
    assert (clip.frame_rate, clip.format.frame_count) == (sequence.frame_rate, 2)


def test_known_rates_and_lengths() -> None:
    """The sums that the publications give: 120 and 50 fps; 24, 25 and 30 fps; 24, 50 and 60 fps."""
    rates = {name: [s.frame_rate for s in MANIFESTS[name].sequences] for name in MANIFESTS}
    assert [rates["uvg"].count(Fraction(rate)) for rate in (120, 50)] == [8, 8]
    assert [rates["mcl-jcv"].count(Fraction(rate)) for rate in (24, 25, 30)] == [7, 7, 16]
    assert sorted(rates["hevc-b"]) == [24, 24, 50, 50, 60]
    assert sorted(rates["hevc-c"]) == [30, 50, 50, 60]
    assert {s.frames for s in MANIFESTS["mcl-jcv"].sequences} == {120, 125, 150}


def test_the_copy_the_field_uses_is_preferred(library: Path) -> None:
    for name, luma in {
        "Beauty_3840x2160.yuv": 60,
        "Beauty_3840x2160_120fps_420_10bit_YUV.yuv": 0,
        "deep/er/Beauty_1920x1080_120fps_420_8bit_YUV.yuv": 200,
        "Beauty_1920x1080_120fps_420_10bit_YUV.yuv": 0,
        "Beauty_1280x720_120fps.yuv": 100,
        "BeautyContest_1920x1080_120fps.yuv": 100,
    }.items():
        uhd = RawFormat(3840, 2160, Fraction(120))
        _raw(library / name, luma=luma, form=uhd if name == "Beauty_3840x2160.yuv" else None)
    clip = find_clips(["uvg/beauty"])[0].load("native", 1)
    assert clip.frames[0].shape == (1080, 1920, 3)
    assert abs(int(clip.frames[0].mean()) - (200 - 16) * 255 / 219) < 2
    (library / "deep/er/Beauty_1920x1080_120fps_420_8bit_YUV.yuv").unlink()
    (library / "Beauty_1920x1080_120fps_420_10bit_YUV.yuv").unlink()
    assert find_clips(["uvg/Beauty"])[0].load("native", 1).format.width == 3840


def test_other_names_classes_and_links(library: Path, tmp_path: Path) -> None:
    _raw(library / "ReadySetGo_1920x1080_120fps_420_8bit_YUV.yuv")
    _raw(library / "D" / "RaceHorses_416x240_30.yuv")
    elsewhere = tmp_path / "disk"
    _raw(elsewhere / "C" / "RaceHorses_832x480_30.yuv")
    (elsewhere / "C" / "loop").symlink_to(elsewhere)
    (library / "hevc").symlink_to(elsewhere)
    assert find_clips(["uvg/ReadySteadyGo"])[0].load("native").format.frame_count == 1
    assert find_clips(["hevc-c/RaceHorses"])[0].load("native").format.width == 832


def test_y4m_and_images_are_copies_too(library: Path) -> None:
    pictures = [_picture(832, 480, index) for index in range(3)]
    _y4m(library / "BQMall_832x480_60.y4m", pictures, 60)
    _images(library / "PartyScene", pictures, first=9)
    mall, party = (find_clips([f"hevc-c/{name}"])[0].load() for name in ("BQMall", "PartyScene"))
    assert [mall.frame_rate, party.frame_rate] == [60, 50]
    for index in range(3):
        assert abs(mall.frames[index].astype(int) - party.frames[index]).max() <= 3
        assert abs(party.frames[index].astype(int) - (20 * index + 30)).max() == 0


def test_a_missing_copy_says_where_to_get_it_and_where_to_put_it(library: Path) -> None:
    [source] = find_clips(["uvg/Jockey"])
    with pytest.raises(InputError) as caught:
        source.load()
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(library), "https://ultravideo.fi", "Jockey_1920x1080", "GSVC_DATASETS"):
        assert part in message
    _raw(library / "Jockey_640x360_120.yuv")
    with pytest.raises(InputError, match="Jockey_640x360_120.yuv is of another size or rate"):
        source.load()
    _raw(library / "Jockey.yuv", form=RawFormat(1920, 1080, Fraction(120)))
    with pytest.raises(InputError, match="put 1920x1080 or 3840x2160 into its name"):
        source.load()


def test_a_copy_of_another_size_is_refused(library: Path) -> None:
    _y4m(library / "Cactus.y4m", [_picture(64, 48, 0)], 50)
    with pytest.raises(InputError, match="has 64x48, but Cactus has 1920x1080"):
        find_clips(["hevc-b/Cactus"])[0].load()


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _raw(tmp_path / "mine" / "videoSRC05_1920x1080_25.yuv")
    monkeypatch.setenv("GSVC_DATASETS", str(tmp_path / "none"))
    with pytest.raises(InputError, match="no copy"):
        find_clips(["mcl-jcv/videoSRC05"])[0].load()
    monkeypatch.setenv("GSVC_DATASETS", str(tmp_path / "mine"))
    assert find_clips(["mcl-jcv/videoSRC05"])[0].load().frame_rate == 25


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("uvg2", "packaged, locked, uvg, mcl-jcv, hevc-b, hevc-c, synthetic"),
        ("no/such/file.mp4", "packaged"),
        ("packaged/foreman", "carphone, bikes"),
        ("synthetic/zoom", "still, pan"),
        ("hevc-b/BQMall", "Kimono1, ParkScene"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(name: str, known: str) -> None:
    with pytest.raises(ConfigError, match=known) as caught:
        find_clips(["synthetic", name])
    assert "\n" not in str(caught.value)


def test_a_folder_gives_its_videos_and_image_sequences(tmp_path: Path) -> None:
    folder = tmp_path / "my clips"
    _video(folder / "b.mkv", 5)
    _video(folder / "a b!.mkv", 3)
    (folder / "notes.txt").write_text("not a video")
    (folder / "empty").mkdir()
    _images(folder / "frames [1]", [_picture(64, 48, index) for index in range(4)])
    sources = find_clips([str(folder)])
    assert _names(sources) == ["a-b", "b", "frames-1"]
    clips = [source.load("native") for source in sources]
    assert [clip.format.frame_count for clip in clips] == [3, 5, 4]
    assert [clip.frame_rate for clip in clips] == [10, 10, 25]
    np.testing.assert_array_equal(clips[2].frames[3], _picture(64, 48, 3))
    assert {source.set for source in sources} == {"user"}


def test_one_bad_file_does_not_harm_the_others(tmp_path: Path) -> None:
    _video(tmp_path / "clips" / "good.mkv")
    (tmp_path / "clips" / "bad.mp4").write_bytes(b"this is no video")
    (tmp_path / "clips" / "cut_64x48_25.yuv").write_bytes(b"\x10" * 100)
    (tmp_path / "clips" / "gone.mp4").symlink_to(tmp_path / "nowhere.mp4")
    sources = {source.name: source for source in find_clips([str(tmp_path / "clips")])}
    assert sources["good"].load(frames=None).format.frame_count == 5
    for name in ("bad", "cut_64x48_25", "gone"):
        with pytest.raises(InputError, match=name):
            sources[name].load()


def test_a_users_names_are_unique_and_each_clip_comes_once(tmp_path: Path) -> None:
    one, two = _video(tmp_path / "1" / "city.mkv"), _video(tmp_path / "2" / "city.mkv")
    names = ["packaged", str(one), str(one.parent), str(two), "packaged/city"]
    assert _names(find_clips(names))[-3:] == ["vtest", "city-2", "city-3"]
    assert len(find_clips(names)) == 7


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="no video"):
        find_clips([str(tmp_path / "nothing")])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0)
    with pytest.raises(InputError, match="cannot be read"):
        find_clips([str(tmp_path / "shut")])


def test_sources_travel_to_other_processes() -> None:
    [source] = pickle.loads(pickle.dumps(find_clips(["synthetic/pan"])))
    assert source.load(frames=2).sha256 == find_clips(["synthetic/pan"])[0].load(frames=2).sha256


@pytest.mark.parametrize(
    ("size", "frames", "complaint"), [("720", 5, "288, 480, native"), ("288", 0, "1 or more")]
)
def test_sizes_and_lengths_that_do_not_exist(size: str, frames: int, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        find_clips(["synthetic/still"])[0].load(size, frames)


def test_even_sides_at_both_sizes(tmp_path: Path) -> None:
    [source] = find_clips([str(_video(tmp_path / "odd.mkv", 2, (178, 102)))])
    assert source.load("288").frames[0].shape == (288, 502, 3)
    assert source.load("480").frames[0].shape == (480, 838, 3)
    assert source.load("native").frames[0].shape == (102, 178, 3)
