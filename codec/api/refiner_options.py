"""What decoder settings ask of a refiner besides its name: caches, memory, key pictures."""

from pathlib import Path

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.weights.extras import need
from gsvc.decoders.keyframes.refiner import Refiner, WindowRefiner

_USUAL_CAPACITY = 2_000_000_000
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def set_options(refiner: Refiner, settings: DecoderSettings) -> None:
    """Give a refiner what the settings ask of it.

    Raises ConfigError for what it cannot do, or values that cannot be read.
    """
    if settings.cache is not None:
        from gsvc.decoders.keyframes.transformer_cache import TransformerCache

        cache = TransformerCache(settings.cache)
        _refuse(not refiner.keeps_steps, refiner, "cache", "keeps nothing from step to step")
        refiner.step_cache = cache
    if settings.latent_cache is not None:
        _refuse(not refiner.keeps_latents, refiner, "latent_cache", "begins no loop late")
        from gsvc.decoders.keyframes.latent_cache import LatentCache

        refiner.latents = LatentCache(*folder_and_capacity(settings.latent_cache))
    if settings.vram is not None:
        from gsvc.decoders.keyframes.refiner import Budget

        _refuse(refiner.extra != "pretrained", refiner, "vram", "needs little memory")
        refiner.memory = Budget.of(settings.vram)
    if settings.quantize is not None:
        _quantize(refiner)
    if settings.paste_keys:
        is_window = isinstance(refiner, WindowRefiner)
        _refuse(not is_window, refiner, "paste_keys", "restores key pictures alone")
        refiner.pastes_keys = True


def refuse_options(settings: DecoderSettings) -> None:
    """Raise ConfigError for settings of a refiner, where none is used."""
    for name in ("cache", "latent_cache", "vram", "quantize", "resume", "paste_keys"):
        if getattr(settings, name):
            raise ConfigError(
                f"{name} is for a refiner, and with steps=0 there is none: leave one of them out"
            )


def _quantize(refiner: Refiner) -> None:
    """Have the weights in 8 bits, where that goes with how they are held."""
    _refuse(not refiner.can_quantize, refiner, "quantize", "has no weights for it")
    need("quantize", 'quantize="int8"', ", or leave it out")
    kind = refiner.memory.kind if refiner.memory else None
    if kind in ("groups", "fp8"):
        raise ConfigError(f"quantize goes with vram 8G, whole or offload, not with {kind}")
    refiner.quantize = True


def folder_and_capacity(text: str) -> tuple[Path, int]:
    """A folder and bytes, from FOLDER or FOLDER:2G. Raises ConfigError for a size that is none."""
    folder, colon, size = text.rpartition(":")
    if not colon or "/" in size or "\\" in size:
        return Path(text), _USUAL_CAPACITY
    try:
        unit = _UNITS.get(size[-1:].upper())
        return Path(folder), round(float(size[:-1] if unit else size) * (unit or 1))
    except (ValueError, OverflowError):
        raise ConfigError(f"latent cache {text!r}: write FOLDER or FOLDER:2G") from None


def _refuse(wrong: bool, refiner: Refiner, option: str, why: str) -> None:
    if wrong:
        raise ConfigError(f"{option}: {refiner.name} {why}: leave it out")
