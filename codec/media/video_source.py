"""The decoded frames of a video or of images, from any time.

A source that is damaged gives a one-line error. Frames come with their display matrix, by which
`oriented` rotates and mirrors pictures.
"""

import logging
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.codec.context import Flags
from av.filter import Graph
from av.sidedata.sidedata import SideData
from av.stream import Disposition
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError, UnsupportedInputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.media import color, places, source_clock, source_file

VIDEO_SUFFIXES = {
    ".3gp", ".avi", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg",
    ".mts", ".ogv", ".ts", ".webm", ".wmv", ".y4m",
}  # fmt: skip
"""What counts as a video in a folder."""

Matrix = NDArray[np.int32]
"""FFmpeg's display matrix, (3, 3): a stored point (x, y) is shown at (x, y, 1) @ matrix."""

_UNKNOWN_KINDS = range(28, 40)


def display_matrix(frame: av.VideoFrame) -> Matrix | None:
    """A frame's display matrix: from rotation in MP4 and MKV, Exif orientation in JPEG."""
    for data in _side_data(frame):
        if data.type.name == "DISPLAYMATRIX":
            return np.frombuffer(bytes(data), np.int32).reshape(3, 3)
    return None


class Matrices:
    """The display matrix of a video's frames, looked up once for each angle.

    PyAV keeps a frame whose side data was read until the garbage collector runs.
    """

    def __init__(self) -> None:
        self._known: dict[int, Matrix | None] = {}

    def __call__(self, frame: av.VideoFrame) -> Matrix | None:
        angle = frame.rotation
        if angle not in self._known:
            self._known[angle] = display_matrix(frame)
        return self._known[angle]


def swaps_sides(matrix: Matrix | None) -> bool:
    """Whether the matrix maps rows to columns."""
    return matrix is not None and abs(int(matrix[0, 1])) > abs(int(matrix[0, 0]))


def oriented(picture: Picture, matrix: Matrix | None) -> Picture:
    """Apply the nearest of the eight upright orientations."""
    if matrix is None:
        return picture
    if swaps_sides(matrix):
        picture = picture.swapaxes(0, 1)
        mirrored, upside_down = matrix[1, 0] < 0, matrix[0, 1] < 0
    else:
        mirrored, upside_down = matrix[0, 0] < 0, matrix[1, 1] < 0
    picture = picture[:, ::-1] if mirrored else picture
    picture = picture[::-1] if upside_down else picture
    return np.ascontiguousarray(picture)


def _side_data(frame: av.VideoFrame) -> list[SideData]:
    try:
        found = cast(Sequence[SideData], frame.side_data)
    except ValueError:
        # PyAV 18 raises when there is a kind it does not know, such as Exif.
        graph = _graph(frame, *(f"sidedata=mode=delete:type={kind}" for kind in _UNKNOWN_KINDS))
        graph.push(frame)
        found = cast(Sequence[SideData], cast(av.VideoFrame, graph.pull()).side_data)
    return [found[index] for index in range(len(found))]  # PyAV 19 iterates over the kinds


def _graph(frame: av.VideoFrame, *filters: str) -> Graph:
    """Filters, each as NAME=OPTIONS, one behind the other, for frames such as this one."""
    graph, form = Graph(), frame.format
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=form, time_base=Fraction(1)
    )
    nodes = (graph.add(name, how) for name, _, how in (one.partition("=") for one in filters))
    graph.link_nodes(source, *nodes, graph.add("buffersink")).configure()
    return graph


def deinterlaced(
    frames: Iterator[tuple[str, av.VideoFrame]],
) -> Iterator[tuple[str, av.VideoFrame]]:
    """The frames with every second row drawn anew by those around it in place and time: bwdif.

    One frame for each one: 50 fields a second become 25 frames. A filter takes those of one kind.
    """
    waiting: deque[tuple[str, int | None]] = deque()
    for _, alike in groupby(frames, lambda one: (one[1].width, one[1].height, one[1].format.name)):
        graph: Graph | None = None
        for label, frame in alike:
            graph = graph or _graph(frame, "bwdif=mode=send_frame")
            waiting.append((label, frame.pts))
            graph.push(frame)
            yield from _pulled(graph, waiting)
        assert graph is not None
        graph.push(None)
        yield from _pulled(graph, waiting)


def _pulled(
    graph: Graph, waiting: deque[tuple[str, int | None]]
) -> Iterator[tuple[str, av.VideoFrame]]:
    """What is ready, with the names and times of what went in: the filter's are another clock's."""
    while waiting:
        try:
            frame = cast(av.VideoFrame, graph.pull())
        except (av.error.BlockingIOError, av.error.EOFError):
            return
        label, frame.pts = waiting.popleft()
        yield label, frame


IMAGE_RATE = FALLBACK_RATE = Fraction(25)


class ImageSource:
    """Images in order of their names, numbers counted as numbers (img2 before img10)."""

    start_time = lead = Fraction(0)
    has_sound = may_jump = False
    beside = None
    matrix = staticmethod(display_matrix)

    def __init__(self, pattern: str | Path, rate: Fraction = IMAGE_RATE) -> None:
        """`rate`: images a second."""
        self.name = str(pattern)
        self.frame_rate, self.time_base = rate, 1 / rate
        self.pixel_aspect = Fraction(1)
        self._paths = sorted(places.matches(self.name), key=_natural)
        if not self._paths:
            raise InputError(f"{self.name}: no image matches: check the folder and the pattern")
        self.frame_count: int | None = len(self._paths)

    def frames(self, start: Fraction) -> Iterator[tuple[str, av.VideoFrame]]:
        """The images from the one shown at `start` seconds on, each after its file name."""
        first = math.floor(start * self.frame_rate)
        for index, path in enumerate(self._paths[first:], first):
            frame = self._read(path)
            frame.pts = index
            yield path, frame

    def close(self) -> None:
        """Nothing to close: each image was closed after reading."""

    def _read(self, path: str) -> av.VideoFrame:
        if places.is_read_once(path):
            raise InputError(f"{path}: a pipe among images: give it by itself, or remove it")
        with closing(VideoSource(path)) as source:
            (_, frame), *more = islice(source.frames(Fraction(0)), 2)
            if more and more[0][1] is not frame:
                _log.warning("%s: holds several pictures, the first is taken", path)
            self.crop, self.pixel_aspect = source.crop, source.pixel_aspect
            return frame


def _natural(path: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", path)]


_FASTEST, _SLOWEST = 1000, Fraction(1, 100)
_Y4M, _WEBP = "yuv4mpegpipe", "webp_pipe"
_SHORTEST_LEAD, _LONGEST_LEAD = Fraction(1, 2), 600
_DEEPEST = 8  # frames within which B-frames show
LONG = 1
"""Seconds beyond the usual for which a frame stands where others end or begin."""
_STANDS = "%s: FFmpeg makes no picture of its last %d packets: the last one stands for them"
_HOLES = "%s: %d packets lack data, which was lost before: FFmpeg fills in what it can"
_DAMAGED = "%s: damaged pictures, in which FFmpeg fills in what it can: %d"
_ENCRYPTED = "%s: encrypted: ffmpeg -decryption_key KEY -i INPUT -c copy OUTPUT makes a plain copy"
_LATE = "%s: tracks that begin later on are left out: the first one has %d frames"
_CUT = "%s: looks cut off after %d frames: it may have been longer"
_BEHIND = "%s: another file or index begins after %d frames%s: join videos by ffmpeg -f concat"
# A demuxer out of sync may fail many times before it finds the next packet or the end.
_MAX_READ_ERRORS = 100_000

_log = logging.getLogger(__name__)


class VideoSource:
    """The best video stream of a file, a URL or y4m on standard input."""

    def __init__(self, source: str | Path, *, listens: bool = False) -> None:
        """`listens`: keeps the packets of the sound that come with the pictures."""
        self.name = places.display_name(source)
        self._source = source
        self.beside: source_clock.Beside | None = deque() if listens else None
        self._reached = self._damaged_frames = 0
        self._is_last_damaged = False
        self._last, self._read_to = b"", 0  # the packet before, and the byte behind it
        self._key = b""  # the last packet of a key picture
        self._times: deque[int] | None = None  # of packets, while they are needed
        self._in_turn = False  # whether frames may take them: then a seek shifts them
        self.matrix = Matrices()
        self._pipe = source_file.InputPipe() if str(source) == places.STANDARD_INPUT else None
        self._open()
        try:
            self._describe()
        except BaseException:
            self.close()
            raise

    def frames(self, start: Fraction) -> Iterator[tuple[str, av.VideoFrame]]:
        """Labelled frames in display order from `start` seconds or somewhat before."""
        target = round((self.start_time + start) / self.time_base)
        if start > 0 and not (places.is_read_once(self._source) or self._clock.may_jump):
            if self._seek(target):
                frames = self._decode(self._packets(), sought=True)
                first = next(frames, None)
                begin = first[1].pts if first is not None else None
                if first and begin is not None and begin <= target and not self._in_turn:
                    yield first
                    yield from frames
                    return
            # Without a usable index: read it from its beginning.
            self.close()
            self._open()
        skips = start > 0 and self._clock.may_jump
        yield from self._decode(self._from(target) if skips else self._packets())

    def close(self) -> None:
        self._container.close()

    def _open(self) -> None:
        pipe, source = self._pipe, self._source
        self._container = source_file.open_pipe(pipe) if pipe else source_file.open_media(source)
        try:
            stream = self._container.streams.best("video")
            is_cover = stream and stream.disposition & Disposition.attached_pic
            if not isinstance(stream, av.VideoStream) or is_cover:
                raise InputError(f"{self.name}: has no video stream: give a file with pictures")
            source_file.refuse_tiles(self._container, stream, self.name)
            self.crop = source_file.stated_crop(stream)
            if stream.codec_context is None:
                why = "FFmpeg here has no decoder for this video: convert it to H.264 first"
                raise InputError(f"{self.name}: {why}")
            if stream.codec_context.name == "tiff" and not pipe:
                source_file.refuse_tiff_of_jpeg(Path(source), self.name)
            self._stream = stream
            self._stream.codec_context.flags |= Flags.unaligned  # else not all may be cropped
            self._begin()
        except BaseException:
            self._container.close()
            raise

    def _describe(self) -> None:
        stream = self._stream
        color.refuse_track(stream, self.name)
        self._color = color.ContainerColor(stream)
        self.time_base = source_clock.fraction(stream.time_base) or Fraction(1, 90_000)
        claimed = _claimed_rate(stream)
        if self._container.format.name != _Y4M:  # which has no times beside its rate
            claimed = _sane(self._clock.nominal_rate(stream, claimed))
        self.frame_rate = claimed or FALLBACK_RATE
        self.pixel_aspect = source_clock.fraction(stream.sample_aspect_ratio) or Fraction(1)
        self._decoded_aspect = _decoded_aspect(stream)
        self.start_time = (stream.start_time or 0) * self.time_base
        self.frame_count = self._estimated_count()
        self.has_sound = bool(self._container.streams.audio)
        self.lead, self.may_jump = self._lead(), self._clock.may_jump

    def _lead(self) -> Fraction:
        """Seconds of sound before the first picture; 0 where a player would leave them out."""
        sound = source_clock.best_audio(self._container)
        base = source_clock.fraction(sound.time_base) if sound else None
        if sound is None or base is None or sound.start_time is None:
            return Fraction(0)
        lead = self.start_time - sound.start_time * base
        return lead if _SHORTEST_LEAD < lead < _LONGEST_LEAD else Fraction(0)

    def _estimated_count(self) -> int | None:
        """What the container counts (AVI counts empty frames as well), else by its duration."""
        duration = Fraction(0)
        if self._stream.duration:
            duration = self._stream.duration * self.time_base
        elif self._container.duration:
            duration = Fraction(self._container.duration, av.time_base)
        estimate, counted = round(duration * self.frame_rate), self._stream.frames
        if counted and (not duration or counted <= 2 * max(1, estimate)):
            return counted
        return max(1, estimate) if duration else None

    def _seek(self, target: int) -> bool:
        try:
            self._container.seek(target, stream=self._stream)
        except av.FFmpegError:
            return False
        self._begin()
        return True

    def _begin(self) -> None:
        if self.beside is not None:
            self.beside.clear()
        self._clock = source_clock.SourceClock(self._container, [self._stream], self.beside)

    def _from(self, target: int) -> "Iterator[source_clock.AnyPacket | av.FFmpegError]":
        """From the last intra picture at `target` or before on: what lies before is not decoded."""
        waiting: list[source_clock.AnyPacket | av.FFmpegError] = []
        packets = self._packets()
        for packet in packets:
            if isinstance(packet, av.Packet) and packet.pts is not None:
                if packet.is_keyframe and packet.pts <= target:
                    waiting.clear()
                if packet.dts is not None and packet.dts > target:
                    packets = chain((packet,), packets)
                    break
            waiting.append(packet)
        return chain(waiting, packets)

    def _decode(
        self, packets: "Iterable[source_clock.AnyPacket | av.FFmpegError]", sought: bool = False
    ) -> Iterator[tuple[str, av.VideoFrame]]:
        """The frames from here on. AVI, and what was copied from it, has times of decoding alone:
        those of packets rise, those of frames do not. Then frames take the packets' in turn."""
        times = self._times = deque[int]()
        frames, held = self._decoded(packets, sought), list[tuple[str, av.VideoFrame]]()
        seen = list[int]()
        while (
            self._stream.codec_context.has_b_frames
            and len(held) < _DEEPEST
            and not (_falls(times) or _falls(seen))
            and (item := next(frames, None)) is not None
        ):
            held.append(item)
            seen += [] if item[1].pts is None else [item[1].pts]
        takes_turns = _falls(seen) and not _falls(times)
        is_short = bool(self._stream.codec_context.has_b_frames) and len(held) < _DEEPEST
        self._in_turn = takes_turns or (is_short and not _falls(times))
        self._times = times if takes_turns else None
        for label, frame in chain(held, frames):
            if takes_turns and times:
                frame.pts = times.popleft()
            yield label, frame

    def _decoded(
        self, packets: "Iterable[source_clock.AnyPacket | av.FFmpegError]", sought: bool = False
    ) -> Iterator[tuple[str, av.VideoFrame]]:
        """Decode from here on. Damage before the first frame is skipped: a recording may start
        between two intra pictures. Later it is an error, and so is an early end."""
        self._reached = silent = 0
        trouble: av.FFmpegError | None = None
        frame: av.VideoFrame | None = None
        for packet in packets:
            silent += _has_data(packet)
            if self._reached and trouble is not None and _has_data(packet):
                raise self._damaged(trouble)
            try:
                if isinstance(packet, av.FFmpegError):
                    raise packet
                frames = cast(list[av.VideoFrame], packet.decode())
            except av.FFmpegError as error:
                trouble = error
                continue
            if frames and not self._reached:
                trouble = None
            for frame in frames:
                silent = 0 if _has_data(packet) else silent - 1  # the end brings late ones
                self._color.complete(frame)
                if (aspect := _decoded_aspect(self._stream)) != self._decoded_aspect:
                    self.pixel_aspect = self._decoded_aspect = aspect  # another than before
                yield f"{self.name}, frame {self._reached}", frame
                self._reached += 1
                self._damaged_frames += self._is_last_damaged
                self._is_last_damaged = frame.is_corrupt
        if frame is not None and self._stands(frame):
            if silent > 0:
                _log.warning(_STANDS, self.name, silent)
            yield f"{self.name}, frame {self._reached - 1}", frame
        self._report_end(trouble, sought)

    def _stands(self, last: av.VideoFrame) -> bool:
        """Whether the last frame is shown for long, by itself or by packets that bring no other:
        then it comes again, at the end of that."""
        if last.pts is None:
            return False
        length = max(last.duration, self._clock.end - last.pts)
        rest = length - round(1 / (self.frame_rate * self.time_base))
        if rest * self.time_base < LONG:
            return False
        last.pts += rest
        return True

    def _packets(self) -> "Iterator[source_clock.AnyPacket | av.FFmpegError]":
        for _ in range(_MAX_READ_ERRORS):
            try:
                for packet in self._clock.packets():
                    if packet.has_sidedata("encryption_info"):
                        raise UnsupportedInputError(_ENCRYPTED % self.name)
                    if self._times is not None and packet.pts is not None:
                        self._times.append(packet.pts)
                    yield packet
                    if packet.size:
                        self._last, self._read_to = bytes(packet), (packet.pos or 0) + packet.size
                        self._key = self._last if packet.is_keyframe else self._key
                return
            except av.error.InvalidDataError as error:
                yield error
                if self._container.format.name == _Y4M:  # which cannot find the next frame
                    raise self._damaged(error) from error
            except av.error.PatchWelcomeError as error:  # a chain of Ogg
                raise InputError(_BEHIND % (self.name, self._reached, "")) from error
            except av.FFmpegError as error:
                is_live = places.is_live(self.name)
                why = f"no more comes ({error.strerror})" if is_live else source_file.reason(error)
                raise InputError(f"{self.name}: {why}") from error
        is_pipe = places.is_read_once(self._source)
        advice = "give the file, not a pipe" if is_pipe else "convert it first"
        raise InputError(f"{self.name}: FFmpeg finds no further frame in it: {advice}")

    def _report_end(self, trouble: av.FFmpegError | None, sought: bool) -> None:
        if self._pipe is not None:
            self._pipe.check()
        if self._clock.taken_out:
            seconds = float(self._clock.taken_out)
            _log.warning("%s: its clock jumps ahead by %.4g s, left out", self.name, seconds)
        if self._clock.has_late_tracks:
            _log.warning(_LATE, self.name, self._reached)
        for told, count in ((_HOLES, self._clock.holes), (_DAMAGED, self._damaged_frames)):
            if count:
                _log.warning(told, self.name, count)
        if self._reached == 0 and not sought:
            why = "" if trouble is None else f", FFmpeg says '{trouble.strerror}'"
            advice = "check that the file is whole, and not encrypted"
            if self._container.format.name == _WEBP:
                advice += ", convert it to GIF or MP4 first if it is animated"
            raise InputError(f"{self.name}: not one frame could be decoded{why}: {advice}")
        if self._reached:
            self._report_cut(self._end(), trouble is not None)

    def _report_cut(self, end: source_file.End, in_trouble: bool) -> None:
        if end.breaks_off(in_trouble):
            raise InputError(
                f"{self.name}: breaks off after {self._reached} frames, it is truncated: "
                f"copy it again, or take what is there with frames={self._reached}"
            )
        is_short = self._clock.missing > LONG + 2 / self.frame_rate
        is_cut = self._is_last_damaged or self._clock.is_cut
        if is_cut or end.is_cut(self._key, self._last, self._read_to, is_short):
            _log.warning(_CUT, self.name, self._reached)
        elif end.is_joined and self._read_to <= end.stated:
            _log.warning(_BEHIND, self.name, self._reached, ", it is left out")

    def _end(self) -> source_file.End:
        size = self._pipe.size if self._pipe else self._container.size
        return source_file.End(self._container, self._stream, self._source, size)

    def _damaged(self, error: av.FFmpegError) -> InputError:
        if self._end().is_joined:
            return InputError(_BEHIND % (self.name, self._reached, ""))
        return InputError(
            f"{self.name}: damaged at frame {self._reached}, FFmpeg says '{error.strerror}': "
            "repair it with ffmpeg -i INPUT OUTPUT, or read only the frames before"
        )


def _falls(times: Iterable[int]) -> bool:
    return any(after < before for before, after in pairwise(times))


def _has_data(packet: "source_clock.AnyPacket | av.FFmpegError") -> bool:
    return isinstance(packet, av.Packet) and packet.size > 0


def _decoded_aspect(stream: av.VideoStream) -> Fraction:
    return source_clock.fraction(stream.codec_context.sample_aspect_ratio) or Fraction(1)


def _claimed_rate(stream: av.VideoStream) -> Fraction | None:
    """Frames per second: the average, or FFmpeg's guess of a round number if it nearly agrees."""
    average, guessed = (
        _sane(source_clock.fraction(rate)) for rate in (stream.average_rate, stream.guessed_rate)
    )
    # Where there are no times, the average is FFmpeg's usual 25.
    no_times = cast(int, av.format.Flags.no_timestamps.value)
    if average is None or guessed is None or stream.container.format.flags & no_times:
        return guessed or average
    return guessed if abs(guessed / average - 1) < Fraction(1, 50) else average


def _sane(rate: Fraction | None) -> Fraction | None:
    if rate is None or not _SLOWEST <= rate <= _FASTEST:
        return None
    return rate.limit_denominator(1001)
