"""GStreamer elements: gsvcrtpenc, raw video to RTP, and gsvcrtpdec, RTP to raw video.

    from gsvc.codec.network.gstreamer import register
    register()
    Gst.parse_launch("videotestsrc ! videoconvert ! gsvcrtpenc level=1 ! udpsink port=5004")

They speak what `gsvc send` and `gsvc recv` speak (docs/wire.md), in one direction: without
retransmission, reports and keys. PyGObject and GStreamer's typelibs come from the system.
"""

import secrets
import time
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import gi
import numpy as np
from gi.repository import GLib, GObject, Gst, GstVideo

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream import container, errors
from gsvc.codec.bitstream.frames import Frame, VideoFormat
from gsvc.codec.network.depacketizer import Depacketizer
from gsvc.codec.network.rtp import CLOCK_RATE, PAYLOAD_TYPE, Packetizer, WireSettings

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")


Gst.init(None)  # pad templates need it; again does nothing

_RTP = (
    f"application/x-rtp,media=video,encoding-name=X-GSVC,clock-rate={CLOCK_RATE},"
    f"payload={PAYLOAD_TYPE}"
)
_RAW = "video/x-raw,format=RGB"
_USUAL_RATE = Fraction(30)  # of video whose frame rate varies


def register() -> None:
    """Make gsvcrtpenc and gsvcrtpdec known to GStreamer in this process."""
    Gst.Element.register(None, "gsvcrtpenc", Gst.Rank.NONE, GsvcRtpEnc)
    Gst.Element.register(None, "gsvcrtpdec", Gst.Rank.NONE, GsvcRtpDec)


def _pads(takes: str, gives: str) -> tuple[Any, Any]:
    return tuple(
        Gst.PadTemplate.new(name, way, Gst.PadPresence.ALWAYS, Gst.Caps.from_string(caps))
        for name, way, caps in (
            ("sink", Gst.PadDirection.SINK, takes),
            ("src", Gst.PadDirection.SRC, gives),
        )
    )


class _Element(Gst.Element):  # type: ignore[misc]
    """One sink, one source, and a failure that ends the pipeline with its one line."""

    __gsttemplates__: tuple[Any, Any]

    def __init__(self) -> None:
        super().__init__()
        takes, gives = type(self).__gsttemplates__
        self.sink = Gst.Pad.new_from_template(takes, "sink")
        self.source = Gst.Pad.new_from_template(gives, "src")
        self.sink.set_chain_function_full(self._chain)
        self.sink.set_event_function_full(self._event)
        self.add_pad(self.sink)
        self.add_pad(self.source)
        self._segment: Any = None
        self._is_announced = False

    def take(self, data: bytes, pts: int) -> Iterable[Any]:
        """Buffers that follow from a buffer's bytes and its time in ns."""
        raise NotImplementedError

    def rest(self) -> Iterable[Any]:
        """Buffers that are left at the end."""
        raise NotImplementedError

    def configure(self, caps: Any) -> Iterable[Any]:
        """Take the format of what comes."""
        return ()

    def announce(self, caps: str) -> None:
        """Tell what will be given; the segment follows, as GStreamer orders events."""
        self.source.push_event(Gst.Event.new_caps(Gst.Caps.from_string(caps)))
        self._is_announced = True
        if self._segment is not None:
            self.source.push_event(self._segment)

    def _push(self, work: Callable[[], Iterable[Any]]) -> Any:
        try:
            for buffer in work():
                result = self.source.push(buffer)
                if result != Gst.FlowReturn.OK:
                    return result
        except errors.GsvcError as error:
            failure = GLib.Error.new_literal(
                Gst.StreamError.quark(), str(error), Gst.StreamError.FAILED
            )
            self.post_message(Gst.Message.new_error(self, failure, None))
            return Gst.FlowReturn.ERROR
        return Gst.FlowReturn.OK

    def _chain(self, pad: Any, parent: Any, buffer: Any) -> Any:
        data = buffer.extract_dup(0, buffer.get_size())
        return self._push(lambda: self.take(data, buffer.pts))

    def _event(self, pad: Any, parent: Any, event: Any) -> bool:
        if event.type == Gst.EventType.CAPS:
            caps = event.parse_caps()
            return bool(self._push(lambda: self.configure(caps)) == Gst.FlowReturn.OK)
        if event.type == Gst.EventType.EOS:
            self._push(self.rest)
        if event.type == Gst.EventType.SEGMENT and not self._is_announced:
            self._segment = event
            return True
        return bool(self.source.push_event(event))


def _buffer(data: bytes, pts: int) -> Any:
    buffer = Gst.Buffer.new_wrapped(data)
    buffer.pts = pts
    return buffer


class GsvcRtpEnc(_Element):
    """Raw video in, the datagrams of `gsvc send` out."""

    __gstmetadata__ = ("gsvc RTP encoder", "Codec/Encoder/Network", __doc__, "gsvc")
    __gsttemplates__ = _pads(_RAW, _RTP)
    level = GObject.Property(type=int, default=1, minimum=0, maximum=3, nick="0 to 3")
    bitrate = GObject.Property(type=int, default=0, minimum=0, nick="bit/s; 0: by the level")
    mtu = GObject.Property(type=int, default=1200, minimum=96, maximum=65507)

    def configure(self, caps: Any) -> Iterable[Any]:
        """Open an encoder for this video."""
        self._info = info = GstVideo.VideoInfo.new_from_caps(caps)
        rate = Fraction(info.fps_n, info.fps_d) if info.fps_n else _USUAL_RATE
        aspect = Fraction(info.par_n, info.par_d)
        form = VideoFormat(info.width, info.height, Fraction(1, CLOCK_RATE), rate, aspect)
        settings = EncoderSettings(level=self.level, bitrate=self.bitrate or None, low_delay=True)
        self._encoder = Encoder(form, settings)
        ssrc = secrets.randbits(32)
        self._packetizer = Packetizer(self._encoder.header, ssrc, WireSettings(mtu=self.mtu))
        self._first: int | None = None
        self.announce(f"{_RTP},ssrc=(uint){ssrc}")
        return ()

    def take(self, data: bytes, pts: int) -> Iterable[Any]:
        """The datagrams that are ready with a frame."""
        info = self._info
        rows = np.frombuffer(data, np.uint8)[: info.stride[0] * info.height]
        pixels = rows.reshape(info.height, info.stride[0])[:, : 3 * info.width]
        self._first = pts if self._first is None else self._first
        ticks = round(Fraction(pts - self._first, Gst.SECOND) * CLOCK_RATE)
        frame = Frame(np.ascontiguousarray(pixels).reshape(info.height, info.width, 3), ticks)
        return self._datagrams(self._encoder.encode(frame), pts)

    def rest(self) -> Iterable[Any]:
        """The last datagrams."""
        return self._datagrams(self._encoder.flush(), Gst.CLOCK_TIME_NONE)

    def _datagrams(self, packets: list[container.Packet], pts: int) -> Iterable[Any]:
        return [_buffer(each.to_bytes(), pts) for each in self._packetizer.packetize(packets)]


class GsvcRtpDec(_Element):
    """The datagrams of `gsvc send` in, raw video out; lost frames are made up."""

    __gstmetadata__ = ("gsvc RTP decoder", "Codec/Decoder/Network", __doc__, "gsvc")
    __gsttemplates__ = _pads("application/x-rtp", _RAW)
    steps = GObject.Property(type=int, default=0, minimum=0, maximum=8, nick="of the refiner")
    latency = GObject.Property(type=int, default=500, minimum=0, nick="ms from datagram to frame")

    def __init__(self) -> None:
        super().__init__()
        self._limits = errors.Limits.restrictive()
        self._depacketizer = Depacketizer(self._limits)
        self._decoder: Decoder | None = None
        self._shift = 0

    def take(self, data: bytes, pts: int) -> Iterable[Any]:
        """The frames that are ready with a datagram."""
        for packet in self._depacketizer.push(data, time.monotonic()):
            yield from self._frames(packet, pts)

    def rest(self) -> Iterable[Any]:
        """The frames of what was waited for, and those held back."""
        for packet in self._depacketizer.poll(time.monotonic() + 60):
            yield from self._frames(packet, 0)
        if self._decoder is not None:
            yield from map(self._raw, self._decoder.flush())

    def _frames(self, packet: container.Packet, now: int) -> Iterable[Any]:
        if self._decoder is None:
            header = self._depacketizer.header
            assert header is not None and packet.pts is not None  # known with the first packet
            settings = DecoderSettings(steps=self.steps, conceal=True)
            self._decoder = Decoder(header, settings, self._limits)
            self._tick = header.format.time_base
            first = packet.pts - (packet.duration or 0)
            self._shift = now + self.latency * Gst.MSECOND - round(first * self._tick * Gst.SECOND)
            form, rate = header.format, header.format.frame_rate.limit_denominator(1001)
            self.announce(
                f"{_RAW},width={form.width},height={form.height},"
                f"framerate={rate.numerator}/{rate.denominator},pixel-aspect-ratio="
                f"{form.pixel_aspect.numerator}/{form.pixel_aspect.denominator}"
            )
        yield from map(self._raw, self._decoder.frames(packet))

    def _raw(self, frame: Frame) -> Any:
        height, width, _ = frame.pixels.shape
        rows = np.zeros((height, -(-3 * width // 4) * 4), np.uint8)
        rows[:, : 3 * width] = frame.pixels.reshape(height, 3 * width)
        return _buffer(rows.tobytes(), self._shift + round(frame.pts * self._tick * Gst.SECOND))
