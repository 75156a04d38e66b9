"""gsvc: the generative semantic video codec toolkit.

    gsvc.encode("city.mp4", "city.gsv", settings=gsvc.EncoderSettings(level=1))
    gsvc.decode("city.gsv", "back.mp4", settings=gsvc.DecoderSettings(steps=4))
    gsvc.info("city.gsv").bits

Every name is loaded when it is first used: importing gsvc, and encoding, do not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsvc.codec.api.analysis import Analysis, analyse
    from gsvc.codec.api.asyncio import LatestQueue, decode_stream, encode_stream
    from gsvc.codec.api.decoder import Decoder
    from gsvc.codec.api.decoder_settings import DecoderSettings
    from gsvc.codec.api.encoder import Encoder
    from gsvc.codec.api.encoder_settings import EncoderSettings
    from gsvc.codec.api.files import decode_file as decode
    from gsvc.codec.api.files import encode_file as encode
    from gsvc.codec.api.inspection import stream_info as info
    from gsvc.codec.api.reports import DecodeReport, EncodeReport, Progress
    from gsvc.codec.bitstream.container import StreamReader, StreamWriter
    from gsvc.codec.bitstream.errors import (
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
    from gsvc.codec.bitstream.frames import AudioChunk, Color, Frame, Picture, VideoFormat
    from gsvc.codec.bitstream.header import Header, Tools
    from gsvc.codec.bitstream.index import StreamIndex
    from gsvc.codec.bitstream.limits import Limits
    from gsvc.codec.bitstream.packet import Packet, PacketType
    from gsvc.codec.bitstream.stream_info import StreamInfo
    from gsvc.codec.media.mapped_reader import demux_file as demux
    from gsvc.codec.media.mapped_writer import MuxReport
    from gsvc.codec.media.mapped_writer import mux_file as mux
    from gsvc.codec.network.congestion_control import Adaptation
    from gsvc.codec.network.depacketizer import Depacketizer, ReorderLimits
    from gsvc.codec.network.rtp import Packetizer, WireSettings
    from gsvc.codec.network.stats import ReceiverStats, SenderStats
    from gsvc.codec.network.video_receiver import ReceiveSettings, VideoReceiver
    from gsvc.codec.network.video_sender import SendSettings, VideoSender
    from gsvc.decoders.detection.analyser import AnalysisSettings
    from gsvc.decoders.detection.findings import Detection, FrameAnalysis
    from gsvc.decoders.detection.rules import Line, Rule, Zone
    from gsvc.decoders.detection.rules_text import parse_rule

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
    "codec.api.analysis": ("Analysis", "analyse"),
    "codec.api.asyncio": ("LatestQueue", "decode_stream", "encode_stream"),
    "codec.api.decoder": ("Decoder",),
    "codec.api.decoder_settings": ("DecoderSettings",),
    "codec.api.encoder": ("Encoder",),
    "codec.api.encoder_settings": ("EncoderSettings",),
    "codec.api.reports": ("DecodeReport", "EncodeReport", "Progress"),
    "codec.bitstream.container": ("StreamReader", "StreamWriter"),
    "codec.bitstream.frames": ("AudioChunk", "Color", "Frame", "Picture", "VideoFormat"),
    "codec.bitstream.header": ("Header", "Tools"),
    "codec.bitstream.index": ("StreamIndex",),
    "codec.bitstream.limits": ("Limits",),
    "codec.bitstream.packet": ("Packet", "PacketType"),
    "codec.bitstream.stream_info": ("StreamInfo",),
    "codec.media.mapped_writer": ("MuxReport",),
    "codec.network.congestion_control": ("Adaptation",),
    "codec.network.depacketizer": ("Depacketizer", "ReorderLimits"),
    "codec.network.rtp": ("Packetizer", "WireSettings"),
    "codec.network.stats": ("ReceiverStats", "SenderStats"),
    "codec.network.video_receiver": ("ReceiveSettings", "VideoReceiver"),
    "codec.network.video_sender": ("SendSettings", "VideoSender"),
    "decoders.detection.analyser": ("AnalysisSettings",),
    "decoders.detection.findings": ("Detection", "FrameAnalysis"),
    "decoders.detection.rules": ("Line", "Rule", "Zone"),
    "decoders.detection.rules_text": ("parse_rule",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_RENAMED = {
    "decode": ("codec.api.files", "decode_file"),
    "encode": ("codec.api.files", "encode_file"),
    "demux": ("codec.media.mapped_reader", "demux_file"),
    "info": ("codec.api.inspection", "stream_info"),
    "mux": ("codec.media.mapped_writer", "mux_file"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gsvc' has no attribute {name!r}")
    module, attribute = _RENAMED.get(name, (_HOME.get(name, "codec.bitstream.errors"), name))
    value = getattr(import_module(f"gsvc.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
