"""SVT-AV1 at half the size, enlarged by Real-ESRGAN: what a user can put together in an afternoon.

The networks are those that our own refiners draw on, given every decoded picture as it is.
"""

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import cv2
import numpy as np

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.extras import need
from gsvc.datasets.clips.clip import ClipFormat
from gsvc.decoders.keyframes.priors.prior_files import prior_path
from gsvc.eval.baselines.base import Compute, Decoded, Option, Settings, Value, all_of
from gsvc.eval.baselines.conventional import Points, Size, coded_size, read_scale
from gsvc.eval.baselines.svtav1 import AV1_FAMILY, SvtAv1
from gsvc.eval.compute import Flops, count_flops
from gsvc.eval.late_loading import CodecFacts

_PROTOCOL = 1
"""Part of the version: raise it when a change here alters output."""
_NETWORKS = {"compact": "animevideov3", "x4plus": "x4plus"}
"""By the names that tables have."""
_OUTSIDE = ("AV1 decoding", "plain enlargement and mixing")


class SvtAv1Sr(SvtAv1):
    """SVT-AV1's small pictures, drawn large by a network.

    Settings: those of `SvtAv1`.

    Ways to decode:
        network: "compact", or "x4plus", which takes 45 times the time.
        mix: the share of the drawing, 0 to 1; the rest is the plain enlargement.

    The constructor takes one value or several of each.
    """

    name = "svtav1+sr"
    facts = CodecFacts(family=AV1_FAMILY, colour="#8a63d2", marker="D")
    preset: ClassVar[Value] = "4-vq"
    tuned: ClassVar[tuple[Value, ...]] = ()
    points: ClassVar[Points] = {"1/2": (70, 63, 56)}

    def __init__(
        self, network: Option = "compact", mix: Option = (0.5, 1.0), **options: Option
    ) -> None:
        super().__init__(**options)
        self._networks, self._mixes = all_of("network", network, str), all_of("mix", mix, float)
        self._drawings: tuple[tuple[bytes, str], list[Picture], float] | None = None
        if unknown := set(self._networks) - set(_NETWORKS):
            raise ConfigError(f"network {min(unknown)!r}: take one of {', '.join(_NETWORKS)}")
        if not all(0 <= one <= 1 for one in self._mixes):
            raise ConfigError("mix: give the share of the drawing, from 0 to 1")

    def version(self) -> str:
        """See `Codec.version`. Raises as `prior_path` without the networks."""
        need("refine", self.name)
        names = [prior_path(_NETWORKS[network]).name for network in self._networks]
        return f"{super().version()}, {', '.join(names)}, protocol {_PROTOCOL}"

    def ways_to_decode(self, settings: Settings) -> Sequence[Settings]:
        """See `Codec.ways_to_decode`."""
        return [{"network": n, "mix": mix} for n in self._networks for mix in self._mixes]

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """See `ConventionalCodec.decode`; the drawings of the last stream are kept."""
        plain = super().decode(data, clip, settings, way)
        drawn, seconds = self._drawn(data, (clip.width, clip.height), str(way["network"]))
        mix, start = float(way["mix"]), time.perf_counter()
        frames = [
            np.asarray(cv2.addWeighted(one, 1 - mix, other, mix, 0), np.uint8)
            for one, other in zip(plain.frames, drawn, strict=True)
        ]
        return Decoded(frames, plain.seconds + seconds + time.perf_counter() - start)

    def compute(
        self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings
    ) -> Compute | None:
        """The network's, once for each frame."""
        name = _NETWORKS[str(way["network"])]
        shown = clip.width, clip.height
        one = _flops(name, coded_size(shown, read_scale(settings["scale"])))
        weights = prior_path(name).stat().st_size
        flops = one.count / (clip.width * clip.height)
        return Compute(flops, weights, (*_OUTSIDE, *one.not_counted))

    def _drawn(self, data: bytes, shown: Size, network: str) -> tuple[list[Picture], float]:
        """The drawings of every frame and the seconds that they took."""
        if self._drawings is None or self._drawings[0] != (data, network):
            start = time.perf_counter()
            made = _network(_NETWORKS[network])
            drawings = [_drawing(made, small, shown) for small in self._small(data)]
            self._drawings = (data, network), drawings, time.perf_counter() - start
        return self._drawings[1:]


def _drawing(network: Any, small: Picture, shown: Size) -> Picture:
    """What the network makes of a picture, at the size shown."""
    import torch

    from gsvc.decoders.keyframes.priors.prior_drawings import enlarged

    with torch.inference_mode():
        given = torch.from_numpy(small).permute(2, 0, 1)[None].float().div(255)
        drawn = enlarged(network, given).clamp(0, 1).mul(255).round()
    large = drawn[0].permute(1, 2, 0).byte().numpy()
    return np.asarray(cv2.resize(large, shown, interpolation=cv2.INTER_AREA), np.uint8)


@cache
def _network(name: str) -> Any:
    from gsvc.decoders.keyframes.priors.prior_drawings import load_prior

    return load_prior(name)


@cache
def _flops(name: str, size: Size) -> Flops:
    """Of one picture, counted without storage."""
    import torch

    from gsvc.decoders.keyframes.priors.prior_drawings import enlarged, make_prior

    with torch.device("meta"):
        network, given = make_prior(name), torch.empty(1, 3, size[1], size[0])
    return count_flops(lambda: enlarged(network, given))


CODECS = (SvtAv1Sr,)
