"""`decode`: one call from a stream to a complete video file, of all of it or of a range of time."""

import logging
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import ceil, inf
from pathlib import Path
from time import monotonic
from typing import BinaryIO, TypeVar

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings, mark_of
from gsvc.codec.api.partial_picture import partial_picture
from gsvc.codec.api.reports import DecodeReport, Progress, Report
from gsvc.codec.bitstream import audio_and_text, container, errors, stream_info
from gsvc.codec.bitstream.container import Packet, PacketType, Salvage, StreamReader, decoded_frames
from gsvc.codec.bitstream.frames import AudioChunk, Frame, VideoFormat, duration
from gsvc.codec.bitstream.header import Header
from gsvc.codec.media import places
from gsvc.codec.media.output import STANDARD_OUTPUT
from gsvc.codec.media.video_writer import VideoWriter, image_pattern, open_writer
from gsvc.decoders.keyframes.backends import model_id
from gsvc.decoders.streams.reconstruction import Pace

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_ALWAYS = range(-(1 << 62), 1 << 62)
_OPUS_MEMORY = 64  # bytes of memory that a packet of Opus takes beside its own
_REST = Fraction(1 << 24)  # seconds that no stream has
_STANDS = 1
"""Seconds that lack at the begin of a part where the frame before it is shown for them."""


@errors.typed
def decode(
    source: places.PathOrFile | Sequence[str | Path],
    target: places.PathOrFile,
    *,
    settings: DecoderSettings | None = None,
    start: float = 0.0,
    frames: int | None = None,
    limits: errors.Limits = errors.DEFAULT_LIMITS,
    overwrite: bool = False,
    progress: Report | None = None,
    pace: Pace | None = None,
) -> DecodeReport:
    """Decode a stream to a video file. The target appears only when it is complete.

    Of a stream damaged after its first frames, these are written; then it raises, or conceals.

    Args:
        source: A path, of a stream or of what `mux` wrote, "-" for standard input, or an open
            binary file, of which all that is left is read. Of pieces (`encode_pieces`) a folder, a
            pattern or a list, in any order: of too few, what they show is written; then it raises.
        target: A container by its suffix, numbered images ("out/%05d.png"), or y4m ("-", a path
            ending in .y4m, or an open binary file, which is written to as frames come).
        settings: How to decode; one step of the default refiner by default.
        start: Second to begin at. The first frame decoded gets time 0.
        frames: Most frames to decode; None for all. With `start` or `frames`, only the groups
            of the frames asked for are decoded, and the source must be a file.
        limits: What the stream may ask for.
        overwrite: Replace a target that exists.
        progress: Called after every frame.
        pace: Decides where there is time for refiner and learned motion; None: always.

    Returns:
        Size and duration of the video.

    Raises:
        InputError: The source cannot be read, or ends before `start`.
        BitstreamError: The source is damaged or beyond `limits`. The target has the frames before
            the damage, if there are any.
        OutputError: The target cannot be written.
        ConfigError: A setting is out of range.
        MissingDependencyError: Refiner or motion need an extra that is not installed.
        MissingModelError: Weights of the refiner or of the motion are missing or damaged.
        DeviceError: The device is not available.
    """
    began = monotonic()
    settings = settings or DecoderSettings()
    places.refuse_same(source, target)
    with places.open_any(source) as file:
        lack, part, conceals = None, None, settings.conceal
        if isinstance(file, places.PieceStream) and (lack := file.lack):
            part = None if start else partial_picture(file.found, settings, limits)
            if part is None and file.found.drafts:
                file.found = file.found.without_drafts()
            settings = replace(settings, conceal=True)
        if part is not None:
            header, made = part[0], (array("q", [0]), 1)
            mark = mark_of(settings)
            with open_writer(target, header.format, mark=mark, overwrite=overwrite) as writer:
                writer.write(Frame(part[1], 0, concealed=True))
        else:
            is_container = _is_container(target)
            time_range = find_time_range(
                file, start, frames, limits, is_container=is_container, conceals=settings.conceal
            )
            header = time_range.header
            _warn_of_other_model(header.model_id, settings)
            output = open_writer(
                target,
                header.format,
                audio=time_range.sound,
                texts=time_range.texts if is_container else audio_and_text.NO_TEXTS,
                mark=mark_of(settings),
                overwrite=overwrite,
            )
            with Decoder(header, settings, limits, pace=pace) as decoder, output as writer:
                decoding = FileDecoding(decoder, writer, progress)
                decoding.write(time_range)
            decoding.tell_damage(time_range.damage, source, target)
            if not is_container and (lost := " and ".join(_beside(header, time_range.texts))):
                _log.warning("%s carries no %s: left out, use .mp4 or .mkv", written(target), lost)
            made = decoding.times, decoding.concealed
        if lack is not None:
            if not conceals:
                raise lack
            _log.warning("%s: %s", places.display_name(source), lack)
    return _report(target, header.format, settings.steps, began, *made)


def _report(
    target: places.PathOrFile,
    form: VideoFormat,
    steps: int,
    began: float,
    times: "array[int]",
    concealed: int,
) -> DecodeReport:
    return DecodeReport(
        target=places.shown(target),
        width=form.width,
        height=form.height,
        frames=len(times),
        duration=float(duration(times, form)),
        steps=steps,
        concealed=concealed,
        elapsed=monotonic() - began,
    )


@dataclass(frozen=True)
class TimeRange:
    """The part of a stream to decode."""

    header: Header
    """The stream's."""
    packets: Iterable[tuple[Packet, bool]]
    """Packets in order, each with whether any of its frames is to be shown."""
    sound: list[AudioChunk]
    """The sound, from time 0 on."""
    texts: audio_and_text.Texts
    """Title, chapters and subtitles, from time 0 on."""
    frames: int | None
    """Number of frames; None where only decoding will tell."""
    times: range = _ALWAYS
    """The pts of frames to show, in ticks."""
    origin: int = 0
    """The pts that becomes 0; a frame before it is shown then."""
    damage: errors.BitstreamError | None = None
    """What is wrong with the stream, where a decoder conceals it."""


def find_time_range(
    file: BinaryIO,
    start: float,
    frames: int | None,
    limits: errors.Limits,
    *,
    is_container: bool,
    conceals: bool = False,
) -> TimeRange:
    """`frames` frames (None: all) from `start` seconds on; the file is read to its end.

    Only all can be had of a file that cannot be sought. `is_container`: sound is wanted;
    `conceals`: go on after damage. Raises ConfigError where no such part can be had, InputError
    where the stream ends before `start`, BitstreamError for a damaged header or one beyond
    `limits`; iterating over the packets raises it where the stream is damaged later.
    """
    is_all = start == 0 and frames is None
    if conceals:
        salvage = Salvage(file, limits)
        if is_all and (salvage.damage is not None or not file.seekable()):
            return _salvaged(salvage, limits, is_container=is_container)
        if salvage.damage is not None:
            why = "no part of a damaged stream can be concealed: leave out start= and frames="
            raise errors.ConfigError(why) from salvage.damage
        file.seek(0)
    if is_all:
        return _all(file, limits, is_container=is_container)
    if not 0 <= start < inf or (frames is not None and frames < 1):
        raise errors.ConfigError(f"start {start} s, {frames} frames: from 0 s on, at least 1 frame")
    if not file.seekable():
        raise errors.ConfigError("a part can only be decoded of a file: save the stream first")
    return _part(file, start, frames, limits, is_container=is_container)


def _all(file: BinaryIO, limits: errors.Limits, *, is_container: bool) -> TimeRange:
    """All of a stream. A writer wants the sound before the pictures. A file is read twice for it;
    from a pipe, the packets of a stream with sound are kept (a stream is small)."""
    reader, held = StreamReader(file, limits), errors.HeldBytes(limits)
    header, packets = reader.header, iter(reader)
    sound: list[AudioChunk] = []
    frames: int | None = None
    if file.seekable():
        texts, packets = _texts_before(_whole(packets), held)
        sound, frames = _survey(packets, held)
        file.seek(0)
        packets = iter(StreamReader(file, limits))
    else:
        texts, packets = _texts_before(packets, held)
        if is_container and header.audio:
            kept, damage = _kept(packets, held)
            sound, frames = _survey(kept, held)
            packets = _and_damage(kept, damage)
    every = ((packet, True) for packet in packets)
    return TimeRange(header, every, sound if is_container else [], texts, frames or None)


def _texts_before(
    packets: Iterator[Packet], held: errors.HeldBytes
) -> tuple[audio_and_text.Texts, Iterator[Packet]]:
    """The texts, which precede the first picture packet, and all packets again."""
    kept = []
    for packet in packets:
        kept.append(packet)
        if packet.is_picture:
            break
        held.add(container.PACKET_MEMORY + len(packet.payload))
    return audio_and_text.read_texts(kept, held), chain(kept, packets)


def _whole(packets: Iterable[Packet]) -> Iterator[Packet]:
    """The packets up to damage, of which whoever decodes them is told."""
    with suppress(errors.BitstreamError):
        yield from packets


def _survey(packets: Iterable[Packet], held: errors.HeldBytes) -> tuple[list[AudioChunk], int]:
    """The sound of all packets, and the number of their frames."""
    sound, frames = [], 0
    for packet in packets:
        if packet.type == PacketType.AUDIO:
            chunk = audio_and_text.unpack_audio(packet.payload)
            opus = _OPUS_MEMORY * len(chunk.packets)
            held.add(container.PACKET_MEMORY + len(packet.payload) + opus)
            sound.append(chunk)
        frames += packet.frames
    return sound, frames


def _kept(
    packets: Iterable[Packet], held: errors.HeldBytes
) -> tuple[list[Packet], errors.BitstreamError | None]:
    kept = []
    try:
        for packet in packets:
            held.add(container.PACKET_MEMORY + len(packet.payload))
            kept.append(packet)
    except errors.LimitError:
        raise
    except errors.BitstreamError as error:
        return kept, error
    return kept, None


def _and_damage(things: Iterable[_T], damage: errors.BitstreamError | None) -> Iterator[_T]:
    yield from things
    if damage is not None:
        raise damage


def _salvaged(salvage: Salvage, limits: errors.Limits, *, is_container: bool) -> TimeRange:
    texts, packets = _texts_before(iter(salvage), held := errors.HeldBytes(limits))
    sound, frames = _survey(packets, held)
    every, sound = ((packet, True) for packet in salvage), sound if is_container else []
    return TimeRange(salvage.header, every, sound, texts, frames, damage=salvage.damage)


def _part(
    file: BinaryIO, start: float, frames: int | None, limits: errors.Limits, *, is_container: bool
) -> TimeRange:
    index = stream_info.StreamIndex(file, limits, partial=True)
    if not index.times and index.damage is None:
        raise errors.InputError("the stream has no pictures to seek: decode it from start to end")
    first, begins = _begin(index, start)
    times = index.times[first:][:frames]
    if not times:
        raise index.damage or errors.InputError(f"the stream ends before {start:g} s: begin sooner")
    sound: list[AudioChunk] = []
    file.seek(0)
    held = errors.HeldBytes(limits)
    texts, whole = _texts_before(_whole(StreamReader(file, limits)), held)
    form, origin = index.header.format, max(begins, times[0])
    begin = (origin - index.times[0]) * form.time_base
    to_end = frames is None or len(times) < frames
    length = duration(times, form) - (origin - times[0]) * form.time_base
    length = _REST if to_end else length  # sound and texts may go on for longer
    texts = audio_and_text.moved(texts, round(1000 * begin), round(1000 * length))
    if is_container and index.header.audio:
        sound = list(audio_and_text.cut(_survey(whole, held)[0], begin, begin + length))
    ticks = range(times[0], times[-1] + 1)
    packets = _and_damage(index.packets(first, len(times)), index.damage if to_end else None)
    return TimeRange(index.header, packets, sound, texts, len(times), ticks, origin)


def _begin(index: stream_info.StreamIndex, start: float) -> tuple[int, int]:
    """Number of a part's first frame, and its tick unless that frame is later."""
    first, begins = index.frame_at(start), 0
    if start > 0:
        base, following = index.header.format.time_base, index.times[first + 1 :][:1]
        begins = index.times[0] + ceil(round(start / base, 6))
        stands = following and (following[0] - begins) * base >= _STANDS
        first += index.times[first] < begins and not stands
    return first, begins


class FileDecoding:
    """A stream on its way into a video file."""

    def __init__(self, decoder: Decoder, writer: VideoWriter, progress: Report | None) -> None:
        self._decoder, self._writer, self._progress = decoder, writer, progress
        self._size = 0
        self._damage: errors.BitstreamError | None = None
        self.times = array("q")
        """The pts of the frames written, as they are in the stream."""
        self.concealed = 0
        """How many of them were made up."""

    def write(self, time_range: TimeRange) -> None:
        """Decode up to damage. Raises BitstreamError where there is no frame at all."""
        try:
            packets = self._counted(time_range)
            self._put(decoded_frames(self._decoder, packets, time_range.times), time_range)
        except errors.BitstreamError as error:
            self._damage = error
            self._put(self._decoder.flush(), time_range)
        if not self.times:
            raise self._damage or errors.BitstreamError(
                "the stream holds no picture: there is nothing to decode"
            )

    def tell_damage(
        self,
        concealed: errors.BitstreamError | None,
        source: places.PathOrFile | Sequence[str | Path],
        target: places.PathOrFile,
    ) -> None:
        """Raise BitstreamError for damage that ended the video; warn of what was `concealed`."""
        count = len(self.times)
        if self._damage is not None:
            raise type(self._damage)(
                f"{self._damage}; {written(target)} has the {count} frames before it, "
                "conceal=True (--conceal) goes on after it"
            ) from self._damage
        if concealed is not None or self.concealed:
            name, why = places.display_name(source), concealed or "not every packet can be decoded"
            _log.warning("%s: %s; %d of %d frames are concealed", name, why, self.concealed, count)

    def _put(self, frames: Iterable[Frame], time_range: TimeRange) -> None:
        """Write those of the frames that are in the time range, whose origin gets time 0."""
        for frame in frames:
            if frame.pts not in time_range.times:
                continue
            pts = max(len(self.times), frame.pts - time_range.origin)  # a stream may begin before 0
            self._writer.write(replace(frame, pts=pts))
            self.times.append(frame.pts)
            self.concealed += frame.concealed
            if self._progress:
                self._progress(Progress(len(self.times), time_range.frames, self._size))

    def _counted(self, time_range: TimeRange) -> Iterator[tuple[Packet, bool]]:
        """The time range's packets, each with whether its frames are wanted."""
        for packet, is_wanted in time_range.packets:
            self._size += len(packet.payload)
            yield packet, is_wanted


def written(target: places.PathOrFile) -> str:
    """The name of the target in messages."""
    return "standard output" if str(target) == STANDARD_OUTPUT else places.shown(target)


def _beside(header: Header, texts: audio_and_text.Texts) -> list[str]:
    """What a stream has beside pictures, in words."""
    there = header.audio, texts.subtitles, texts.chapters, texts.tags
    words = "sound", "subtitles", "chapters", "title or other tags"
    return [word for word, one in zip(words, there, strict=True) if one]


def _is_container(target: places.PathOrFile) -> bool:
    """Whether more than pictures goes into the target."""
    if not isinstance(target, str | Path):
        return False
    name = str(target)
    is_y4m = name == STANDARD_OUTPUT or name.lower().endswith(".y4m")
    return not is_y4m and image_pattern(name) is None


def _warn_of_other_model(stream_model: bytes, settings: DecoderSettings) -> None:
    if settings.steps and stream_model not in (bytes(4), model_id(), model_id(settings.backend)):
        told = "the stream is for other weights (%s): pictures may differ from the encoder's"
        _log.warning(told, stream_model.hex())
