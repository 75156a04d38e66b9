"""Packages that only some codecs, metrics or figures need."""

from collections.abc import Iterator
from contextlib import contextmanager

from gsvc.codec.errors import MissingDependencyError


@contextmanager
def optional(message: str) -> Iterator[None]:
    """For imports: raises MissingDependencyError(`message`) where one fails.

    The reason takes the place of "{error}" in the message.
    """
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(message.format(error=error)) from error
