"""What a command says when it fails: one line, and a code."""

import subprocess

Result = subprocess.CompletedProcess[bytes]
FAILED, USAGE = 1, 2


def assert_one_line(result: Result, code: int, *parts: str) -> None:
    """A code, and one line on standard error that has these parts in it."""
    text = result.stderr.decode()
    assert result.returncode == code, text
    assert text.startswith("gsvc: error: ") and text.count("\n") == 1 and text.endswith("\n"), text
    assert "Traceback" not in text and "internal error" not in text
    for part in parts:
        assert part in text
