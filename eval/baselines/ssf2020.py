"""Scale-space flow, a learned video codec: Agustsson et al. (CVPR 2020)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gsvc.datasets.clips.clip import ClipFormat
from gsvc.eval.baselines.conventional import key_interval
from gsvc.eval.baselines.learned import LearnedCodec

if TYPE_CHECKING:
    import torch


class Ssf2020(LearnedCodec):
    """Scale-space flow, low delay; a key frame every four seconds."""

    name = "ssf2020"
    zoo = "compressai.zoo.video"
    qualities = range(1, 10)
    multiple = 128

    def _compress(
        self, network: Any, pictures: "Iterator[torch.Tensor]", interval: int
    ) -> Iterator[bytes]:
        before: torch.Tensor | None = None
        for index, picture in enumerate(pictures):
            if index % interval == 0:
                before, coded = network.encode_keyframe(picture)
                yield from (strings[0] for strings in coded["strings"])
            else:
                before, coded = network.encode_inter(picture, before)
                for part in ("motion", "residual"):
                    yield from (strings[0] for strings in coded["strings"][part])

    def _decompress(
        self, network: Any, parts: Iterator[bytes], shape: tuple[int, int], clip: ClipFormat
    ) -> "list[torch.Tensor]":
        found: list[torch.Tensor] = []
        for index in range(clip.frames):
            first = [[next(parts)], [next(parts)]]
            if index % key_interval(clip.frame_rate) == 0:
                found.append(network.decode_keyframe(first, shape))
                continue
            strings = {"motion": first, "residual": [[next(parts)], [next(parts)]]}
            shapes = dict.fromkeys(strings, shape)
            found.append(network.decode_inter(found[-1], strings, shapes))
        return found


CODECS = (Ssf2020,)
