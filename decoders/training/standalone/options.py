"""The arguments of a training run."""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Iterable


def add_train_arguments(parser: ArgumentParser, recipes: Iterable[str]) -> None:
    """Add them. `recipes`: names of those that are there."""
    add = parser.add_argument
    add("pack", metavar="PACK", help="of gsvc train pack")
    add("run", metavar="RUN", help="the folder of the run, which goes on if it holds one")
    names = f"{', '.join(recipes)}, or a .toml file that changes one"
    add("--recipe", required=True, metavar="NAME", help=names)
    add("--minutes", type=float, default=9.0, metavar="M", help="of this call (%(default)g)")
    add("--resume-from", metavar="DIR", help="go on from the run in another folder")
    add("--weights", metavar="FILE", help="begin from these weights, .safetensors")
    add("--teacher", metavar="FILE", help="average.safetensors of the run that teaches")
    add("--batch", type=int, metavar="N", help="samples of a step (default: the recipe's)")
    few = "of the pack at least, its first ones, to start sooner; 0 for all (%(default)s)"
    add("--samples", type=int, default=0, metavar="N", help=few)
    add("--device", metavar="NAME", help="as torch names it (default: cuda, where there is one)")
    quick = "through torch.compile (default: on a GPU)"
    add("--compiled", action=BooleanOptionalAction, default=None, help=quick)
    add("--seed", type=int, default=0, metavar="N", help="of all that is drawn (%(default)s)")
    add("--json", action="store_true", help="print events as JSON, one a line")
