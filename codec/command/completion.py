"""`gsvc completion`: what makes a shell complete gsvc's commands, options and file names."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from gsvc.codec.bitstream.errors import InputError

DESCRIPTION = """Print the completion script of a shell. For bash, once a session or in ~/.bashrc:
eval "$(gsvc completion bash)". For zsh: gsvc completion zsh > _gsvc, into a folder of $fpath. For
fish: gsvc completion fish > ~/.config/fish/completions/gsvc.fish."""

SHELLS = ("bash", "zsh", "fish")
_PACKAGE = Path(__file__).resolve().parent
_FOLDERS = _PACKAGE / "shell", _PACKAGE.parents[1] / "build" / "shell"
"""Of a wheel, which has the scripts; of a checkout, where `make shell` writes them."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc completion`."""
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))


def run(options: Namespace) -> int:
    """Print the script, which was made from the parser."""
    places = [folder / f"gsvc.{options.shell}" for folder in _FOLDERS]
    script = next((place for place in places if place.exists()), None)
    if script is None:
        raise InputError("a checkout has no completion scripts yet: make shell writes them")
    print(script.read_text(), end="")
    return 0
