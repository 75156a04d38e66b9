"""Pretrained back ends through diffusers' own pipelines, tiny and random: streams to frames."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gsvc
from gsvc import ConfigError, decode_stream
from gsvc.codec.bitstream.container import decoded_frames
from gsvc.codec.bitstream.stream_info import read_info
from gsvc.codec.weights.hub import HUB_MODELS
from gsvc.decoders.keyframes.keyframe import Keyframe
from pretrained_windows import WINDOWED, decode, window_of

Pictures = Callable[..., list[gsvc.Picture]]


@pytest.mark.parametrize("name", WINDOWED)
def test_from_stream_to_frames(name: str, tiny: Callable[[str], Any], cut_stream: bytes) -> None:
    """All frames, once, at their times, the same each time; and other frames than plain ones."""
    plain, refiner = decode(cut_stream), tiny(name)
    reader = gsvc.StreamReader(io.BytesIO(cut_stream))
    with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=1), refiner=refiner) as decoder:
        assert decoder.delay == refiner.delay == 32
        shown = list(decoded_frames(decoder, ((packet, True) for packet in reader)))
    assert [frame.pts for frame in shown] == [frame.pts for frame in plain]
    assert all(frame.pixels.shape == (50, 66, 3) for frame in shown)
    assert any(not np.array_equal(a.pixels, b.pixels) for a, b in zip(shown, plain, strict=True))
    if name == "ltx":
        assert decode(cut_stream, refiner) == shown


def test_sizes_and_lengths(tiny: Callable[[str], Any]) -> None:
    """One frame, odd sides, sides below the model's multiple."""
    for name in WINDOWED:
        for count, size in ((1, (50, 66)), (9, (17, 33))):
            frames, keys, confidence = window_of(count, size)
            shown = tiny(name).restore(frames, keys, confidence, steps=1, seed=0)
            assert [one.shape for one in shown] == [(*size, 3)] * count, name


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # of diffusers' scheduler
def test_sd_turbo_restores_key_pictures(tiny: Callable[[str], Any], cut_stream: bytes) -> None:
    refiner = tiny("sd-turbo")
    assert len(decode(cut_stream, refiner)) == 26
    key = Keyframe.of(np.full((50, 66, 3), 90, np.uint8), None, 40, 1)
    one, two = (refiner.refine(key, steps=2, seed=3) for _ in "ab")
    assert one.shape == (50, 66, 3) and np.array_equal(one, two)


def test_key_pictures_are_pasted_if_asked(tiny: Callable[[str], Any], cut_stream: bytes) -> None:
    plain, refiner = decode(cut_stream), tiny("wan-v2v")
    shown = [frame.pixels for frame in decode(cut_stream, refiner, paste_keys=True)]
    refiner.pastes_keys = False
    others = [frame.pixels for frame in decode(cut_stream, refiner)]
    pasted = [at for at in range(26) if not np.array_equal(shown[at], others[at])]
    assert pasted and 1 not in pasted
    assert all(np.array_equal(shown[at], plain[at].pixels) for at in pasted)


def test_asyncio_files_and_resuming(
    tiny: Callable[[str], Any], cut_stream: bytes, tmp_path: Path
) -> None:
    """The same frames by asyncio and from kept windows; a file of them."""
    refiner, kept = tiny("ltx"), str(tmp_path / "kept")
    whole = decode(cut_stream, refiner, resume=kept)
    reader = gsvc.StreamReader(io.BytesIO(cut_stream))

    async def source() -> AsyncIterator[gsvc.Packet]:
        for packet in reader:
            yield packet

    async def shown() -> list[gsvc.Frame]:
        settings = gsvc.DecoderSettings(steps=1)
        decoder = gsvc.Decoder(reader.header, settings, refiner=refiner)
        return [frame async for frame in decode_stream(decoder, source())]

    assert asyncio.run(shown()) == whole
    windows = sorted(Path(kept).glob("*.safetensors"))
    windows[0].write_bytes(b"torn")
    (tmp_path / "it.gsv").write_bytes(cut_stream)
    settings = gsvc.DecoderSettings(steps=1, backend="ltx", resume=kept)
    report = gsvc.decode(tmp_path / "it.gsv", tmp_path / "it.y4m", settings=settings)
    assert report.frames == 26 and sorted(Path(kept).glob("*.safetensors")) == windows
    refiner._pipeline = None  # nothing is drawn: all windows are kept ones
    assert decode(cut_stream, refiner, resume=kept) == whole and refiner._pipeline is None


def test_a_stream_for_a_model_has_its_pictures_on_the_grid(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(60)
    form = gsvc.VideoFormat(64, 48, Fraction(1, 10), Fraction(10))
    settings = gsvc.EncoderSettings(level=1, preset="fast", target_backend="ltx")
    with gsvc.Encoder(form, settings) as encoder:
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        packets += encoder.flush()
        header = encoder.header
    assert header.model_id == HUB_MODELS["ltx"].hint
    file = io.BytesIO()
    writer = gsvc.StreamWriter(file, header)
    for packet in packets:
        writer.write(packet)
    keys = [
        key
        for packet in read_info(io.BytesIO(file.getvalue())).packets
        for key in packet.key_frames
    ]
    assert keys[0] == 0 and len(keys) > 3
    for start, end in pairwise(keys[:-1]):
        crossed = [at for at in range(start + 1, end) if at % 8 == 0]
        assert not crossed or (start % 8 == end % 8 == 0), (start, end)
    assert len(decode(file.getvalue())) == 60  # any decoder decodes it
    for wrong in ({"target_backend": "none"}, {"target_backend": "ltx", "low_delay": True}):
        with pytest.raises(ConfigError, match="no hub model 'none'|needs look-ahead"):
            gsvc.EncoderSettings(**wrong)
