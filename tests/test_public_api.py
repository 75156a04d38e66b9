"""What `import gsvc` offers, and that the list of it is true."""

import pydoc
import subprocess
import sys

import pytest

import gsvc
from gsvc.codec.bitstream import errors


def test_the_list_is_sorted_and_everything_on_it_is_there() -> None:
    assert dir(gsvc) == sorted(set(dir(gsvc))) and "encode" in dir(gsvc)
    for name in dir(gsvc):
        assert getattr(gsvc, name) is not None


def test_every_public_thing_says_what_it_is() -> None:
    for name in dir(gsvc):
        thing = getattr(gsvc, name)
        if callable(thing) and name != "Picture":
            assert thing.__doc__ and thing.__doc__.strip(), name


def test_help_explains_fields_too() -> None:
    for thing, told in (
        (gsvc.EncoderSettings, "bitrate: Bits per second to meet"),
        (gsvc.Encoder, "header: The stream's"),
        (gsvc.Packet, "payload: The content; its layout"),
    ):
        assert told in pydoc.plain(pydoc.render_doc(thing))


def test_names_that_do_not_exist_fail_as_attributes_do() -> None:
    with pytest.raises(AttributeError, match="no attribute 'transcode'"):
        gsvc.transcode  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_is_public_and_a_natural_built_in_too() -> None:
    own = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert set(own) <= set(dir(gsvc))
    for name, kind in own.items():
        assert issubclass(kind, gsvc.GsvcError)
        assert kind is gsvc.GsvcError or len(kind.__mro__) > 4, name


def test_importing_is_light() -> None:
    code = (
        "import sys, gsvc; print(*{'torch', 'cv2', 'av', 'numpy', 'diffusers'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert shown.stdout.strip() == b""
