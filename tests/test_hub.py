"""Models of the hub: pulled from a server that answers as the hub does, checked, shown."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from commands import run_gsvc
from gsvc import DeviceError, MissingModelError
from gsvc.codec.weights.hub import (
    HUB_MODELS,
    PROMPT,
    check_hub_model,
    hub_folder,
    pull_hub_model,
    read_hub_manifest,
)
from gsvc.decoders.keyframes.pretrained.gpu_memory import need_of
from gsvc.decoders.keyframes.refiner import Budget
from needs import need_package
from tiny_models import put_tiny

COMMIT = "c" * 40
MODEL = HUB_MODELS["wan-v2v"]


class _Hub(BaseHTTPRequestHandler):
    """A model's page and files; `torn` is given with other bytes, of `cut` a half comes at most."""

    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []
    torn = cut = ""
    status = 200
    commit = COMMIT
    address = ""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        name = ""
        if "/resolve/" in self.path:
            name = self.path.split(f"/resolve/{self.commit}/")[1]
            data = self.files[name]
            etag = hashlib.sha256(data).hexdigest()
            if name == self.torn:
                data = bytes(len(data))
            if body:
                self.asked.append(name)
        else:
            etag, data = "", json.dumps(self._page()).encode()
        self.send_response(self.status)
        if self.status == 403:
            self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("X-Repo-Commit", self.commit)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body and name and name == self.cut:
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif body:
            self.wfile.write(data)

    def _page(self) -> dict[str, Any]:
        siblings = []
        for name, data in self.files.items():
            sha256 = hashlib.sha256(data).hexdigest()
            lfs = {"sha256": sha256, "size": len(data), "pointerSize": 1}
            one = {"rfilename": name, "size": len(data)}
            siblings.append({**one, "lfs": lfs} if name.endswith(".safetensors") else one)
        return {"id": MODEL.repo, "sha": self.commit, "siblings": siblings, "tags": []}

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[_Hub]]:
    """The server, the cache empty."""
    need_package("transformers")
    from huggingface_hub import HfApi

    monkeypatch.setenv("GSVC_CACHE", str(tmp_path / "cache"))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        made = HfApi.__init__
        monkeypatch.setattr(HfApi, "__init__", lambda self: made(self, endpoint=address))
        _Hub.files, _Hub.torn, _Hub.cut, _Hub.status, _Hub.commit = {}, "", "", 200, COMMIT
        _Hub.address = address
        _Hub.asked.clear()
        yield _Hub
        server.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Of a tiny model, and some that are not wanted."""
    need_package("transformers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSVC_CACHE", str(tmp_path_factory.mktemp("made")))
        folder = put_tiny(MODEL.name)
    names = [path for path in folder.rglob("*") if path.is_file()]
    made = {str(path.relative_to(folder)): path.read_bytes() for path in names}
    del made[PROMPT], made["gsvc.json"]
    return made | {"vae/weights.bin": b"x", "whole.safetensors": b"y", "README.md": b"z"}


@pytest.fixture
def tiny(hub: type[_Hub], files: dict[str, bytes]) -> type[_Hub]:
    """The hub with these files."""
    hub.files = dict(files)
    return hub


def test_a_model_is_pulled_whole_and_pinned(tiny: type[_Hub]) -> None:
    told: list[str] = []
    folder = pull_hub_model(MODEL, progress=told.append)
    manifest = check_hub_model(MODEL.name, whole=True)
    assert manifest.commit == COMMIT and manifest.repo == MODEL.repo
    wanted = set(tiny.files) - {"vae/weights.bin", "whole.safetensors", "README.md"}
    assert set(manifest.files) == wanted and len(told) == len(wanted)
    weights = next(folder.glob("transformer/*.safetensors"))
    weights.write_bytes(b"torn")
    with pytest.raises(MissingModelError, match="torn or of another revision"):
        check_hub_model(MODEL.name)
    pull_hub_model(MODEL)
    check_hub_model(MODEL.name, whole=True)


def test_an_interrupted_pull_goes_on(tiny: type[_Hub]) -> None:
    """What came whole is not asked for again; what came by half is, from its beginning."""
    tiny.cut = cut = "vae/more.safetensors"
    tiny.files[cut] = bytes(2_000)
    with pytest.raises(MissingModelError, match="the hub cannot be reached .* gsvc models pull wa"):
        pull_hub_model(MODEL)
    with pytest.raises(MissingModelError, match="was not pulled to its end"):
        read_hub_manifest(MODEL.name)
    whole = {name for name in tiny.asked if name.endswith(".safetensors")} - {tiny.cut}
    tiny.cut = ""
    tiny.asked.clear()
    pull_hub_model(MODEL)
    assert whole and whole.isdisjoint(tiny.asked)
    assert tiny.asked.count(cut) == 1
    check_hub_model(MODEL.name, whole=True)


def test_a_pull_stays_at_its_commit(tiny: type[_Hub]) -> None:
    asked: list[str | None] = []
    from huggingface_hub import HfApi

    told = HfApi.model_info

    def noted(api: Any, repo: str, *, revision: str | None, **given: Any) -> Any:
        asked.append(revision)
        return told(api, repo, revision=revision, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HfApi, "model_info", noted)
        pull_hub_model(MODEL)
        tiny.asked.clear()
        pull_hub_model(MODEL)
        assert not tiny.asked  # all is here
        pull_hub_model(MODEL, revision="main")
    assert asked == [None, COMMIT, "main"]


@pytest.mark.parametrize("kind", [".safetensors", ".json"])
def test_what_changed_at_its_commit_is_refused(tiny: type[_Hub], kind: str) -> None:
    folder = pull_hub_model(MODEL)
    name = next(name for name in read_hub_manifest(MODEL.name).files if name.endswith(kind))
    tiny.files[name] = b"{}" + tiny.files[name]
    if kind == ".json":
        (folder / name).unlink()  # its hash is not told: only what comes is seen to be another
    with pytest.raises(MissingModelError, match=f"{name} of .* is another than it was at the same"):
        pull_hub_model(MODEL)
    if kind == ".safetensors":
        check_hub_model(MODEL.name, whole=True)  # what was here is still
    tiny.commit = "d" * 40
    pull_hub_model(MODEL, revision="main")
    assert check_hub_model(MODEL.name, whole=True).commit == "d" * 40


def test_what_came_torn_is_not_kept(tiny: type[_Hub]) -> None:
    tiny.torn = next(name for name in tiny.files if name.startswith("transformer/diff"))
    with pytest.raises(MissingModelError, match="run again: gsvc models pull wan-v2v|reached"):
        pull_hub_model(MODEL)
    with pytest.raises(MissingModelError, match="was not pulled to its end; run: gsvc models pull"):
        read_hub_manifest(MODEL.name)
    tiny.torn = ""
    pull_hub_model(MODEL)
    check_hub_model(MODEL.name, whole=True)


def test_refusals_are_a_line_each(hub: type[_Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    hub.files = {"vae/weights.bin": b"x"}
    with pytest.raises(MissingModelError, match="holds no safetensors, and pickles are not read"):
        pull_hub_model(MODEL)
    hub.status = 403
    with pytest.raises(MissingModelError, match="a licence to be accepted first: open https://"):
        pull_hub_model(MODEL)
    hub.status = 404
    with pytest.raises(MissingModelError, match="no repository|cannot be reached"):
        pull_hub_model(MODEL)
    from huggingface_hub import HfApi

    made = HfApi.__init__
    monkeypatch.setattr(HfApi, "__init__", lambda self: made(self))
    monkeypatch.setattr(
        HfApi, "model_info", lambda *_, **__: (_ for _ in ()).throw(OSError("no route"))
    )
    with pytest.raises(MissingModelError, match=r"cannot be reached \(no route\): check the netw"):
        pull_hub_model(MODEL)


def test_models_are_listed(tmp_path: Path) -> None:
    env = {"GSVC_CACHE": str(tmp_path)}
    listed = run_gsvc("models", "--json", env=env).stdout.decode().splitlines()
    names = [one["name"] for one in map(json.loads, listed) if one["type"] == "hub-model"]
    assert names == list(HUB_MODELS)
    failed = run_gsvc("decode", "x.gsv", "--backend", "ltx", "--vram", "8 apples", env=env)
    assert failed.returncode == 1 and b"x.gsv" in failed.stderr
    assert not hub_folder("ltx").exists()


def test_memory_is_chosen_before_loading() -> None:
    need = need_of("wan-v2v", 480, 854, 33)
    assert need.of("whole") > need.of("offload") > need.of("groups")
    assert need.chosen(need.of("whole")) == "whole"
    assert need.chosen(need.of("whole") - 1) == "offload"
    assert need.chosen(need.of("groups")) == "groups"
    with pytest.raises(DeviceError, match=r"wan-v2v at 854x480 needs about .* even with vram=.gr"):
        need.chosen(need.of("groups") - 1)
    assert Budget.of("8G").bytes == 8_000_000_000 and Budget.of("fp8").kind == "fp8"


@pytest.mark.parametrize(
    ("status", "line"),
    [(403, b"has a licence to be accepted first: open https://"), (0, b"the network")],
)
def test_the_command_says_it_in_a_line(
    hub: type[_Hub], tmp_path: Path, status: int, line: bytes
) -> None:
    """A gated repository; no network at all."""
    hub.status = status
    place = hub.address if status else "http://127.0.0.1:9"
    env = {"GSVC_CACHE": str(tmp_path), "HF_ENDPOINT": place, "HF_HUB_DISABLE_TELEMETRY": "1"}
    told = run_gsvc("models", "pull", MODEL.name, env=env)
    assert told.returncode == 1 and line in told.stderr
    assert told.stderr.count(b"\n") == 1 and not list(tmp_path.rglob("*.safetensors"))
