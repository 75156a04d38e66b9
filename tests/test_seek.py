"""Any range of a file, without the rest: the same frames as of decoding it all."""

import io
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import gsvc
from gsvc.codec.media.video_reader import open_video
from gsvc.decoders.streams.reconstruction import DecodedInterval
from needs import need_package

Pictures = Callable[..., list[gsvc.Picture]]
PLAIN = gsvc.DecoderSettings(steps=0)
RATE = Fraction(5)


@pytest.fixture(scope="module", params=["steady", "uneven", "low delay"])
def data(request: pytest.FixtureRequest, moving_pictures: Pictures) -> bytes:
    """Four seconds a group: three groups, the last one after a cut."""
    pictures = moving_pictures(45)
    pictures[35:] = [255 - picture for picture in pictures[35:]]
    uneven = request.param == "uneven"
    video = gsvc.VideoFormat(64, 48, Fraction(1, 90 if uneven else 5), RATE)
    rng = np.random.default_rng(8)
    times = np.cumsum(rng.integers(1, 40, 45)).tolist() if uneven else range(45)
    is_live = request.param == "low delay"
    settings = gsvc.EncoderSettings(level=3, preset="fast", low_delay=is_live, gop=4.0)
    file = io.BytesIO()
    with gsvc.Encoder(video, settings) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        for pts, picture in zip(times, pictures, strict=True):
            for packet in encoder.encode(picture, pts):
                writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    return file.getvalue()


def whole_of(data: bytes, settings: gsvc.DecoderSettings = PLAIN) -> list[gsvc.Frame]:
    reader = gsvc.StreamReader(io.BytesIO(data))
    with gsvc.Decoder(reader.header, settings) as decoder:
        return [frame for packet in reader for frame in decoder.decode(packet)]


def equal(some: list[gsvc.Frame], others: list[gsvc.Frame]) -> bool:
    return len(some) == len(others) and all(
        a.pts == b.pts and np.array_equal(a.pixels, b.pixels)
        for a, b in zip(some, others, strict=True)
    )


def test_every_frame_and_random_ranges_are_those_of_the_whole(data: bytes) -> None:
    whole = whole_of(data)
    index = gsvc.StreamIndex(io.BytesIO(data))
    assert index.times.tolist() == [frame.pts for frame in whole]
    rng = np.random.default_rng(3)
    ranges = [(k, 1) for k in range(0, 45, 2)] + rng.integers(0, 60, (12, 2)).tolist()
    with gsvc.Decoder(index.header, PLAIN) as decoder:
        for first, count in ranges:
            assert equal(list(index.decode(decoder, first, count)), whole[first : first + count])


@pytest.mark.parametrize("data", ["steady"], indirect=True)
def test_refined_frames_are_those_of_the_whole_too(data: bytes) -> None:
    need_package("torch")
    settings = gsvc.DecoderSettings(steps=1)
    whole = whole_of(data, settings)
    index = gsvc.StreamIndex(io.BytesIO(data))
    with gsvc.Decoder(index.header, settings) as decoder:
        assert equal(list(index.decode(decoder, 22, 3)), whole[22:25])


def test_only_what_is_needed_is_decoded(data: bytes) -> None:
    index = gsvc.StreamIndex(io.BytesIO(data))
    groups = sorted({entry.group for entry in index.entries})
    inner = next(
        entry for entry in index.entries if entry.group == groups[1] and entry.number > groups[1]
    )
    packets = [packet for packet, _ in index.packets(inner.first, 1)]
    assert [packet.number for packet in packets] == list(range(groups[1], inner.number + 1))
    assert [packet.pts for packet in packets][-1] == inner.pts
    for entry in index.entries:
        if entry.lead:
            ((first, is_wanted), *_) = index.packets(entry.first, 1)
            assert first.group == groups[groups.index(entry.group) - 1] and not is_wanted


def test_a_seek_draws_only_the_frames_asked_for(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, plain = [], DecodedInterval.picture

    def watched(self: DecodedInterval, number: int) -> gsvc.Picture:
        drawn.append(number)
        return plain(self, number)

    monkeypatch.setattr(DecodedInterval, "picture", watched)
    index = gsvc.StreamIndex(io.BytesIO(data))
    with gsvc.Decoder(index.header, PLAIN) as decoder:
        assert len(list(index.decode(decoder, 22, 2))) == len(drawn) == 2


def test_times_lead_to_frames(data: bytes) -> None:
    index = gsvc.StreamIndex(io.BytesIO(data))
    base = index.header.format.time_base
    for number, pts in enumerate(index.times):
        seconds = (pts - index.times[0]) * base
        assert index.frame_at(float(seconds)) == index.frame_at(float(seconds) + 0.01) == number
        assert not number or index.frame_at(float(seconds) - 0.01) == number - 1
    assert index.frames == 45
    with pytest.raises(gsvc.InputError, match="^the stream ends before 50 s: choose an earlier"):
        index.frame_at(50)
    with gsvc.Decoder(index.header, PLAIN) as decoder, pytest.raises(ValueError, match="0 or more"):
        next(index.decode(decoder, -5, 3))
    for wrong in (float("nan"), -1.0):
        with pytest.raises(gsvc.ConfigError, match=f"^seconds is {wrong}: give 0 or more$"):
            index.frame_at(wrong)


def test_a_decoder_of_another_stream_is_told(data: bytes) -> None:
    index = gsvc.StreamIndex(io.BytesIO(data))
    header = index.header
    wider = replace(header, format=replace(header.format, width=32))
    for other, told in (
        (wider, f"for width 32, this stream has {header.format.width}: make it with index.header"),
        (replace(header, motion_estimator=header.motion_estimator % 2 + 1), "for motion_estimator"),
        (replace(header, tools=header.tools.without("camera")), "for camera 0, this stream has 1"),
    ):
        with gsvc.Decoder(other, PLAIN) as decoder, pytest.raises(gsvc.ConfigError, match=told):
            next(index.decode(decoder, 0, 3))
    with gsvc.Decoder(replace(header, seed=5, model_id=b"abcd"), PLAIN) as decoder:
        assert len(list(index.decode(decoder, 0, 3))) == 3


def test_damage_anywhere_is_found_before_a_frame_is_shown(data: bytes) -> None:
    for position in range(40, len(data), 97):
        damaged = bytearray(data)
        damaged[position] ^= 8
        with pytest.raises(gsvc.BitstreamError):
            gsvc.StreamIndex(io.BytesIO(damaged))


def test_files_can_be_decoded_in_part(
    tmp_path: Path,
    bare_settings: gsvc.EncoderSettings,
    moving_pictures: Pictures,
    write_video: Callable[..., Path],
) -> None:
    source = write_video(tmp_path / "in.mkv", moving_pictures(50), sound=2.0)
    gsvc.encode(source, tmp_path / "it.gsv", settings=bare_settings)
    whole = whole_of((tmp_path / "it.gsv").read_bytes())
    target = tmp_path / "part.nut"
    report = gsvc.decode(tmp_path / "it.gsv", target, settings=PLAIN, start=1.0, frames=10)
    assert report.frames == 10 and report.duration == pytest.approx(0.4)
    with open_video(target) as video:
        shown = list(video)
    begin = Fraction(1, 25) / video.format.time_base
    assert [frame.pts for frame in shown] == [round(n * begin) for n in range(10)]
    for a, b in zip(shown, whole[25:35], strict=True):
        assert np.array_equal(a.pixels, b.pixels)
    with av.open(target) as container:
        heard = sum(frame.samples for frame in container.decode(audio=0)) / 48_000
    assert heard == pytest.approx(0.4, abs=0.05)
    with pytest.raises(gsvc.InputError, match="ends before"):
        gsvc.decode(tmp_path / "it.gsv", tmp_path / "no.nut", settings=PLAIN, start=2.5)
    for wrong in ({"start": -1.0}, {"frames": 0}):
        with pytest.raises(gsvc.ConfigError, match="at least 1"):
            gsvc.decode(tmp_path / "it.gsv", tmp_path / "no.nut", settings=PLAIN, **wrong)
    assert not (tmp_path / "no.nut").exists()
