"""A picture of which some pieces are here: sharp from its top down, its preview in the rest."""

import io
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream import container, pieces
from gsvc.codec.bitstream.errors import BitstreamError, Limits
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.header import Header

_GREY = 128
_MARGIN = 50
"""The seam is a 50th of the shorter side wide. By eye."""


def partial_picture(
    found: pieces.Gathered, settings: DecoderSettings, limits: Limits
) -> tuple[Header, Picture] | None:
    """The stream's header and all that is known of its first picture; None where that is nothing.

    Where there is no preview, the rest is grey. Raises as `Decoder` but for damage.
    """
    if not found.drafts:
        return None
    try:
        drafts = [_first(stream, replace(settings, steps=0), limits) for stream in found.drafts]
        known = _known(drafts[0][1], drafts[1][1])
        if not known.any():
            return None
        header, sharp = _first(found.drafts[0], settings, limits) if settings.steps else drafts[0]
        beneath = np.full_like(sharp, _GREY)
        if found.is_preview:
            preview = _first(found.stream, settings, limits)[1]
            beneath = cv2.resize(preview, sharp.shape[1::-1], interpolation=cv2.INTER_CUBIC)
    except BitstreamError:
        return None
    mixed = beneath + known[..., np.newaxis] * (sharp.astype(np.float32) - beneath)
    return header, mixed.round().astype(np.uint8)


def _known(one: Picture, other: Picture) -> NDArray[np.float32]:
    """Weight, 0 to 1, of each pixel, (H, W): 1 where both pictures are the same from the top down.
    AV1 codes blocks row by row, so beyond the bytes that are here all that follows is wrong."""
    margin = max(4, min(one.shape[:2]) // _MARGIN)
    differs = (one != other).any(axis=2).astype(np.uint8)
    wider = cv2.dilate(differs, np.ones((2 * margin + 1,) * 2, np.uint8))
    same = 1 - np.maximum.accumulate(wider, axis=0).astype(np.float32)
    return np.asarray(cv2.GaussianBlur(same, (0, 0), margin / 2), np.float32)


def _first(stream: bytes, settings: DecoderSettings, limits: Limits) -> tuple[Header, Picture]:
    reader = container.StreamReader(io.BytesIO(stream), limits)
    with Decoder(reader.header, settings, limits) as decoder:
        packets = ((packet, True) for packet in reader)
        frames = list(container.decoded_frames(decoder, packets))
    if not frames:
        raise BitstreamError("there is no picture")
    return reader.header, frames[0].pixels
