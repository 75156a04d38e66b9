"""Faces stay only where finished pictures gain: whatever landmarks say, never a worse picture."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from threading import Lock

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from gsvc import (
    Decoder,
    DecoderSettings,
    Encoder,
    EncoderSettings,
    Frame,
    Header,
    Packet,
    Picture,
    VideoFormat,
)
from gsvc.codec.bitstream.group import GroupReader
from gsvc.codec.bitstream.layers.faces import FACES, MAX_FACES, NUMBERS, Face, face_unit
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.decoders.interpolation.rendering import held_picture
from gsvc.decoders.interpolation.scaffold_motion import LANDMARKS, points_of
from gsvc.encoders.distortion import Distortion
from gsvc.encoders.face_landmarks import FaceMesh, face_tracks, landmark_error
from needs import need_clip, need_models

SIZE = 176, 144
FRAMES = 25
SPOKEN = 30
"""Greatest weight of an expression."""

States = NDArray[np.int32]
Points = NDArray[np.float64]


def wall(seed: int = 1) -> Picture:
    """Coarse texture."""
    coarse = np.random.default_rng(seed).integers(30, 220, (18, 22, 3), np.uint8)
    return np.asarray(cv2.resize(coarse, SIZE, interpolation=cv2.INTER_CUBIC), np.uint8)


def states(*, x: int = 0) -> States:
    """Of a mouth that opens and closes, (frames, 10)."""
    unit = face_unit(Geometry(*SIZE))
    found = np.zeros((FRAMES, NUMBERS), np.int32)
    found[:, :4] = np.array([SIZE[0] / 2 + x, SIZE[1] / 2 - 15, 50, 0]) / unit
    found[:, 4:7] = np.rint(SPOKEN * np.sin(np.arange(FRAMES) * 0.5))[:, None]
    return found


def speaking(picture: Picture, face: States) -> list[Picture]:
    """A picture whose face speaks as `face` says."""
    moved = Face(face[0], face[0], 0, face[1:] - face[0])
    slots = (moved, *(None,) * (MAX_FACES - 1))
    length = len(face) - 1
    held = Interval((1,) * length, values={FACES: slots}, place=Place.AFTER)
    return [picture, *(held_picture(picture, held, time) for time in range(1, length + 1))]


def landmarks(face: States) -> Points:
    """All 468 points of each frame, (frames, 468, 2); those that nobody reads lie in the middle."""
    known = points_of(face.astype(float)) * face_unit(Geometry(*SIZE))
    points = np.repeat(known.mean(axis=1, keepdims=True), 468, axis=1)
    points[:, LANDMARKS] = known
    return points


class Told(FaceMesh):
    """Finds the faces that it was told of, picture by picture, in place of networks."""

    def __init__(self, pictures: Sequence[Picture], faces: Sequence[Points]) -> None:
        """`faces`: (frames, 468, 2), NaN where it is not seen."""
        self._shown = {picture.tobytes(): t for t, picture in enumerate(pictures)}
        self._faces, self._lock = faces, Lock()

    def squares(self, picture: Picture) -> list[Points]:
        here = self._here(picture)
        return [self.square_of(points) for points in here if np.isfinite(points).all()]

    def square_of(self, points: Points) -> Points:
        return np.column_stack([np.eye(2), points.mean(axis=0)])

    def points(self, picture: Picture, square: Points) -> Points | None:
        here = [one for one in self._here(picture) if np.isfinite(one).all()]
        apart = [float(np.linalg.norm(one.mean(axis=0) - square[:, 2])) for one in here]
        return here[int(np.argmin(apart))] if here else None

    def _here(self, picture: Picture) -> list[Points]:
        """None in a picture that it was not told of."""
        time = self._shown.get(picture.tobytes())
        return [] if time is None else [face[time] for face in self._faces]


def encoder_of(
    pictures: Sequence[Picture], *, faces: bool, bpp: float = 0.01, low_delay: bool = False
) -> Encoder:
    height, width = pictures[0].shape[:2]
    video = VideoFormat(width, height, Fraction(1, 25), Fraction(25))
    settings = EncoderSettings(
        bpp=bpp, preset="fast", face_weight=1, faces=faces, low_delay=low_delay
    )
    return Encoder(video, settings)


def packets_of(
    pictures: Sequence[Picture], *, faces: bool, bpp: float = 0.01, low_delay: bool = False
) -> tuple[Header, list[Packet]]:
    with encoder_of(pictures, faces=faces, bpp=bpp, low_delay=low_delay) as encoder:
        packets = [p for k, one in enumerate(pictures) for p in encoder.encode(Frame(one, k))]
        return encoder.header, packets + encoder.flush()


def coded(
    pictures: Sequence[Picture], *, faces: bool, bpp: float = 0.01, low_delay: bool = False
) -> tuple[bytes, int, list[Picture]]:
    """The payloads, how many faces are in them, and what the decoder shows."""
    header, packets = packets_of(pictures, faces=faces, bpp=bpp, low_delay=low_delay)
    count, shown = decoded(header, packets)
    return b"".join(packet.payload for packet in packets), count, shown


def decoded(header: Header, packets: Sequence[Packet]) -> tuple[int, list[Picture]]:
    """How many faces are in packets, and what the decoder shows."""
    reader, decoder = GroupReader(header), Decoder(header, DecoderSettings(steps=0))
    intervals = [one for p in packets if p.is_picture for one in reader.read(p).intervals]
    count = sum(face is not None for one in intervals for face in one[FACES] or ())
    return count, [frame.pixels for packet in packets for frame in decoder.decode(packet)]


def distance(pictures: Sequence[Picture], shown: Sequence[Picture]) -> float:
    judge = Distortion(4.0)
    assert len(pictures) == len(shown)
    return sum(judge.reference(a).total(b) for a, b in zip(pictures, shown, strict=True))


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Picture], Sequence[Points]], None]:
    """Has the encoder find these faces."""

    def told(pictures: Sequence[Picture], faces: Sequence[Points]) -> None:
        found = Told(pictures, faces)
        monkeypatch.setattr("gsvc.encoders.config.FaceMesh", lambda: found)

    return told


Tell = Callable[[Sequence[Picture], Sequence[Points]], None]


def test_a_mouth_that_speaks_is_sent_and_pays(tell: Tell) -> None:
    pictures = speaking(wall(), states())
    tell(pictures, [landmarks(states())])
    _, count, shown = coded(pictures, faces=True, bpp=0.006)
    _, none, still = coded(pictures, faces=False, bpp=0.006)
    assert count and not none
    assert distance(pictures, shown) < 0.9 * distance(pictures, still)


def jumping() -> Points:
    """Landmarks that leap by more than a face moves."""
    leaps = np.random.default_rng(0).integers(-40, 40, (FRAMES, 1, 2))
    return np.asarray(landmarks(states()) + leaps)


def nobody() -> Points:
    return np.full_like(landmarks(states()), np.nan)


def wrong() -> Points:
    """Smooth landmarks of a mouth that does not move."""
    return landmarks(states())


def lost() -> Points:
    """A face that leaves and returns."""
    points = landmarks(states())
    points[8:17] = np.nan
    return points


@pytest.mark.parametrize(
    "found",
    [wrong, *(pytest.param(one, marks=pytest.mark.slow) for one in (nobody, jumping, lost))],
)
def test_landmarks_without_a_moving_face_leave_the_stream_as_it_is(
    tell: Tell, found: Callable[[], Points]
) -> None:
    """A poster, or no face at all: not a bit."""
    pictures = [np.roll(wall(), k, axis=1) for k in range(FRAMES)]
    tell(pictures, [found()])
    assert coded(pictures, faces=True)[0] == coded(pictures, faces=False)[0]


def twenty() -> tuple[list[Picture], list[Points]]:
    pictures = speaking(wall(), states())
    return pictures, [landmarks(states(x=7 * k - 70)) for k in range(20)]


def returning() -> tuple[list[Picture], list[Points]]:
    pictures = speaking(wall(), states())
    pictures[9:14] = [np.asarray(255 - wall(2), np.uint8)] * 5
    points = landmarks(states())
    points[9:14] = np.nan
    return pictures, [points]


def hidden() -> tuple[list[Picture], list[Points]]:
    """A hand before the mouth, of which the landmarks know nothing."""
    pictures = speaking(wall(), states())
    for t in range(5, 20):
        pictures[t] = pictures[t].copy()
        pictures[t][70:110, 50 + 2 * t : 90 + 2 * t] = (200, 150, 120)
    return pictures, [landmarks(states())]


def cut() -> tuple[list[Picture], list[Points]]:
    """Another face in mid-sentence, found without a break."""
    points = states()
    return [*speaking(wall(), points)[:12], *speaking(wall(3), points)[12:]], [landmarks(points)]


@pytest.mark.slow
def test_faces_take_nothing_from_the_next_scene(tell: Tell) -> None:
    first = speaking(wall(), states())
    pictures = [*first, *(np.roll(wall(5)[::-1], 2 * k, axis=1) for k in range(FRAMES))]
    tell(pictures, [np.concatenate([landmarks(states()), nobody()])])
    sent, none = (packets_of(pictures, faces=faces)[1] for faces in (True, False))
    begin = [k for k, packet in enumerate(none) if packet.is_intra][1]
    assert [one.payload for one in sent[:begin]] != [one.payload for one in none[:begin]]
    assert [one.payload for one in sent[begin:]] == [one.payload for one in none[begin:]]


@pytest.mark.parametrize(
    "made",
    [twenty, *(pytest.param(one, marks=pytest.mark.slow) for one in (cut, returning, hidden))],
)
def test_odd_faces_never_make_it_worse(
    tell: Tell, made: Callable[[], tuple[list[Picture], list[Points]]]
) -> None:
    pictures, faces = made()
    tell(pictures, faces)
    data, count, shown = coded(pictures, faces=True)
    without, _, plain = coded(pictures, faces=False)
    assert count <= FRAMES * MAX_FACES and len(data) < 1.25 * len(without)
    assert distance(pictures, shown) < 1.05 * distance(pictures, plain)


def test_a_face_that_is_followed_in_every_second_picture_moves_as_in_each() -> None:
    need_models()
    pictures, _ = load_clip(need_clip("carphone"), 21)
    each, rough = (face_tracks(pictures, FaceMesh(), step) for step in (1, 2))
    (face,), (again,) = each, rough
    assert face.shape == again.shape
    eyes = np.linalg.norm(np.ptp(face[0], axis=0)) / 2
    assert np.linalg.norm(face - again, axis=-1).mean() < 0.05 * eyes


def test_a_face_is_unlike_by_where_its_points_are_and_how_its_mouth_is() -> None:
    face = landmarks(states()[:1])[0]
    eyes = float(np.linalg.norm(face[33] - face[263]))
    assert landmark_error(face, face) == 0 == landmark_error(None, face)
    assert landmark_error(face, face + [3, 4]) == pytest.approx(5 / eyes)
    shut, mouth = face.copy(), face[14] - face[13]
    shut[14] -= mouth
    assert landmark_error(face, shut) == pytest.approx(np.linalg.norm(mouth) * (1 + 1 / 468) / eyes)
    assert landmark_error(face, None) == 2 == landmark_error(face, face + 1000)


def with_hand(pictures: list[Picture]) -> list[Picture]:
    for t, picture in enumerate(pictures[6:], 6):
        cv2.circle(picture, (40 + 4 * t, 90), 22, (190, 140, 110), -1)
    return pictures


def many(pictures: list[Picture]) -> list[Picture]:
    small = [np.ascontiguousarray(picture[20:116, 40:136]) for picture in pictures]
    return [np.tile(picture, (4, 5, 1)) for picture in small]


def poster(pictures: list[Picture]) -> list[Picture]:
    return [pictures[0]] * len(pictures)


@pytest.mark.parametrize(
    "change", [poster, *(pytest.param(one, marks=pytest.mark.slow) for one in (with_hand, many))]
)
def test_real_faces_never_make_it_worse(change: Callable[[list[Picture]], list[Picture]]) -> None:
    need_models()
    pictures = change([one.copy() for one in load_clip(need_clip("carphone"), 17, 144)[0]])
    data, count, shown = coded(pictures, faces=True, bpp=0.004)
    without, _, plain = coded(pictures, faces=False, bpp=0.004)
    if change is poster:
        assert count == 0 and data == without
    assert distance(pictures, shown) < 1.05 * distance(pictures, plain)
