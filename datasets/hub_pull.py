"""Bringing a model of the hub: its safetensors and settings at one commit, each file checked."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gsvc.codec.errors import ConfigError, MissingModelError
from gsvc.codec.extras import need
from gsvc.codec.hashes import sha256_of
from gsvc.codec.output import explain_failure
from gsvc.datasets.hub import HubModel, Manifest, hub_folder, pull_line, read_manifest
from gsvc.datasets.package_files import Progress

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
    before = _pulled_before(model.name)
    if before and repo in (None, before.repo):
        repo, revision = before.repo, revision or before.commit
    repo = repo or model.repo
    told = _asked(
        model.name,
        repo,
        lambda api: api.model_info(repo, revision=revision, files_metadata=True),
    )
    files = {
        one.rfilename: one
        for one in told.siblings
        if _is_wanted(one.rfilename, layered=bool(model.pipeline))
    }
    if not any(name.endswith(".safetensors") for name in files):
        raise MissingModelError(f"{repo} holds no safetensors, and pickles are not read: --repo")
    with explain_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found = {}
    same = before.files if before and (before.repo, before.commit) == (repo, told.sha) else {}
    for name, one in files.items():
        say(f"{model.name}: {name}, {(one.size or 0) / 1e6:.0f} MB")
        _, known = same.get(name, (0, None))
        found[name] = _brought(model.name, repo, told.sha, folder, one, known)
    with explain_failure(folder):
        Manifest(repo, told.sha, found).write(folder)
    return folder


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
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # said once, below
    page = f"https://huggingface.co/{repo}"
    try:
        return question(HfApi())
    except GatedRepoError as error:
        raise MissingModelError(
            f"{repo} has a licence to be accepted first: open {page}, then run hf auth login"
        ) from error
    except RevisionNotFoundError as error:
        raise MissingModelError(f"{repo} has no such revision: see {page}/commits") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise MissingModelError(
            f"the hub has no repository {repo} (or it wants hf auth login): name one with --repo"
        ) from error
    except Exception as error:  # of whatever network client the hub's library has
        reason = str(error).strip().split("\n")[0][:120]
        raise MissingModelError(
            f"the hub cannot be reached ({reason}): check the network, then run {pull_line(name)}"
        ) from error


def _pulled_before(name: str) -> Manifest | None:
    try:
        return read_manifest(name)
    except MissingModelError:
        return None


def _is_wanted(file: str, *, layered: bool) -> bool:
    """Whether a file of the repository is one that is read."""
    path = Path(file)
    if path.is_absolute() or ".." in path.parts:
        raise ConfigError(f"the repository names a file {file!r}: it is not brought")
    if layered and "/" not in file:  # safetensors there repeat what the folders hold
        return file == "model_index.json"
    return any(path.match(pattern) for pattern in _WANTED)
