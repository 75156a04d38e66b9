"""People at every frame from the key points that the scaffold sends: no picture is decoded."""

import numpy as np

from gsvc.codec.scaffold.geometry import Geometry
from gsvc.codec.scaffold.layers.object_kinds import PERSON
from gsvc.codec.scaffold.layers.pose import POSE, Person, pose_unit
from gsvc.codec.scaffold.types import Sample
from gsvc.decoders.analysis.boxes import area, clipped
from gsvc.decoders.analysis.drafts import Draft, Queue
from gsvc.decoders.analysis.pieces import Piece
from gsvc.decoders.analysis.tracker import Step, Tracker
from gsvc.decoders.analysis.types import Detection

REACH = 0.08
"""Share of their extent that a body reaches beyond its key points."""


class SentPeople:
    """Follows people from sample to sample. `take` the pieces in order, then `finish`."""

    def __init__(self, geometry: Geometry) -> None:
        """`geometry`: of the stream."""
        self._size, self._unit = (geometry.width, geometry.height), pose_unit(geometry)
        self._tracker, self._queue = Tracker(self._size), Queue()
        self._gap: list[Draft] = []
        self._last: list[Step] = []

    def take(self, piece: Piece, drafts: list[Draft]) -> list[Draft]:
        """The frames that are decided now, after one more piece."""
        ended = self.finish() if piece.begins else []
        drafts[0].is_cut = piece.begins and bool(drafts[0].frame)
        after = 0
        for sample in piece.interval.samples:
            if sample[POSE] is not None and sample.offset > after:
                self._gap += drafts[after : sample.offset]
                after = sample.offset
                self._step(sample)
        self._gap += drafts[after:]
        return [*ended, *self._queue.decided()]

    def finish(self) -> list[Draft]:
        """All other frames of a scene: people stay where they were sent last."""
        for draft in self._gap:
            draft.objects = [(one.track, one.end) for one in self._last]
        self._queue.put(self._gap)
        self._tracker.restart()
        self._gap, self._last = [], []
        return list(self._queue.all())

    def _step(self, sample: Sample) -> None:
        found = [one for person in sample[POSE] or () if (one := self._detection(person))]
        self._last = self._tracker.step(lambda box: box, found)
        for number, draft in enumerate(self._gap, 1):
            share = number / len(self._gap)
            for track, start, end in self._last:
                way = end - (end if start is None else start)
                draft.objects.append((track, end - (1 - share) * way))
        self._queue.put(self._gap)
        self._gap = []

    def _detection(self, person: Person) -> Detection | None:
        points = person.points[person.visible].astype(np.float64) * self._unit
        if len(points) < 2:
            return None
        low, high = points.min(axis=0), points.max(axis=0)
        reach = REACH * (high - low)
        box = clipped(np.concatenate([low - reach, high + reach]), self._size)
        return Detection(PERSON, box, float(person.visible.mean())) if area(box) >= 1 else None
