"""What decoder settings ask of a refiner: steps, caches, memory, windows, keyframes."""

from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.header import Header
from gsvc.codec.weights.extras import need
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.compact.restorer_backend import RestorerBackend
from gsvc.decoders.keyframes.keyframe import Keyframe
from gsvc.decoders.keyframes.refiner import Budget, Refiner, WindowRefiner
from gsvc.decoders.streams.pace import Pace, paced_refine
from gsvc.decoders.streams.reconstruction import Refine
from gsvc.decoders.streams.windows import KeptWindows, Windows

_USUAL_CAPACITY = 2_000_000_000
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def restoring(
    header: Header, settings: DecoderSettings, refiner: Refiner | None, pace: Pace | None
) -> tuple[Refine, Windows | None]:
    """What restores keyframes, and what restores windows of frames if the refiner does that.

    Raises as `Decoder`.
    """
    seed = header.seed if settings.seed is None else settings.seed
    refiner = refiner or load_refiner(settings.backend, settings.device)
    set_options(refiner, settings)
    refiner.check(header.format.height, header.format.width, steps=settings.steps)
    if isinstance(refiner, WindowRefiner):
        if pace is not None:
            raise ConfigError(
                f"{settings.backend} restores windows of frames, which cannot be left out one by "
                "one: choose a back end of keyframes, such as compact:nano"
            )
        kept = _kept(settings, refiner, seed)
        return attrgetter("picture"), Windows(refiner, settings.steps, seed, kept)
    if settings.resume is not None:
        raise ConfigError(f"resume: {refiner.name} restores no windows: leave it out")
    is_guided = header.model_id == refiner.id  # what was chosen for other weights is no guide

    def refined(key: Keyframe, steps: int) -> Picture:
        key = key if is_guided else replace(key, guide=None)
        return refiner.refine(key, steps=steps, seed=seed)

    if pace is None:
        return partial(refined, steps=settings.steps), None
    return paced_refine(refined, settings.steps, pace), None


def _kept(settings: DecoderSettings, refiner: WindowRefiner, seed: int) -> KeptWindows | None:
    if settings.resume is None:
        return None
    asked = settings.steps, settings.cache, settings.vram == "fp8"
    made_by = (
        f"{refiner.name} {refiner.id.hex()} {refiner.revision}, {seed}, {asked}, {settings.device}"
    )
    return KeptWindows(Path(settings.resume), made_by)


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
        _refuse(refiner.extra != "pretrained", refiner, "vram", "needs little memory")
        refiner.memory = Budget.of(settings.vram)
    if settings.quantize is not None:
        _quantize(refiner)
    if settings.look != DecoderSettings.look:
        if not isinstance(refiner, RestorerBackend):
            raise ConfigError(f"look: {refiner.name} draws in one way: leave it out")
        refiner.look = settings.look
    if settings.paste_keys:
        is_window = isinstance(refiner, WindowRefiner)
        _refuse(not is_window, refiner, "paste_keys", "restores keyframes alone")
        refiner.pastes_keys = True


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
