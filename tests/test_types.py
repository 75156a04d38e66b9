"""Values of the wrong type: each call says which argument it is, what came and what to give."""

import io
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

import gsvc
from forked import exit_code_of_fork, needs_fork

VIDEO = gsvc.VideoFormat(64, 48, time_base=Fraction(1, 25), frame_rate=Fraction(25))
HEADER = gsvc.Header(VIDEO, level=1)
ANY: Any = gsvc  # a caller whose types nobody checked


def index() -> Any:
    return ANY.StreamIndex(io.BytesIO(HEADER.to_bytes()), partial=True)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: ANY.EncoderSettings(level="1"), "level is '1' (str): give a whole number or None"),
        (lambda: ANY.EncoderSettings(level=1.5), "level is 1.5 (float): give a whole number"),
        (lambda: ANY.EncoderSettings(level=True), "level is True: give a whole number or None"),
        (lambda: ANY.EncoderSettings(bitrate="30k"), "bitrate is '30k' (str): give a number"),
        (lambda: ANY.Header.from_bytes("GSV"), "data is 'GSV' (str): give bytes, a bytearray"),
        (lambda: ANY.StreamWriter(io.BytesIO(), HEADER).write(b"x"), "which Packet.from_bytes"),
        (lambda: ANY.EncoderSettings(tools=["pose"]), "tools is ['pose'] (list): give a Tools"),
        (lambda: ANY.EncoderSettings(detector=5), "detector is 5 (int): give text or a Detector"),
        (lambda: ANY.DecoderSettings(steps="4"), "steps is '4' (str): give a whole number"),
        (lambda: ANY.DecoderSettings(backend=None), "backend is None: give text"),
        (lambda: ANY.ReceiveSettings(decoder=5), "decoder is 5 (int): give a DecoderSettings"),
        (lambda: ANY.SendSettings(key="secret"), "key is 'secret' (str): give a WireKey or None"),
        (lambda: ANY.AnalysisSettings(lines=["a"]), "give a sequence, each a Line"),
        (lambda: ANY.Tools(pose=1), "pose is 1 (int): give True or False"),
        (lambda: ANY.VideoFormat("64", 48, 1, 25), "width is '64' (str): give a whole number"),
        (lambda: ANY.info(5), "source is 5 (int): give a path or a file opened in binary"),
        (lambda: ANY.encode([1], "a.gsv"), "in binary; for frames use Encoder and StreamWriter"),
        (lambda: ANY.encode(None, "a.gsv"), "source is None: give a path"),
        (lambda: ANY.encode("a.mp4", "a.gsv", settings={}), "give an EncoderSettings or None"),
        (lambda: ANY.encode("a.mp4", "a.gsv", frames=2.0), "frames is 2.0 (float)"),
        (lambda: ANY.encode("a.mp4", "a.gsv", progress=3), "progress is 3 (int): give a function"),
        (lambda: ANY.decode("a.gsv", 3), "target is 3 (int): give a path"),
        (lambda: ANY.analyse(b"a.gsv"), "source is b'a.gsv' (bytes): give a path"),
        (lambda: ANY.mux("a.gsv", None), "target is None: give a path"),
        (lambda: ANY.Encoder(None), "video is None: give a VideoFormat"),
        (lambda: ANY.Decoder("x"), "header is 'x' (str): give a Header"),
        (lambda: ANY.Decoder(HEADER).decode(b""), "which Packet.from_bytes makes of bytes"),
        (lambda: ANY.StreamReader("a.gsv"), "file is 'a.gsv' (str): give a file opened in binary"),
        (lambda: ANY.Packet(1, 1, "text"), "payload is 'text' (str): give bytes"),
        (lambda: index().frame_at("1"), "seconds is '1' (str): give a number"),
        (lambda: index().decode(ANY.Decoder(HEADER), 1.5, 1), "first is 1.5 (float): give a whole"),
        (lambda: ANY.VideoFormat(64, 48, 1, 59.94), "Fraction, such as Fraction(60000, 1001)"),
        (lambda: ANY.LinkRate(ANY.EncoderSettings(), 12_000), "give an Encoder"),
        (lambda: ANY.LinkRate(ANY.Encoder(VIDEO), "12k"), "total is '12k' (str): give a number"),
        (lambda: ANY.LinkRate(ANY.Encoder(VIDEO), 9e3).meet(None), "total is None: give a number"),
        (lambda: ANY.LinkRate(ANY.Encoder(VIDEO), 9e3).lets("1"), "seconds is '1' (str)"),
        (lambda: ANY.LatestQueue("5"), "size is '5' (str): give a whole number"),
        (lambda: ANY.VideoReceiver(5), "address is 5 (int): give text"),
    ],
)
def test_an_argument_of_another_type_is_named(call: Callable[[], object], told: str) -> None:
    with pytest.raises(gsvc.WrongTypeError) as caught:
        call()
    assert told in str(caught.value)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, gsvc.ConfigError)


@pytest.mark.parametrize(
    ("frame", "pts", "told"),
    [
        ("x.jpg", None, "a frame of type str is no array: decode a picture first"),
        ((np.zeros((48, 64, 3), np.uint8), 4), None, "give its time as encode(array, pts)"),
        (np.zeros((48, 64, 3)), None, "a frame of float64"),
        (np.zeros((48, 64, 3), int).tolist(), None, "needed: give np.asarray(frame, np.uint8)"),
        (np.full((48, 64, 3), 999), None, "scale it to 0 to 255"),
        (np.array([None]), None, "a frame of type ndarray is an array of objects"),
        (gsvc.Frame([1], 0), None, "pixels is [1] (list)"),  # type: ignore[arg-type]
        (np.zeros((48, 64, 3), np.uint8), 1.5, "pts is 1.5 (float)"),
        (gsvc.Frame(np.zeros((48, 64, 3), np.uint8), 1.5), None, "pts is 1.5"),  # type: ignore[arg-type]
    ],
)
def test_a_frame_of_another_type_is_not_taken(frame: Any, pts: Any, told: str) -> None:
    with gsvc.Encoder(VIDEO) as encoder:
        with pytest.raises(gsvc.WrongTypeError) as caught:
            encoder.encode(frame, pts)
        assert told in str(caught.value)
        encoder.encode(np.zeros((48, 64, 3), np.uint8))  # as the first: nothing was lost


def test_a_frame_of_another_size_is_an_error_of_its_value() -> None:
    with gsvc.Encoder(VIDEO) as encoder, pytest.raises(gsvc.ConfigError) as caught:
        encoder.encode(np.zeros((48, 64), np.uint8))
    assert not isinstance(caught.value, TypeError)
    assert repr(ANY.Frame([[1]], 0)) == "Frame(shape=(1, 1), pts=0, concealed=False)"


def test_numbers_of_numpy_become_those_of_python() -> None:
    assert ANY.DecoderSettings(steps=np.int32(4), conceal=np.bool_(True)).steps == 4
    video = ANY.VideoFormat(
        np.int64(64), np.int32(48), Fraction(1, 25), Fraction(cast(Any, np.int64(25)))
    )
    settings = ANY.EncoderSettings(level=np.int64(2), bitrate=np.float32(9000), seed=np.uint8(3))
    with gsvc.Encoder(video, settings) as encoder:
        assert gsvc.Header.from_bytes(encoder.header.to_bytes()) == encoder.header
    assert encoder.header.format == VIDEO and encoder.header.level == 2


def test_what_is_missing_or_too_much_python_says_itself() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'target'"):
        ANY.encode("a.mp4")
    with pytest.raises(TypeError, match="unexpected keyword argument 'lvl'"):
        ANY.EncoderSettings(lvl=1)


def test_a_secret_of_another_type_is_not_shown() -> None:
    from gsvc.codec.network.address import WireKey

    with pytest.raises((TypeError, ValueError)) as caught:
        WireKey("my secret words")  # type: ignore[arg-type]
    assert "my secret words" not in str(caught.value)


def test_frames_are_equal_when_pictures_and_times_are() -> None:
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    frame = gsvc.Frame(picture, 3)
    assert frame == gsvc.Frame(picture.copy(), 3)
    assert frame != gsvc.Frame(picture, 4)
    assert frame != gsvc.Frame(picture + 1, 3)
    assert frame != gsvc.Frame(picture[:2], 3)
    assert frame != gsvc.Frame(picture, 3, concealed=True)
    assert frame != 3
    assert frame in [gsvc.Frame(picture + 1, 3), frame]


def test_a_mistyped_attribute_is_refused_and_a_subclass_has_its_own() -> None:
    class Mine(gsvc.Encoder):
        label = "mine"

    encoder, decoder = ANY.Encoder(VIDEO), ANY.Decoder(HEADER, gsvc.DecoderSettings(steps=0))
    with pytest.raises(AttributeError, match="no attribute 'bitrate': set target_bitrate"):
        encoder.bitrate = 12_000
    with pytest.raises(AttributeError, match="no attribute 'steps': its settings are given"):
        decoder.steps = 1
    encoder.target_bitrate, mine = 12_000, Mine(VIDEO)
    mine.label, mine.count = "other", 1  # type: ignore[attr-defined]
    assert encoder.target_bitrate == 12_000 and mine.label == "other"


@needs_fork
def test_an_encoder_stays_with_its_process() -> None:
    settings = gsvc.EncoderSettings(level=3, preset="fast", low_delay=True)
    picture = np.zeros((48, 64, 3), np.uint8)

    def child() -> None:
        with encoder, pytest.raises(gsvc.ConfigError, match="belongs to another process"):
            encoder.encode(picture)

    with gsvc.Encoder(VIDEO, settings) as encoder:
        encoder.encode(picture)
        assert exit_code_of_fork(child, 10) == 0


def test_an_encoder_that_is_over_takes_no_orders() -> None:
    encoder = gsvc.Encoder(VIDEO, gsvc.EncoderSettings(low_delay=True, faces=False))
    encoder.encode(np.zeros((48, 64, 3), np.uint8))
    encoder.flush()
    for order in (encoder.force_keyframe, lambda: setattr(encoder, "target_bitrate", 9_000)):
        with pytest.raises(gsvc.ConfigError, match="flushed or closed: make another"):
            order()
