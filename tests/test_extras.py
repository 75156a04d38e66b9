"""Without an extra, what needs it says in one line how to install it; the rest works."""

import sys
from fractions import Fraction

import pytest

import gsvc
from gsvc.codec.command.main import main
from gsvc.codec.weights.extras import EXTRAS
from gsvc.decoders.keyframes.backends import check_device


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no extra were installed."""
    for module in {module for extra in EXTRAS.values() for module in extra.modules}:
        monkeypatch.setitem(sys.modules, module, None)


def test_refining_names_its_extra() -> None:
    header = gsvc.Header(gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25)), 1)
    with pytest.raises(gsvc.MissingDependencyError, match=r"gsvc\[refine\]'.*steps=0"):
        gsvc.Decoder(header, gsvc.DecoderSettings(backend="compact"))
    for steps in (0, 1):
        gsvc.Decoder(header, gsvc.DecoderSettings(steps=steps)).close()
    with pytest.raises(gsvc.MissingDependencyError, match=r"gsvc\[refine\]'.*motion=.dis."):
        gsvc.Decoder(header, gsvc.DecoderSettings(steps=0, motion="rife"))
    with pytest.raises(gsvc.MissingDependencyError, match=r"device cuda needs .*gsvc\[refine\]"):
        check_device("cuda")


@pytest.mark.parametrize(
    "arguments",
    [("bench", "report", "run"), ("train", "run", "it.pack", "run", "--recipe", "nano")],
    ids=lambda a: a[0],
)
def test_commands_name_their_extra(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        f"gsvc: error: gsvc {arguments[0]} needs more packages: pip install 'gsvc[eval]'\n"
    )


def test_the_doctor_names_what_each_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    shown = capsys.readouterr().out
    for name, extra in EXTRAS.items():
        assert f"for {extra.use}, pip install 'gsvc[{name}]'" in shown
