"""`gsvc send`: video to network."""

import asyncio
import logging
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from gsvc.codec.api import encode_job, target_size
from gsvc.codec.api.encoder import Encoder
from gsvc.codec.api.encoder_settings import EncoderSettings
from gsvc.codec.bitstream.audio_and_text import AUDIO_CODINGS
from gsvc.codec.bitstream.errors import ConfigError
from gsvc.codec.bitstream.frames import Frame
from gsvc.codec.bitstream.scaffold import nominal_time
from gsvc.codec.command import arguments
from gsvc.codec.command.recv import SECURITY, Watch, security_of
from gsvc.codec.media import output, places, track_source
from gsvc.codec.media.video_reader import INTERLACED, VideoReader
from gsvc.codec.network import link_rate, video_sender
from gsvc.codec.network.congestion_control import Adaptation
from gsvc.codec.network.rtp import WireSettings, session_description
from gsvc.codec.network.stats import SenderStats
from gsvc.encoders.tuning import LIVE_GOP

FramesOf = Callable[[VideoReader], Iterator[Frame]]

SENDING = """
--level --preset --tune
| --bitrate RATE        target rate of the pictures in bit/s: 8000, 8k, 0.5M
| --total-bitrate RATE  mean rate of all that is sent: pictures, sound, copies, parity and headers
--look-ahead -> not low_delay  encode with lookahead: fewer bits, seconds of delay
--gop --fps --size --deinterlace
--mtu --max-packet-bytes N  largest datagram in bytes, without 28 of IP and UDP; splits pictures
                        (%(default)s)
--adapt LEAST:MOST      let the pictures follow the network, from --bitrate on: 4k:60k. Headers,
                        copies and parity come on top: MOST is about half of the link
--redundancy N          number of previous packets that each datagram repeats (%(default)s)
--parity N -> parity_span  datagrams of an intra picture per parity datagram; 0: none (%(default)s)
"""
"""How to encode pictures and send them."""

USAGE = f"""Encode a video in real time and send it. ADDRESS is udp://host:port (RTP), tcp://,
tls://, ws:// or wss://; the last two need gsvc[stream]. With @ before the host, gsvc listens and
sends to everyone who connects (not over UDP). Ctrl-C ends the stream.

source IN               the video: a file, a URL, a named pipe, or - for y4m on standard input
address ADDRESS         udp://host:port, tcp://host:port, ws://host:port
{SENDING}
--start
--frames N              send at most N frames of the source; where fewer a second are sent, as many
                        seconds of it
--objects               detect objects and send them too
--events-only
--loop                  repeat the video without end, without its sound
--fast -> not realtime  send as fast as possible, not in real time
--audio {{{",".join(AUDIO_CODINGS)}}}     send the sound, over UDP, not with --loop (none)
--audio-bitrate RATE    rate of the sound; mono below 18k (mono 16k, stereo 24k)
--sdp FILE              write a session description (SDP) of the RTP stream
{SECURITY}"""
DEFAULTS = EncoderSettings(preset="fast", low_delay=True), WireSettings()

_GIVE = ": y4m has none; give a camera's URL, or a named pipe of Matroska or MPEG-TS"
_BEGINNING = 2.0  # where a rate that follows the network begins, in proportion to the least

_THIN = 8_000.0
"""Bits per second of pictures below which size and frame rate follow from the rate. By eye."""
_KEPT = 1.1  # a rate is kept up to this many times what was asked: low delay only nears it

_log = logging.getLogger(__name__)


def run(options: Namespace) -> int:
    """Encode a video as it plays and send it."""
    asyncio.run(send_video(options, *settings_for(options)))
    return 0


def settings_for(options: Namespace) -> tuple[video_sender.SendSettings, EncoderSettings]:
    """Of the options of `SENDING`, checked."""
    wire, security = arguments.with_options(WireSettings, options), security_of(options)
    settings = arguments.with_options(video_sender.SendSettings, options, wire=wire, **security)
    if settings.adapt and options.bitrate is None:
        options.bitrate = min(_BEGINNING * settings.adapt.least, settings.adapt.most)
    if not options.low_delay and options.gop is None:
        options.gop = LIVE_GOP
    encoding = arguments.with_options(EncoderSettings, options)
    if options.loop and options.source == places.STANDARD_INPUT:
        raise ConfigError("--loop needs a source that can be read again: not standard input")
    if options.audio == "opus":
        _check_sound(options)
    if options.sdp and settings.key:
        raise ConfigError("--sdp describes plain RTP, which a key replaces: leave one of them out")
    return settings, encoding


def _check_sound(options: Namespace) -> None:
    if options.loop:
        raise ConfigError("--loop repeats pictures: leave it or --audio out")
    if options.adapt:
        raise ConfigError("--adapt follows the network by pictures alone: leave it or --audio out")
    if not options.address.startswith("udp:"):
        raise ConfigError(f"{options.address}: sound is sent to udp:// addresses only")
    track_source.check_bitrate(options.audio_bitrate and round(options.audio_bitrate))


def adaptation(text: str) -> Adaptation:
    """Bounds of a rate, from text such as 4k:60k."""
    least, _, most = text.partition(":")
    try:
        return Adaptation(arguments.bitrate(least), arguments.bitrate(most))
    except (ArgumentTypeError, ConfigError) as error:
        why = f"{text!r}: write two rates, the lower one first, as 4k:60k"
        raise ArgumentTypeError(why) from error


TYPES = {"--adapt": adaptation}


async def send_video(
    options: Namespace,
    settings: video_sender.SendSettings,
    encoding: EncoderSettings,
    frames_of: FramesOf = iter,
) -> bool:
    """Send to the end, the frames that `frames_of` takes; gives whether it was interrupted."""
    job = _suited(options, settings.wire)
    with job.open() as video:
        if video.is_interlaced:
            _log.warning("%s: %s", options.source, INTERLACED)
        if video.frame_count == 1 and not options.loop:
            told = "a still: gsvc encode --target-size 1kB makes a file to send"
            _log.warning("%s: %s", options.source, told)
        if options.total_bitrate is not None:
            encoding = _within_link(options, encoding, video, settings.wire)
        if job.sound:
            job.audio_bitrate = options.audio_bitrate and round(options.audio_bitrate)
        sound = job.open_sound(video, track_source.LIVE_SAMPLES)
        encoder = Encoder(video.format, encoding, audio=bool(sound))
        sender = video_sender.VideoSender(options.address, encoder, settings)
        may_go = not 0 < (options.total_bitrate or 0) < link_rate.LEAST_WITH_SOUND
        if options.audio == "opus" and not video.has_sound:
            more = _GIVE * (options.source == places.STANDARD_INPUT)
            _log.warning("%s has no sound to send%s", places.display_name(options.source), more)
        if video.has_sound and options.audio is None and may_go:
            why = getattr(options, "no_sound", "--audio opus sends it")
            _log.warning("%s: its sound is not sent: %s", options.source, why)
        if options.sdp:
            output.refuse_foreign(options.sdp, b"v=0")
            with output.explain_failure(options.sdp):
                Path(options.sdp).write_text(
                    session_description(encoder.header, sender.address), encoding="utf-8"
                )
        frames = _looped(video, job) if options.loop else frames_of(video)
        async with Watch(sender, options) as watch:
            await sender.run(frames, sound)
        if settings.adapt is None:
            stats = sender.stats()
            seconds = stats.frames / float(video.format.frame_rate)
            seconds = max(seconds, stats.seconds) if settings.realtime else seconds
            _tell_of_rate(stats, seconds, options.total_bitrate)
        return watch.was_interrupted


def _suited(options: Namespace, wire: WireSettings) -> encode_job.EncodeJob:
    """The pictures to send, at a size and frame rate that suit. Raises as `_least_sound`."""
    rate = options.bitrate
    job = encode_job.EncodeJob(
        options.source, EncoderSettings(), options.start, options.frames, options.fps,
        sound=options.audio == "opus", deinterlace=options.deinterlace, size=options.size,
    )  # fmt: skip
    sound = 0.0
    if options.total_bitrate is not None:
        if options.audio == "opus":
            sound = _least_sound(options, has_any=job.look().has_sound)
        rate = link_rate.pictures_within(options.total_bitrate, sound, wire)
    if rate is not None and rate < _THIN and options.size is None:
        job = replace(job, size=encode_job.AUTO_SIZE)
    return encode_job.suited(job, rate, options.total_bitrate, beside_sound=sound > 0)


def _least_sound(options: Namespace, *, has_any: bool) -> float:
    """Bits per second of the link that sound takes at least, its headers included. Raises
    ConfigError where it leaves pictures too little."""
    if options.audio != "opus" or not has_any:
        return 0.0
    lowest = target_size.SOUND[0]
    rate = options.audio_bitrate or lowest
    least: float = rate - lowest + link_rate.LEAST_WITH_SOUND
    if options.total_bitrate < least:
        lower = f", lower its rate (--audio-bitrate {lowest})" if rate > lowest else ""
        raise ConfigError(
            f"a link of {options.total_bitrate / 1000:g} kbit/s is too slow for pictures and sound "
            f"of {rate / 1000:g}: leave the sound out (--audio none){lower}, or allow at least "
            f"--total-bitrate {least:.0f}"
        )
    return link_rate.sound_bits(rate)


def _within_link(
    options: Namespace, encoding: EncoderSettings, video: VideoReader, wire: WireSettings
) -> EncoderSettings:
    """With the rate that pictures begin with; the options get that of the sound."""
    total, sound = options.total_bitrate, 0.0
    if _least_sound(options, has_any=video.has_sound):
        room = link_rate.pictures_within(total, link_rate.SOUND_HEADERS, wire)
        usual = target_size.sound_bitrate(encoding, video.format, room)
        options.audio_bitrate = options.audio_bitrate or usual
        sound = link_rate.sound_bits(options.audio_bitrate or track_source.USUAL_STEREO)
        if told := link_rate.sound_verdict(total, sound, wire):
            _log.warning("%s: %s", options.source, told)
    rate = link_rate.pictures_within(total, sound, wire)
    if rate < link_rate.FACES and not sound:
        told = "%s: %.2g kbit/s are left to pictures: faces and fast motion smear below %g, a file"
        told += " in pieces looks better (gsvc encode --packets)"
        _log.warning(told, places.display_name(options.source), rate / 1000, link_rate.FACES / 1000)
    return replace(encoding, bitrate=rate)


def _tell_of_rate(stats: SenderStats, seconds: float, link: float | None) -> None:
    """Warn of a rate that was asked for, of the pictures or the `link`, and not kept."""
    asked = link or stats.target
    if not asked or not seconds:
        return
    kept, what = (stats.wire_bits, "in all") if link else (stats.picture_bits, "for video")
    if kept > _KEPT * asked * seconds:
        told = f"asked for {asked / 1000:.3g} kbit/s {what}, sent {kept / seconds / 1000:.3g}"
        without = ", or leave the sound out" * bool(stats.bits["audio"])
        _log.warning("%s: take a lower --fps or a smaller video%s", told, without)


def _looped(video: VideoReader, job: encode_job.EncodeJob) -> Iterator[Frame]:
    """The video over and over, its times going on."""
    ticks = 1 / (video.format.frame_rate * video.format.time_base)
    shift = last = 0
    with ExitStack() as opened:
        while True:
            for frame in video:
                last = frame.pts + shift
                yield replace(frame, pts=last)
            shift = last + nominal_time(1, ticks)
            opened.close()
            video = opened.enter_context(job.open())
