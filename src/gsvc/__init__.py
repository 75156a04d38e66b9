"""gsvc: the generative semantic video codec toolkit.

    gsvc.encode("city.mp4", "city.gsv", settings=gsvc.EncoderSettings(level=1))
    gsvc.decode("city.gsv", "back.mp4", settings=gsvc.DecoderSettings(steps=4))
    gsvc.info("city.gsv").bits

Every name is loaded when it is first used: importing gsvc, and encoding, do not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsvc.codec.analysis import Analysis, analyse
    from gsvc.codec.asyncio import LatestQueue, decode_stream, encode_stream
    from gsvc.codec.decoder import Decoder
    from gsvc.codec.decoder_settings import DecoderSettings
    from gsvc.codec.encoder import Encoder
    from gsvc.codec.encoder_settings import EncoderSettings
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
        WrongTypeError,
    )
    from gsvc.codec.files import decode_file as decode
    from gsvc.codec.files import encode_file as encode
    from gsvc.codec.frames import AudioChunk, Color, Frame, Picture, VideoFormat
    from gsvc.codec.inspection import stream_info as info
    from gsvc.codec.limits import Limits
    from gsvc.codec.media.mapped_reader import demux_file as demux
    from gsvc.codec.media.mapped_writer import MuxReport
    from gsvc.codec.media.mapped_writer import mux_file as mux
    from gsvc.codec.network.depacketizer import Depacketizer, ReorderLimits
    from gsvc.codec.network.packetizer import Packetizer, WireSettings
    from gsvc.codec.network.pilot import Adaptation
    from gsvc.codec.network.receive_settings import ReceiveSettings
    from gsvc.codec.network.stats import ReceiverStats, SenderStats
    from gsvc.codec.network.video_receiver import VideoReceiver
    from gsvc.codec.network.video_sender import SendSettings, VideoSender
    from gsvc.codec.reports import DecodeReport, EncodeReport, Progress
    from gsvc.codec.scaffold.tools import Tools
    from gsvc.codec.stream.container import StreamReader, StreamWriter
    from gsvc.codec.stream.header import Header
    from gsvc.codec.stream.index import StreamIndex
    from gsvc.codec.stream.info import StreamInfo
    from gsvc.codec.stream.packet import Packet, PacketType
    from gsvc.decoders.analysis.analyser import AnalysisSettings
    from gsvc.decoders.analysis.regions import Line, Zone
    from gsvc.decoders.analysis.rules import Rule
    from gsvc.decoders.analysis.rules_text import parse_rule
    from gsvc.decoders.analysis.types import Detection, FrameAnalysis

__version__ = "0.1.0"

__all__ = [
    "Adaptation",
    "Analysis",
    "AnalysisSettings",
    "AudioChunk",
    "BitstreamError",
    "ChecksumError",
    "Color",
    "ConfigError",
    "DecodeReport",
    "Decoder",
    "DecoderSettings",
    "Depacketizer",
    "Detection",
    "DeviceError",
    "EncodeReport",
    "Encoder",
    "EncoderSettings",
    "Frame",
    "FrameAnalysis",
    "GsvcError",
    "Header",
    "InputError",
    "LatestQueue",
    "LimitError",
    "Limits",
    "Line",
    "MissingDependencyError",
    "MissingModelError",
    "MuxReport",
    "OutputError",
    "Packet",
    "PacketType",
    "Packetizer",
    "Picture",
    "Progress",
    "ReceiveSettings",
    "ReceiverStats",
    "ReorderLimits",
    "Rule",
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
    "WrongTypeError",
    "Zone",
    "__version__",
    "analyse",
    "decode",
    "decode_stream",
    "demux",
    "encode",
    "encode_stream",
    "info",
    "mux",
    "parse_rule",
]

_HOMES = {
    "codec.analysis": ("Analysis", "analyse"),
    "codec.asyncio": ("LatestQueue", "decode_stream", "encode_stream"),
    "codec.decoder": ("Decoder",),
    "codec.decoder_settings": ("DecoderSettings",),
    "codec.encoder": ("Encoder",),
    "codec.encoder_settings": ("EncoderSettings",),
    "codec.frames": ("AudioChunk", "Color", "Frame", "Picture", "VideoFormat"),
    "codec.limits": ("Limits",),
    "codec.media.mapped_writer": ("MuxReport",),
    "codec.network.depacketizer": ("Depacketizer", "ReorderLimits"),
    "codec.network.packetizer": ("Packetizer", "WireSettings"),
    "codec.network.pilot": ("Adaptation",),
    "codec.network.receive_settings": ("ReceiveSettings",),
    "codec.network.video_receiver": ("VideoReceiver",),
    "codec.network.video_sender": ("SendSettings", "VideoSender"),
    "codec.network.stats": ("ReceiverStats", "SenderStats"),
    "codec.reports": ("DecodeReport", "EncodeReport", "Progress"),
    "codec.scaffold.tools": ("Tools",),
    "codec.stream.container": ("StreamReader", "StreamWriter"),
    "codec.stream.header": ("Header",),
    "codec.stream.index": ("StreamIndex",),
    "codec.stream.info": ("StreamInfo",),
    "codec.stream.packet": ("Packet", "PacketType"),
    "decoders.analysis.analyser": ("AnalysisSettings",),
    "decoders.analysis.regions": ("Line", "Zone"),
    "decoders.analysis.rules": ("Rule",),
    "decoders.analysis.rules_text": ("parse_rule",),
    "decoders.analysis.types": ("Detection", "FrameAnalysis"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_RENAMED = {
    "decode": ("codec.files", "decode_file"),
    "encode": ("codec.files", "encode_file"),
    "demux": ("codec.media.mapped_reader", "demux_file"),
    "info": ("codec.inspection", "stream_info"),
    "mux": ("codec.media.mapped_writer", "mux_file"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gsvc' has no attribute {name!r}")
    module, attribute = _RENAMED.get(name, (_HOME.get(name, "codec.errors"), name))
    value = getattr(import_module(f"gsvc.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
