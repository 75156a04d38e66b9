"""What a worker does: read a clip, or code, decode and score a batch of its cells.

It runs in a process of its own, on this machine or another. Everything comes with the task; each
stream and score goes back as soon as it is there, so that a run that is killed loses none of them.
A worker keeps the clip and the networks that it used last.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from traceback import format_exception
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import GsvcError, InputError
from gsvc.codec.bitstream.frames import Picture
from gsvc.datasets.clips.clip_reader import TestClip, frames_sha256
from gsvc.datasets.clips.sets import ClipSource
from gsvc.decoders.interpolation.optical_flow import dense_flow, gray
from gsvc.eval.baselines.base import Codec, Decoded, Encoded
from gsvc.eval.bench import cells
from gsvc.eval.bench.progress import usual_pace
from gsvc.eval.bench.store import CellRecord, DecodeRecord, MetricScores
from gsvc.eval.bench.workers import DECODE, ENCODE, SCORE, Tell, told
from gsvc.eval.compute import PeakMemory, StepCost
from gsvc.eval.late_loading import reason
from gsvc.eval.metrics.base import Metric

_STEP = 4  # one pair of neighbouring frames in so many is looked at
_LEAST = 0.5  # pixels a frame, in a picture whose short side is 288: less is noise


def moving_share(frames: Sequence[Picture]) -> float:
    """The share of pixels, 0 to 1, that move from frame to frame, by DIS; RGB uint8 (H, W, 3)."""
    least = _LEAST * min(frames[0].shape[:2]) / 288
    shares = []
    for index in range(1, len(frames), _STEP):
        before, after = gray(frames[index - 1]), gray(frames[index])
        flow = dense_flow(before, after, cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        shares.append(float((np.linalg.norm(flow, axis=2) > least).mean()))
    return float(np.mean(shares)) if shares else 0.0


def score(
    name: str,
    version: str,
    clip: TestClip,
    tests: Sequence[Sequence[Picture]],
    indices: Sequence[int],
) -> list[MetricScores]:
    """The metric `name` on each decoded clip at the frames `indices`; a failure becomes a gap."""
    start = time.perf_counter()
    try:
        metric = _metric(name)
        values = metric.measure(clip, tests, indices)
        if values.shape != (wanted := (len(tests), len(indices) if metric.per_frame else 1)):
            raise RuntimeError(f"{name} gave values of shape {values.shape}, not {wanted}")
        seconds = (time.perf_counter() - start) / len(tests)
        nothing = getattr(metric, "nothing", Metric.nothing)  # a user's class may lack it
        return [replace(_scores(row, version, nothing), seconds=seconds) for row in values]
    except Exception as error:  # noqa: BLE001
        if len(tests) == 1:
            why, where = reason(error), traceback_of(error)
            return [MetricScores(None, version=version, gap=why, traceback=where)]
    # One of them may be to blame: the others get their numbers.
    return [score(name, version, clip, [one], indices)[0] for one in tests]


def traceback_of(error: BaseException) -> str:
    """Where an error comes from; empty for one of gsvc's, whose text says it all."""
    return "" if isinstance(error, GsvcError) else "".join(format_exception(error))


def _scores(values: NDArray[np.float64], version: str, nothing: str) -> MetricScores:
    plain = [float(value) if np.isfinite(value) else None for value in values]
    finite = [value for value in plain if value is not None]
    if not finite:
        return MetricScores(None, version=version, gap=nothing)
    return MetricScores(sum(finite) / len(finite), plain, version)


_metric = cache(cells.make_metric)


@dataclass(frozen=True)
class Reading:
    """Task: read a clip. Where it comes from and how much of it is used."""

    source: ClipSource
    size: str
    """"288", "480" or "native"."""
    frames: int | None
    """From its start; None for all."""
    longest: float | None = None
    """Seconds at most, from its start."""

    def run(self, tell: Tell) -> Iterator[cells.ClipFacts | str]:
        """What the clip is, or one line on why it cannot be read."""
        try:
            clip = _clip(self)
            moving, small = moving_share(clip.frames), cells.thumbnails(clip.frames)
            own, names = self.source.load("native", 1), (self.source.name, self.size)
            facts = *names, clip.format, clip.sha256, moving, small
            yield cells.ClipFacts(*facts, min(own.width, own.height))
        except Exception as error:  # noqa: BLE001 - one clip's trouble is not the run's
            yield reason(error)


@dataclass(frozen=True)
class Outcome:
    """A cell after work on it."""

    record: CellRecord
    stream: bytes | None = field(default=None, repr=False)
    """None when it is the one that the run has already."""
    done: bool = True
    """False: there is more to come."""


@dataclass(frozen=True)
class Batch:
    """Task: complete these cells of one clip."""

    reading: Reading
    jobs: tuple[cells.CellJob, ...]
    stride: int
    """Quality is measured on one frame in so many."""
    others: Mapping[str, cells.Thumbnails] = field(repr=False)
    """Of the run's other clips, by name."""

    def run(self, tell: Tell) -> Iterator[Outcome]:
        """Complete them; the record of a cell says what went wrong with it."""
        try:
            clip = _clip(self.reading)
            if clip.sha256 != self.jobs[0].cell.clip.sha256:
                raise InputError("the clip changed while the run went on")
        except Exception as error:  # noqa: BLE001
            yield from (failed(job, reason(error)) for job in self.jobs)
            return
        works = [_CellWork(clip, job, tell) for job in self.jobs]
        decodes: list[_Decode] = []
        for work in works:
            decodes += work.open_ways()
            if work.stream:
                yield work.outcome()
        most = cells.batch_limit(clip.format)
        for start in range(0, len(decodes), most):
            yield from self._decode_and_score(clip, decodes[start : start + most], tell)
        yield from (work.outcome(done=True) for work in works)

    def _decode_and_score(
        self, clip: TestClip, decodes: Sequence["_Decode"], tell: Tell
    ) -> Iterator[Outcome]:
        own = self.jobs[0].cell.clip.thumbnails
        ready = [one for one in decodes if one.decode(own, self.others)]
        indices = range(0, len(clip.frames), self.stride)
        names = {name for one in ready for name in one.wanted}
        for name in sorted(names, key=lambda name: (usual_pace(SCORE, name), name)):
            wanting = [one for one in ready if name in one.wanted]
            version = self.jobs[0].cell.metrics[name]
            tests = [one.frames for one in wanting]
            with told(tell, SCORE, name, [one.work.cell.key for one in wanting]):
                found = score(name, version, clip, tests, indices)
            for one, scores in zip(wanting, found, strict=True):
                one.add(name, scores)
            yield from (work.outcome() for work in dict.fromkeys(one.work for one in wanting))
        for one in ready:
            one.frames = ()


_TRIED = 2, 33
"""Frames; enough to call what a cell calls, and for a codec that needs a group of pictures."""


class Trial(NamedTuple):
    """Task: code and decode the first frames with one cell of a batch after the other."""

    batch: Batch

    def run(self, tell: Tell) -> Iterator[str]:
        """One line on what is wrong, if none of them works."""
        errors, reading = [], self.batch.reading
        for job, frames in product(self.batch.jobs, _TRIED):
            clip = _clip(replace(reading, frames=min(frames, reading.frames or frames)))
            work = _CellWork(clip, job, lambda _: None)
            for one in work.open_ways():
                one.decode(job.cell.clip.thumbnails, {})
            if not work.record.error:
                return
            errors.append(work.record.error)
        yield errors[0]


def failed(job: cells.CellJob, why: str) -> Outcome:
    """The cell with its error; what was done of it before stays."""
    return Outcome(replace(job.record or job.cell.empty_record(), error=why, traceback=""))


class _CellWork:
    def __init__(self, clip: TestClip, job: cells.CellJob, tell: Tell) -> None:
        self.clip, self.job, self.cell, self.tell = clip, job, job.cell, tell
        self.record = replace(job.record or job.cell.empty_record(), error="", traceback="")
        self.data = job.stream or b""
        self.stream: bytes | None = None
        """What the run does not have yet."""

    def open_ways(self) -> "list[_Decode]":
        """Code the clip if it is not coded yet; then the ways that are still to be decoded."""
        try:
            if self.job.stream is None:
                self._encode(_codec(self.cell.codec))
        except Exception as error:  # noqa: BLE001
            self.note(reason(error), traceback_of(error))
            return []
        return [_Decode(self, way, wanted) for way, wanted in self.cell.lacking_ways(self.record)]

    def note(self, why: str, traceback: str) -> None:
        """Note the first failure, and where it comes from."""
        if not self.record.error:
            self.record = replace(self.record, error=why, traceback=traceback)

    def put(self, decoded: DecodeRecord) -> None:
        """Add or replace one way, keeping the codec's order of ways."""
        ways = self.cell.ways
        decodes = [*(one for one in self.record.decodes if one.way != decoded.way), decoded]
        decodes.sort(key=lambda one: ways.index(one.way) if one.way in ways else -1)
        self.record = replace(self.record, decodes=decodes)

    def outcome(self, done: bool = False) -> Outcome:
        stream, self.stream = self.stream, None
        return Outcome(self.cell.with_gaps(self.record), stream, done)

    def _encode(self, codec: Codec) -> None:
        with told(self.tell, ENCODE, codec.name, [self.cell.key]), StepCost() as cost:
            encoded = codec.encode(self.clip, self.cell.settings)
        _check(encoded)
        self.data = self.stream = encoded.data
        bits = encoded.bits
        self.record = replace(
            self.record,
            bits=bits,
            stream_sha256=hashlib.sha256(encoded.data).hexdigest(),
            ledger=dict(encoded.ledger) if bits == 8 * len(encoded.data) else {"video": bits},
            encode_seconds=encoded.seconds,
            encode_joules=cost.joules,
            encode_cpu_seconds=cost.seconds,
        )


class _Decode:
    """One way of one cell: its pictures while they are scored, and the record they end in."""

    def __init__(self, work: _CellWork, way: cells.Values, wanted: Sequence[str]) -> None:
        self.work, self.way, self.wanted = work, way, set(wanted)
        self.frames: Sequence[Picture] = ()
        self.record: DecodeRecord | None = None

    def decode(self, own: cells.Thumbnails, others: Mapping[str, cells.Thumbnails]) -> bool:
        """Whether there are pictures to score; if not, the cell says why."""
        try:
            self._decode(own, others)
        except Exception as error:  # noqa: BLE001
            self.work.note(reason(error), traceback_of(error))
            return False
        return True

    def add(self, name: str, scores: MetricScores) -> None:
        assert self.record is not None
        self.record = replace(self.record, scores={**self.record.scores, name: scores})
        self.work.put(self.record)
        if scores.traceback:
            self.work.note(f"metric {name}: {scores.gap}", scores.traceback)

    def _decode(self, own: cells.Thumbnails, others: Mapping[str, cells.Thumbnails]) -> None:
        clip, cell = self.work.clip.format, self.work.cell
        codec = _codec(cell.codec)
        step = told(self.work.tell, DECODE, codec.name, [cell.key])
        with step, PeakMemory() as memory, StepCost() as cost:
            decoded = codec.decode(self.work.data, clip, cell.settings, self.way)
        if not isinstance(decoded, Decoded):
            raise InputError(f"decode gave a {type(decoded).__name__}: make it a Decoded")
        _check_frames(decoded.frames, self.work.clip)
        if other := cells.belongs_to(cells.thumbnails(decoded.frames), own, others):
            raise InputError(
                f"the decoded pictures are those of {other}, not of {cell.clip.name}: "
                "outputs of two clips were swapped"
            )
        self.frames = decoded.frames
        digest = frames_sha256(decoded.frames)
        kept = cells.find_way(self.work.record, self.way)
        if kept is not None and kept.frames_sha256 == digest:
            self.record = kept
            return
        # Other pictures than those scored before, if any: every score is of these.
        self.wanted = set(cell.metrics)
        compute = codec.compute(self.work.data, clip, cell.settings, self.way)
        self.record = DecodeRecord(
            way=self.way,
            seconds=decoded.seconds,
            frames_sha256=digest,
            scores={},
            peak_memory=memory.peak,
            joules=cost.joules,
            cpu_seconds=cost.seconds,
            **(vars(compute) if compute else {}),
        )
        self.work.put(self.record)


def _check(encoded: Encoded) -> None:
    if not isinstance(encoded, Encoded):
        raise InputError(f"encode gave a {type(encoded).__name__}: make it an Encoded")
    if not encoded.data:
        raise InputError("the codec gave an empty stream: nothing can be decoded from zero bits")
    told, bits = sum(encoded.ledger.values()), 8 * len(encoded.data)
    if told != bits:
        raise InputError(f"the ledger has {told} bits, the stream {bits}: the codec counts wrong")


def _check_frames(frames: Sequence[Picture], clip: TestClip) -> None:
    if len(frames) != len(clip.frames):
        raise InputError(f"{len(frames)} frames decoded, the clip has {len(clip.frames)}")
    shape = clip.frames[0].shape
    for index, frame in enumerate(frames):
        if frame.shape != shape or frame.dtype != np.uint8:
            told = f"decoded frame {index} is {frame.dtype} {frame.shape}"
            raise InputError(f"{told}, the clip's are uint8 {shape}")


_codec = cache(cells.make_codec)

_last: dict[Reading, TestClip] = {}


def _clip(reading: Reading) -> TestClip:
    if reading not in _last:
        _last.clear()
        frames = reading.frames
        if reading.longest is not None:
            rate = reading.source.load(size=reading.size, frames=1).frame_rate
            most = max(1, int(reading.longest * rate))
            frames = most if frames is None else min(most, frames)
        _last[reading] = reading.source.load(size=reading.size, frames=frames)
    return _last[reading]
