"""`gsvc analyze`: the same as `gsvc analyse`."""

from gsvc.codec.command.analyse import DESCRIPTION, add_arguments, run

__all__ = ["DESCRIPTION", "add_arguments", "run"]
