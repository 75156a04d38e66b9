"""What a detector finds in frames, followed by the very tracker of `gsvc analyse`.

So that codecs are compared, not trackers: what looks at the frames that another codec leaves may
lose a thing for a moment, and go on with one that it is not sure of, as what reads a stream may.
"""

from collections.abc import Sequence

import numpy as np

from gsvc.codec.frames import Picture
from gsvc.datasets.annotated.boxes import NO_ID, Boxes, joined, make_boxes
from gsvc.decoders.analysis.drafts import Draft
from gsvc.decoders.analysis.types import Box, Detection
from gsvc.encoders.cuts import CutDetector
from gsvc.encoders.objects.source_following import SourceFollowing
from gsvc.eval.analysis.detectors import Detector
from gsvc.eval.analysis.seen import Seen, as_seen


def look(detector: Detector, frames: Sequence[Picture]) -> Seen:
    """What a detector finds in RGB uint8 (H, W, 3), followed."""
    return with_tracks(as_seen(detector(frames)), frames)


def with_tracks(seen: Seen, frames: Sequence[Picture]) -> Seen:
    """The same, followed from frame to frame, with ids from 1; a detector's own ids are kept.

    What is ignored begins nothing, and goes on with what is there.
    """
    if len(seen.boxes) == 0 or not (seen.boxes.id == NO_ID).any():
        return seen
    turn = iter([_detections(seen.boxes, number) for number in range(len(frames))])
    height, width = frames[0].shape[:2]
    # At a frame a second it looks at each.
    following = SourceFollowing((width, height), 1.0, lambda *_: next(turn), moving=False)
    return seen._replace(boxes=followed(frames, following))


def followed(frames: Sequence[Picture], following: SourceFollowing) -> Boxes:
    """What is followed through the frames, RGB uint8 (H, W, 3), of one clip."""
    size = frames[0].shape[1], frames[0].shape[0]
    is_cut = CutDetector()
    drafts: list[Draft] = []
    for number, picture in enumerate(frames):
        drafts += following.push(picture, 1, is_cut=is_cut(picture) and number > 0)
    drafts += following.flush()
    return joined([_boxes(draft, size) for draft in drafts])


def _detections(boxes: Boxes, frame: int) -> list[Detection]:
    rows = np.flatnonzero(boxes.frame == frame)
    return [
        Detection(
            str(boxes.label[row]),
            boxes.box[row],
            float(boxes.score[row]),
            begins=not boxes.ignored[row],
        )
        for row in rows
    ]


def _boxes(draft: Draft, size: tuple[int, int]) -> Boxes:
    shown: list[tuple[str, int, Box, float]] = [
        (track.kind, track.number, box, track.score) for track, box in draft.shown(size)
    ]
    kinds, ids, boxes, scores = zip(*shown, strict=True) if shown else ((), (), (), ())
    return make_boxes([draft.frame] * len(shown), boxes, label=kinds, id=ids, score=scores)
