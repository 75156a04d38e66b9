"""Pretrained models of the Hugging Face hub: which there are, and whether they lie here whole.

A model lies in a folder of the cache, in diffusers' layout, with a manifest: the commit that it is
of, and the size and SHA-256 of each file. `pull_hub_model` brings its safetensors and settings at
one commit, checks each file and writes the manifest; nothing is loaded without it.
"""

import json
import logging
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from gsvc.codec.bitstream.errors import ConfigError, MissingModelError
from gsvc.codec.media.output import explain_failure, make_folder
from gsvc.codec.weights.extras import need
from gsvc.codec.weights.model_files import Progress, cache_dir, sha256_of

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


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
HUB_MODELS = {name: HubModel(name, **row) for name, row in _ROWS.items()}
BY_HINT = {model.hint: model for model in HUB_MODELS.values()}
_OTHER_WAYS = {"ltx2:condition": "ltx2"}  # back ends that run the model of another one


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
class HubManifest:
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


def read_hub_manifest(name: str) -> HubManifest:
    """A model's manifest. Raises MissingModelError where there is none, or it cannot be read."""
    path = hub_folder(name) / MANIFEST
    if not path.exists():
        began = hub_folder(name).exists()
        state = "was not pulled to its end" if began else "is not on this machine"
        raise MissingModelError(f"model {name} {state}; run: {pull_line(name)}")
    try:
        told: Any = json.loads(path.read_text())
        files = {str(file): (int(size), str(hash)) for file, (size, hash) in told["files"].items()}
        return HubManifest(str(told["repo"]), str(told["commit"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise MissingModelError(f"{path} is damaged; run: {pull_line(name)}") from error


def check_hub_model(name: str, *, whole: bool = False) -> HubManifest:
    """Raises MissingModelError unless all files are there in their sizes, by `whole` also hashes.

    Nothing is ever loaded from pickles: a folder that holds one is refused.
    """
    manifest, folder = read_hub_manifest(name), hub_folder(name)
    for file, (size, digest) in manifest.files.items():
        path = folder / file
        if not path.is_file():
            raise MissingModelError(f"model {name} lacks {file}; run: {pull_line(name)}")
        if path.stat().st_size != size or (whole and sha256_of(path) != digest):
            why = f"model {name}: {file} is torn or of another revision; run: {pull_line(name)}"
            raise MissingModelError(why)
    for path in pickles(folder):
        raise MissingModelError(
            f"model {name} holds {path.name}, a pickle, which may run code: take it away, "
            "only safetensors are read"
        )
    return manifest


def pickles(folder: Path) -> Iterator[Path]:
    """Files of a folder that would be read as pickles."""
    yield from (path for path in folder.rglob("*") if path.suffix in _PICKLES)


_WANTED = ("*.safetensors", "*.json", "*.txt", "*.model")


def pull_hub_model(
    model: HubModel,
    *,
    repo: str | None = None,
    revision: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Bring a model into the cache; gives its folder.

    What is there already is not brought again; an interrupted pull goes on with the file it was at.

    Args:
        model: Of `HUB_MODELS`.
        repo: OWNER/NAME of another repository in the same layout.
        revision: The commit, or a branch; None: the commit pulled before, or the newest.
        progress: Told of each file.

    Raises:
        MissingModelError: The hub cannot be reached, has no such repository, wants its licence
            accepted first, or gave a file with another hash than it states or than the same
            commit had before.
        OutputError: The cache cannot be written.
    """
    need("pretrained", "models of the hub")
    folder, say = hub_folder(model.name), progress or (lambda line: None)
    before = None
    with suppress(MissingModelError):
        before = read_hub_manifest(model.name)
    if before and repo in (None, before.repo):
        repo, revision = before.repo, revision or before.commit
    repo = repo or model.repo
    commit, files = _listed(model, repo, revision)
    make_folder(folder)
    found = {}
    same = before.files if before and (before.repo, before.commit) == (repo, commit) else {}
    for name, one in files.items():
        say(f"{model.name}: {name}, {(one.size or 0) / 1e6:.0f} MB")
        _, known = same.get(name, (0, None))
        found[name] = _brought(model.name, repo, commit, folder, one, known)
    with explain_failure(folder):
        HubManifest(repo, commit, found).write(folder)
    return folder


def _listed(model: HubModel, repo: str, revision: str | None) -> tuple[str, dict[str, Any]]:
    """The commit, and what the hub tells of each file of it that is read, by name."""
    told = _asked(
        model.name, repo, lambda api: api.model_info(repo, revision=revision, files_metadata=True)
    )
    layered = bool(model.pipeline)
    files = {one.rfilename: one for one in told.siblings if _is_wanted(one.rfilename, layered)}
    if not any(name.endswith(".safetensors") for name in files):
        raise MissingModelError(f"{repo} holds no safetensors, and pickles are not read: --repo")
    return told.sha, files


def _brought(
    name: str, repo: str, commit: str, folder: Path, told: Any, known: str | None
) -> tuple[int, str]:
    """One file, checked: its size and SHA-256. `known`: what that was before at this commit."""
    file: str = told.rfilename
    path = folder / file
    stated = told.lfs.sha256 if told.lfs else None
    if stated and known and stated != known:
        raise _changed(file, repo, commit)
    wanted = stated or known
    if not (wanted and path.is_file() and sha256_of(path) == wanted):
        path.unlink(missing_ok=True)  # else the hub's library may take it for whole
        _asked(
            name,
            repo,
            lambda api: api.hf_hub_download(repo, file, revision=commit, local_dir=folder),
        )
    sha256 = sha256_of(path)
    if wanted and sha256 != wanted:
        path.unlink()
        if not stated:
            raise _changed(file, repo, commit)
        raise MissingModelError(f"{file} of {repo} came torn; run again: {pull_line(name)}")
    return path.stat().st_size, sha256


def _changed(file: str, repo: str, commit: str) -> MissingModelError:
    """A commit's files never change: somebody else answers, or its history was written anew."""
    return MissingModelError(
        f"{file} of {repo} is another than it was at the same commit, {commit[:12]}: it is not "
        "taken; --revision main takes the newest commit"
    )


def _asked(name: str, repo: str, question: Callable[[Any], Any]) -> Any:
    """The hub's answer; its errors in a line."""
    from huggingface_hub import HfApi, errors

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # said once, below
    page = f"https://huggingface.co/{repo}"
    try:
        return question(HfApi())
    except errors.GatedRepoError as error:
        why = f"{repo} has a licence to be accepted first: open {page}, then run hf auth login"
        raise MissingModelError(why) from error
    except errors.RevisionNotFoundError as error:
        raise MissingModelError(f"{repo} has no such revision: see {page}/commits") from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        why = f"the hub has no repository {repo} (or it wants hf auth login): name one with --repo"
        raise MissingModelError(why) from error
    except Exception as error:  # of whatever network client the hub's library has
        reason = str(error).strip().split("\n")[0][:120]
        why = f"the hub cannot be reached ({reason}): check the network, then run {pull_line(name)}"
        raise MissingModelError(why) from error


def _is_wanted(file: str, layered: bool) -> bool:
    path = Path(file)
    if path.is_absolute() or ".." in path.parts:
        raise ConfigError(f"the repository names a file {file!r}: it is not brought")
    if layered and "/" not in file:  # safetensors there repeat what the folders hold
        return file == "model_index.json"
    return any(path.match(pattern) for pattern in _WANTED)
