"""Without an extra, what needs it says in one line how to install it; the rest works."""

import sys
from fractions import Fraction

import pytest

import gsvc
from gsvc.codec.extras import EXTRAS, missing_from
from gsvc.decoders.refiners.registry import check_device


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no extra were installed."""
    for module in {module for modules in EXTRAS.values() for module in modules}:
        monkeypatch.setitem(sys.modules, module, None)


def test_every_module_of_an_extra_is_missing() -> None:
    assert {extra: tuple(missing_from(extra)) for extra in EXTRAS} == EXTRAS


def test_refining_names_its_extra() -> None:
    header = gsvc.Header(gsvc.VideoFormat(64, 48, Fraction(1, 25), Fraction(25)), 1)
    with pytest.raises(gsvc.MissingDependencyError, match=r"gsvc\[refine\]'.*steps 0"):
        gsvc.Decoder(header, gsvc.DecoderSettings(steps=1))
    gsvc.Decoder(header, gsvc.DecoderSettings(steps=0)).close()
    with pytest.raises(gsvc.MissingDependencyError, match=r"device cuda needs .*gsvc\[refine\]"):
        check_device("cuda")
