"""Messages that speak Python, in the words of the command line."""

import re

_NAMES = (
    *("audio", "backend", "cache", "detector", "device", "frames", "latent_cache", "motion"),
    *("objects", "paste_keys", "quantize", "resume", "scale", "start", "steps", "task", "vram"),
)
"""Arguments and settings of Python that messages name; their options are called the same."""
_OTHERS = {
    "overwrite": "-y",
    "certificate": "--tls-cert",
    "private_key": "--tls-key",
    "authorities": "--tls-ca",
}
_NAMED = re.compile(
    rf"(?<![\w./=:,-])({'|'.join((*_NAMES, *_OTHERS))})=(\"[^\"]*\"|'[^']*'|\w+(?:\.\w+)?)?"
)
_NUMBERED = re.compile(r"\[Errno -?\d+\] ([^:'\[\]]+)(?:: '[^']*')?")


def as_options(text: str) -> str:
    """A message with steps=0 as --steps 0, and an error of the system without its number."""
    return _NUMBERED.sub(r"\1", _NAMED.sub(_option, text))


def _option(match: re.Match[str]) -> str:
    name, value = match.group(1), (match.group(2) or "").strip("\"'")
    option = _OTHERS.get(name, f"--{name.replace('_', '-')}")
    return option if value in ("", "True") else f"{option} {value}"
