"""The sequence header: 32 bytes, laid out by one table that writes, reads and prints it."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor

from google_crc32c import value as crc32c

from gsvc.codec.bitstream import errors, frames, scaffold
from gsvc.codec.bitstream.layers import LAYERS

TOOLS = tuple(layer.name for layer in LAYERS)


class Tools:
    """The scaffold layers of a stream. `Tools(pose=False)` has every layer except pose.

    `name in tools` tells whether a layer is on.
    """

    @errors.typed
    def __init__(self, **switches: bool) -> None:
        """Each layer, by name, is on by default. Raises ConfigError for an unknown name."""
        for name in switches:
            if name not in TOOLS:
                why = f"unknown scaffold layer {name!r}: there are {', '.join(TOOLS)}"
                raise errors.ConfigError(why)
        self.names = frozenset(name for name in TOOLS if switches.get(name, True))

    def without(self, *names: str) -> "Tools":
        """These tools with the named layers off."""
        return Tools(**{name: name in self.names - set(names) for name in TOOLS})

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tools) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Tools({', '.join(f'{name}={name in self}' for name in TOOLS)})"


MAGIC = b"GSV"
VERSION = 1
HEADER_BYTES = 32

_FLAGS = {3: "audio", 5: "holds", 8: "returns", 9: "fitted"} | {
    layer.header_bit: layer.name for layer in LAYERS
}

FIELDS: tuple[tuple[str, int], ...] = (
    ("width", 15),
    ("height", 15),
    ("pixel_aspect_num", 8),
    ("pixel_aspect_den", 8),
    ("color_primaries", 5),
    ("color_transfer", 5),
    ("color_matrix", 5),
    ("full_range", 1),
    ("time_base_num", 16),
    ("time_base_den", 20),
    ("frame_ticks_num", 20),
    ("frame_ticks_den", 12),
    ("level", 2),
    *((_FLAGS[bit], 1) for bit in range(len(_FLAGS))),
    ("motion_estimator", 2),
    ("seed", 16),
    ("model_id", 32),
)
"""Name and bits of every field after magic and version, the first field in the highest bits."""

_FIELD_BITS = sum(bits for _, bits in FIELDS)
_POSITIVE = (
    *("width", "height", "pixel_aspect_num", "pixel_aspect_den"),
    *("time_base_num", "time_base_den", "frame_ticks_num", "frame_ticks_den"),
)
assert len(MAGIC) + 1 + _FIELD_BITS / 8 + 4 == HEADER_BYTES


@dataclass(frozen=True)
class Header:
    """The parameters of a whole stream; its first 32 bytes."""

    format: frames.VideoFormat
    """Size, times and colour of the frames."""
    level: int
    """The encoder's level, 0-3. Informative."""
    tools: Tools = field(default_factory=Tools)
    """Layers of the scaffold."""
    audio: bool = False
    """Whether AUDIO packets may occur."""
    holds: bool = True
    """Whether frames at the ends of a scene may be held."""
    returns: bool = False
    """Whether shots may come back: whether SHOT packets may occur."""
    fitted: bool = True
    """Whether probabilities begin as fitted, and heads of AV1 frames are coded by their fields."""
    motion_estimator: int = 1
    """How the decoder estimates motion: 1, by optical flow; 2 and 3, also by leaps of small things;
    0, by leaps of few."""
    seed: int = 0
    """Seed of the refiner's noise, 0-65535. Informative."""
    model_id: bytes = bytes(4)
    """First 4 bytes of the SHA-256 of the weights that the encoder assumed, or 0. Informative."""

    @property
    def frame_ticks(self) -> Fraction:
        """Nominal duration of a frame in units of the time base."""
        return 1 / (self.format.frame_rate * self.format.time_base)

    @property
    def geometry(self) -> scaffold.Geometry:
        """The scaffold's grids for this picture size."""
        return scaffold.Geometry(self.format.width, self.format.height)

    def fields(self) -> dict[str, int]:
        """The value of every field, by its name in `FIELDS`."""
        video = self.format
        values = {
            "width": video.width,
            "height": video.height,
            "pixel_aspect_num": video.pixel_aspect.numerator,
            "pixel_aspect_den": video.pixel_aspect.denominator,
            "color_primaries": video.color.primaries,
            "color_transfer": video.color.transfer,
            "color_matrix": video.color.matrix,
            "full_range": int(video.color.full_range),
            "time_base_num": video.time_base.numerator,
            "time_base_den": video.time_base.denominator,
            "frame_ticks_num": self.frame_ticks.numerator,
            "frame_ticks_den": self.frame_ticks.denominator,
            "level": self.level,
            "audio": int(self.audio),
            "holds": int(self.holds),
            "returns": int(self.returns),
            "fitted": int(self.fitted),
            **{name: int(name in self.tools) for name in TOOLS},
            "motion_estimator": self.motion_estimator,
            "seed": self.seed,
            "model_id": int.from_bytes(self.model_id, "big"),
        }
        return {name: values[name] for name, _ in FIELDS if name in values}

    def to_bytes(self) -> bytes:
        """The 32 bytes. Raises ConfigError for a value that does not fit its field."""
        values, packed = self.fields(), 0
        for name, bits in FIELDS:
            value = values.get(name, 0)
            if not 0 <= value < 1 << bits:
                raise errors.ConfigError(f"{name} {value} is out of range: 0 to {(1 << bits) - 1}")
            packed = packed << bits | value
        body = MAGIC + bytes([VERSION]) + packed.to_bytes(_FIELD_BITS // 8, "big")
        return bytes(body + crc32c(body).to_bytes(4, "little"))

    @classmethod
    @errors.typed
    def from_bytes(
        cls, data: errors.Bytes, limits: errors.Limits = errors.DEFAULT_LIMITS
    ) -> "Header":
        """Parse and check 32 bytes. Raises BitstreamError for an invalid header."""
        data = bytes(data)
        if not data:
            raise errors.TruncatedStreamError("the stream is empty: there is nothing to decode")
        if data[:3] != MAGIC[: len(data)]:
            raise errors.ForeignFileError("not a gsvc stream: it does not begin with 'GSV'")
        if len(data) < HEADER_BYTES:
            raise errors.TruncatedStreamError("the stream ends inside its header: copy it again")
        if data[3] != VERSION:
            raise errors.VersionError(
                f"this is a stream of format version {data[3]}, this gsvc reads version {VERSION}: "
                "install the gsvc that wrote it"
            )
        if crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise errors.ChecksumError("the header is damaged (CRC-32C): copy or send it again")
        packed = int.from_bytes(data[4:-4], "big")
        values = {}
        for name, bits in reversed(FIELDS):
            values[name] = packed & (1 << bits) - 1
            packed >>= bits
        return cls._from_fields(values, limits)

    @classmethod
    def _from_fields(cls, values: dict[str, int], limits: errors.Limits) -> "Header":
        return cls(
            format=_format(values, limits),
            level=values["level"],
            tools=Tools(**{name: bool(values[name]) for name in TOOLS}),
            audio=bool(values["audio"]),
            holds=bool(values["holds"]),
            returns=bool(values["returns"]),
            fitted=bool(values["fitted"]),
            motion_estimator=values["motion_estimator"],
            seed=values["seed"],
            model_id=values["model_id"].to_bytes(4, "big"),
        )


def _format(values: dict[str, int], limits: errors.Limits) -> frames.VideoFormat:
    for name in _POSITIVE:
        if not values[name]:
            raise errors.BitstreamError(f"the header's {name} is zero: the stream is not valid")
    width, height = values["width"], values["height"]
    if width * height > limits.pixels or max(width, height) > limits.side:
        raise errors.LimitError(
            f"pictures of {width}x{height} exceed the limit of {limits.pixels} pixels or "
            f"{limits.side} a side"
        )
    time_base = Fraction(values["time_base_num"], values["time_base_den"])
    ticks = Fraction(values["frame_ticks_num"], values["frame_ticks_den"])
    aspect = Fraction(values["pixel_aspect_num"], values["pixel_aspect_den"])
    one, two, three = (values[f"color_{name}"] for name in ("primaries", "transfer", "matrix"))
    color = frames.Color(one, two, three, bool(values["full_range"]))
    return frames.VideoFormat(width, height, time_base, 1 / (ticks * time_base), aspect, color)


def is_storable(time_base: Fraction) -> bool:
    """Whether the header's fields hold it exactly."""
    return time_base.numerator < 1 << 16 and time_base.denominator < 1 << 20


def storable_format(video: frames.VideoFormat) -> frames.VideoFormat:
    """`video` with its rationals as near as the header holds them: far below a frame's duration."""
    if not is_storable(video.time_base):
        raise errors.ConfigError(
            f"time base {video.time_base} does not fit the stream: take a coarser one, such as "
            "1/90000"
        )
    most = (1 << 20) - 1
    # A nominal rate out of range is clamped: the frames' own times stay exact.
    ticks = min(max(1 / (video.frame_rate * video.time_base), Fraction(1, 4095)), Fraction(most))
    ticks = ticks.limit_denominator(max(1, min(4095, floor(most / ticks))))
    aspect = video.pixel_aspect.limit_denominator(255)
    if not 0 < aspect.numerator < 256:
        aspect = Fraction(1)
    return replace(video, frame_rate=1 / (ticks * video.time_base), pixel_aspect=aspect)
