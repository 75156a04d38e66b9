"""The GStreamer elements: raw video to RTP and back, and what the rest of gsvc makes of it."""

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import gsvc
from needs import lack, need_package

need_package("gi")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyGObject's own
    try:
        from gsvc.codec.network.gstreamer import GsvcRtpDec, GsvcRtpEnc
    except (ImportError, ValueError) as missing:
        lack("gi", missing)

pytestmark = pytest.mark.filterwarnings("ignore")

VIDEO = "video/x-raw,format=RGB,width=98,height=64,framerate=25/1"
COUNT = 30


@pytest.fixture
def gst() -> Any:
    from gi.repository import Gst

    Gst.init(None)
    return Gst


def pulled(gst: Any, sink: Any) -> Iterator[Any]:
    """What arrives at an appsink, to the end."""
    while sample := sink.emit("try-pull-sample", 20 * gst.SECOND):
        yield sample


def pipeline(gst: Any, *elements: Any) -> Any:
    """Elements in a row, playing."""
    whole = gst.Pipeline()
    for element in elements:
        whole.add(element)
    for one, other in pairwise(elements):
        assert one.link(other)
    whole.set_state(gst.State.PLAYING)
    return whole


def source(gst: Any) -> list[Any]:
    """A ball that moves."""
    test = gst.ElementFactory.make("videotestsrc")
    test.set_property("num-buffers", COUNT)
    test.set_property("pattern", 18)
    wanted = gst.ElementFactory.make("capsfilter")
    wanted.set_property("caps", gst.Caps.from_string(VIDEO))
    return [test, wanted]


def sink(gst: Any) -> Any:
    made = gst.ElementFactory.make("appsink")
    made.set_property("sync", False)
    return made


def pixels(sample: Any) -> Any:
    data = sample.get_buffer().extract_dup(0, 64 * 296)
    return np.frombuffer(data, np.uint8).reshape(64, 296)[:, :294].astype(int)


def test_frames_come_back_in_time(gst: Any) -> None:
    plain, coded = sink(gst), sink(gst)
    first = pipeline(gst, *source(gst), plain)
    originals = [pixels(sample) for sample in pulled(gst, plain)]
    first.set_state(gst.State.NULL)
    encoder = GsvcRtpEnc()
    encoder.set_property("level", 3)
    second = pipeline(gst, *source(gst), encoder, GsvcRtpDec(), coded)
    samples = list(pulled(gst, coded))
    second.set_state(gst.State.NULL)
    assert len(originals) == len(samples) == COUNT
    assert "width=(int)98" in samples[0].get_caps().to_string()
    times = [sample.get_buffer().pts / gst.MSECOND for sample in samples]
    assert times == [500 + 40 * n for n in range(COUNT)]
    errors = [np.abs(pixels(s) - o).mean() for s, o in zip(samples, originals, strict=True)]
    assert max(errors) < 8


def test_its_datagrams_are_those_of_the_wire(gst: Any) -> None:
    out = sink(gst)
    encoder = GsvcRtpEnc()
    encoder.set_property("mtu", 300)
    whole = pipeline(gst, *source(gst), encoder, out)
    datagrams = [s.get_buffer().extract_dup(0, s.get_buffer().get_size()) for s in pulled(gst, out)]
    whole.set_state(gst.State.NULL)
    assert datagrams and max(map(len, datagrams)) <= 300
    receiver = gsvc.Depacketizer()
    packets = [packet for n, each in enumerate(datagrams) for packet in receiver.push(each, n / 25)]
    assert receiver.header is not None
    with gsvc.Decoder(receiver.header, gsvc.DecoderSettings(steps=0)) as decoder:
        frames = [frame for packet in packets for frame in decoder.decode(packet)]
        frames += decoder.flush()
    assert len(frames) == COUNT and frames[0].pixels.shape == (64, 98, 3)


def test_what_is_no_video_ends_in_one_line(gst: Any) -> None:
    noise = gst.ElementFactory.make("fakesrc")
    noise.set_property("num-buffers", 50)
    noise.set_property("sizetype", 2)
    noise.set_property("filltype", 3)
    out = sink(gst)
    whole = pipeline(gst, noise, GsvcRtpDec(), out)
    assert list(pulled(gst, out)) == []
    whole.set_state(gst.State.NULL)
