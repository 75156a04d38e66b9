"""What reaches each pretrained model of a whole stream, with cuts and several windows."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from pretrained_windows import decode


def test_overlaps_and_cuts_lose_nothing(tiny: Callable[[str], Any], cut_stream: bytes) -> None:
    """A model that returns its conditioning shows what a plain decoder shows, frame for frame."""
    backend = tiny("wan-vace")
    lengths = []

    def give_back(video: Any, **_: Any) -> Any:
        lengths.append(len(video))
        frames = np.stack([np.asarray(image) for image in video])
        return SimpleNamespace(frames=torch.from_numpy(frames).permute(0, 3, 1, 2)[None] / 255)

    give_back.transformer = backend._loaded(1).transformer  # type: ignore[attr-defined]
    backend._pipeline = give_back
    plain, shown = decode(cut_stream), decode(cut_stream, backend)
    assert len(lengths) >= 2 and all(length % 8 == 1 for length in lengths)
    for a, b in zip(plain, shown, strict=True):
        gray = (b.pixels == 128).all(-1)
        assert np.array_equal(np.where(gray[..., None], a.pixels, b.pixels), a.pixels), a.pts
