"""Faces without look-ahead: sent where the finished pictures gain, interval by interval."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gsvc import Decoder, DecoderSettings, Picture
from test_face_rdo import (
    FRAMES,
    Points,
    Tell,
    coded,
    cut,
    decoded,
    distance,
    encoder_of,
    hidden,
    landmarks,
    packets_of,
    returning,
    speaking,
    states,
    tell,
    twenty,
    wall,
)

__all__ = ["tell"]  # a fixture

Made = tuple[list[Picture], Sequence[Points]]


def one() -> Made:
    return speaking(wall(), states()), [landmarks(states())]


def both(pictures: Sequence[Picture]) -> tuple[tuple[bytes, int, list[Picture]], ...]:
    """Coded with faces and without."""
    with_faces = coded(pictures, faces=True, low_delay=True)
    return with_faces, coded(pictures, faces=False, low_delay=True)


def test_a_mouth_that_speaks_between_key_pictures_is_drawn(tell: Tell) -> None:
    pictures, faces = one()
    tell(pictures, faces)
    (data, count, shown), (without, none, plain) = both(pictures)
    assert count > 0 == none and len(data) < 1.5 * len(without)
    assert distance(pictures, shown) < distance(pictures, plain)


def test_without_a_face_in_sight_the_stream_is_what_it_was(tell: Tell) -> None:
    pictures, faces = one()
    tell(pictures, [np.full_like(face, np.nan) for face in faces])
    (data, count, _), (without, _, _) = both(pictures)
    assert count == 0 and data == without


@pytest.mark.parametrize("made", [twenty, returning, hidden, cut])
def test_odd_faces_never_make_it_worse(tell: Tell, made: Callable[[], Made]) -> None:
    pictures, faces = made()
    tell(pictures, faces)
    (data, count, shown), (without, _, plain) = both(pictures)
    assert count <= FRAMES * 4 and len(data) < 1.5 * len(without)
    assert distance(pictures, shown) < 1.05 * distance(pictures, plain)


def test_a_lost_packet_with_faces_is_concealed(tell: Tell) -> None:
    pictures, faces = one()
    tell(pictures, faces)
    header, packets = packets_of(pictures, faces=True, low_delay=True)
    assert len(packets) > 3
    with Decoder(header, DecoderSettings(steps=0, conceal=True)) as decoder:
        kept = [*packets[:1], *packets[2:]]
        shown = [frame for packet in kept for frame in decoder.decode(packet)]
    assert len(shown) == FRAMES and any(frame.concealed for frame in shown)


def test_faces_are_left_out_from_where_the_encoder_is_to_hurry(tell: Tell) -> None:
    pictures, faces = one()
    tell(pictures, faces)

    def sent(at: int) -> tuple[int, int]:
        """Faces and frames, where it is to hurry from one frame on."""
        encoder = encoder_of(pictures, faces=True, low_delay=True)
        packets = []
        for number, picture in enumerate(pictures):
            if number == at:
                assert encoder.hurry() and not encoder.hurry()
            packets += encoder.encode(picture)
        count, shown = decoded(encoder.header, [*packets, *encoder.flush()])
        return count, len(shown)

    whole, half = sent(FRAMES), sent(FRAMES // 2)
    assert 0 < half[0] < whole[0] and half[1] == whole[1] == FRAMES
