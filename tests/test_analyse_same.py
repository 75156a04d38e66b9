"""No analysis replaces the stream that it reads."""

from pathlib import Path

import pytest

from gsvc.codec.command.main import main


@pytest.mark.parametrize("option", ["-o", "--draw"])
def test_stream_is_not_replaced(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = tmp_path / "a.gsv"
    stream.write_bytes(b"somebody's stream")
    assert main(["analyse", str(stream), option, str(stream), "-y"]) == 2
    assert "is the source itself" in capsys.readouterr().err
    assert stream.read_bytes() == b"somebody's stream"
