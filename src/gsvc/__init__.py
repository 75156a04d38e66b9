"""gsvc: the generative semantic video codec toolkit.

    gsvc.encode("city.mp4", "city.gsv", settings=gsvc.EncoderSettings(level=1))
    gsvc.decode("city.gsv", "back.mp4", settings=gsvc.DecoderSettings(steps=4))
    gsvc.info("city.gsv").bits

Every name is loaded when it is first used: importing gsvc, and encoding, do not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsvc.codec.aio import LatestQueue, decode_stream, encode_stream
    from gsvc.codec.container import StreamReader, StreamWriter
    from gsvc.codec.decoder import Decoder, DecoderSettings
    from gsvc.codec.encoder import Encoder, EncoderSettings
    from gsvc.codec.errors import (
        BitstreamError,
        ChecksumError,
        ConfigError,
        DeviceError,
        GsvcError,
        InputError,
        LimitError,
        MissingDependencyError,
        MissingModelError,
        OutputError,
        TruncatedStreamError,
        UnsupportedInputError,
        VersionError,
    )
    from gsvc.codec.files import DecodeReport, EncodeReport, Progress
    from gsvc.codec.files import decode_file as decode
    from gsvc.codec.files import encode_file as encode
    from gsvc.codec.frames import AudioChunk, Color, Frame, Picture, VideoFormat
    from gsvc.codec.header import Header
    from gsvc.codec.limits import Limits
    from gsvc.codec.packet import Packet, PacketType
    from gsvc.codec.scaffold_syntax import Tools
    from gsvc.codec.stream_index import StreamIndex
    from gsvc.codec.stream_info import StreamInfo
    from gsvc.codec.stream_info import stream_info as info
    from gsvc.codec.transport.depacketizer import Depacketizer, ReorderLimits
    from gsvc.codec.transport.packetizer import Packetizer, WireSettings
    from gsvc.codec.transport.receiving import ReceiveSettings, VideoReceiver
    from gsvc.codec.transport.sending import SendSettings, VideoSender
    from gsvc.codec.transport.stats import ReceiverStats, SenderStats

__version__ = "0.1.0"

__all__ = [
    "AudioChunk",
    "BitstreamError",
    "ChecksumError",
    "Color",
    "ConfigError",
    "DecodeReport",
    "Decoder",
    "DecoderSettings",
    "Depacketizer",
    "DeviceError",
    "EncodeReport",
    "Encoder",
    "EncoderSettings",
    "Frame",
    "GsvcError",
    "Header",
    "InputError",
    "LatestQueue",
    "LimitError",
    "Limits",
    "MissingDependencyError",
    "MissingModelError",
    "OutputError",
    "Packet",
    "PacketType",
    "Packetizer",
    "Picture",
    "Progress",
    "ReceiveSettings",
    "ReceiverStats",
    "ReorderLimits",
    "SendSettings",
    "SenderStats",
    "StreamIndex",
    "StreamInfo",
    "StreamReader",
    "StreamWriter",
    "Tools",
    "TruncatedStreamError",
    "UnsupportedInputError",
    "VersionError",
    "VideoFormat",
    "VideoReceiver",
    "VideoSender",
    "WireSettings",
    "__version__",
    "decode",
    "decode_stream",
    "encode",
    "encode_stream",
    "info",
]

_HOMES = {
    "aio": ("LatestQueue", "decode_stream", "encode_stream"),
    "container": ("StreamReader", "StreamWriter"),
    "decoder": ("Decoder", "DecoderSettings"),
    "encoder": ("Encoder", "EncoderSettings"),
    "files": ("DecodeReport", "EncodeReport", "Progress"),
    "frames": ("AudioChunk", "Color", "Frame", "Picture", "VideoFormat"),
    "header": ("Header",),
    "limits": ("Limits",),
    "packet": ("Packet", "PacketType"),
    "scaffold_syntax": ("Tools",),
    "stream_index": ("StreamIndex",),
    "stream_info": ("StreamInfo",),
    "transport.depacketizer": ("Depacketizer", "ReorderLimits"),
    "transport.packetizer": ("Packetizer", "WireSettings"),
    "transport.receiving": ("ReceiveSettings", "VideoReceiver"),
    "transport.sending": ("SendSettings", "VideoSender"),
    "transport.stats": ("ReceiverStats", "SenderStats"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_RENAMED = {
    "decode": ("files", "decode_file"),
    "encode": ("files", "encode_file"),
    "info": ("stream_info", "stream_info"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gsvc' has no attribute {name!r}")
    module, attribute = _RENAMED.get(name, (_HOME.get(name, "errors"), name))
    value = getattr(import_module(f"gsvc.codec.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
