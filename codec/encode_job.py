"""What to encode of a file and how, apart from where it goes: once, or again at another rate."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from gsvc.codec.encoder import Encoder
from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.file_work import FileEncoding
from gsvc.codec.frames import AudioChunk
from gsvc.codec.media.audio_source import Sound, open_sound
from gsvc.codec.media.text_source import Wanted, read_beside
from gsvc.codec.media.video_reader import VideoReader, open_video
from gsvc.codec.reports import EncodeReport, Report
from gsvc.codec.stream.texts import Texts


@dataclass
class EncodeJob:
    """The arguments of `encode_file` that say what to encode."""

    source: str | Path
    settings: EncoderSettings
    start: float = 0.0
    frames: int | None = None
    fps: float | None = None
    sound: bool = True
    audio_bitrate: int | None = None
    texts: bool = True
    progress: Report | None = None
    _beside: Texts | None = field(default=None, init=False)

    def encode(
        self, output: AbstractContextManager[BinaryIO], target: str, settings: EncoderSettings
    ) -> EncodeReport:
        """Encode to `output`, which is entered when source and settings are known to be good."""
        began = monotonic()
        with self.open() as video:
            sound = self._sound()
            encoder = Encoder(video.format, settings, audio=bool(sound))
            beside = self.beside(video)
            with encoder, output as file:
                encoding = FileEncoding(encoder, file, video.frame_count, self.progress)
                encoding.write_texts(beside)
                encoding.write(video, sound, cut=self.frames is not None)
        return encoding.report(target, monotonic() - began)

    def open(self) -> VideoReader:
        """The pictures."""
        return open_video(self.source, start=self.start, frames=self.frames, fps=self.fps)

    def beside(self, video: VideoReader) -> Texts:
        """Title, chapters and subtitles. What is not carried is told of the first time."""
        if self._beside is None:
            wanted = Wanted(self.sound, self.audio_bitrate, self.texts)
            self._beside = read_beside(self.source, video.origin, video.seconds, wanted)
        return self._beside

    def sound_until(self, end: Fraction) -> Iterator[AudioChunk]:
        """The sound of a stream that lasts `end` seconds."""
        return self._sound().rest(end if self.frames is not None else None)

    def _sound(self) -> Sound:
        if not self.sound:
            return Sound(iter(()))
        return open_sound(self.source, self.start, self.audio_bitrate)
