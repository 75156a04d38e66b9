"""Learned codecs of CompressAI: image models frame by frame, and a video codec.

The package is optional and the weights must be on this machine: nothing is downloaded, and no
network has random weights. Streams come from CompressAI's own entropy coder, which reads beyond its
input when that is damaged. A stream therefore ends with a checksum: decode only those of the run.
"""

import time
from abc import abstractmethod
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import google_crc32c
import numpy as np

from gsvc.codec.bitstream.errors import BitstreamError, MissingModelError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import ClipFormat, TestClip
from gsvc.eval.baselines import base, conventional, images
from gsvc.eval.baselines.base import Decoded, Settings
from gsvc.eval.late_loading import hub_file, kept_sha256, optional, torch

_CHECKSUM = 4
_INSTALL = "pip install 'gsvc[research]'"
_Tensors = Iterator["torch.Tensor"]


class LearnedCodec(images.QualityCodec):
    """A model of CompressAI's zoo. Settings: `quality`, the zoo's number, and `scale`.

    The constructor takes one value or several of each, and `weights`: a folder with the zoo's
    files, or one checkpoint of your own (its state dict), which is then used for every quality.
    Without it the files are looked for where torch.hub keeps them.
    """

    suffix = ".cai"
    multiple: ClassVar[int]
    """Sides are padded to a multiple of it: the stride of the hyperprior's latents."""
    zoo: ClassVar[str]

    def __init__(
        self,
        quality: base.Option = (1, 2, 3),
        scale: base.Option = ("1", "1/2", "1/3"),
        weights: str = "",
    ) -> None:
        super().__init__(quality, scale)
        self._weights = weights

    def version(self) -> str:
        """As `Codec.version`, with a hash of all weights. Raises MissingModelError without them."""
        _package(self.zoo)
        files = dict.fromkeys(self._file(int(point["quality"])) for point in self._points)
        hashes = " ".join(kept_sha256(path)[:8] for path in files)
        package = f"compressai {version('compressai')}"
        return f"{self.name} of {package}, {hashes}, protocol {conventional.PROTOCOL}"

    def encode(self, clip: TestClip, settings: Settings) -> base.Encoded:
        """Code the clip on the CPU. Raises as `version`, ConfigError, InputError without frames."""
        quality, scale = self._read(settings)
        base.require_frames(clip)
        size = conventional.coded_size((clip.width, clip.height), scale)
        network = self._network(quality)
        start, interval = time.perf_counter(), conventional.key_interval(clip.frame_rate)
        shrunk = (conventional.shrink(frame, size) for frame in clip.frames)
        pictures = (_tensor(picture, self.multiple) for picture in shrunk)
        with torch.no_grad():
            parts = list(self._compress(network, pictures, interval))
        data = base.join_parts(parts)
        data += google_crc32c.value(data).to_bytes(_CHECKSUM, "big")
        video = 8 * sum(map(len, parts))
        ledger = {"video": video, "framing": 8 * len(data) - video}
        return base.Encoded(data, time.perf_counter() - start, ledger)

    def decode(self, data: bytes, clip: ClipFormat, settings: Settings, way: Settings) -> Decoded:
        """Decode. Raises BitstreamError when the checksum or the number of frames does not fit."""
        quality, scale = self._read(settings)
        network = self._network(quality)
        shown = clip.width, clip.height
        size = conventional.coded_size(shown, scale)
        start = time.perf_counter()
        body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
        if not body or google_crc32c.value(body).to_bytes(_CHECKSUM, "big") != checksum:
            raise BitstreamError(f"the checksum of the {self.name} stream is wrong: code again")
        parts = base.split_parts(body)
        shape = -(-size[1] // self.multiple), -(-size[0] // self.multiple)
        try:
            with torch.no_grad():
                tensors = self._decompress(network, parts, shape, clip)
            frames = [conventional.enlarge(_picture(tensor, size), shown) for tensor in tensors]
        except StopIteration as error:
            raise BitstreamError(f"the {self.name} stream is too short for the clip") from error
        if any(True for _ in parts):
            raise BitstreamError(f"the {self.name} stream has more than {clip.frame_count} frames")
        return Decoded(frames, time.perf_counter() - start)

    @abstractmethod
    def _compress(self, network: Any, pictures: _Tensors, interval: int) -> Iterator[bytes]:
        """Coded parts, picture by picture, an intra picture every `interval` frames."""

    @abstractmethod
    def _decompress(
        self, network: Any, parts: Iterator[bytes], shape: tuple[int, int], clip: ClipFormat
    ) -> "list[torch.Tensor]":
        """The pictures again; `shape`: rows and columns of the hyperprior's latents."""

    def _network(self, quality: int) -> Any:
        return _load(self.zoo, self.name, self._file(quality))

    def _file(self, quality: int) -> Path:
        own = Path(self._weights)
        if self._weights and own.is_file():
            return own
        folder = own if self._weights else Path(torch.hub.get_dir()) / "checkpoints"
        address: str = _package(self.zoo).model_urls[self.name]["mse"][quality]
        name = address.rpartition("/")[2]
        remedy = f"put {name} of CompressAI's zoo into {folder}"
        return hub_file(folder / name, f"the file of {self.name}", remedy)


class ImageModel(LearnedCodec):
    """Every frame an independent image: the floor of learned codecs."""

    zoo = "compressai.zoo.image"
    multiple = 64

    def _compress(self, network: Any, pictures: _Tensors, interval: int) -> Iterator[bytes]:
        for picture in pictures:
            for strings in network.compress(picture)["strings"]:
                yield strings[0]

    def _decompress(
        self, network: Any, parts: Iterator[bytes], shape: tuple[int, int], clip: ClipFormat
    ) -> "list[torch.Tensor]":
        return [
            network.decompress([[next(parts)], [next(parts)]], shape)["x_hat"]
            for _ in range(clip.frame_count)
        ]


class Hyperprior(ImageModel):
    """Scale hyperprior: Ballé et al. (ICLR 2018)."""

    name = "bmshj2018-hyperprior"
    qualities = range(1, 9)


class MeanHyperprior(ImageModel):
    """Mean and scale hyperprior: Minnen et al. (NeurIPS 2018)."""

    name = "mbt2018-mean"
    qualities = range(1, 9)


class Cheng2020(ImageModel):
    """Residual blocks and a serial context model: Cheng et al. (CVPR 2020).

    It takes minutes a clip on a CPU.
    """

    name = "cheng2020-anchor"
    qualities = range(1, 7)


class Ssf2020(LearnedCodec):
    """Scale-space flow, low delay, a key frame every four seconds: Agustsson et al. (CVPR 2020)."""

    name = "ssf2020"
    zoo = "compressai.zoo.video"
    qualities = range(1, 10)
    multiple = 128

    def _compress(self, network: Any, pictures: _Tensors, interval: int) -> Iterator[bytes]:
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
        for index in range(clip.frame_count):
            first = [[next(parts)], [next(parts)]]
            if index % conventional.key_interval(clip.frame_rate) == 0:
                found.append(network.decode_keyframe(first, shape))
                continue
            strings = {"motion": first, "residual": [[next(parts)], [next(parts)]]}
            found.append(network.decode_inter(found[-1], strings, dict.fromkeys(strings, shape)))
        return found


def _package(zoo: str) -> Any:
    with optional(f"CompressAI cannot be imported ({{error}}): {_INSTALL}"):
        return import_module(zoo)


@cache
def _load(zoo: str, name: str, path: Path) -> Any:
    module = _package(zoo)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        network = module.model_architectures[name].from_state_dict(
            _package("compressai.zoo.pretrained").load_pretrained(state)
        )
    except Exception as error:
        raise MissingModelError(f"{path} holds no weights of {name} ({error})") from error
    network.update()
    return network.eval()


def _tensor(picture: Picture, multiple: int) -> "torch.Tensor":
    """Float (1, 3, H, W) in 0-1, padded by repeating its border."""
    height, width = picture.shape[:2]
    border = ((0, -height % multiple), (0, -width % multiple), (0, 0))
    padded = np.pad(picture, border, mode="edge")
    return torch.from_numpy(padded).permute(2, 0, 1)[None].float() / 255


def _picture(tensor: "torch.Tensor", size: conventional.Size) -> Picture:
    levels = (tensor[0, :, : size[1], : size[0]].clamp(0, 1) * 255).round().byte()
    return np.ascontiguousarray(levels.permute(1, 2, 0).numpy())


CODECS = (Hyperprior, MeanHyperprior, Cheng2020, Ssf2020)
