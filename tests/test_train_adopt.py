"""`gsvc train adopt`: what a run may bring home, and what it may not."""

import io
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import gsvc
from gsvc import InputError, MissingModelError, Picture
from gsvc.codec.bitstream.stream_info import read_info
from gsvc.codec.command.main import main
from gsvc.codec.weights.safetensors_files import SUMS, check_shipped
from gsvc.decoders.interpolation import rife
from gsvc.decoders.interpolation.ifnet import IFNet
from gsvc.decoders.interpolation.rife import load_rife
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.compact.backend import WEIGHTS, CompactBackend, load_pipeline
from gsvc.decoders.keyframes.priors.prior_drawings import load_prior
from gsvc.decoders.training.adoption import (
    Comparison,
    Score,
    Scores,
    card_section,
    comparison,
    is_better,
    moved,
    read_candidate,
    refined,
    ship,
    shipping_folder,
    verdict,
    write_candidate,
)
from gsvc.decoders.training.tensors import AVERAGE, write_tensors
from needs import need, need_package

NANO = WEIGHTS["compact:nano"]
MANIFEST = {"kind": "pictures", "held_out": ["clip.mkv"], "sources": ["a.mp4", "b.webp"]}


def _metadata(recipe: str = "nano", **changed: Any) -> dict[str, str]:
    """What a run says of itself; `changed`: of its network, and the pack's manifest."""
    settings = json.loads(NANO.with_suffix(".json").read_text())
    pack = changed.pop("pack", MANIFEST)
    network = {"class": "CompactRefiner", "settings": settings, **changed}
    about = {"recipe": {"name": recipe}, "networks": {"refiner": network}, "pack": pack}
    return {"run": json.dumps({**about, "step": 14200, "device": "2 CPU cores"})}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that ended with the weights of nano."""
    folder = tmp_path / "run"
    folder.mkdir()
    _write(folder)
    return folder


def _write(folder: Path, **changed: Any) -> None:
    write_tensors(folder / AVERAGE, _state(), _metadata(**changed), 30_000_000)


def _state() -> dict[str, torch.Tensor]:
    return {f"refiner.{name}": value.half() for name, value in load_file(NANO).items()}


def test_a_run_is_made_what_decoding_takes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "adopt", str(run)]) == 0
    out = capsys.readouterr().out
    assert "Not scored" in out
    weights = run / "nano.safetensors"
    refiner = load_refiner(str(weights))
    assert isinstance(refiner, CompactBackend)
    refiner.load()
    assert weights.stat().st_size < 0.6 * NANO.stat().st_size
    card = (run / "MODEL_CARD.md").read_text()
    for fact in ("1085813 parameters", "Held out: clip.mkv", "2 files", "14200", "2 CPU cores"):
        assert fact in card


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"class": "Resnet"}, "nothing runs these"),
        ({"settings": {"colour": 3}}, "settings of another CompactRefiner"),
        ({"settings": {"embedding": 32}}, "does not fit the network"),
    ],
)
def test_a_run_of_another_network_is_refused(
    run: Path, changed: dict[str, object], message: str
) -> None:
    _write(run, **changed)
    with pytest.raises(MissingModelError, match=message):
        read_candidate(run)


def test_damaged_weights_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the result of a training run"):
        read_candidate(tmp_path)
    state = _state()
    state["refiner.leave.bias"][0] = torch.nan
    write_tensors(run / AVERAGE, state, _metadata(), 30_000_000)
    with pytest.raises(MissingModelError, match=r"leave\.bias is not finite"):
        read_candidate(run)
    data = (run / AVERAGE).read_bytes()
    (run / AVERAGE).write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="is not the result of a training run"):
        read_candidate(run)
    assert main(["train", "adopt", str(run)]) == 1
    assert [path.name for path in run.iterdir()] == [AVERAGE]


def test_what_is_too_large_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsvc.decoders.training.adoption.MOST_BYTES", NANO.stat().st_size // 4)
    with pytest.raises(MissingModelError, match="too large to ship"):
        write_candidate(read_candidate(run), run)
    assert [path.name for path in run.iterdir()] == [AVERAGE]


def test_both_judges_must_see_a_difference() -> None:
    now = Score(6.0, 0.2)
    assert is_better(Score(6.02, 0.198), now)
    rivals = "compact, 1 step", "0 steps"
    levels = {"this run, 1 step": 6.1, "compact, 1 step": 6.0, "0 steps": 6.2}
    ways = {way: {1: Score(jod, 0.3 - jod / 100)} for way, jod in levels.items()}
    better, told = verdict(
        Scores(["clip"], 9, {1: 0.01}, ways), Comparison({}, "this run, 1 step", rivals)
    )
    assert not better and "Better than compact, 1 step: CVVDP +0.1000" in told
    assert "Not better by both judges than 0 steps: CVVDP -0.1000" in told
    for one in (now, Score(6.001, 0.1999), Score(6.5, 0.2), Score(6.0, 0.1), Score(5.9, 0.1)):
        assert not is_better(one, now)


def test_a_prior_that_was_trained_too_travels_with_the_refiner(run: Path) -> None:
    settings = json.loads(WEIGHTS["compact:small"].with_suffix(".json").read_text())
    with need("refine"):
        prior = load_prior("animevideov3").state_dict()
    prior["body.0.bias"] += 0.25
    state = {f"refiner.{name}": v for name, v in load_file(WEIGHTS["compact:small"]).items()}
    state |= {f"prior.{name}": value for name, value in prior.items()}
    about = json.loads(_metadata("medium", settings=settings)["run"])
    about["networks"]["prior"] = {"class": "SRVGGNetCompact"}
    halves = {name: value.half() for name, value in state.items()}
    write_tensors(run / AVERAGE, halves, {"run": json.dumps(about)}, 30_000_000)
    weights = write_candidate(read_candidate(run), run)
    refiner = load_refiner(str(weights))
    assert list(refiner.files) == [weights]
    loaded = load_pipeline(weights).prior
    assert loaded is not None
    assert torch.equal(loaded.state_dict()["body.0.bias"], halves["prior.body.0.bias"].float())
    assert "with its prior, " in card_section(read_candidate(run), "0", None, "")


def test_shipping_states_the_checksums_and_keeps_the_others(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    candidate = read_candidate(run)
    weights = write_candidate(candidate, run)
    ship(weights, folder)
    check_shipped(folder / weights.name)
    other = weights.rename(run / "other.safetensors")
    weights.with_suffix(".json").rename(run / "other.json")
    ship(other, folder)
    for name in ("nano", "other"):
        check_shipped(folder / f"{name}.safetensors")
    ship(other, folder)
    assert len((folder / SUMS).read_text().splitlines()) == 4
    assert shipping_folder("CompactRefiner") == NANO.parent


def test_tuned_motion_takes_the_place_of_the_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with need("rife"):
        state = dict(load_rife().state_dict())
    state["blocks.3.leave.bias"] += 0.5  # as if tuned: half a pixel, and more of the left picture
    about = _metadata("motion", **{"class": "IFNet", "settings": {}})
    halves = {f"refiner.{name}": value.half() for name, value in state.items()}
    write_tensors(tmp_path / AVERAGE, halves, about, 30_000_000)
    candidate = read_candidate(tmp_path)
    weights = write_candidate(candidate, tmp_path)
    compared = comparison(candidate, weights)
    assert compared.rivals == ("RIFE as it is now",) and compared.candidate == "RIFE of this run"
    monkeypatch.setattr(rife, "SHIPPED", tmp_path / "weights" / "rife.safetensors")
    ship(weights, tmp_path / "weights")
    tuned = load_rife()
    assert isinstance(tuned, IFNet)
    assert torch.equal(
        tuned.state_dict()["blocks.3.leave.bias"], state["blocks.3.leave.bias"].half()
    )


@pytest.mark.slow
def test_learned_motion_draws_the_frames_between_key_pictures(
    moving_pictures: Callable[..., list[Picture]],
) -> None:
    with need("rife"):
        learned = load_rife()
    file, video = io.BytesIO(), gsvc.VideoFormat(64, 48, Fraction(1, 10), Fraction(10))
    with gsvc.Encoder(video, gsvc.EncoderSettings(level=1, preset="fast")) as encoder:
        writer = gsvc.StreamWriter(file, encoder.header)
        for packet in (p for picture in moving_pictures(30) for p in encoder.encode(picture)):
            writer.write(packet)
        for packet in encoder.flush():
            writer.write(packet)
    ends = [p.time - 1 for p in read_info(io.BytesIO(file.getvalue())).packets if p.is_picture]
    plain, drawn = (way(file.getvalue()) for way in (refined(None, 0), moved(learned)))
    same = [n for n, pair in enumerate(zip(plain, drawn, strict=True)) if np.array_equal(*pair)]
    assert len(drawn) == 30 and set(ends) <= set(same) and len(same) < 20


def test_scoring_needs_what_was_held_out(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "adopt", str(run), "--ship"]) == 2
    assert "--ship needs --clips" in capsys.readouterr().err
    assert main(["train", "adopt", str(run), "--clips", str(tmp_path)]) == 2
    assert "held out, but not below" in capsys.readouterr().err
    _write(run, pack={})
    assert main(["train", "adopt", str(run), "--clips", str(tmp_path)]) == 2
    assert "the run held nothing out" in capsys.readouterr().err


def _write_clip(path: Path) -> None:
    """A second of a pattern that moves."""
    y, x = np.mgrid[0:64, 0:96]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", Fraction(9))
        stream.width, stream.height, stream.pix_fmt = 96, 64, "bgr0"
        for n in range(9):
            wave = 127 + 60 * np.sin((x - n) / 5) + 60 * np.cos(y / 7)
            picture = np.dstack([wave, wave, 255 - wave]).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))


@pytest.mark.slow
def test_weights_that_ship_already_are_not_better(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_package("stlpips_pytorch")
    need_package("pycvvdp")
    _write_clip(tmp_path / "clip.mkv")
    shipped = (NANO.parent / SUMS).read_bytes()
    options = ["--clips", str(tmp_path), "--frames", "9", "--ship"]
    assert main(["train", "adopt", str(run), *options]) == 1
    out = capsys.readouterr().out
    assert "Not better by both judges than compact:nano, 1 step" in out
    assert "| this run, 4 steps |" in out and "| 0 steps |" in out
    assert out.split("|\n")[2] in (run / "MODEL_CARD.md").read_text()
    assert (NANO.parent / SUMS).read_bytes() == shipped
