"""Pretrained models as ways to decode: on a GPU if there is one, loaded once, named by commit."""

from collections.abc import Iterable
from functools import cache

from gsvc.codec.decoder_settings import DecoderSettings
from gsvc.codec.errors import ConfigError
from gsvc.datasets.hub import read_manifest
from gsvc.decoders.refiners.base import Refiner
from gsvc.decoders.refiners.registry import BACKENDS, PRETRAINED, gpu_or_cpu, load_refiner
from gsvc.eval.codecs.base import Settings


def backend_and_device(model: object) -> tuple[str, str]:
    """Of a model's name: nano, small and base are compact. Raises ConfigError for an unknown."""
    if model in PRETRAINED:
        return str(model), gpu_or_cpu()
    if (backend := f"compact:{model}") in BACKENDS:
        return backend, "cpu"
    names = ", ".join(PRETRAINED)
    raise ConfigError(f"gsvc has no model {model!r}: take nano, small, base, {names}")


@cache
def kept_refiner(settings: DecoderSettings) -> Refiner | None:
    """A pretrained model, loaded once for all clips; None for others."""
    is_kept = settings.steps and settings.backend in PRETRAINED
    return load_refiner(settings.backend, settings.device) if is_kept else None


def pulled(ways: Iterable[Settings]) -> str:
    """Pretrained models of the ways with their commits, ", NAME COMMIT" each; marked if random.

    Raises MissingModelError where one is not here.
    """
    models = sorted({str(way["model"]) for way in ways if way.get("model") in PRETRAINED})
    return "".join(f", {name} {read_manifest(name).weights}" for name in models)
