"""gsvc as a codec of the benchmark, its ablation, and its floors.

The floors are its coded pictures alone, with nothing sent for the frames between. A third floor, a
small picture scaled up, is what every conventional codec gives at scale 1/2 and 1/3.
"""

import io
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from itertools import product
from math import ceil
from typing import Any, ClassVar

import numpy as np

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.container import StreamReader, StreamWriter, decoded_frames
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.header import TOOLS, Tools
from gsvc.codec.bitstream.scaffold import Place
from gsvc.codec.bitstream.stream_info import StreamInfo, read_info
from gsvc.codec.weights.hub import read_hub_manifest
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.decoders.interpolation.rife import RifePair, loaded_rife, rife_file
from gsvc.decoders.keyframes import backends as refiners
from gsvc.decoders.keyframes.refiner import Refiner, WindowRefiner
from gsvc.decoders.keyframes.restorer.backend import RESTORER
from gsvc.decoders.streams.reconstruction import Reconstruction
from gsvc.encoders.tuning import DEFAULT_PRESET, DEFAULT_TUNE, LEVELS, PEOPLE
from gsvc.eval.baselines import base
from gsvc.eval.baselines.base import Decoded, Settings, all_frames
from gsvc.eval.baselines.code_hash import code_hash, weights_hash
from gsvc.eval.baselines.conventional import BT709, RANDOM_ACCESS_SECONDS
from gsvc.eval.compute import count_flops, refiner_flops
from gsvc.eval.late_loading import CodecFacts


def backend_and_device(model: object) -> tuple[str, str]:
    """Of a model's name: nano, small and base are compact. Raises ConfigError for an unknown."""
    if model in refiners.PRETRAINED:
        return str(model), refiners.gpu_or_cpu()
    backend = RESTORER if model == RESTORER else f"compact:{model}"
    if backend in refiners.BACKENDS:
        return backend, "cpu"
    names = ", ".join(refiners.PRETRAINED)
    raise ConfigError(f"gsvc has no model {model!r}: take restorer, nano, small, base, {names}")


@cache
def kept_refiner(settings: DecoderSettings) -> Refiner | None:
    """A pretrained model, loaded once for all clips; None for others."""
    is_kept = settings.steps and settings.backend in refiners.PRETRAINED
    return refiners.load_refiner(settings.backend, settings.device) if is_kept else None


def refiner_cost(info: StreamInfo, steps: int, backend: str = RESTORER) -> base.Compute:
    """Operations per pixel of a frame as shown (a multiply-add is two), and bytes of weights.

    The padding of the sides is counted; AV1 decoding, motion and rendering are not.
    """
    video = info.header.format
    if not steps:
        return base.Compute(0.0, 0)
    refiner = refiners.find_backend(backend)
    once, step = _flops(backend, video.height, video.width)
    if isinstance(refiner, WindowRefiner):
        calls = ceil((info.frames - 1) / refiner.delay)
    else:
        calls = sum(len(packet.key_frames) for packet in info.packets)
    weights = sum(file.stat().st_size for file in refiner.files)
    count = calls * (steps * step + once)
    return base.Compute(count / (video.width * video.height * info.frames), weights)


@cache
def _flops(backend: str, height: int, width: int) -> tuple[int, int]:
    """What is computed once, and one evaluation of the network, counted without storage."""
    cost = refiners.find_backend(backend).cost(height, width)
    return (0, 0) if cost is None else refiner_flops(cost)


def drawing_cost(height: int, width: int, drawn: int, frames: int) -> base.Compute:
    """Of `drawn` padded frames, per pixel of the clip's `frames`; looking up pixels along the
    motion, and again where it is fast, is not counted. Raises as `load_rife`."""
    per_pixel = _one_frame(height, width) * drawn / (width * height * frames)
    return base.Compute(per_pixel, rife_file().stat().st_size)


def motion_cost(info: StreamInfo) -> base.Compute:
    """Of decoding a stream of ours with learned motion; dissolving and held frames cost nothing."""
    intervals = (interval for packet in info.packets for interval in packet.intervals)
    moving = (one for one in intervals if one.place is Place.BETWEEN and not one.dissolves)
    drawn = sum(interval.frames - 1 for interval in moving)
    video = info.header.format
    return drawing_cost(video.height, video.width, drawn, info.frames)


@cache
def _one_frame(height: int, width: int) -> int:
    gray = np.full((height, width, 3), 128, np.uint8)
    return count_flops(lambda: RifePair(loaded_rife(), gray, gray).motion(0.5))


NO_TOOLS, DEFAULT_TOOLS = "none", "default"
ALL_TOOLS = "-".join(TOOLS)
TOOL_SETS = {DEFAULT_TOOLS: None} | {
    "-".join(name for name, is_on in zip(TOOLS, on, strict=True) if is_on) or NO_TOOLS: Tools(
        **dict(zip(TOOLS, on, strict=True))
    )
    for on in product((False, True), repeat=len(TOOLS))
}
"""Values of the setting `tools` and the scaffold layers that they turn on; None: the preset's."""
_ALL_BUT_ONE = tuple("-".join(name for name in TOOLS if name != left_out) for left_out in TOOLS)

_DIS = "dis"
_SETTINGS = {"level", "bpp", "tools", "preset", "tune", "people", "faces", "seed", "gop"}
_WAYS = {"steps", "model", "seed", "motion"}
_LIBRARIES = ("av", "numpy", "opencv-python-headless", "ai-edge-litert")


class Gsvc(base.Codec):
    """gsvc's encoder and decoder.

    Settings:
        level or bpp: 0 to 3, or bits per pixel to come near to.
        tools: a key of `TOOL_SETS`.
        preset: of the encoder.
        tune: of the encoder, where it is not balanced.
        people: weight of faces, where it is not the usual one.
        faces: 0 where the motion of faces is not sent.
        seed: written into the stream.

        gop: most seconds from one intra picture to the next, 0 for no limit, where they are not
            `RANDOM_ACCESS_SECONDS`, as for every codec.

    Ways to decode:
        steps: of the refiner.
        model: of the refiner, where it is not the restorer; a pretrained one runs on a GPU if there
            is one.
        seed: in place of the stream's, where it is not 0.
        motion: between pictures, where it is not dis.

    The constructor takes one value or several of each; its `seed` is that of the ways to decode.
    """

    name = "gsvc"
    suffix = ".gsv"
    backends: ClassVar[tuple[str, ...]] = (RESTORER, "compact", "compact:small", "compact:base")
    """Refiners that the ways to decode may use: their weights are part of the version."""
    low_delay: ClassVar[bool] = False
    """Of the encoder."""

    def __init__(
        self,
        level: base.Option | None = None,
        bpp: base.Option | None = None,
        tools: base.Option = DEFAULT_TOOLS,
        preset: base.Option = DEFAULT_PRESET,
        steps: base.Option = (0, 1),
        seed: base.Option = 0,
        model: base.Option = RESTORER,
        motion: base.Option = _DIS,
        tune: base.Option = DEFAULT_TUNE,
        people: base.Option = PEOPLE,
        faces: base.Option = 1,
        gop: base.Option | None = None,
    ) -> None:
        if level is not None and bpp is not None:
            raise ConfigError("give levels or bpp as rate points, not both")
        if level is None and bpp is None:
            level = tuple(range(len(LEVELS)))
        sets = product(
            base.unless_usual("level", level, None, int),
            base.unless_usual("bpp", bpp, None, float),
            base.all_of("preset", preset, str),
            base.all_of("tools", tools, str),
            base.unless_usual("tune", tune, DEFAULT_TUNE, str),
            base.unless_usual("people", people, PEOPLE, float),
            base.unless_usual("faces", faces, 1, int),
            base.unless_usual("gop", gop, None, float),
        )
        self._points = [
            rate | bits | {"tools": t, "preset": p, "seed": 0} | tunes | weights | more | group
            for rate, bits, p, t, tunes, weights, more, group in sets
        ]
        self._ways = _ways(
            base.all_of("motion", motion, str),
            base.all_of("model", model, str),
            base.all_of("steps", steps, int),
            base.all_of("seed", seed, int),
        )
        for point in self._points:
            _encoder_settings(point)
        for way in self._ways:
            _decoder_settings(way)

    def version(self) -> str:
        """Of gsvc and of libraries that touch pixels, with hashes of code, weights and model."""
        names = (*_LIBRARIES, *(("torch",) if self.backends else ()))
        used = {str(way.get("model")) for way in self._ways} & set(refiners.PRETRAINED)
        libraries = [f"{name} {version(name)}" for name in names]
        libraries += [f"{name} {read_hub_manifest(name).weights}" for name in sorted(used)]
        weights = f"{refiners.model_id().hex()}-{weights_hash(self.backends)}"
        return f"gsvc {version('gsvc')} {code_hash()}-{weights}, {', '.join(libraries)}"

    def rate_points(self) -> Sequence[Settings]:
        return self._points

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        return self._ways

    def encode(self, clip: TestClip, settings: Settings) -> base.Encoded:
        """Code the clip, extractors' loading included. Errors of `EncoderSettings`, `Encoder`."""
        base.require_frames(clip)
        rate = clip.frame_rate
        video = VideoFormat(clip.format.width, clip.format.height, 1 / rate, rate, color=BT709)
        start = time.perf_counter()
        chosen = replace(_encoder_settings(settings), low_delay=self.low_delay)
        data = coded(clip.frames, video, chosen)
        return base.Encoded(data, time.perf_counter() - start, read_info(io.BytesIO(data)).bits)

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode. Raises BitstreamError unless the stream holds the clip's frames."""
        start, chosen = time.perf_counter(), _decoder_settings(way)
        frames = decoded(data, chosen, kept_refiner(chosen))
        return Decoded(all_frames(self.name, frames, clip), time.perf_counter() - start)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> base.Compute | None:
        """The networks, counted for this stream; see `refiner_cost` and `motion_cost`."""
        used, info = _decoder_settings(way), read_info(io.BytesIO(data))
        cost = refiner_cost(info, used.steps, used.backend)
        return cost if used.motion == _DIS else cost + motion_cost(info)


class GsvcLowDelay(Gsvc):
    """gsvc without look-ahead, as `gsvc encode --low-delay`."""

    name = "gsvc-low-delay"
    low_delay = True


class GsvcLayers(Gsvc):
    """The ablation: each scaffold layer off in turn; only the whole stream is also refined.

    Options as of `Gsvc`; the last of `tools` is the whole stream.
    """

    name = "gsvc-layers"
    backends = (RESTORER,)

    def __init__(
        self,
        level: base.Option = (1, 3),
        tools: base.Option = (NO_TOOLS, *_ALL_BUT_ONE, ALL_TOOLS),
        preset: base.Option = DEFAULT_PRESET,
        steps: base.Option = (0, 1),
        seed: base.Option = 0,
    ) -> None:
        super().__init__(level=level, tools=tools, preset=preset, steps=steps, seed=seed)
        self._whole = self._points[-1]["tools"]

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """All steps for the last set of tools, the first one of them for the others."""
        ways = super().ways_to_decode(settings)
        return ways if settings["tools"] == self._whole else ways[:1]


def coded(frames: Sequence[Picture], video: VideoFormat, settings: EncoderSettings) -> bytes:
    """The frames as a `.gsv` without audio; `video` has a time base of one frame."""
    file = io.BytesIO()
    with Encoder(video, settings) as encoder:
        writer = StreamWriter(file, encoder.header)
        for pts, frame in enumerate(frames):
            for packet in encoder.encode(Frame(frame, pts)):
                writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    return file.getvalue()


def decoded(
    data: bytes, settings: DecoderSettings, refiner: Refiner | None = None
) -> list[Picture]:
    """All frames of a `.gsv`. `refiner`: in place of the settings' back end."""
    reader = StreamReader(io.BytesIO(data))
    with Decoder(reader.header, settings, refiner=refiner) as decoder:
        packets = ((packet, True) for packet in reader)
        return [frame.pixels for frame in decoded_frames(decoder, packets)]


def key_frames(info: StreamInfo) -> list[int]:
    """Indices of the frames that were coded as pictures."""
    return [frame for packet in info.packets for frame in packet.key_frames]


def _ways(
    motions: Sequence[str], models: Sequence[str], steps: Sequence[int], seeds: Sequence[int]
) -> list[Settings]:
    """Motion by motion, model by model; 0 steps use no model, and seed 0 is the stream's own."""
    ways: list[Settings] = []
    for motion, model, count, seed in product(motions, models, steps, seeds):
        way: dict[str, base.Value] = {"steps": count}
        if count:
            way |= {"model": model} if model != RESTORER else {}
            way |= {"seed": seed} if seed else {}
        way |= {"motion": motion} if motion != _DIS else {}
        ways += [way] if way not in ways else []
    return ways


def _encoder_settings(settings: Settings) -> EncoderSettings:
    _refuse_others(settings, _SETTINGS)
    values: dict[str, Any] = {"gop": float(RANDOM_ACCESS_SECONDS), "people": PEOPLE, **settings}
    tools = values.pop("tools", None)
    if tools not in TOOL_SETS:
        raise ConfigError(f"tools {tools!r}: choose one of {', '.join(TOOL_SETS)}")
    values |= {"face_weight": values.pop("people"), "faces": bool(values.get("faces", 1))}
    return EncoderSettings(**values, tools=TOOL_SETS[tools])


def _decoder_settings(way: Settings) -> DecoderSettings:
    _refuse_others(way, _WAYS)
    backend, device = backend_and_device(way.get("model", RESTORER))
    values: dict[str, Any] = {name: value for name, value in way.items() if name != "model"}
    return DecoderSettings(**values, backend=backend, device=device)


def _refuse_others(given: Settings, known: set[str]) -> None:
    if others := given.keys() - known:
        raise ConfigError(f"gsvc has no {min(others)}: leave it out")


class MotionFloor(Gsvc):
    """Coded pictures and the motion that the decoder finds between them; no scaffold or refiner."""

    name = "motion"
    facts = CodecFacts(colour="#a8794b")
    backends = ()

    def __init__(
        self,
        level: base.Option | None = None,
        bpp: base.Option | None = None,
        preset: base.Option = DEFAULT_PRESET,
        gop: base.Option | None = None,
    ) -> None:
        super().__init__(level=level, bpp=bpp, preset=preset, tools=NO_TOOLS, steps=0, gop=gop)


class HoldFloor(MotionFloor):
    """Frames show the latest coded picture, or the scene's first; `MotionFloor`'s stream."""

    name = "hold"
    facts = CodecFacts(colour="#b59a5b")

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """One: holding has no choices."""
        return [{}]

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        start = time.perf_counter()
        return Decoded(all_frames(self.name, _held(data), clip), time.perf_counter() - start)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> base.Compute | None:
        """None: only pictures are decoded."""
        return None


def _held(data: bytes) -> list[Picture]:
    reader = StreamReader(io.BytesIO(data))
    decoding = Reconstruction(reader.header, GroupReader(reader.header), lambda key: key.picture)
    frames: list[Picture] = []
    for packet in (packet for packet in reader if packet.is_picture):
        for one in decoding.intervals(decoding.read(packet)):
            ends = one.is_key(one.interval.length)
            frames += [(one.start or one.key).shown] * (one.interval.length - ends)
            frames += [one.key.shown] * ends
    return frames


CODECS = Gsvc, GsvcLowDelay, GsvcLayers, HoldFloor, MotionFloor
