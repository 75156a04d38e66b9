"""What each pretrained model is given of one window: keys, rendering, confidence at their times."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gsvc.decoders.keyframes.pretrained.pretrained import keys_on_grid
from pretrained_windows import as_uint8, spied, window_of


@pytest.mark.parametrize("count", [1, 9, 33])
def test_ltx_gets_each_key_at_its_time(tiny: Callable[[str], Any], count: int) -> None:
    backend, seen = tiny("ltx"), []
    pipeline = backend._loaded(1)

    def encode(video: torch.Tensor) -> Any:
        seen.append(video)
        return type(pipeline.vae).encode(pipeline.vae, video)

    pipeline.vae.encode, given = encode, spied(backend, pipeline)
    frames, keys, confidence = window_of(count)
    backend.restore(frames, keys, confidence, steps=2, seed=0)
    assert np.array_equal(as_uint8(seen[0][0].permute(1, 2, 3, 0), -1)[:, :50, :66], frames)
    times = [condition.frame_index for condition in given["conditions"]]
    assert times == list(range(0, count, 8))
    for condition in given["conditions"]:
        picture = as_uint8(condition.image[0].permute(1, 2, 0), 0)[:50, :66]
        assert np.array_equal(picture, keys[condition.frame_index])
    pictures = [torch.zeros(1, 3, 1, 64, 96)] * len(times)
    _, mask, places, extra = pipeline.prepare_latents(
        *(pictures, [1.0] * len(times), times, 1, 8, 64, 96, count),
        device="cpu",
        dtype=torch.float32,
    )
    tokens = 2 * 3
    assert places[0, 0, :extra:tokens].tolist() == times[1:]  # keys but the first: own tokens
    assert (mask[0, extra : extra + tokens] == 1).all()  # the first: in its place


@pytest.mark.parametrize("count", [1, 9, 33])
def test_ltx2_gets_each_key_rendering_and_confidence_at_its_time(
    tiny: Callable[[str], Any], count: int
) -> None:
    backend = tiny("ltx2")
    pipeline = backend._loaded(1)
    given = spied(backend, pipeline)
    frames, keys, confidence = window_of(count)
    confidence[:, :32, :32] = 0.2
    assert len(backend.restore(frames, keys, confidence, steps=1, seed=0)) == count
    reference = as_uint8(given["reference_conditions"][0].frames.permute(0, 2, 3, 1), 0)
    assert np.array_equal(reference[1 : count + 1, :50, :66], frames)
    trust = given["conditioning_attention_mask"][0, 0].numpy()
    assert np.array_equal(trust[1 : count + 1, :50, :66], confidence >= 0.3)
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
    given = spied(backend, SimpleNamespace(transformer=pipeline.transformer))
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


def test_each_window_has_noise_of_its_own(tiny: Callable[[str], Any]) -> None:
    backend = tiny("ltx")
    given, seeds = spied(backend, backend._loaded(1)), []
    for shift, seed in ((0, 1), (0, 1), (1, 1), (0, 2)):
        frames, keys, confidence = window_of(9)
        backend.restore(frames + np.uint8(shift), keys, confidence, steps=1, seed=seed)
        seeds.append(given["generator"].initial_seed())
    assert seeds[0] == seeds[1] and len(set(seeds)) == 3


def test_keys_are_taken_from_a_grid() -> None:
    picture = np.zeros((2, 2, 3), np.uint8)
    keys = dict.fromkeys((0, 3, 7, 11, 16, 18), picture)
    assert list(keys_on_grid(keys, 8, exact=True)) == [0, 16]
    assert list(keys_on_grid(keys, 8, exact=False)) == [0, 7, 16]
    assert list(keys_on_grid({}, 8, exact=False)) == []
