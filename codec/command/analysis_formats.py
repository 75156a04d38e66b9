"""What `gsvc analyse` writes, frame by frame: JSON lines, CSV, MOT or COCO; or a page."""

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Protocol, TextIO

from gsvc.codec.bitstream.header import Header
from gsvc.codec.command.analysis_page import PageFormat
from gsvc.decoders.detection.findings import AnalysisCost, Event, FrameAnalysis, KeyPoints, Totals

_COLUMNS = "frame", "seconds", "track", "class", "left", "top", "right", "bottom", "score"


class Format(Protocol):
    """One way to write an analysis. Some inherit from it: they have nothing before or after."""

    def begin(self, header: Header) -> None:
        """Before the frames."""

    def frame(self, frame: FrameAnalysis) -> None: ...

    def end(self, totals: Totals, cost: AnalysisCost) -> None:
        """After the frames."""


class JsonFormat:
    """One JSON object a line: the stream, every frame, every event, the summary."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def begin(self, header: Header) -> None:
        form = header.format
        self._put("stream", width=form.width, height=form.height, frame_rate=float(form.frame_rate))

    def frame(self, frame: FrameAnalysis) -> None:
        self._put(
            "frame",
            frame=frame.frame,
            seconds=round(frame.seconds, 4),
            objects=[
                {
                    "track": one.track,
                    "class": one.kind,
                    "box": _rounded(one.box.tolist()),
                    "score": round(one.score, 3),
                }
                for one in frame.objects
            ],
            **({"people": [_person(one) for one in frame.people]} if frame.people else {}),
            **({} if frame.activity is None else {"activity": round(frame.activity, 4)}),
            **({} if frame.camera is None else {"camera": rounded_fields(asdict(frame.camera), 5)}),
        )
        for event in frame.events:
            self._put("event", **event_fields(event))

    def end(self, totals: Totals, cost: AnalysisCost) -> None:
        self._put(
            "summary", **asdict(totals), **rounded_fields(asdict(cost)), saved=cost.not_decoded
        )

    def _put(self, kind: str, **values: object) -> None:
        self._file.write(json.dumps({"type": kind, **values}) + "\n")


class CsvFormat(Format):
    """A row for each object in each frame."""

    def __init__(self, file: TextIO) -> None:
        self._rows = csv.writer(file, lineterminator="\n")

    def begin(self, header: Header) -> None:
        self._rows.writerow(_COLUMNS)

    def frame(self, frame: FrameAnalysis) -> None:
        for one in frame.objects:
            place = (frame.frame, round(frame.seconds, 4), one.track, one.kind)
            self._rows.writerow([*place, *_rounded(one.box.tolist()), round(one.score, 3)])


class MotFormat(Format):
    """MOTChallenge: frame from 1, track, left, top, width, height, score, and -1 three times."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def frame(self, frame: FrameAnalysis) -> None:
        for one in frame.objects:
            left, top, right, bottom = one.box.tolist()
            sizes = ",".join(f"{value:.2f}" for value in (left, top, right - left, bottom - top))
            self._file.write(f"{frame.frame + 1},{one.track},{sizes},{one.score:.3f},-1,-1,-1\n")


class CocoFormat:
    """COCO's annotations, with `track_id` and `score`; frames are images from 0.

    T.-Y. Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._kinds: dict[str, int] = {}
        self._size = 0, 0
        self._frames = self._boxes = 0

    def begin(self, header: Header) -> None:
        self._size = header.format.width, header.format.height
        self._file.write('{"annotations": [')

    def frame(self, frame: FrameAnalysis) -> None:
        self._frames += 1
        for one in frame.objects:
            left, top, right, bottom = one.box.tolist()
            box = _rounded((left, top, right - left, bottom - top))
            self._file.write(",\n" if self._boxes else "\n")
            self._boxes += 1
            fields = {
                "id": self._boxes, "image_id": frame.frame,
                "category_id": self._kinds.setdefault(one.kind, len(self._kinds) + 1), "bbox": box,
                "area": round(box[2] * box[3], 2), "iscrowd": 0, "score": round(one.score, 3),
                "track_id": one.track,
            }  # fmt: skip
            self._file.write(json.dumps(fields))

    def end(self, totals: Totals, cost: AnalysisCost) -> None:
        width, height = self._size
        self._file.write('\n],\n"images": [')
        for number in range(self._frames):
            image = {"id": number, "width": width, "height": height, "file_name": f"{number}"}
            self._file.write((",\n" if number else "\n") + json.dumps(image))
        kinds = [{"id": number, "name": name} for name, number in self._kinds.items()]
        self._file.write(f'\n],\n"categories": {json.dumps(kinds)}}}\n')


FORMATS: dict[str, Callable[[TextIO], Format]] = {
    "jsonl": JsonFormat,
    "csv": CsvFormat,
    "mot": MotFormat,
    "coco": CocoFormat,
    "html": PageFormat,
}


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(value, 2) for value in values]


def rounded_fields(values: dict[str, float], digits: int = 1) -> dict[str, float]:
    """Numbers by name, rounded."""
    return {name: round(value, digits) for name, value in values.items()}


def event_fields(event: Event) -> dict[str, object]:
    """Its fields, without those that its kind lacks."""
    fields = {"event": event.kind, **asdict(event), "seconds": round(event.seconds, 4)}
    fields["class"] = fields.pop("object")
    del fields["kind"]
    if event.dwell is not None:
        fields["dwell"] = round(event.dwell, 4)
    return {name: value for name, value in fields.items() if value not in ("", None)}


def _person(one: KeyPoints) -> dict[str, object]:
    points = [
        [*_rounded(point), int(is_visible)]
        for point, is_visible in zip(one.points.tolist(), one.visible, strict=True)
    ]
    return {"person": one.person, "points": points}
