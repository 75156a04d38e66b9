"""`python tools/landmark_experiment.py`: how much motion can do for landmarks.

Codes clips, decodes them with 0 steps, and looks at the landmarks' normalised mean error (NME) in
two ways. In coded pictures against frames drawn between them: what coded pictures have, no motion
takes away. Then every face is moved, by the decoder's own code, in every frame and free of charge,
until its landmarks are where the network finds the source's; luma PSNR and CVVDP inside the face
tell whether the picture is nearer to the source for it. Prints a table in Markdown.
"""

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gsvc.codec.bitstream.errors import GsvcError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.codec.bitstream.layers.faces import FACES, MAX_FACES, Face, face_unit
from gsvc.codec.bitstream.scaffold import Geometry, Interval, Place
from gsvc.codec.bitstream.stream_info import read_info
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.decoders.interpolation.rendering import held_picture
from gsvc.decoders.interpolation.scaffold_motion import LANDMARKS, states_of
from gsvc.encoders.face_landmarks import FaceMesh
from gsvc.eval.baselines.gsvc import Gsvc, key_frames
from gsvc.eval.layout import markdown
from gsvc.eval.metrics.cvvdp import Cvvdp
from gsvc.eval.metrics.fidelity import PsnrY
from gsvc.eval.metrics.semantic import FaceError, InsideFace, main_faces

_HEADER = (
    "clip, bpp",
    "NME: coded pictures",
    "between",
    "moved",
    "PSNR, face",
    "moved",
    "CVVDP, face",
    "moved",
)


class FaceMover:
    """Moves faces as the layer of faces does."""

    def __init__(self) -> None:
        self._find = FaceMesh()

    def moved(self, picture: Picture, source: Picture) -> Picture:
        """The picture, its faces drawn where the network finds those of the source.

        Both are RGB uint8 (H, W, 3). Faces move by the ten numbers of their state, as integers; one
        that is not found in both stays.
        """
        height, width = picture.shape[:2]
        unit = face_unit(Geometry(width, height))
        faces = []
        for square in self._find.squares(source)[:MAX_FACES]:
            found = [self._find.points(one, square) for one in (picture, source)]
            points = [one[LANDMARKS] / unit for one in found if one is not None]
            if len(points) == 2:
                shown, wanted = states_of(np.stack(points))
                start, move = (np.rint(one).astype(np.int32) for one in (shown, wanted - shown))
                faces.append(Face(start, start, 0, move[np.newaxis]))
        held = Interval((1,), values={FACES: tuple(faces)}, place=Place.AFTER)
        return held_picture(picture, held, 1)


def rows(clip: TestClip, rates: Sequence[float]) -> Iterator[tuple[str, ...]]:
    """The clip's rows of the table.

    Raises InputError where it shows no face; errors as of `Gsvc.encode`, `Gsvc.decode` and metrics.
    """
    if all(face.points is None for face in main_faces(clip).values()):
        raise InputError(f"{clip.name} shows no face: name a clip that does")
    mover, codec = FaceMover(), Gsvc(bpp=tuple(rates), steps=0)
    every = range(len(clip.frames))
    inside = InsideFace(PsnrY()), InsideFace(Cvvdp())
    for rate, point in zip(rates, codec.rate_points(), strict=True):
        data = codec.encode(clip, point).data
        frames = codec.decode(data, clip.format, point, codec.ways_to_decode(point)[0]).frames
        tests = [frames, [mover.moved(*pair) for pair in zip(frames, clip.frames, strict=True)]]
        drawn, moved = FaceError().measure(clip, tests, every)
        keys = key_frames(read_info(io.BytesIO(data)))
        errors = drawn[keys], np.delete(drawn, keys), moved
        yield (
            f"{clip.name} {rate:g}",
            *(f"{np.nanmean(one):.4f}" for one in errors),
            *(f"{v:.2f}" for one in inside for v in np.nanmean(one.measure(clip, tests, every), 1)),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python tools/landmark_experiment.py",
        description=(__doc__ or "").split("\n\n")[1],
    )
    add = parser.add_argument
    add("clips", nargs="+", metavar="CLIP", help="videos that show a face")
    add("--bpp", type=float, nargs="+", default=[0.003, 0.006], metavar="R", help="(.003 .006)")
    add("--frames", type=int, default=65, metavar="N", help="of each clip (65)")
    options = parser.parse_args(arguments)
    table: list[tuple[str, ...]] = []
    try:
        for path in options.clips:
            frames, rate = load_clip(path, options.frames)
            table += rows(TestClip(Path(path).stem, frames, rate), options.bpp)
            print(path, file=sys.stderr, flush=True)
    except GsvcError as error:
        print(error, file=sys.stderr)
        return 1
    print(markdown(_HEADER, table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
