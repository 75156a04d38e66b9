"""A file that FFmpeg writes to, whose failures come out as one line."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av

from gsvc.codec.errors import OutputError


class Sink(io.FileIO):
    """A file that FFmpeg writes to. No exception may travel through FFmpeg: `check` raises it."""

    def __init__(self, path: Path, name: str) -> None:
        """`path`: what is written; `name`: of the file that it becomes."""
        super().__init__(path, "wb")
        self.name = name  # by which FFmpeg chooses the container
        self._failure: BaseException | None = None

    def write(self, data: Any) -> int:
        """As a file's, but for failures."""
        size, view = len(data), memoryview(data)
        try:
            while view and self._failure is None:
                view = view[super().write(view) :]
        except BaseException as error:  # noqa: BLE001 - raised again by `check`
            self._failure = error
        return size

    def check(self) -> None:
        """Raise what writing failed with, if it did."""
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def explained(self, advice: str) -> Iterator[None]:
        """Raise the failures of a block that has FFmpeg write; OutputError with `advice`."""
        try:
            yield
        except av.FFmpegError as error:
            self.check()
            raise OutputError(
                f"{self.name}: FFmpeg cannot write this video to it ({error.strerror}): {advice}"
            ) from error
        self.check()
