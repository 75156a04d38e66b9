"""One file on its way: frames and sound into a stream, and a stream into a video."""

import logging
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

from gsvc.codec.decoder import Decoder
from gsvc.codec.encoder import Encoder
from gsvc.codec.errors import BitstreamError
from gsvc.codec.frames import Frame
from gsvc.codec.input import display_name
from gsvc.codec.media.audio_source import Sound
from gsvc.codec.media.video_writer import VideoWriter
from gsvc.codec.open_files import Place, shown
from gsvc.codec.output import STANDARD_OUTPUT
from gsvc.codec.portion import Portion, duration
from gsvc.codec.reports import EncodeReport, Progress, Report
from gsvc.codec.stream.audio import pack_audio
from gsvc.codec.stream.container import StreamWriter
from gsvc.codec.stream.decoding import decoded_frames
from gsvc.codec.stream.packet import Packet, PacketType
from gsvc.codec.stream.texts import Texts, text_packets

_log = logging.getLogger(__name__)


class FileEncoding:
    """One video on its way into a stream file."""

    def __init__(
        self, encoder: Encoder, file: BinaryIO, total: int | None, progress: Report | None
    ) -> None:
        """`total`: frames of the video, None where it does not tell."""
        self._encoder, self._total, self._progress = encoder, total, progress
        self._writer = StreamWriter(file, encoder.header)
        self._times = array("q")
        self._audio_size = self._text_size = self._done = 0
        encoder.watch(self._tell)

    def write_texts(self, texts: Texts) -> None:
        """Write title, chapters and subtitles: before the pictures, where a pipe needs them."""
        before = self._writer.bytes_written
        for packet in text_packets(texts):
            self._writer.write(packet)
        self._text_size = self._writer.bytes_written - before

    def write(self, video: Iterable[Frame], sound: Sound, *, cut: bool) -> None:
        """Encode every frame; `cut`: the sound ends with the last one."""
        for packet in self._with_sound(self._pictures(video), sound, cut=cut):
            before = self._writer.bytes_written
            self._writer.write(packet)
            if packet.type == PacketType.AUDIO:
                self._audio_size += self._writer.bytes_written - before

    def report(self, target: str, elapsed: float) -> EncodeReport:
        """What came out; `elapsed`: seconds it took."""
        header = self._encoder.header
        return EncodeReport(
            target=target,
            width=header.format.width,
            height=header.format.height,
            frames=len(self._times),
            duration=float(duration(self._times, header.format)),
            level=header.level,
            size=self._writer.bytes_written,
            audio_size=self._audio_size,
            text_size=self._text_size,
            elapsed=elapsed,
            estimated_quality=self._encoder.estimated_quality,
        )

    def _pictures(self, video: Iterable[Frame]) -> Iterator[Packet]:
        self._tell()
        for frame in video:
            self._times.append(frame.pts)
            if ready := self._encoder.encode(frame):
                yield from ready
                self._done += sum(packet.frames for packet in ready)
                self._tell()
        yield from self._encoder.flush()
        self._done = len(self._times)
        self._tell()

    def _with_sound(
        self, packets: Iterator[Packet], sound: Sound, *, cut: bool
    ) -> Iterator[Packet]:
        """Put sound between the packets, each chunk before the first picture shown after it."""
        form = self._encoder.header.format
        for packet in packets:
            if packet.is_picture and packet.pts is not None:
                chunks = sound.until(packet.pts * form.time_base)
            else:
                chunks = sound.rest(duration(self._times, form) if cut else None)
            for chunk in chunks:
                yield Packet(PacketType.AUDIO, 0, pack_audio(chunk))
            yield packet

    def _tell(self, under_way: float = 0.0) -> None:
        if self._progress:
            size = self._writer.bytes_written
            self._progress(Progress(self._done, self._total, size, under_way))


class FileDecoding:
    """A stream on its way into a video file."""

    def __init__(self, decoder: Decoder, writer: VideoWriter, progress: Report | None) -> None:
        self._decoder, self._writer, self._progress = decoder, writer, progress
        self._size = 0
        self._damage: BitstreamError | None = None
        self.times = array("q")
        """The pts of the frames written, as they are in the stream."""
        self.concealed = 0
        """How many of them were made up."""

    def write(self, portion: Portion) -> None:
        """Decode a portion, up to damage. Raises BitstreamError where there is no frame at all."""
        try:
            self._put(decoded_frames(self._decoder, self._counted(portion)), portion)
        except BitstreamError as error:
            self._damage = error
            self._put(self._decoder.flush(), portion)
        if not self.times:
            raise self._damage or BitstreamError(
                "the stream holds no picture: there is nothing to decode"
            )

    def tell_damage(self, concealed: BitstreamError | None, source: Place, target: Place) -> None:
        """Raise BitstreamError for damage that ended the video; warn of what was `concealed`."""
        count = len(self.times)
        if self._damage is not None:
            raise type(self._damage)(
                f"{self._damage}; {written(target)} has the {count} frames before it, "
                "conceal=True (--conceal) goes on after it"
            ) from self._damage
        if concealed is not None or self.concealed:
            what = f"{display_name(source)}: {concealed or 'not every packet can be decoded'}"
            _log.warning("%s; %d of %d frames are concealed", what, self.concealed, count)

    def _put(self, frames: Iterable[Frame], portion: Portion) -> None:
        for frame in frames:
            if frame.pts not in portion.times:
                continue
            self._writer.write(replace(frame, pts=frame.pts - portion.origin))
            self.times.append(frame.pts)
            self.concealed += frame.concealed
            if self._progress:
                self._progress(Progress(len(self.times), portion.frames, self._size))

    def _counted(self, portion: Portion) -> Iterator[tuple[Packet, bool]]:
        for packet, is_wanted in portion.packets:
            self._size += len(packet.payload)
            yield packet, is_wanted


def written(target: Place) -> str:
    """What a message calls the target."""
    return "standard output" if str(target) == STANDARD_OUTPUT else shown(target)
