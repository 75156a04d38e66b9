"""Colour is left at low levels: chroma is companded where coding would drop it."""

from fractions import Fraction

import av
import cv2
import numpy as np
from numpy.typing import NDArray

import gsvc
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.media.color import compand_chroma, expand_chroma

SIZE = 192, 144


def street(strength: float, frames: int = 24) -> list[NDArray[np.uint8]]:
    """A camera that pans over grey detail and large patches of a colour of this strength."""
    rng = np.random.default_rng(5)
    detail = cv2.resize(rng.integers(40, 215, (36, 160), np.uint8), (1280, 288))
    patches = cv2.resize(rng.choice([-1.0, 1.0], (3, 14, 2)), (1280, 288))
    wide = np.dstack([detail, 128 + strength * patches]).clip(0, 255).astype(np.uint8)
    colored = cv2.cvtColor(wide, cv2.COLOR_YCrCb2RGB)
    width, height = SIZE
    views = (colored[40 : 40 + height, 18 * n : 18 * n + width] for n in range(frames))
    return [np.ascontiguousarray(view) for view in views]


def color_left(sources: list[NDArray[np.uint8]], shown: list[NDArray[np.uint8]]) -> float:
    """The share of the sources' colour that is shown."""
    own, kept = (
        np.stack([cv2.cvtColor(one, cv2.COLOR_RGB2YCrCb)[..., 1:] for one in given]) - 128.0
        for given in (sources, shown)
    )
    return float((own * kept).mean() / (own**2).mean())


def test_companded_chroma_comes_back() -> None:
    width, height = 16, 32
    planes = np.zeros((height * 3 // 2, width), np.uint8)
    planes[:height], planes[height:] = 77, np.arange(256).reshape(-1, width)
    companded = compand_chroma(planes)
    chroma = companded[height:].astype(int).ravel()
    assert (companded[:height] == 77).all() and (np.diff(chroma) >= 0).all()
    assert (chroma[[1, 108, 128, 148, 255]] == [1, 82, 128, 174, 255]).all()
    back = expand_chroma(av.VideoFrame.from_ndarray(companded, "yuv420p")).to_ndarray()
    assert abs(back.astype(int) - planes).max() <= 1


def test_pale_colours_are_left_at_low_rates() -> None:
    sources = street(9, 12)
    video = gsvc.VideoFormat(*SIZE, Fraction(1, 12), Fraction(12))
    encoder = gsvc.Encoder(video, gsvc.EncoderSettings(0, bitrate=1500, preset="fast"))
    packets = [packet for picture in sources for packet in encoder.encode(picture)]
    packets += encoder.flush()
    parsed = GroupReader(encoder.header).read(next(one for one in packets if one.is_intra))
    assert parsed.coding.companded
    decoder = gsvc.Decoder(encoder.header, gsvc.DecoderSettings(steps=0))
    shown = [frame.pixels for packet in packets for frame in decoder.decode(packet)]
    assert color_left(sources, shown) > 0.3


def test_strong_and_absent_colours_are_coded_as_they_are() -> None:
    video = gsvc.VideoFormat(*SIZE, Fraction(1, 12), Fraction(12))
    for strength in (0, 70):
        encoder = gsvc.Encoder(video, gsvc.EncoderSettings(0, preset="fast"))
        packets = [packet for picture in street(strength, 4) for packet in encoder.encode(picture)]
        packets += encoder.flush()
        intra = next(packet for packet in packets if packet.is_intra)
        assert not GroupReader(encoder.header).read(intra).coding.companded
