"""`gsvc completion`: what makes a shell complete gsvc's commands, options and file names."""

from argparse import ArgumentParser, Namespace
from importlib.resources import files

DESCRIPTION = """Print the completion script of a shell. For bash, once a session or in ~/.bashrc:
eval "$(gsvc completion bash)". For zsh: gsvc completion zsh > _gsvc, into a folder of $fpath. For
fish: gsvc completion fish > ~/.config/fish/completions/gsvc.fish."""

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of `gsvc completion`."""
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))


def run(options: Namespace) -> int:
    """Print the script, which `make shell` made from the parser."""
    script = files("gsvc.codec.command") / "shell" / f"gsvc.{options.shell}"
    print(script.read_text(), end="")
    return 0
