"""CompressAI's models as codecs: the wiring, with networks of the right shape and no training."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gsvc import BitstreamError, ConfigError, MissingDependencyError, MissingModelError
from gsvc.datasets.clips.clip_reader import TestClip
from gsvc.eval.baselines import find_codec
from needs import need_package


def clip(count: int) -> TestClip:
    y, x = np.mgrid[0:100, 0:130]
    frames = [np.stack([x + 3 * i, y, x * y // 99], 2).astype(np.uint8) for i in range(count)]
    return TestClip("ramps", frames, Fraction(1, 2))


def untrained(name: str, folder: Path) -> Path:
    need_package("compressai")
    import torch
    from compressai.zoo import models

    torch.manual_seed(1)
    network = models[name](quality=1)
    network.update()
    path = folder / "weights.pth"
    torch.save(network.state_dict(), path)
    return path


@pytest.mark.parametrize("name", ["ssf2020", "bmshj2018-hyperprior", "mbt2018-mean"])
def test_what_a_model_codes_comes_back(name: str, tmp_path: Path) -> None:
    weights = untrained(name, tmp_path)
    codec = find_codec(name, quality=1, scale="1", weights=str(weights))
    settings = codec.rate_points()[0]
    source = clip(3)  # at half a frame a second: a key frame, a predicted one, a key frame
    encoded = codec.encode(source, settings)
    assert sum(encoded.ledger.values()) == 8 * len(encoded.data)
    decoded = codec.decode(encoded.data, source.format, settings, {})
    assert [frame.shape for frame in decoded.frames] == [(100, 130, 3)] * 3
    again = codec.decode(encoded.data, source.format, settings, {})
    assert all(np.array_equal(a, b) for a, b in zip(decoded.frames, again.frames, strict=True))
    assert "compressai" in codec.version()
    for bad in (b"", encoded.data[:-1], encoded.data[:9] + b"!" + encoded.data[10:]):
        with pytest.raises(BitstreamError, match="checksum"):
            codec.decode(bad, source.format, settings, {})
    for count in (2, 5):
        with pytest.raises(BitstreamError):
            codec.decode(encoded.data, clip(count).format, settings, {})


def test_without_package_or_weights_it_says_what_to_do(tmp_path: Path) -> None:
    codec = find_codec("ssf2020", weights=str(tmp_path))
    with pytest.raises(
        (MissingDependencyError, MissingModelError), match=r"research|ssf2020-mse-1"
    ):
        codec.version()
    with pytest.raises(
        (MissingDependencyError, MissingModelError), match=r"research|ssf2020-mse-1"
    ):
        codec.encode(clip(1), codec.rate_points()[0])


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    weights = untrained("mbt2018-mean", tmp_path)
    codec = find_codec("ssf2020", weights=str(weights))
    with pytest.raises(MissingModelError, match="no weights of ssf2020"):
        codec.encode(clip(1), codec.rate_points()[0])


def test_qualities_are_those_of_the_zoo() -> None:
    with pytest.raises(ConfigError, match="1 to 6"):
        find_codec("cheng2020-anchor", quality=7)
