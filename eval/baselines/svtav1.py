"""SVT-AV1 at its best, random access, long groups, tuned for PSNR and for the eye; and at half the
size, enlarged by Real-ESRGAN, which a user can put together in an afternoon.
"""

import re
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import cv2
import numpy as np

from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.weights.extras import Late, need
from gsvc.datasets.clips.clip_reader import ClipFormat
from gsvc.decoders.keyframes.priors.prior_files import prior_path
from gsvc.eval.baselines import conventional
from gsvc.eval.baselines.base import Compute, Decoded, Option, Settings, Value, all_of
from gsvc.eval.compute import count_flops
from gsvc.eval.late_loading import CodecFacts, torch

prior_drawings = Late("gsvc.decoders.keyframes.priors.prior_drawings")
AV1_FAMILY = "AV1, all curves"
"""The joint hull of SVT-AV1 and of what can be done before and after it."""
_VISUAL, _FLATTER = "-vq", "-qsc"
_PRESET = re.compile(f"(-?[0-9]+)({_VISUAL})?({_FLATTER})?")


class SvtAv1(conventional.ConventionalCodec):
    """AV1, 8 bits, as an elementary stream.

    Preset "4-vq" is preset 4 with the library's visual tuning and its greatest sharpness. On
    development clips it saves 10 to 20 % of the bits at equal ST-LPIPS and costs PSNR, so both are
    run and the hull has the better one for each metric. Other sharpness, or no CDEF, did no better.
    "4-qsc" and "4-vq-qsc" spread quantisers less between temporal layers
    (qp-scale-compress-strength=1), which saves 2.5 to 4 % at equal PSNR.
    """

    name = "svtav1"
    suffix = ".obu"
    facts = CodecFacts(family=AV1_FAMILY, is_anchor=True, colour="#2b7bd6", marker="D")
    library = "libsvtav1"
    demuxer = "obu"
    pixel_format = "yuv420p"
    preset: ClassVar[Value] = 4
    tuned: ClassVar[tuple[Value, ...]] = (f"4{_VISUAL}",)
    max_crf = 70
    points: ClassVar[conventional.Points] = {
        "1": (70, 63, 60, 56, 50),
        "1/2": (70, 63, 56, 48),
        "1/3": (63, 52),
    }

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        known = _PRESET.fullmatch(str(preset))
        if known is None:
            raise ConfigError(f"preset {preset!r} is not known: write 4, 4{_VISUAL} or 4{_FLATTER}")
        speed, visual, flatter = known.groups()
        params = f"lp={conventional.THREADS}{':tune=0:sharpness=7' if visual else ''}"
        params += ":qp-scale-compress-strength=1" if flatter else ""
        params += ":keyint=-1" if interval == conventional.NO_LIMIT else ""
        return {"preset": speed, "svtav1-params": f"crf={quality}:{params}"}  # FFmpeg's ends at 63


_PROTOCOL = 1
"""Part of the version: raise it when a change here alters output."""
_NETWORKS = {"compact": "animevideov3", "x4plus": "x4plus"}
"""By the names that tables have."""


class SvtAv1Sr(SvtAv1):
    """SVT-AV1's small pictures, drawn large by a network that our own refiners draw on.

    Settings: those of `SvtAv1`.

    Ways to decode:
        network: "compact", or "x4plus", which takes 45 times the time.
        mix: the share of the drawing, 0 to 1; the rest is the plain enlargement.
    """

    name = "svtav1+sr"
    facts = CodecFacts(family=AV1_FAMILY, colour="#8a63d2", marker="D")
    preset: ClassVar[Value] = "4-vq"
    tuned: ClassVar[tuple[Value, ...]] = ()
    points: ClassVar[conventional.Points] = {"1/2": (70, 63, 56)}

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
        name, scale = _NETWORKS[str(way["network"])], conventional.read_scale(settings["scale"])
        flops = _flops(name, conventional.coded_size((clip.width, clip.height), scale))
        return Compute(flops / (clip.width * clip.height), prior_path(name).stat().st_size)

    def _drawn(
        self, data: bytes, shown: conventional.Size, network: str
    ) -> tuple[list[Picture], float]:
        if self._drawings is None or self._drawings[0] != (data, network):
            start = time.perf_counter()
            made = _network(_NETWORKS[network])
            drawings = [_drawing(made, small, shown) for small in self._small(data)]
            self._drawings = (data, network), drawings, time.perf_counter() - start
        return self._drawings[1:]


def _drawing(network: Any, small: Picture, shown: conventional.Size) -> Picture:
    """What the network makes of a picture, at the size shown."""
    with torch.inference_mode():
        given = torch.from_numpy(small).permute(2, 0, 1)[None].float().div(255)
        drawn = prior_drawings.enlarged(network, given).clamp(0, 1).mul(255).round()
    large = drawn[0].permute(1, 2, 0).byte().numpy()
    return np.asarray(cv2.resize(large, shown, interpolation=cv2.INTER_AREA), np.uint8)


@cache
def _network(name: str) -> Any:
    return prior_drawings.load_prior(name)


@cache
def _flops(name: str, size: conventional.Size) -> int:
    """Of one picture, counted without storage."""
    with torch.device("meta"):
        network, given = prior_drawings.PRIORS[name](), torch.empty(1, 3, size[1], size[0])
    return count_flops(lambda: prior_drawings.enlarged(network, given))


CODECS = SvtAv1, SvtAv1Sr
