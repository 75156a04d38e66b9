"""Pretrained back ends through diffusers' own pipelines, tiny and random: wiring, no quality."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import gsvc
from gsvc.codec.asyncio import decode_stream
from gsvc.codec.errors import ConfigError, MissingModelError
from gsvc.codec.stream.decoding import decoded_frames
from gsvc.codec.stream.info import read_info
from gsvc.datasets.hub import HUB_MODELS
from gsvc.decoders.key_picture import KeyPicture
from gsvc.decoders.refiners.pretrained.window import keys_on_grid
from gsvc.decoders.refiners.registry import load_refiner
from tiny_models import put_tiny

Pictures = Callable[..., list[gsvc.Picture]]
WINDOWED = ["ltx", "ltx2", "wan-vace", "wan-v2v", "sparkvsr"]
CUT = 17


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache with tiny models; the folder of each back end is made when first asked for."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSVC_CACHE", str(folder))
        yield folder


@pytest.fixture
def tiny(cache: Path) -> Callable[[str], Any]:
    """A back end with its tiny model."""

    def make(name: str) -> Any:
        if not (cache / "hub" / name).exists():
            put_tiny(name)
        return load_refiner(name)

    return make


@pytest.fixture(scope="module")
def data(moving_pictures: Pictures) -> bytes:
    """26 frames of 66x50 with a scene cut."""
    pictures = moving_pictures(26, (66, 50))
    pictures[CUT:] = [255 - picture for picture in pictures[CUT:]]
    settings = gsvc.EncoderSettings(level=1, preset="fast")
    form = gsvc.VideoFormat(66, 50, Fraction(1, 25), Fraction(25))
    file = io.BytesIO()
    with gsvc.Encoder(form, settings) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        packets = [packet for picture in pictures for packet in encoder.encode(picture)]
        for packet in (*packets, *encoder.flush()):
            writer.write(packet)
    return file.getvalue()


def decode(data: bytes, refiner: Any = None, **settings: Any) -> list[gsvc.Frame]:
    reader = gsvc.StreamReader(io.BytesIO(data))
    chosen = gsvc.DecoderSettings(**{"steps": 1 if refiner else 0, **settings})
    with gsvc.Decoder(reader.header, chosen, refiner=refiner) as decoder:
        return list(decoded_frames(decoder, ((packet, True) for packet in reader)))


def window_of(count: int, size: tuple[int, int] = (50, 66)) -> tuple[Any, dict[int, Any], Any]:
    """A rendering whose frames are told apart by colour, keys at every fourth, confidences."""
    frames = np.full((count, *size, 3), 0, np.uint8)
    frames += (5 * np.arange(count, dtype=np.uint8))[:, None, None, None]
    keys = {at: np.full((*size, 3), 255 - at, np.uint8) for at in range(0, count, 4)}
    confidence = np.repeat(np.linspace(0.4, 1, count, dtype=np.float32), size[0] * size[1])
    return frames, keys, confidence.reshape(count, *size)


@pytest.mark.parametrize("name", WINDOWED)
def test_from_stream_to_frames(name: str, tiny: Callable[[str], Any], data: bytes) -> None:
    """All frames, once, at their times, the same each time; and other frames than plain ones."""
    plain, refiner = decode(data), tiny(name)
    reader = gsvc.StreamReader(io.BytesIO(data))
    with gsvc.Decoder(reader.header, gsvc.DecoderSettings(steps=1), refiner=refiner) as decoder:
        assert decoder.delay == refiner.delay == 32
        shown = list(decoded_frames(decoder, ((packet, True) for packet in reader)))
    assert [frame.pts for frame in shown] == [frame.pts for frame in plain]
    assert all(frame.pixels.shape == (50, 66, 3) for frame in shown)
    assert any(not np.array_equal(a.pixels, b.pixels) for a, b in zip(shown, plain, strict=True))
    if name == "ltx":
        assert decode(data, refiner) == shown


def test_sizes_and_lengths(tiny: Callable[[str], Any]) -> None:
    """One frame, odd sides, sides below the model's multiple."""
    for name in WINDOWED:
        for count, size in ((1, (50, 66)), (9, (17, 33))):
            frames, keys, confidence = window_of(count, size)
            shown = tiny(name).restore(frames, keys, confidence, steps=1, seed=0)
            assert [one.shape for one in shown] == [(*size, 3)] * count, name


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # of diffusers' scheduler
def test_sd_turbo_restores_key_pictures(tiny: Callable[[str], Any], data: bytes) -> None:
    refiner = tiny("sd-turbo")
    assert len(decode(data, refiner)) == 26
    key = KeyPicture.of(np.full((50, 66, 3), 90, np.uint8), None, 40, 1)
    one, two = (refiner.refine(key, steps=2, seed=3) for _ in "ab")
    assert one.shape == (50, 66, 3) and np.array_equal(one, two)


def test_key_pictures_are_pasted_if_asked(tiny: Callable[[str], Any], data: bytes) -> None:
    frames, keys, confidence = window_of(9)
    refiner = tiny("wan-v2v")
    refiner.pastes_keys = True
    shown = refiner.restore(frames, keys, confidence, steps=1, seed=0)
    assert all(np.array_equal(shown[at], picture) for at, picture in keys.items())
    assert not np.array_equal(shown[1], frames[1])


def test_asyncio_files_and_resuming(
    tiny: Callable[[str], Any], data: bytes, tmp_path: Path
) -> None:
    """The same frames by asyncio and from kept windows; a file of them."""
    refiner, kept = tiny("ltx"), str(tmp_path / "kept")
    whole = decode(data, refiner, resume=kept)
    reader = gsvc.StreamReader(io.BytesIO(data))

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
    (tmp_path / "it.gsv").write_bytes(data)
    settings = gsvc.DecoderSettings(steps=1, backend="ltx", resume=kept)
    report = gsvc.decode(tmp_path / "it.gsv", tmp_path / "it.y4m", settings=settings)
    assert report.frames == 26 and sorted(Path(kept).glob("*.safetensors")) == windows
    refiner._pipeline = None  # nothing is drawn: all windows are kept ones
    assert decode(data, refiner, resume=kept) == whole and refiner._pipeline is None


# Wiring: models that return their conditioning.


@pytest.mark.parametrize("count", [1, 9, 33])
def test_ltx_gets_each_key_at_its_time(tiny: Callable[[str], Any], count: int) -> None:
    backend, seen = tiny("ltx"), []
    pipeline = backend._loaded(1)

    def encode(video: torch.Tensor) -> Any:
        seen.append(video)
        return type(pipeline.vae).encode(pipeline.vae, video)

    pipeline.vae.encode, given = encode, _spied(backend, pipeline)
    frames, keys, confidence = window_of(count)
    backend.restore(frames, keys, confidence, steps=2, seed=0)
    assert np.array_equal(_uint8(seen[0][0].permute(1, 2, 3, 0), -1)[:, :50, :66], frames)
    times = [condition.frame_index for condition in given["conditions"]]
    assert times == list(range(0, count, 8))
    for condition in given["conditions"]:
        picture = _uint8(condition.image[0].permute(1, 2, 0), 0)[:50, :66]
        assert np.array_equal(picture, keys[condition.frame_index])
    pictures = [torch.zeros(1, 3, 1, 64, 96)] * len(times)
    _, mask, places, extra = pipeline.prepare_latents(
        *(pictures, [1.0] * len(times), times, 1, 8, 64, 96, count), device="cpu",
        dtype=torch.float32,
    )  # fmt: skip
    tokens = 2 * 3
    assert places[0, 0, :extra:tokens].tolist() == times[1:]  # keys but the first: own tokens
    assert (mask[0, extra : extra + tokens] == 1).all()  # the first: in its place


def _spied(backend: Any, pipeline: Any) -> dict[str, Any]:
    """What the pipeline of a back end is called with."""
    given: dict[str, Any] = {}

    def spy(**arguments: Any) -> Any:
        given.update(arguments)
        if "scheduler" in vars(spy):
            pipeline.scheduler = vars(spy)["scheduler"]
        return pipeline(**arguments)

    spy.__dict__.update({k: v for k, v in vars(pipeline).items() if not k.startswith("_")})
    for name in ("_normalize_latents", "_unpack_latents"):
        if hasattr(pipeline, name):
            setattr(spy, name, getattr(pipeline, name))
    backend._pipeline = spy
    return given


def _uint8(values: Any, least: int) -> NDArray[np.uint8]:
    """Of values from `least` to 1."""
    levels: NDArray[np.uint8] = ((values - least) / (1 - least) * 255).round().byte().numpy()
    return levels


@pytest.mark.parametrize("count", [1, 9, 33])
def test_ltx2_gets_each_key_rendering_and_confidence_at_its_time(
    tiny: Callable[[str], Any], count: int
) -> None:
    backend = tiny("ltx2")
    pipeline = backend._loaded(1)
    given = _spied(backend, pipeline)
    frames, keys, confidence = window_of(count)
    assert len(backend.restore(frames, keys, confidence, steps=1, seed=0)) == count
    reference = _uint8(given["reference_conditions"][0].frames.permute(0, 2, 3, 1), 0)
    assert np.array_equal(reference[1 : count + 1, :50, :66], frames)
    trust = given["conditioning_attention_mask"][0, 0].numpy()
    assert np.array_equal(trust[1 : count + 1, :50, :66], confidence)
    assert len(reference) == len(trust) == given["num_frames"] and len(trust) % 8 == 1
    first, *others = given["conditions"]
    assert first.index == 0 and first.crf == 0
    shown_at = {}
    for condition in others:
        coords = pipeline._prepare_keyframe_coords(
            1, 2, 3, (condition.index - 1) * 8 + 1, 1, 25.0, "cpu"
        )
        shown_at[round(float(coords[0, 0, 0, 0]) * 25) - 1] = condition.frames[:50, :66]
        assert condition.index < 1 + given["num_frames"] // 8 + 1 and condition.crf == 0
    assert list(shown_at) == list(range(0, count, 8))
    assert all(np.array_equal(picture, keys[at]) for at, picture in shown_at.items())


@pytest.mark.parametrize("count", [1, 9, 17, 33, 81])
def test_vace_keeps_key_pictures_and_nothing_else(tiny: Callable[[str], Any], count: int) -> None:
    backend = tiny("wan-vace")
    pipeline = backend._loaded(1)
    given = _spied(backend, SimpleNamespace(transformer=pipeline.transformer))
    frames, keys, confidence = window_of(count)
    keys = {at: keys[at] for at in range(0, count, 8)}
    confidence[:, :10] = 0.1
    with pytest.raises(TypeError):  # the stand-in cannot draw: what it was given is enough
        backend.restore(frames, keys, confidence, steps=1, seed=0)
    video = np.stack([np.asarray(image) for image in given["video"]])[:, :50, :66]
    mask = np.stack([np.asarray(image) for image in given["mask"]])[:, :50, :66, 0]
    for at in range(count):
        if at in keys:
            assert (mask[at] == 0).all() and np.array_equal(video[at], keys[at])
        elif (mask[at] == 255).all():
            assert (video[at, :10] == 128).all()
            assert np.array_equal(video[at, 10:], frames[at, 10:])
        else:
            assert np.array_equal(video[at], frames[at])
    told = torch.from_numpy(np.stack([np.asarray(image) for image in given["mask"]])) / 255
    latents = pipeline.prepare_masks(told.permute(3, 0, 1, 2)[None], [[]])[0]
    black = [at for at in range(latents.shape[1]) if (latents[:, at] == 0).all()]
    assert black == [at // 4 for at in keys]


@pytest.mark.parametrize("count", [9, 33])
def test_sparkvsr_gets_references_at_their_latents(tiny: Callable[[str], Any], count: int) -> None:
    backend, given = tiny("sparkvsr"), {}
    pipeline = backend._loaded(1)
    network = pipeline.transformer.forward

    def forward(**arguments: Any) -> Any:
        given.update(arguments)
        return network(**arguments)

    pipeline.transformer.forward = forward
    pipeline.vae.encode = _mean_color
    frames, keys, confidence = window_of(count)
    backend.restore(frames, keys, confidence, steps=1, seed=0)
    latents = given["hidden_states"][0]
    ahead = latents.shape[0] - (1 + (count - 1) // 4)
    assert latents.shape[0] % 2 == 0 and given["timestep"].tolist() == [399]
    scale = pipeline.vae.config.scaling_factor
    rendered_at, reference_at = latents[ahead:, :4, 0, 0], latents[ahead:, 4:, 0, 0]
    for at, (rendered, reference) in enumerate(zip(rendered_at, reference_at, strict=True)):
        key = keys[4 * at] if at % 2 == 0 else None
        wanted = 0.0 if key is None else scale * (key[0, 0, 0] / 127.5 - 1)
        assert reference[0] == pytest.approx(wanted, abs=1e-4)
        color = frames[max(0, 4 * at - 3) : 4 * at + 1].mean() / 127.5 - 1
        assert rendered[0] == pytest.approx(scale * color, abs=1e-4)


def _mean_color(video: torch.Tensor) -> Any:
    """An autoencoder whose latents are colours: of the first frame, then of four each."""
    frames = video.mean((1, 3, 4))[0]
    alone = len(frames) % 4
    groups = [frames[:alone]] if alone else []
    groups += [frames[at : at + 4] for at in range(alone, len(frames), 4)]
    colors = torch.stack([group.mean() for group in groups])
    height, width = video.shape[3] // 8, video.shape[4] // 8
    latents = colors[None, None, :, None, None].expand(1, 4, -1, height, width)
    return SimpleNamespace(latent_dist=SimpleNamespace(sample=lambda noise: latents))


def test_overlaps_and_cuts_lose_nothing(tiny: Callable[[str], Any], data: bytes) -> None:
    """A model that returns its conditioning shows what a plain decoder shows, frame for frame."""
    backend = tiny("wan-vace")
    lengths = []

    def give_back(video: Any, **_: Any) -> Any:
        lengths.append(len(video))
        frames = np.stack([np.asarray(image) for image in video])
        return SimpleNamespace(frames=torch.from_numpy(frames).permute(0, 3, 1, 2)[None] / 255)

    give_back.transformer = backend._loaded(1).transformer  # type: ignore[attr-defined]
    backend._pipeline = give_back
    plain, shown = decode(data), decode(data, backend)
    assert len(lengths) >= 2 and all(length % 8 == 1 for length in lengths)
    for a, b in zip(plain, shown, strict=True):
        gray = (b.pixels == 128).all(-1)
        assert np.array_equal(np.where(gray[..., None], a.pixels, b.pixels), a.pixels), a.pts


def test_each_window_has_noise_of_its_own(tiny: Callable[[str], Any]) -> None:
    backend = tiny("ltx")
    given, seeds = _spied(backend, backend._loaded(1)), []
    for shift, seed in ((0, 1), (0, 1), (1, 1), (0, 2)):
        frames, keys, confidence = window_of(9)
        backend.restore(frames + np.uint8(shift), keys, confidence, steps=1, seed=seed)
        seeds.append(given["generator"].initial_seed())
    assert seeds[0] == seeds[1] and len(set(seeds)) == 3


def test_a_stream_for_a_model_has_its_pictures_on_the_grid(moving_pictures: Pictures) -> None:
    pictures = moving_pictures(60)
    form = gsvc.VideoFormat(64, 48, Fraction(1, 10), Fraction(10))
    settings = gsvc.EncoderSettings(level=1, preset="fast", made_for="ltx")
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
    for wrong in ({"made_for": "none"}, {"made_for": "ltx", "low_delay": True}):
        with pytest.raises(ConfigError, match="no hub model 'none'|needs look-ahead"):
            gsvc.EncoderSettings(**wrong)


def test_keys_are_taken_from_a_grid() -> None:
    picture = np.zeros((2, 2, 3), np.uint8)
    keys = dict.fromkeys((0, 3, 7, 11, 16, 18), picture)
    assert list(keys_on_grid(keys, 8, exact=True)) == [0, 16]
    assert list(keys_on_grid(keys, 8, exact=False)) == [0, 7, 16]
    assert list(keys_on_grid({}, 8, exact=False)) == []


def test_the_benchmark_measures_it(
    tiny: Callable[[str], Any], moving_pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gsvc.datasets.clips import TestClip
    from gsvc.eval import window_speed
    from gsvc.eval.codecs import find_codec

    tiny("wan-v2v")
    codec = find_codec("gsvc", model="wan-v2v", steps=1, level=0, preset="fast")
    assert f"wan-v2v {'0' * 12}" in codec.version()
    frames = moving_pictures(9)
    clip = TestClip("it", frames, Fraction(25))
    (point,) = codec.rate_points()
    coded = codec.encode(clip, point)
    (way,) = codec.ways_to_decode(point)
    assert len(codec.decode(coded.data, clip.format, point, way).frames) == 9
    monkeypatch.setattr(window_speed, "_SIZES", ((32, 32),))
    told = window_speed.window_speeds("wan-v2v", "cpu", 1)
    assert told["windows"][0]["seconds"] > 0 and told["commit"] == "0" * 40  # type: ignore[index]


# Caches, steps and what is missing.


def test_steps_are_those_asked_for(tiny: Callable[[str], Any]) -> None:
    frames, keys, confidence = window_of(9)
    for name, steps in (("ltx", 5), ("ltx2", 3), ("wan-v2v", 2), ("wan-vace", 4), ("sparkvsr", 1)):
        backend = tiny(name)
        network, calls = backend._loaded(1).transformer, [0]
        network.register_forward_pre_hook(lambda *_, calls=calls: calls.append(0))
        backend.restore(frames, keys, confidence, steps=steps, seed=0)
        assert len(calls) - 1 == steps, name
        with pytest.raises(ConfigError, match=f"{name} restores in "):
            backend.check(50, 66, steps=101)


def test_caches_within_and_across_windows(tiny: Callable[[str], Any], tmp_path: Path) -> None:
    from gsvc.decoders.caches.latents import LatentCache
    from gsvc.decoders.caches.transformer import TransformerCache

    frames, keys, confidence = window_of(9)
    given: Mapping[str, int] = {"steps": 10, "seed": 1}
    for name, text in (("ltx", "first-block:1"), ("wan-v2v", "taylorseer:3")):
        backend = tiny(name)
        backend.step_cache = TransformerCache(text)
        assert len(backend.restore(frames, keys, confidence, **given)) == 9
    backend = tiny("ltx")
    backend.latents = LatentCache(tmp_path / "none", 0)
    plain = backend.restore(frames, keys, confidence, **given)
    backend.latents = LatentCache(tmp_path / "some", 10_000_000)
    first = backend.restore(frames, keys, confidence, **given)
    again = backend.restore(frames, keys, confidence, **given)
    report = backend.latents.report()
    assert (report.hits, report.saved) == (1, 5)
    for a, b, c in zip(plain, first, again, strict=True):
        assert np.array_equal(a, b)
        assert np.abs(a.astype(int) - c).max() <= 1  # it went on from its own latents


def test_what_is_not_here_is_said_in_a_line(
    tiny: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    with pytest.raises(MissingModelError, match="is not on this machine; run: gsvc models pull lt"):
        load_refiner("ltx")
    folder = put_tiny("wan-v2v")
    weights = next((folder / "transformer").glob("*.safetensors"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    with pytest.raises(MissingModelError, match="torn or of another revision; run: gsvc models"):
        load_refiner("wan-v2v")
    weights.write_bytes(whole)
    (folder / "vae" / "weights.bin").touch()
    with pytest.raises(MissingModelError, match=r"weights.bin, a pickle, which may run code"):
        load_refiner("wan-v2v")
    (folder / "vae" / "weights.bin").unlink()
    (folder / "gsvc.json").unlink()
    with pytest.raises(MissingModelError, match="was not pulled to its end"):
        load_refiner("wan-v2v")


def test_weights_that_changed_share_no_windows(tiny: Callable[[str], Any], cache: Path) -> None:
    refiner = tiny("ltx")
    before, manifest = refiner.revision, cache / "hub" / "ltx" / "gsvc.json"
    whole = manifest.read_text()
    told = json.loads(whole)
    name = min(told["files"])
    told["files"][name][1] = "0" * 64
    manifest.write_text(json.dumps(told))
    try:
        assert refiner.revision != before and refiner.id == load_refiner("ltx").id
    finally:
        manifest.write_text(whole)
