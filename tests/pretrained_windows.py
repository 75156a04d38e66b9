"""Windows and streams for tests of pretrained back ends."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gsvc
from gsvc.codec.bitstream.container import decoded_frames

WINDOWED = ["ltx", "ltx2", "wan-vace", "wan-v2v", "sparkvsr"]
"""Back ends that restore windows, of those that diffusers runs."""


def decode(data: bytes, refiner: Any = None, **settings: Any) -> list[gsvc.Frame]:
    """The frames of a stream, plain or restored in one step."""
    reader = gsvc.StreamReader(io.BytesIO(data))
    chosen = gsvc.DecoderSettings(**{"steps": 1 if refiner else 0, **settings})
    with gsvc.Decoder(reader.header, chosen, refiner=refiner) as decoder:
        return list(decoded_frames(decoder, ((packet, True) for packet in reader)))


def window_of(count: int, size: tuple[int, int] = (50, 66)) -> tuple[Any, dict[int, Any], Any]:
    """A rendering whose frames are told apart by colour, keys at every fourth, confidences."""
    frames = np.full((count, *size, 3), 0, np.uint8)
    frames += (5 * np.arange(count, dtype=np.uint8))[:, None, None, None]
    keys = {at: np.full((*size, 3), 255 - at, np.uint8) for at in range(0, count, 4)}
    confidence = np.repeat(np.linspace(0.4, 1, count, dtype=np.float32), size[0] * size[1])
    return frames, keys, confidence.reshape(count, *size)


def spied(backend: Any, pipeline: Any) -> dict[str, Any]:
    """What the pipeline of a back end is called with."""
    given: dict[str, Any] = {}

    def spy(**arguments: Any) -> Any:
        given.update(arguments)
        if "scheduler" in vars(spy):
            pipeline.scheduler = vars(spy)["scheduler"]
        return pipeline(**arguments)

    spy.__dict__.update({k: v for k, v in vars(pipeline).items() if not k.startswith("_")})
    for name in ("_normalize_latents", "_unpack_latents"):
        if hasattr(pipeline, name):
            setattr(spy, name, getattr(pipeline, name))
    backend._pipeline = spy
    return given


def as_uint8(values: Any, least: int) -> NDArray[np.uint8]:
    """Of values from `least` to 1."""
    levels: NDArray[np.uint8] = ((values - least) / (1 - least) * 255).round().byte().numpy()
    return levels
