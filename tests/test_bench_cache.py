"""The latent cache replayed over capacities: `gsvc bench cache`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import run_gsvc
from gsvc.codec.command.main import main


@pytest.mark.slow
def test_a_replay_tells_hits_and_losses(stream: Path, tmp_path: Path) -> None:
    """The same stream twice: its second showing begins with the first one's latents."""
    told = run_gsvc("bench", "cache", stream, stream, "--capacity", "0,10", "--json")
    assert told.returncode == 0, told.stderr
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    none, some = (line for line in lines if line["type"] == "replay")
    assert none["hit_rate"] == none["saved"] == none["entries"] == 0
    assert none["psnr"] == float("inf")  # bit for bit what it is without a cache
    assert some["hit_rate"] >= 0.5 and some["saved"] > 0.2 and some["psnr"] > 30
    wrong = run_gsvc("bench", "cache", stream, "--capacity", "much")
    assert wrong.returncode == 2 and b"write megabytes as 0,2,5" in wrong.stderr
    missing = run_gsvc("bench", "cache", tmp_path / "none.gsv")
    assert missing.returncode == 1 and b"none.gsv: no such stream" in missing.stderr


@pytest.mark.slow
def test_windows_of_a_video_model_are_replayed(
    tiny: Callable[[str], Any],
    cut_stream: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Again the same stream twice: all its windows begin late, at little cost."""
    tiny("wan-v2v")
    stream = tmp_path / "it.gsv"
    stream.write_bytes(cut_stream)
    command = ["bench", "cache", str(stream), str(stream), "--backend", "wan-v2v", "--json"]
    assert main([*command, "--steps", "4", "--capacity", "0,10"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    none, some = (line for line in lines if line["type"] == "replay")
    assert none["hit_rate"] == 0 and none["psnr"] == float("inf")
    assert some["hit_rate"] >= 0.5 and some["saved"] >= 0.25 and some["psnr"] > 30
