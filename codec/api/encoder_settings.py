"""`EncoderSettings`: the choices of a user of the encoder."""

from dataclasses import dataclass
from math import inf

from gsvc.codec.bitstream.errors import ConfigError, typed
from gsvc.codec.bitstream.frames import VideoFormat
from gsvc.codec.bitstream.header import TOOLS, Tools
from gsvc.codec.bitstream.layers import LAYERS, POSE, SEGMENTATION
from gsvc.codec.weights.hub import hub_model
from gsvc.decoders.detection.findings import AUTO, OWN, Detector
from gsvc.encoders import tuning

_LEAST_PACKET = 64
_MOST_PRE_ROLL = 30


def check_bitrate(rate: float | None, least: float = tuning.LEAST_BITRATE) -> None:
    """Raises ConfigError for a rate below `least` bits per second."""
    if rate is not None and not least <= rate < inf:
        meant = f": did you mean {1000 * rate:g} ({rate:g}k)?" if 0 < rate < inf else ""
        raise ConfigError(f"a rate of {rate:g} bit/s: give {least:g} or more{meant}")


@typed
@dataclass(frozen=True)
class EncoderSettings:
    """How to encode. Set at most one of `bpp`, `bitrate` and `quality`.

    Raises ConfigError for values out of range and for settings that exclude each other.
    """

    level: int | None = None
    """0-3. None chooses by the rate, or 1 without a rate."""
    bpp: float | None = None
    """Bits per pixel of a frame to meet, with headers, without audio."""
    bitrate: float | None = None
    """Bits per second to meet, with headers, without audio."""
    quality: float | None = None
    """ST-LPIPS AlexNet of the rendering to aim at, 0 to 1, lower is better."""
    max_bitrate: float | None = None
    """Most bits in any second, with headers."""
    max_packet_bytes: int | None = None
    """Most bytes in any packet, with framing: key pictures get coarser and smaller to fit. To make
    datagrams, use a `Packetizer`, which splits packets."""
    gop: float | None = None
    """Most seconds from one intra picture to the next, where a stream can be joined and a seek
    begins; 0: as long as a shot. Memory limits groups with look-ahead. None: 32, `low_delay` 4."""
    lookahead: float | None = None
    """Most seconds that look-ahead holds a frame back. None: no limit. Groups last half of it, each
    begins with an intra picture, and those of a few frames may miss a low rate."""
    returning_shots: bool = False
    """Code shots that come back, as when people talk in turns, as one: about a third fewer bits
    there, but a seek begins where the first of them does, and the stream cannot go into a video
    file. With look-ahead only."""
    tools: Tools | None = None
    """Scaffold layers. None takes texture, camera and, with look-ahead, guide; with `semantics`
    also segmentation and pose; at preset slow all."""
    preset: str = tuning.DEFAULT_PRESET
    """"fast", "medium" or "slow"."""
    tune: str = tuning.DEFAULT_TUNE
    """What bits are spent on: "balanced", "texture" (sharper pictures that may be out of place) or
    "motion" (everything where it belongs, softer)."""
    face_weight: float = tuning.PEOPLE
    """How much more faces weigh than the rest when bits are spent, 1 to 8. Above 1 it needs a model
    (`gsvc models pull`); without it a warning is logged and all weighs alike."""
    faces: bool = True
    """Send how faces move and speak where pictures gain by it; without models (`face_weight`) none
    are sent. With `low_delay` only in videos of at most 640x360 at 30 frames a second."""
    semantics: bool = False
    """Send segmentation and pose even where they do not pay."""
    objects: bool = False
    """Find objects in the source and send them too, for `gsvc.analyse`."""
    task: str | None = None
    """Send no pictures, only objects: "detect" (everything), "people" (and their key points) or
    "motion" (what moves, activity, camera)."""
    detector: str | Detector = AUTO
    """Detector of `objects` and `task`: "auto" (people if the models are there, and what moves),
    "people", "moving", or a detector."""
    events_only: bool = False
    """Send pictures only while something moves or changes; other frames hold the last one."""
    pre_roll: float = 1.0
    """Seconds before an event that are sent too, 0 to 30, with `events_only`."""
    target_backend: str | None = None
    """The pretrained model that is to decode ("ltx" ...): pictures lie on its grid in time, and the
    header names it. Any decoder still decodes the stream. With look-ahead only."""
    low_delay: bool = False
    """No look-ahead, more bits: a frame waits only for the next key picture (`Encoder.delay`)."""
    low_memory: bool = False
    """Hold about half the memory with look-ahead, and take a third longer; from now on this process
    returns freed memory at once (glibc). The stream is the same."""
    seed: int = 0
    """Seed for the decoder's refiner, 0-65535."""
    model_id: bytes = bytes(4)
    """Refiner that the stream is made for: first 4 bytes of its weights' SHA-256; zeros: any."""

    def __post_init__(self) -> None:
        self._check_rate()
        self._check_delay()
        if self.preset not in tuning.PRESETS:
            raise ConfigError(f"preset {self.preset!r}: choose one of {', '.join(tuning.PRESETS)}")
        if not 1 <= self.face_weight <= tuning.MOST_PEOPLE:
            why = f"face weight {self.face_weight:g}: choose 1 to {tuning.MOST_PEOPLE:g}"
            raise ConfigError(why)
        if isinstance(self.detector, str) and self.detector not in OWN:
            why = f"detector {self.detector!r}: choose one of {', '.join(OWN)}, or give a detector"
            raise ConfigError(why)
        if self.task is not None:
            self._check_task(self.task)
        if not 0 <= self.pre_roll <= _MOST_PRE_ROLL:
            raise ConfigError(f"pre-roll of {self.pre_roll:g} s: choose 0 to {_MOST_PRE_ROLL}")
        if self.tune not in tuning.TUNES:
            raise ConfigError(f"tune {self.tune!r}: choose one of {', '.join(tuning.TUNES)}")
        if not 0 <= self.seed < 1 << 16:
            raise ConfigError(f"seed {self.seed} is out of range: 0 to 65535")

    def _check_rate(self) -> None:
        if self.level is not None and not 0 <= self.level < len(tuning.LEVELS):
            raise ConfigError(f"level {self.level}: choose 0, 1, 2 or 3")
        if sum(goal is not None for goal in (self.bpp, self.bitrate, self.quality)) > 1:
            raise ConfigError("give bits per pixel, bits per second or a quality, only one of them")
        for rate in (self.bitrate, self.max_bitrate):
            check_bitrate(rate)
        if self.bpp is not None and not 0 < self.bpp < inf:
            raise ConfigError(f"{self.bpp:g} bits per pixel: give more than 0, as 0.004")
        if self.quality is not None and not 0.001 <= self.quality < 1:
            raise ConfigError("quality is a distance: choose one between 0.02 (good) and 0.4 (bad)")
        if self.max_packet_bytes is not None and self.max_packet_bytes < _LEAST_PACKET:
            how = f"allow {_LEAST_PACKET} or more"
            raise ConfigError(f"packets of {self.max_packet_bytes} bytes hold no picture: {how}")

    def _check_delay(self) -> None:
        if self.gop is not None and not 0 <= self.gop < inf:
            raise ConfigError(f"gop {self.gop:g}: give seconds, or 0 for no limit")
        if self.lookahead is not None and not 0 < self.lookahead < inf:
            raise ConfigError(f"look-ahead of {self.lookahead:g} s: give seconds above 0")
        if self.low_delay and self.lookahead is not None:
            raise ConfigError("low delay is without look-ahead: leave one of them out")
        if self.low_delay and (self.quality is not None or self.max_bitrate is not None):
            raise ConfigError("a quality or a max_bitrate needs look-ahead: leave low delay out")
        if self.returning_shots and (self.low_delay or self.max_bitrate or self.events_only):
            why = "shots that come back need look-ahead, and neither a cap nor events alone"
            raise ConfigError(f"{why}: leave one of them out")
        if self.low_delay and self.low_memory:
            raise ConfigError("without look-ahead hardly a frame is held: leave low memory out")
        if self.target_backend is not None and hub_model(self.target_backend) and self.low_delay:
            raise ConfigError("a stream for a pretrained model needs look-ahead: no low delay")

    def _check_task(self, task: str) -> None:
        if task not in tuning.TASKS:
            raise ConfigError(f"task {task!r}: choose one of {', '.join(tuning.TASKS)}")
        goals = self.bpp, self.bitrate, self.quality, self.max_bitrate, self.max_packet_bytes
        if any(goal is not None for goal in goals):
            raise ConfigError("a task sends no pictures: leave out rate, quality and packet size")
        if self.events_only:
            raise ConfigError("a task sends no pictures: leave out events-only")

    def named_model(self) -> bytes:
        """The model that the header names."""
        return self.model_id if self.target_backend is None else hub_model(self.target_backend).hint

    def chosen_tools(self) -> Tools:
        """The layers: as set, or those worth their time at the preset; of a task none."""
        if self.task is not None:
            return Tools().without(*TOOLS)
        if self.tools is not None:
            return self.tools
        asked = {SEGMENTATION.name, POSE.name} if self.semantics else set()
        is_slow = self.preset == "slow"
        return Tools(**{one.name: one.default or one.name in asked or is_slow for one in LAYERS})

    def longest_group(self) -> float:
        """Seconds of a group, at most; infinite without a limit."""
        if self.gop is None:
            return tuning.LIVE_GOP if self.low_delay else tuning.FILE_GOP
        return self.gop or inf

    def target_bpp(self, video: VideoFormat) -> float | None:
        """The rate asked for, in bits per pixel."""
        if self.bitrate is None:
            return self.bpp
        return float(self.bitrate / (video.width * video.height * video.frame_rate))

    def target_bitrate(self, video: VideoFormat) -> float | None:
        """The rate asked for, in bits per second."""
        if self.bpp is None:
            return self.bitrate
        return float(self.bpp * video.width * video.height * video.frame_rate)

    def chosen_level(self, video: VideoFormat) -> int:
        """The level: as set, or the lowest whose usual rate reaches the target."""
        target = self.target_bpp(video)
        if self.level is not None:
            return self.level
        if target is None:
            return 1
        return sum(target > level.usual_bpp for level in tuning.LEVELS)
