"""Conversion of an encoder's input to frames: from arrays, tensors and PyAV frames."""

import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import av
import numpy as np

from gsvc.codec.bitstream.errors import ConfigError, WrongTypeError
from gsvc.codec.bitstream.frames import Frame, Picture, VideoFormat
from gsvc.codec.bitstream.layout import nominal_time
from gsvc.codec.bitstream.typed import check_type
from gsvc.codec.media.color import rgb_picture
from gsvc.codec.media.video_source import Matrices, oriented

if TYPE_CHECKING:
    import torch

    AnyFrame: TypeAlias = Frame | Picture | torch.Tensor | av.VideoFrame


class FrameInput:
    """Converts inputs to frames of `video`, in order."""

    def __init__(self, video: VideoFormat) -> None:
        self._video = video
        self._interval = 1 / (video.frame_rate * video.time_base)
        self._due = Fraction(0)
        self._last = -nominal_time(1, self._interval)
        self._matrix = Matrices()

    def frame(self, given: "AnyFrame", pts: int | None = None) -> Frame:
        """The frame of an input: RGB uint8 (H, W, 3), of a tensor also (3, H, W), or a PyAV frame.

        PyAV frames may have any pixel format; they are rotated and converted as the video reader
        does. The frame's time is `pts`, else the input's own, else one nominal duration after the
        last. Arrays are copied, so that the caller may reuse them. Raises ConfigError for another
        shape and for times that do not rise, WrongTypeError for anything but RGB in uint8 and for
        times that are no whole numbers, UnsupportedInputError for HDR and alpha.
        """
        own: int | None = None
        if isinstance(given, Frame):
            picture, own = given.pixels, given.pts
        elif isinstance(given, av.VideoFrame):
            picture = oriented(rgb_picture(given, "the frame"), self._matrix(given))
            own = self._time_of(given)
        else:
            picture = np.array(_plain(given), order="C")
        self._check(picture)
        time = own if pts is None else pts
        check_type("pts", time, int | None)
        return Frame(picture, self._stamp(None if time is None else int(time)))

    def _check(self, picture: Picture) -> None:
        check_type("the frame's pixels", picture, np.ndarray)
        expected = self._video.height, self._video.width, 3
        if picture.shape != expected or picture.dtype != np.uint8:
            wrong = ConfigError if picture.dtype == np.uint8 else WrongTypeError
            raise wrong(
                f"a frame of {picture.dtype} {picture.shape}: RGB in uint8 {expected} is needed"
            )

    def _time_of(self, frame: av.VideoFrame) -> int | None:
        if frame.pts is None or not frame.time_base:
            return None
        return round(frame.pts * frame.time_base / self._video.time_base)

    def _stamp(self, pts: int | None) -> int:
        due = self._due if pts is None else Fraction(pts)
        time = round(due)
        if time <= self._last:
            raise ConfigError(f"frame times must rise: {time} follows {self._last}")
        self._due, self._last = due + self._interval, time
        return time


def _plain(given: Any) -> Any:
    """An array unchanged; a tensor as an array with the channels last."""
    torch = sys.modules.get("torch")  # the caller of a tensor has imported it
    if torch is None or not isinstance(given, torch.Tensor):
        return given
    array = given.detach().cpu().numpy()
    return array.transpose(1, 2, 0) if array.ndim == 3 and array.shape[0] == 3 else array
