"""`gsvc encode --quality D --score`: the distance is that which is measured."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

import gsvc
from commands import run_gsvc
from gsvc.codec.command import encode_runs as encode_quality
from gsvc.codec.command.encode_runs import encode_measured
from needs import need_package

Law = Callable[[float], float]


def ask(
    target: Path, wanted: float, law: Law, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool
) -> tuple[gsvc.EncodeReport, list[float]]:
    """Encode where an aim of D measures `law(D)`; gives the report and the aims."""
    aims: list[float] = []

    def fake(options: Namespace, source: str, target: str, aim: float, _: object) -> object:
        aims.append(aim)
        report = gsvc.EncodeReport(target, 64, 48, 20, 0.8, 0.0, 1, 100, 0, 0, aim)
        return encode_quality._Pass(aim, law(aim), report, f"{aim}".encode())

    monkeypatch.setattr(encode_quality, "_try", fake)
    options = Namespace(quality=wanted, overwrite=overwrite, quiet=False, json=False)
    return encode_measured(options, "a.mp4", str(target), None), aims


@pytest.mark.parametrize(("gain", "power"), [(1.9, 1.0), (0.3, 1.7), (3.0, 1.2), (0.7, 0.6)])
@pytest.mark.parametrize("wanted", [0.06, 0.2])
def test_a_distance_is_met(
    gain: float, power: float, wanted: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.gsv"

    def law(aim: float) -> float:
        return float(gain * wanted * (aim / wanted) ** power)

    report, aims = ask(target, wanted, law, monkeypatch, overwrite=False)
    assert report.measured_quality == pytest.approx(wanted, rel=0.05) and len(aims) <= 4
    assert target.read_bytes() == f"{report.estimated_quality}".encode()  # of the nearest pass


def test_one_that_cannot_be_met_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "a.gsv"
    report, aims = ask(target, 0.3, lambda aim: min(aim, 0.15), monkeypatch, overwrite=False)
    assert report.measured_quality == 0.15 and len(aims) <= 4
    assert "asked for a distance of 0.3, measured 0.150" in caplog.text


def test_what_is_there_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.gsv"
    target.write_bytes(b"mine")
    with pytest.raises(gsvc.OutputError, match="already exists"):
        ask(target, 0.2, lambda aim: aim, monkeypatch, overwrite=False)

    def fails(aim: float) -> float:
        raise gsvc.InputError("it breaks off")

    with pytest.raises(gsvc.InputError):
        ask(target, 0.2, fails, monkeypatch, overwrite=True)
    assert target.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [target]


@pytest.mark.slow
def test_it_is_the_distance_that_score_measures(clip: Path, tmp_path: Path) -> None:
    for package in ("torch", "stlpips_pytorch"):
        need_package(package)
    options = ("--quality", "0.2", "--score", "--metric", "st_lpips_alex", "--preset", "fast")
    done = run_gsvc("encode", clip, tmp_path / "a.gsv", *options, "--json", "--no-texts")
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    (report,) = (line for line in lines if line["type"] == "done")
    (score,) = (line for line in lines if line["type"] == "score")
    assert report["measured_quality"] == pytest.approx(score["value"], rel=1e-3)
    assert report["size"] == (tmp_path / "a.gsv").stat().st_size
