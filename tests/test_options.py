"""The table that declares a command's options: what each form of a line gives."""

from argparse import ArgumentParser, Namespace

import pytest

from gsvc.codec.command.arguments import add_options

_TABLE = """
source IN               the video
clips [CLIP...]         any number
--jobs -j N             at a time (=2)
--audio {opus,none}     one of two
--metric +NAME          may be repeated
--limits L...           several (=1 2)
--timeout S -> silence  under another name
--no-feedback -> not feedback  sets False
--[no-]faces            a switch
| --bpp BPP             excludes
| --level 0..3          the other, and has a help
                        of two lines
-y --quiet
--face-weight 1..8      from the defaults (%(default)g)
"""


def _parsed(*words: str) -> Namespace:
    parser = ArgumentParser()
    add_options(parser, _TABLE, (Namespace(face_weight=4.0, faces=True),), {"L": int})
    return parser.parse_args(words)


def test_what_is_not_given_has_its_default() -> None:
    left = _parsed("a")
    assert (left.source, left.clips, left.jobs, left.audio) == ("a", [], 2, None)
    assert (left.metric, left.limits, left.silence, left.feedback) == ([], [1, 2], None, True)
    assert (left.faces, left.bpp, left.overwrite, left.face_weight) == (True, None, False, 4.0)


def test_what_is_given_is_read() -> None:
    given = _parsed(
        *("a", "b", "c", "-j", "3", "--metric", "x", "--metric", "y", "--timeout", "1.5"),
        *("--no-feedback", "--no-faces", "--level", "1", "-y", "--limits", "4", "5"),
    )
    assert (given.clips, given.jobs, given.metric) == (["b", "c"], 3, ["x", "y"])
    assert (given.silence, given.feedback, given.faces) == (1.5, False, False)
    assert (given.level, given.overwrite, given.limits) == (1, True, [4, 5])


@pytest.mark.parametrize("words", [("--bpp", "1", "--level", "1"), ("--audio", "mp3"), ()])
def test_what_does_not_fit_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        _parsed("a", *words) if words else _parsed()
