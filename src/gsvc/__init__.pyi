"""The public names of gsvc, and where they are defined: `__init__.py` reads them here."""

from gsvc.codec.api.analysis import Analysis as Analysis, analyse as analyse
from gsvc.codec.api.asyncio import (
    LatestQueue as LatestQueue,
    decode_stream as decode_stream,
    encode_stream as encode_stream,
)
from gsvc.codec.api.decode_file import decode as decode
from gsvc.codec.api.decoder import Decoder as Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings as DecoderSettings
from gsvc.codec.api.encode_file import encode as encode
from gsvc.codec.api.encode_pieces import encode_pieces as encode_pieces
from gsvc.codec.api.encoder import AnyFrame as AnyFrame, Encoder as Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings as EncoderSettings
from gsvc.codec.api.inspection import info as info
from gsvc.codec.api.reports import (
    DecodeReport as DecodeReport,
    EncodeReport as EncodeReport,
    PiecesReport as PiecesReport,
    Progress as Progress,
)
from gsvc.codec.bitstream.container import (
    Packet as Packet,
    PacketType as PacketType,
    StreamReader as StreamReader,
    StreamWriter as StreamWriter,
)
from gsvc.codec.bitstream.errors import (
    BitstreamError as BitstreamError,
    ChecksumError as ChecksumError,
    ConfigError as ConfigError,
    DeviceError as DeviceError,
    ForeignFileError as ForeignFileError,
    GsvcError as GsvcError,
    InputError as InputError,
    LimitError as LimitError,
    Limits as Limits,
    MissingDependencyError as MissingDependencyError,
    MissingModelError as MissingModelError,
    OutputError as OutputError,
    TruncatedStreamError as TruncatedStreamError,
    UnsupportedInputError as UnsupportedInputError,
    VersionError as VersionError,
    WrongTypeError as WrongTypeError,
)
from gsvc.codec.bitstream.frames import (
    AudioChunk as AudioChunk,
    Color as Color,
    Frame as Frame,
    Picture as Picture,
    VideoFormat as VideoFormat,
)
from gsvc.codec.bitstream.header import Header as Header, Tools as Tools
from gsvc.codec.bitstream.pieces import pieces_needed as pieces_needed
from gsvc.codec.bitstream.stream_info import (
    IntervalInfo as IntervalInfo,
    PacketInfo as PacketInfo,
    StreamIndex as StreamIndex,
    StreamInfo as StreamInfo,
)
from gsvc.codec.media.mapping import MuxReport as MuxReport, demux as demux, mux as mux
from gsvc.codec.media.video_reader import VideoReader as VideoReader, open_video as open_video
from gsvc.codec.media.video_writer import VideoWriter as VideoWriter, open_writer as open_writer
from gsvc.codec.network.congestion_control import Adaptation as Adaptation
from gsvc.codec.network.depacketizer import (
    Depacketizer as Depacketizer,
    ReorderLimits as ReorderLimits,
)
from gsvc.codec.network.link_rate import LinkRate as LinkRate
from gsvc.codec.network.rtp import (
    Packetizer as Packetizer,
    RtpPacket as RtpPacket,
    WireSettings as WireSettings,
)
from gsvc.codec.network.stats import ReceiverStats as ReceiverStats, SenderStats as SenderStats
from gsvc.codec.network.video_receiver import (
    ReceiveSettings as ReceiveSettings,
    VideoReceiver as VideoReceiver,
)
from gsvc.codec.network.video_sender import (
    SendSettings as SendSettings,
    VideoSender as VideoSender,
)
from gsvc.decoders.detection.analyser import AnalysisSettings as AnalysisSettings
from gsvc.decoders.detection.findings import Detection as Detection, FrameAnalysis as FrameAnalysis
from gsvc.decoders.detection.rules import (
    Line as Line,
    Rule as Rule,
    Zone as Zone,
    parse_rule as parse_rule,
)

__version__: str
