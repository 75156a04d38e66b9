"""Makes the golden streams that are missing here: `python tests/golden/make.py`.

An existing stream is never written again: what decoded once must decode for ever. For a new coding
tool, add a function to `STREAMS` and run this. The code below draws everything it needs.

The functions still produce the header, packets and scaffold of every stream here; a test checks it.
The bytes of key pictures come from the AV1 encoder.
"""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import accumulate, cycle, islice, product
from pathlib import Path

import av
import cv2
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from numpy.typing import NDArray

from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.audio_and_text import pack_audio
from gsvc.codec.bitstream.container import Packet, PacketType, StreamReader, StreamWriter, varint
from gsvc.codec.bitstream.frames import AudioChunk, Color, Frame, Picture, VideoFormat
from gsvc.codec.bitstream.group import Coding, GroupReader, GroupWriter
from gsvc.codec.bitstream.header import Header
from gsvc.codec.bitstream.layers import GROUP_LAYERS
from gsvc.codec.bitstream.layers.camera import Camera, camera_nodes
from gsvc.codec.bitstream.layers.faces import NUMBERS, Face
from gsvc.codec.bitstream.layers.flow import BOTH, LEFT, RIGHT, Correction
from gsvc.codec.bitstream.layers.guide import MIXTURES
from gsvc.codec.bitstream.layers.pose import Person
from gsvc.codec.bitstream.layers.texture import Texture
from gsvc.codec.bitstream.objects import (
    Anchor,
    AnchorMotion,
    ObjectBox,
    ObjectRun,
    ObjectWriter,
    Parts,
)
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place, Sample
from gsvc.encoders.svt_av1 import encode_pictures
from scaffolds import make_interval, make_sample, only, scaffold_hash

FOLDER = Path(__file__).parent
Group = tuple[int, int, Sequence[tuple[Picture | None, Interval]]]
"""crf, scale, and each key picture with its interval; None for frames that hold the last one."""
unfitted = partial(Header, fitted=False)
"""Of the streams from before probabilities were fitted."""


def scene(size: tuple[int, int], time: float, hue: int = 0) -> Picture:
    """A figure that walks before a lit wall, at a time in frames."""
    width, height = size
    y, x = np.mgrid[:height, :width].astype(np.float64)
    wall = 110 + 60 * np.sin(x / 9 + hue) * np.cos(y / 7) + 40 * x / width
    picture = np.dstack([wall, wall * 0.8 + 20 * hue, 200 - wall / 2])
    middle = width * (0.3 + 0.02 * time), height * 0.5
    cv2.ellipse(
        picture,
        tuple(round(v) for v in middle),
        (width // 9, height // 3),
        0,
        0,
        360,
        (220, 90, 40),
        -1,
    )
    cv2.circle(picture, (round(middle[0]), round(height * 0.18)), height // 9, (240, 200, 170), -1)
    shown: Picture = np.clip(picture, 0, 255).astype(np.uint8)
    return shown


def figure(identity: int, x: int, y: int, *, seen: int, moves: bool) -> Person:
    """A person at (x, y) in pose units, with the first `seen` key points visible."""
    steps = np.arange(17)
    points = np.stack([x + 3 * ((steps % 2) * 2 - 1), y + 2 * steps], axis=1).astype(np.int16)
    visible = steps < seen
    points[~visible] = 0
    return Person(identity, points, visible, moves)


def sample(geometry: Geometry, offset: int, step: int, *, block_log2: int | None) -> Sample:
    """Something of every tool, different at every `step`."""
    rows, columns = geometry.label_shape
    labels = np.zeros((rows, columns), np.uint8)
    labels[1:, step : step + 3] = 1
    labels[0, -2 - step % 2 :] = 2 + step % 6
    layers = np.zeros((8, 2), np.int16)
    layers[1] = step, -2 * step
    layers[2 + step % 6] = (-1) ** step * 100, 0
    people = [figure(3, 8 + 2 * step, 5, seen=17 - step % 3, moves=step % 2 == 0)]
    if step % 3:
        people.append(figure(15 - step, 20 - step, 2 + step, seen=9, moves=False))
    correction = None
    if block_log2 is not None:
        shape = geometry.block_shape(block_log2)
        index = np.arange(shape[0] * shape[1]).reshape(shape) + step
        sides = np.choose(index % 5, [BOTH, LEFT, RIGHT, BOTH, BOTH]).astype(np.uint8)
        vectors = np.dstack([(index % 7 - 3) * (index % 2), (index % 3 - 1) * (index % 2)])
        correction = Correction(block_log2, sides, vectors.astype(np.int16))
    return make_sample(offset, labels, layers, tuple(people), correction)


def stream(
    header: Header,
    groups: Sequence[Group],
    extra: Sequence[tuple[int, Packet]] = (),
    *,
    most: int = 1,
    alone: bool = False,
    companded: bool = False,
) -> bytes:
    """Code groups as they are given, up to `most` intervals a packet.

    Each packet of `extra` comes after so many frames; `alone`, `companded`: as in `Coding`.
    """
    video, file, waiting = header.format, io.BytesIO(), list(extra)
    geometry = Geometry(video.width, video.height)
    out, time, count = StreamWriter(file, header), 0, 0
    for crf, scale, pictures in groups:
        units = encode_pictures(
            [picture for picture, _ in pictures if picture is not None],
            size=geometry.coded_size(scale),
            crf=crf,
            color=video.color,
            companded=companded,
        )
        layers = (
            layer.name
            for layer in GROUP_LAYERS
            if any(interval[layer] is not None for _, interval in pictures)
        )
        writer = GroupWriter(header, Coding(crf, scale, alone, frozenset(layers), companded))
        kind, left = PacketType.INTRA, iter(units)
        for start in range(0, len(pictures), most):
            while waiting and waiting[0][0] <= time:
                out.write(waiting.pop(0)[1])
            intervals = [interval for _, interval in pictures[start : start + most]]
            own = islice(left, sum(one.place is not Place.AFTER for one in intervals))
            frames = sum(one.length for one in intervals)
            out.write(Packet(kind, frames, writer.write(intervals, list(own))))
            kind, count, time = PacketType.INTER, count + 1, time + frames
    out.write(Packet(PacketType.END, 0, varint(count)))
    return file.getvalue()


FIRST = only("segmentation", "pose", "flow")
"""All layers that the first streams could have."""


def held_and_moved() -> bytes:
    """Frames held before and after key pictures; camera paths of every node step, and none."""
    size = 64, 48
    geometry = Geometry(*size)
    tools = only("flow", "texture", "camera")
    video = VideoFormat(*size, Fraction(1, 25), Fraction(25))
    header = unfitted(video, 2, tools)

    def path(place: Place, length: int, step_log2: int) -> Camera:
        nodes = np.array(camera_nodes(place, length, step_log2)).reshape(-1, 1, 1)
        corner, axis = np.mgrid[:3, :2]
        waves = 9 * np.sin(nodes * (0.9 + 0.2 * axis) + corner) - 14 * (axis - 0.5) * nodes / length
        return Camera(step_log2, np.round(waves).astype(np.int16))

    def interval(place: Place, length: int, step_log2: int | None, *samples: Sample) -> Interval:
        texture = None
        if place is not Place.AFTER and step_log2 is not None:
            shape = geometry.block_shape(2)
            texture = Texture(2, np.arange(shape[0] * shape[1]).reshape(shape).astype(np.uint8))
        camera = None if step_log2 is None else path(place, length, step_log2)
        return make_interval((1,) * length, samples, texture, camera, place)

    vectors = np.full((*geometry.block_shape(2), 2), (-2, 3), np.int16)
    bend = make_sample(3, correction=Correction(2, np.zeros(vectors.shape[:2], np.uint8), vectors))
    return stream(
        header,
        [
            (
                48,
                8,
                [
                    (scene(size, 6), interval(Place.BEFORE, 6, 1, replace(bend, offset=6))),
                    (scene(size, 13), interval(Place.BETWEEN, 7, 1, bend)),
                    (None, interval(Place.AFTER, 5, 0)),
                ],
            ),
            (
                52,
                8,
                [
                    (scene(size, 4, hue=2), interval(Place.BEFORE, 4, None)),
                    (scene(size, 9, hue=2), interval(Place.BETWEEN, 5, None)),
                    (scene(size, 18, hue=2), interval(Place.BETWEEN, 9, 2)),
                ],
            ),
            # The same scene goes on: what lies before the picture is not held.
            (
                52,
                6,
                [
                    (scene(size, 22, hue=2), interval(Place.BETWEEN, 4, 3)),
                    (None, interval(Place.AFTER, 4, None)),
                ],
            ),
            (
                52,
                8,
                [
                    (scene(size, 0, hue=4), interval(Place.BETWEEN, 1, None)),
                    (None, interval(Place.AFTER, 1, 4)),
                ],
            ),
        ],
    )


def raised_texture() -> bytes:
    """Texture gains of two block sizes: kept, changed, absent; frames of the nearer side."""
    size = 80, 56
    geometry = Geometry(*size)
    tools = only("flow", "texture")
    video = VideoFormat(*size, Fraction(1, 25), Fraction(25))
    header = unfitted(video, 1, tools, holds=False)

    def texture(block_log2: int, step: int) -> Texture:
        rows, columns = geometry.block_shape(block_log2)
        y, x = np.mgrid[:rows, :columns]
        return Texture(block_log2, ((3 * y + 5 * x + step) % 8).astype(np.uint8))

    vectors = np.full((*geometry.block_shape(2), 2), (2, -1), np.int16)
    anchor = make_sample(
        3, correction=Correction(2, np.zeros(vectors.shape[:2], np.uint8), vectors)
    )
    textures = texture(1, 0), texture(1, 1), None, texture(2, 3)
    samples = (), (anchor,), (), ()
    intervals = [
        make_interval((1,) * (6 if k else 1), s, t)
        for k, (s, t) in enumerate(zip(samples, textures, strict=True))
    ]
    return stream(header, [(66, 6, [(scene(size, 6 * k), i) for k, i in enumerate(intervals)])])


def leaping() -> bytes:
    """A ball that flies farther than optical flow follows, by motion estimator 2."""
    size = 192, 144
    header = unfitted(
        VideoFormat(*size, Fraction(1, 25), Fraction(25)), 2, only(), motion_estimator=2
    )
    key = scene(size, 0), make_interval((1,))
    pictures = [key]
    for length, (x, y) in ((5, (150, 60)), (4, (130, 88))):
        picture = scene(size, 0)
        cv2.circle(picture, (x, y), 8, (250, 250, 250), -1)
        pictures.append((picture, make_interval((1,) * length)))
    return stream(header, [(40, 8, pictures)])


def appearing() -> bytes:
    """Things that only one picture shows: not blended, by motion estimator 3."""
    size = 192, 144
    header = unfitted(
        VideoFormat(*size, Fraction(1, 25), Fraction(25)), 2, only(), motion_estimator=3
    )
    pictures = [(scene(size, 0), make_interval((1,)))]
    for length, (x, y), tone in ((5, (150, 60), 250), (4, (50, 40), 20), (2, (120, 100), 250)):
        picture = scene(size, 0)
        cv2.rectangle(picture, (x, y), (x + 30, y + 20), (tone,) * 3, -1)
        pictures.append((picture, make_interval((1,) * length)))
    return stream(header, [(40, 8, pictures)])


def many_windows() -> bytes:
    """Small things, too many to be told from each other, so that none leaps: motion estimator 0."""
    size = 192, 144
    header = unfitted(
        VideoFormat(*size, Fraction(1, 25), Fraction(25)), 2, only(), motion_estimator=0
    )
    pictures = []
    for length, shift in ((1, 0), (6, 14), (5, 30)):
        picture = scene(size, 0)
        for x, y in product(range(10 + shift % 20, 180, 20), range(20, 130, 30)):
            cv2.rectangle(picture, (x, y), (x + 8, y + 8), (250, 250, 250), -1)
        pictures.append((picture, make_interval((1,) * length)))
    return stream(header, [(40, 8, pictures)])


def guided() -> bytes:
    """Pictures that are restored as told: every mixture, as usual, and the same again."""
    size = 64, 48
    video = VideoFormat(*size, Fraction(1, 25), Fraction(25))
    header = unfitted(video, 1, only("guide"), model_id=b"gsvc")
    guides = None, 0, *range(len(MIXTURES)), 7, 7, None, 7
    intervals = [make_interval((1,), guide=guide) for guide in guides]
    pictures = [(scene(size, k), interval) for k, interval in enumerate(intervals)]
    return stream(header, [(66, 8, pictures)])


def every_tool() -> bytes:
    """All layers at once, every block size, two groups, people who come and go."""
    size = 72, 48
    geometry = Geometry(*size)
    header = unfitted(
        VideoFormat(*size, Fraction(1, 25), Fraction(25)),
        3,
        FIRST,
        holds=False,
        seed=77,
        model_id=b"gold",
    )

    def interval(step: int, length: int) -> Interval:
        samples = [sample(geometry, 2, step, block_log2=step % 4)]
        samples += [sample(geometry, 3, step + 1, block_log2=step % 4)]
        samples += [sample(geometry, length, step + 2, block_log2=None)]
        return Interval((1,) * length, tuple(samples))

    first = Interval((1,), (sample(geometry, 1, 0, block_log2=None),))
    return stream(
        header,
        [
            (
                40,
                8,
                [(scene(size, 0), first)]
                + [(scene(size, 5 * k), interval(k, 5)) for k in (1, 2, 3)],
            ),
            (50, 5, [(scene(size, 5 * k), interval(k, 5)) for k in (4, 5)]),
        ],
    )


def cut_and_odd_times() -> bytes:
    """An odd size, a cut, and frames at 30000/1001 a second in milliseconds, then at any time."""
    size = 37, 51
    header = unfitted(
        VideoFormat(
            *size,
            Fraction(1, 1000),
            Fraction(30_000, 1001),
            pixel_aspect=Fraction(16, 15),
            color=Color(1, 13, 1, full_range=True),
        ),
        1,
        only("flow"),
        holds=False,
    )
    shape = Geometry(*size).block_shape(1)
    vectors = np.full((*shape, 2), (4, -3), np.int16)
    anchor = make_sample(2, correction=Correction(1, np.full(shape, LEFT, np.uint8), vectors))
    steady = (34, 33, 33, 34, 33, 33, 34)
    return stream(
        header,
        [
            (
                45,
                8,
                [(scene(size, 0), Interval((33,))), (scene(size, 7), Interval(steady, (anchor,)))],
            ),
            (
                45,
                8,
                [
                    (scene(size, 0, hue=2), Interval((1,))),
                    (scene(size, 4, hue=2), Interval((7, 40, 5000, 1_000_000))),
                ],
            ),
        ],
        alone=True,
    )


def sound_and_the_unknown() -> bytes:
    """Opus packets, an optional packet of an unknown type, no scaffold, half-size pictures."""
    size = 64, 36
    header = unfitted(
        VideoFormat(*size, Fraction(1, 25), Fraction(25)),
        0,
        only(),
        holds=False,
        audio=True,
    )
    chunk = AudioChunk(-312, 1, 960, 312, tone(10))
    sound = Packet(PacketType.AUDIO, 0, pack_audio(chunk))
    extra = [(0, sound), (1, Packet(13, 0, b"of a later version"))]
    pictures = [(scene(size, 0), Interval((1,))), (scene(size, 8), Interval((1,) * 8))]
    return stream(header, [(30, 4, pictures)], extra)


def dissolving() -> bytes:
    """Key pictures that fade into each other, among others that do not.

    The samples of the fading ones change nothing.
    """
    size = 64, 48
    geometry = Geometry(*size)
    tools = only("flow", "texture", "camera")
    header = unfitted(VideoFormat(*size, Fraction(1, 25), Fraction(25)), 1, tools)

    def interval(length: int, *, dissolves: bool) -> Interval:
        vectors = np.full((*geometry.block_shape(2), 2), (9, -7), np.int16)
        bend = Correction(2, np.full(vectors.shape[:2], RIGHT, np.uint8), vectors)
        samples = (make_sample(length // 2, correction=bend),) if length > 5 else ()
        corners = np.full((len(camera_nodes(Place.BETWEEN, length, 1)), 3, 2), 21, np.int16)
        camera = Camera(1, corners) if length > 7 else None
        return make_interval((1,) * length, samples, None, camera, dissolves=dissolves)

    pictures = [
        (scene(size, 0), interval(1, dissolves=False)),
        (scene(size, 0, hue=3), interval(5, dissolves=True)),
        (scene(size, 8, hue=3), interval(6, dissolves=False)),
        (scene(size, 8), interval(8, dissolves=True)),
        (np.zeros_like(scene(size, 0)), interval(6, dissolves=True)),
    ]
    return stream(header, [(40, 8, pictures)])


def flickering() -> bytes:
    """Frames brighter and darker than their key pictures, held, between and coded; some are not."""
    size = 64, 48
    video = VideoFormat(*size, Fraction(1, 25), Fraction(25))
    header = unfitted(video, 1, only("camera"), holds=True)

    def interval(*steps: int, place: Place = Place.BETWEEN, length: int = 0) -> Interval:
        ticks = (1,) * (len(steps) or length)
        return make_interval(ticks, place=place, brightness=steps or None)

    pictures = [
        (scene(size, 0), interval(-3, 0, 9, place=Place.BEFORE)),
        (scene(size, 4), interval(0, 64, 64, -64, 1)),
        (scene(size, 8), interval(length=4)),
        (None, interval(0, -20, 20, place=Place.AFTER)),
    ]
    return stream(header, [(40, 8, pictures)])


def in_color() -> bytes:
    """Companded chroma, at full size and at half, one picture brightened."""
    size = 64, 48
    video = VideoFormat(*size, Fraction(1, 25), Fraction(25))

    def group(crf: int, scale: int, hue: int, *steps: int) -> Group:
        pictures = [
            (scene(size, 0, hue), make_interval((1,))),
            (scene(size, 4, hue), make_interval((1,) * 4, brightness=steps or None)),
        ]
        return crf, scale, pictures

    given = [group(40, 8, 0), group(66, 8, 2, 0, 40, 40, 0), group(60, 4, 3)]
    return stream(Header(video, 0, only("camera")), given, companded=True)


def several_a_packet(*, fitted: bool = False, most: int = 9, alone: bool = False) -> bytes:
    """Pictures 1 to 4 frames apart, up to 9 a packet, many of them frames that were hidden first.

    A packet ends with held frames; two groups, the second one in the first one's scene.
    """
    size = 64, 48
    tools = only("texture", "camera")
    video = VideoFormat(*size, Fraction(1, 25), Fraction(25))
    header = Header(video, 2, tools, fitted=fitted)

    def group(start: int, lengths: Sequence[int]) -> list[tuple[Picture | None, Interval]]:
        times = accumulate(lengths, initial=start)
        return [
            (scene(size, time), make_interval((1,) * length))
            for time, length in zip(list(times)[1:], lengths, strict=True)
        ]

    after = make_interval((1,) * 3, place=Place.AFTER)
    first, second = [1] * 9 + [2] * 5 + [1, 4, 3], [4] * 6
    return stream(
        header,
        [(50, 8, group(-1, first)), (62, 8, [*group(26, second), (None, after)])],
        most=most,
        alone=alone,
    )


def with_objects() -> bytes:
    """Objects beside pictures: people, motion, a class of its own name, numbers that wrap."""
    size = 64, 48
    header = unfitted(VideoFormat(*size, Fraction(1, 25), Fraction(25)), 0, only())

    def box(track: int, at: int, kind: str = "person", early: int = 0) -> ObjectBox:
        return ObjectBox(track, kind, 4 * at - 3, 20 - at, 9 + at % 3, 25, 11, early)

    def anchor(gap: int, at: int, *tracks: int, late: int | None = None) -> Anchor:
        boxes = [box(track, at + track % 7) for track in tracks]
        boxes += [box(65535, 2 * at, "forklift truck"), box(0, 3 * at, "moving", early=gap // 2)]
        man = figure(at % 16, 10 + at, 5, seen=17 - at % 4, moves=False)
        motion = AnchorMotion(9 * at % 256, (at, -at, 3, 5 - at))
        ended = {} if late is None else {late: gap - 1}
        return Anchor(gap, tuple(boxes), at == 7, ended, (man,), motion)

    parts = Parts(1, people=True, motion=True)
    crowd = [replace(box(7 * n, n % 20), score=n % 16) for n in range(60)]
    runs = [
        ObjectRun((), (), begins=True),
        ObjectRun(
            (1,) * 8,
            (anchor(1, 1, 8), anchor(3, 2, 8, 9), anchor(4, 3, 9, late=8)),
            parts,
            begins=True,
        ),
        ObjectRun((1, 2, 1, 1, 5), (anchor(4, 4, 9), anchor(1, 7, 65534, 1)), parts),
        ObjectRun((1,) * 4, (Anchor(1, tuple(crowd)), Anchor(3)), begins=True),
    ]
    writer = ObjectWriter(header)
    packets = [Packet(PacketType.OBJECTS, 0, writer.write(run)) for run in runs]
    times = 0, 0, 1, 9
    pictures = [
        (scene(size, 0), Interval((1,))),
        (scene(size, 8), Interval((1,) * 8)),
        (scene(size, 16), Interval((1,) * 8)),
    ]
    return stream(header, [(50, 8, pictures)], list(zip(times, packets, strict=True)))


def speaking() -> bytes:
    """Faces that come, stay still, go and return, on held frames and between; a group without."""
    size = 128, 96
    video = VideoFormat(*size, Fraction(1, 25), Fraction(25))
    header = unfitted(video, 1, only("camera"))
    units = 128  # to the middle of the picture

    def state(x: int, turn: int, speech: int) -> NDArray[np.int32]:
        weights = [speech * (k + 1) * (-1) ** k for k in range(NUMBERS - 4)]
        return np.array([x, units - 40, 90, turn, *weights], np.int32)

    def face(
        place: Place, length: int, step_log2: int, x: int, grown: int = 0, speech: int = 9
    ) -> Face:
        times = np.array(camera_nodes(place, length, step_log2)).reshape(-1, 1)
        waves = speech * np.sin(times * 0.8 + np.arange(NUMBERS)) + 0.5
        start = state(x, 4, 2)
        end = state(x + grown, 4 + grown, 2 + grown) if place is Place.BETWEEN else start
        return Face(start, end, step_log2, np.floor(waves).astype(np.int32))

    def interval(place: Place, length: int, *faces: Face | None) -> Interval:
        slots = (*faces, *(None,) * (4 - len(faces)))
        return make_interval((1,) * length, place=place, faces=slots if any(faces) else None)

    def shown(time: int) -> Picture:
        """A head of which the eyes and a mouth are seen."""
        picture = scene(size, time, hue=1)
        cv2.ellipse(picture, (64, 48), (26, 34), 0, 0, 360, (230, 190, 160), -1)
        for x in (52, 76):
            cv2.circle(picture, (x, 40), 4, (40, 30, 30), -1)
        cv2.ellipse(picture, (64, 62), (10, 2 + time % 5), 0, 0, 360, (120, 30, 40), -1)
        return picture

    between = Place.BETWEEN
    first = [
        (shown(3), interval(Place.BEFORE, 4, face(Place.BEFORE, 4, 0, units))),
        (shown(13), interval(between, 10, face(between, 10, 2, units, 5), face(between, 10, 1, 9))),
        (shown(19), interval(between, 6, None, face(between, 6, 0, 20, 0, 0))),
        (shown(26), interval(between, 7, face(between, 7, 1, units, -7))),
        (None, interval(Place.AFTER, 5, face(Place.AFTER, 5, 3, units - 7))),
    ]
    second = [(shown(0), Interval((1,))), (shown(6), Interval((1,) * 6))]
    third = [
        (shown(1), Interval((1,))),
        (shown(9), interval(between, 8, *(face(between, 8, 4, 60 * k, k) for k in range(4)))),
    ]
    return stream(header, [(40, 8, first), (48, 6, second), (44, 7, third)], most=2)


def one_small_frame() -> bytes:
    """16x16, a single frame."""
    header = unfitted(
        VideoFormat(16, 16, Fraction(1, 25), Fraction(25)),
        2,
        FIRST,
        holds=False,
    )
    sample = make_sample(1, np.eye(2, dtype=np.uint8), np.zeros((8, 2), np.int16), ())
    return stream(header, [(20, 8, [(scene((16, 16), 0), Interval((1,), (sample,)))])])


def tone(packets: int) -> tuple[bytes, ...]:
    """Opus packets of 20 ms: a tone."""
    coder = av.CodecContext.create("libopus", "w")
    assert isinstance(coder, AudioCodecContext)
    coder.sample_rate, coder.layout, coder.format, coder.bit_rate = 48_000, "mono", "s16", 12_000
    wave = 8000 * np.sin(np.arange(960 * packets) * 2 * np.pi * 440 / 48_000)
    coded = []
    for index, part in enumerate(np.split(wave.astype(np.int16), packets)):
        frame = av.AudioFrame.from_ndarray(part[None], "s16", "mono")
        frame.sample_rate, frame.pts = 48_000, 960 * index
        coded += [bytes(packet) for packet in coder.encode(frame)]
    return tuple(coded)


def returning_shots() -> bytes:
    """Shots A B A C A B D, each held before its first picture or after its last, in three slots:
    D opens the last one anew."""
    size = 64, 48
    video = VideoFormat(*size, Fraction(1, 1000), Fraction(30_000, 1001))
    header = unfitted(video, 1, only("texture"), returns=True)
    gains = np.arange(np.prod(Geometry(*size).block_shape(2)), dtype=np.uint8) % 8
    texture = Texture(2, gains.reshape(Geometry(*size).block_shape(2)))
    slots, seen = {"A": 0, "B": 1, "C": 2, "D": 2}, dict.fromkeys("ABCD", 0)
    units = {
        shot: iter(
            encode_pictures(
                [scene(size, 5 * k, slot + ord(shot) % 2) for k in range(6)],
                size=Geometry(*size).coded_size(8 - slot),
                crf=45 + slot,
                color=video.color,
            )
        )
        for shot, slot in slots.items()
    }
    writers = {s: GroupWriter(header, Coding(45 + slot, 8 - slot)) for s, slot in slots.items()}
    file, ticks, packets = io.BytesIO(), cycle((34, 33, 33)), 0
    out = StreamWriter(file, header)
    for shot in "ABACABD":
        lengths, places = (4, 5, 1), (Place.BEFORE, Place.BETWEEN, Place.AFTER)
        if seen[shot]:
            lengths, places = (1, 3, 1), (Place.BETWEEN, Place.BETWEEN, Place.AFTER)
        seen[shot] += 1
        for n, (length, place) in enumerate(zip(lengths, places, strict=True)):
            given = texture if place is not Place.AFTER else None
            one = make_interval(tuple(islice(ticks, length)), (), given, place=place)
            own = list(islice(units[shot], place is not Place.AFTER))
            kind = PacketType.INTER if n else PacketType.SHOT if packets else PacketType.INTRA
            slot = slots[shot] if kind is PacketType.SHOT else None
            out.write(Packet(kind, length, writers[shot].write([one], own, slot)))
            packets += 1
    out.write(Packet(PacketType.END, 0, varint(packets)))
    return file.getvalue()


STREAMS: dict[str, Callable[[], bytes]] = {
    "every_tool": every_tool,
    "raised_texture": raised_texture,
    "cut_and_odd_times": cut_and_odd_times,
    "sound_and_the_unknown": sound_and_the_unknown,
    "one_small_frame": one_small_frame,
    "held_and_moved": held_and_moved,
    "dissolving": dissolving,
    "flickering": flickering,
    "in_color": in_color,
    "several_a_packet": several_a_packet,
    "with_objects": with_objects,
    "speaking": speaking,
    "guided": guided,
    "leaping": leaping,
    "appearing": appearing,
    "many_windows": many_windows,
    "returning_shots": returning_shots,
    "fitted": partial(several_a_packet, fitted=True),
    "fitted_alone": partial(several_a_packet, fitted=True, most=1, alone=True),
}


def main() -> None:
    """Write each missing stream with what it decodes to."""
    for name, make in STREAMS.items():
        target = FOLDER / f"{name}.gsv"
        if target.exists():
            continue
        data = make()
        reader = StreamReader(io.BytesIO(data))
        parser, decoder = (
            GroupReader(reader.header),
            Decoder(reader.header, DecoderSettings(steps=0)),
        )
        intervals: list[Interval] = []
        frames: list[Frame] = []
        for packet in reader:
            if packet.is_picture:
                intervals += parser.read(packet).intervals
            frames += decoder.decode(packet)
        expected = {
            "scaffold": scaffold_hash(intervals),
            "times": [frame.pts for frame in frames],
            "packets": [packet.type for packet in StreamReader(io.BytesIO(data))],
        }
        target.write_bytes(data)
        target.with_suffix(".json").write_text(json.dumps(expected) + "\n")
        strip = np.concatenate([frame.pixels for frame in frames[::3]], axis=1)
        cv2.imwrite(str(target.with_suffix(".png")), cv2.cvtColor(strip, cv2.COLOR_RGB2BGR))
        print(f"{target.name}: {len(data)} bytes, {len(frames)} frames")


if __name__ == "__main__":
    main()
