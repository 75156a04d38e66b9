"""Codecs and metrics by the names of the command line, ours and a user's own `module:Class`."""

import re
from dataclasses import dataclass
from typing import cast

from gsvc.codec.errors import ConfigError
from gsvc.codec.plugins import find_class
from gsvc.eval.codecs import find_codec
from gsvc.eval.codecs.base import Codec, Value
from gsvc.eval.codecs.options import Option
from gsvc.eval.metrics import find_metric
from gsvc.eval.metrics.base import Metric

_SPEC = re.compile(r"(?P<name>[\w.]+:[A-Za-z_]\w*|[\w.+-]+)(?::(?P<options>[\w-]+=.+))?")


@dataclass(frozen=True)
class CodecSpec:
    """A codec and its options, as they are sent to other processes and written into run.json."""

    name: str
    options: tuple[tuple[str, Option], ...] = ()

    def __str__(self) -> str:
        options = ",".join(f"{key}={_text(value)}" for key, value in self.options)
        return f"{self.name}:{options}" if options else self.name


def codec_spec(text: str) -> CodecSpec:
    """From NAME[:key=value,...]; several values of one key are joined by +: crf=30+40.

    Raises ConfigError when the text is not of that form.
    """
    match = _SPEC.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is no codec: write NAME or NAME:key=value,key=value")
    pairs = [part.partition("=") for part in (match["options"] or "").split(",") if part]
    if any(not key or not value for key, _, value in pairs):
        raise ConfigError(f"{text!r}: write the options as key=value,key=value")
    return CodecSpec(match["name"], tuple((key, _values(value)) for key, _, value in pairs))


def make_codec(spec: CodecSpec) -> Codec:
    """The codec. Raises ConfigError for an unknown name or option."""
    options = dict(spec.options)
    if ":" not in spec.name:
        return find_codec(spec.name, **options)
    return cast(Codec, find_class(spec.name)(**options))


def make_metric(name: str) -> Metric:
    """The metric. Raises ConfigError for an unknown name."""
    if ":" not in name:
        return find_metric(name)
    return cast(Metric, find_class(name)())


def _values(text: str) -> Option:
    values = tuple(_value(part) for part in text.split("+"))
    return values[0] if len(values) == 1 else values


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _text(value: Option) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
