"""x264 at its best: preset veryslow, B-frames."""

import re
from collections.abc import Sequence
from typing import ClassVar

from gsvc.eval.baselines.base import Value
from gsvc.eval.baselines.conventional import THREADS, ConventionalCodec, Points
from gsvc.eval.late_loading import CodecFacts

_SEI = 6
_USER_DATA = 5
"""Payload type "user data, unregistered" (ITU-T H.264, D.1): x264's name and settings as text."""
_START = re.compile(rb"(\x00?\x00\x00\x01)")


class X264(ConventionalCodec):
    """H.264 in Annex B, 8 bits, parameter sets once, without the 700 bytes of x264's signature."""

    name = "x264"
    suffix = ".264"
    facts = CodecFacts(is_anchor=True, colour="#8a8f98", marker="v")
    library = "libx264"
    demuxer = "h264"
    pixel_format = "yuv420p"
    preset = "veryslow"
    max_crf = 51
    points: ClassVar[Points] = {"1": (50, 45, 38), "1/2": (46, 36), "1/3": (44,)}
    headers_once = True

    def options(self, preset: Value, quality: int, interval: int) -> dict[str, str]:
        """See `ConventionalCodec.options`."""
        parameters = f"keyint={interval}:threads={THREADS}:sliced-threads=0"
        return {"preset": str(preset), "crf": str(quality), "x264-params": parameters}

    def _join(self, packets: Sequence[bytes]) -> bytes:
        return b"".join(_without_user_data(packet) for packet in packets)


def _without_user_data(packet: bytes) -> bytes:
    """The NAL units of a packet in Annex B without x264's signature."""
    parts = _START.split(packet)
    units = zip(parts[1::2], parts[2::2], strict=True)
    return b"".join(
        start + unit for start, unit in units if unit[0] & 31 != _SEI or unit[1] != _USER_DATA
    )


CODECS = (X264,)
