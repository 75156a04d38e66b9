"""Faces weigh more than the rest where bits are spent; without the model nothing does."""

import logging
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gsvc import (
    ConfigError,
    Encoder,
    EncoderSettings,
    Frame,
    MissingModelError,
    Picture,
    VideoFormat,
)
from gsvc.datasets.clips.clip_reader import load_clip
from gsvc.encoders.distortion import Distortion, Reference
from gsvc.encoders.face_landmarks import FaceWeights
from needs import need_clip, need_models

FAST = EncoderSettings(preset="fast", face_weight=1, faces=False)


@pytest.fixture(scope="module")
def speaker() -> list[Picture]:
    """Nine frames of a talking head."""
    return list(load_clip(need_clip("carphone"), 9, 144)[0])


def payloads(pictures: list[Picture], settings: EncoderSettings) -> bytes:
    height, width = pictures[0].shape[:2]
    with Encoder(VideoFormat(width, height, Fraction(1, 25), Fraction(25)), settings) as encoder:
        packets = [one for t, p in enumerate(pictures) for one in encoder.encode(Frame(p, t))]
        return b"".join(packet.payload for packet in (*packets, *encoder.flush()))


def test_a_face_weighs_more_and_the_mean_stays_one(speaker: list[Picture]) -> None:
    need_models()
    weights = FaceWeights(5)(speaker[0], 4)
    assert weights is not None and weights.shape == (36, 44)
    rest, face = np.unique(weights)
    assert face == pytest.approx(5 * rest) and weights.mean() == pytest.approx(1)
    assert weights[18, 22] == face and weights[0].max() == rest
    assert 0.02 < (weights == face).mean() < 0.3
    assert FaceWeights(5)(np.full_like(speaker[0], 90), 4) is None


def test_the_same_error_counts_for_more_on_the_face(speaker: list[Picture]) -> None:
    need_models()
    face, corner = speaker[0].copy(), speaker[0].copy()
    face[60:84, 76:100], corner[-24:, :24] = face[60:84, 76:100, ::-1] // 2, corner[-24:, :24] // 2
    weighed = Distortion(4.0, FaceWeights(4)).reference(speaker[0])
    plain = Reference(speaker[0])
    assert weighed.total(face) > 1.5 * plain.total(face)
    assert weighed.total(corner) < plain.total(corner)
    assert weighed.total(face) == pytest.approx(weighed.distortion(face).sum() * 16, rel=1e-4)


def test_without_the_model_all_weighs_alike_and_a_line_says_so(
    speaker: list[Picture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        weighed = payloads(speaker, replace(FAST, face_weight=8))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "faces" in line and "gsvc models pull" in line
    caplog.clear()
    assert weighed == payloads(speaker, FAST)
    assert not caplog.records


@pytest.mark.parametrize("people", [0, 0.5, 9, float("nan")])
def test_weights_out_of_range_are_refused(people: float) -> None:
    with pytest.raises(ConfigError, match="choose 1 to 8"):
        EncoderSettings(face_weight=people)


def test_preset_slow_tries_no_layer_whose_model_is_missing(
    speaker: list[Picture], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> None:
        raise MissingModelError(
            "model pose_detection is not on this machine; run: gsvc models pull"
        )

    monkeypatch.setattr("gsvc.decoders.detection.people.PoseEstimator", missing)
    slow = replace(FAST, preset="slow")
    assert payloads(speaker[:2], slow)
    assert "pose is not tried: model pose_detection is not on this machine" in caplog.text
    with Encoder(VideoFormat(176, 144, Fraction(1, 25), Fraction(25)), slow) as encoder:
        assert "pose" not in encoder.header.tools
