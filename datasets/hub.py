"""Pretrained models of the Hugging Face hub: which there are, and whether they lie here whole.

A model lies in a folder of the cache, in diffusers' layout, with a manifest: the commit that it is
of, and the size and SHA-256 of each file. `hub_pull` writes it; nothing is loaded without it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from gsvc.codec.errors import ConfigError, MissingModelError
from gsvc.codec.hashes import sha256_of
from gsvc.datasets.package_files import cache_dir

MANIFEST = "gsvc.json"
PROMPT = "empty_prompt.safetensors"
"""The embedding of the empty prompt, made when a model is pulled: its text encoder is then idle."""
NO_COMMIT = "0" * 40
"""The commit of a model that was not pulled but made, with random weights: for wiring, or speed."""
RANDOM = "random weights"
_TEXT = "text_encoder", "tokenizer"
_PICKLES = ".bin", ".pt", ".pth", ".ckpt", ".pkl"


@dataclass(frozen=True)
class HubModel:
    """A model that a back end of the same name runs."""

    name: str
    repo: str
    licence: str
    pipeline: str
    """Class in diffusers that is given it; "" for a package of its own."""
    notes: str = ""
    grid: int = 8
    """Frames from one of its latents to the next: key pictures are best placed so."""

    @property
    def hint(self) -> bytes:
        """4 bytes that stand for its name in a stream's header, whatever its weights."""
        return sha256(f"gsvc back end {self.name}".encode()).digest()[:4]


_WAN = "Apache-2.0"
_VACE, _V2V = "WanVACEPipeline", "WanVideoToVideoPipeline"
HUB_MODELS = {
    model.name: model
    for model in (
        HubModel(
            "ltx",
            "Lightricks/LTX-Video-0.9.5",
            "LTXV Open Weights",
            "LTXConditionPipeline",
            "2B; a distilled one needs fewer steps: --repo",
        ),
        HubModel(
            "ltx2",
            "Lightricks/LTX-2",
            "LTX-2 Community, to be accepted",
            "LTX2InContextPipeline",
            "restores best with an in-context adapter, which nobody has trained for gsvc",
        ),
        HubModel("wan-vace", "Wan-AI/Wan2.1-VACE-1.3B-diffusers", _WAN, _VACE, grid=4),
        HubModel("wan-vace-14b", "Wan-AI/Wan2.1-VACE-14B-diffusers", _WAN, _VACE, grid=4),
        HubModel("wan-v2v", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", _WAN, _V2V, grid=4),
        HubModel(
            "sparkvsr",
            "JiongzeYu/SparkVSR",
            "CogVideoX, see the repository",
            "CogVideoXImageToVideoPipeline",
            "the repository's name is not checked: --repo",
        ),
        HubModel("swiftvr", "H-oliday/SwiftVR", _WAN, "", "needs the authors' package swiftvr"),
        HubModel(
            "sd-turbo",
            "stabilityai/sd-turbo",
            "Stability AI Community",
            "StableDiffusionImg2ImgPipeline",
            "key pictures, each alone",
            grid=1,
        ),
    )
}
"""By name. None was loaded when gsvc was written: the hub could not be reached."""
_OTHER_WAYS = {"ltx2:condition": "ltx2"}
"""Back ends that run the model of another one."""


def hub_model(name: str) -> HubModel:
    """The model of this name, or of a back end. Raises ConfigError for an unknown one."""
    model = _OTHER_WAYS.get(name, name)
    if model not in HUB_MODELS:
        raise ConfigError(f"no hub model {name!r}; there are {', '.join(HUB_MODELS)}")
    return HUB_MODELS[model]


def hub_folder(name: str) -> Path:
    """Where a model lies, or that of a back end, whether or not it is there."""
    return cache_dir() / "hub" / _OTHER_WAYS.get(name, name)


def pull_line(name: str) -> str:
    """The command that brings a model, or that of a back end."""
    return f"gsvc models pull {_OTHER_WAYS.get(name, name)}"


@dataclass(frozen=True)
class Manifest:
    """What a model's folder holds."""

    repo: str
    commit: str
    """40 hexadecimal digits."""
    files: Mapping[str, tuple[int, str]]
    """Path in the folder -> bytes and SHA-256."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for size, _ in self.files.values())

    @property
    def text_encoder(self) -> str:
        """16 digits that change with its text encoder or tokenizer."""
        read = {name: one for name, one in self.files.items() if name.startswith(_TEXT)}
        return sha256(repr(sorted(read.items())).encode()).hexdigest()[:16]

    @property
    def weights(self) -> str:
        """Its commit in short, or `RANDOM`."""
        return RANDOM if self.commit == NO_COMMIT else self.commit[:12]

    def write(self, folder: Path) -> None:
        """Write it to a folder, at once."""
        part = folder / f".{MANIFEST}"
        part.write_text(json.dumps(asdict(self), indent=1))
        part.replace(folder / MANIFEST)


def read_manifest(name: str) -> Manifest:
    """A model's manifest. Raises MissingModelError where there is none, or it cannot be read."""
    path = hub_folder(name) / MANIFEST
    if not path.exists():
        began = hub_folder(name).exists()
        state = "was not pulled to its end" if began else "is not on this machine"
        raise MissingModelError(f"model {name} {state}; run: {pull_line(name)}")
    try:
        told: Any = json.loads(path.read_text())
        files = {str(file): (int(size), str(hash)) for file, (size, hash) in told["files"].items()}
        return Manifest(str(told["repo"]), str(told["commit"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MissingModelError(f"{path} is damaged; run: {pull_line(name)}") from error


def check_hub_model(name: str, *, whole: bool = False) -> Manifest:
    """Raises MissingModelError unless all files are there in their sizes, by `whole` also hashes.

    Nothing is ever loaded from pickles: a folder that holds one is refused.
    """
    manifest, folder = read_manifest(name), hub_folder(name)
    for file, (size, digest) in manifest.files.items():
        path = folder / file
        if not path.is_file():
            raise MissingModelError(f"model {name} lacks {file}; run: {pull_line(name)}")
        if path.stat().st_size != size or (whole and sha256_of(path) != digest):
            raise MissingModelError(
                f"model {name}: {file} is torn or of another revision; run: {pull_line(name)}"
            )
    for path in pickles(folder):
        raise MissingModelError(
            f"model {name} holds {path.name}, a pickle, which may run code: take it away, "
            "only safetensors are read"
        )
    return manifest


def pickles(folder: Path) -> Iterator[Path]:
    """Files of a folder that would be read as pickles."""
    yield from (path for path in folder.rglob("*") if path.suffix in _PICKLES)
