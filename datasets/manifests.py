"""Published test sets: names, sizes, rates and lengths of their sequences. Never train on them.

The sequences are read from the user's copies (`local_copies.py`). Their publishers state no
checksums: a copy is identified by its name and size, and every result has the hash of the pictures
that were measured. Lengths are those of published test configurations.
"""

from dataclasses import dataclass
from fractions import Fraction

from gsvc.codec.errors import ConfigError

_HD = (1920, 1080)
_UHD = (3840, 2160)


@dataclass(frozen=True)
class Sequence:
    """One test sequence, 4:2:0."""

    name: str
    sizes: tuple[tuple[int, int], ...]
    """Widths and heights that it is distributed in, the usual one first."""
    frame_rate: Fraction
    """Frames per second."""
    frames: int | None
    """Its length; None if unknown."""
    file_name: str
    """Usual name of a copy."""
    other_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a copy may begin with."""
        return self.name, *self.other_names

    @property
    def description(self) -> str:
        """Size, rate and length in words."""
        width, height = self.sizes[0]
        length = "" if self.frames is None else f", {self.frames} frames"
        return f"{width}x{height}, {float(self.frame_rate):g} fps{length}"


@dataclass(frozen=True)
class Manifest:
    """One test set."""

    name: str
    title: str
    page: str
    """Address that tells how to get it."""
    source: str
    """Publication that describes it."""
    sequences: tuple[Sequence, ...]

    def sequence(self, name: str) -> Sequence:
        """The sequence of that name in any case. Raises ConfigError for an unknown name."""
        for sequence in self.sequences:
            if name.lower() in {own.lower() for own in sequence.names}:
                return sequence
        known = ", ".join(sequence.name for sequence in self.sequences)
        raise ConfigError(f"{self.name} has no sequence {name!r}; there are {known}")


def _uvg(name: str, rate: int, frames: int | None, *other_names: str) -> Sequence:
    # Most papers use the first seven, in 8-bit files of 1920x1080.
    file_name = f"{name}_1920x1080_{rate}fps_420_8bit_YUV.yuv"
    return Sequence(name, (_HD, _UHD), Fraction(rate), frames, file_name, other_names)


UVG = Manifest(
    name="uvg",
    title="UVG, 16 sequences, 8 and 10 bits",
    page="https://ultravideo.fi/dataset.html",
    source="Mercat, Viitanen, Vanne: UVG dataset, ACM MMSys 2020",
    sequences=(
        _uvg("Beauty", 120, 600),
        _uvg("Bosphorus", 120, 600),
        _uvg("HoneyBee", 120, 600),
        _uvg("Jockey", 120, 600),
        _uvg("ReadySteadyGo", 120, 600, "ReadySetGo"),
        _uvg("ShakeNDry", 120, 300),
        _uvg("YachtRide", 120, 600),
        _uvg("Lips", 120, None),
        _uvg("CityAlley", 50, None),
        _uvg("FlowerFocus", 50, None),
        _uvg("FlowerKids", 50, None),
        _uvg("FlowerPan", 50, None),
        _uvg("RaceNight", 50, None),
        _uvg("RiverBank", 50, None),
        _uvg("SunBath", 50, None),
        _uvg("Twilight", 50, None),
    ),
)

_MCL_JCV_RATES = {
    24: (17, 21, 22, 23, 24, 25, 29),
    25: (5, 6, 7, 8, 9, 18, 20),
    30: (1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 16, 19, 26, 27, 28, 30),
}
_MCL_JCV_SECONDS = 5


def _mcl_jcv(number: int, rate: int) -> Sequence:
    name = f"videoSRC{number:02}"
    file_name = f"{name}_1920x1080_{rate}.yuv"
    return Sequence(name, (_HD,), Fraction(rate), rate * _MCL_JCV_SECONDS, file_name)


MCL_JCV = Manifest(
    name="mcl-jcv",
    title="MCL-JCV, 30 sequences, 8 bits",
    page="https://mcl.usc.edu/mcl-jcv-dataset/",
    source="Wang et al.: MCL-JCV: a JND-based H.264/AVC video quality dataset, ICIP 2016",
    sequences=tuple(
        _mcl_jcv(number, rate)
        for number, rate in sorted(
            (number, rate) for rate, numbers in _MCL_JCV_RATES.items() for number in numbers
        )
    ),
)

_HEVC_PAGE = (
    "https://hevc.hhi.fraunhofer.de/ (the sequences: ftp.tnt.uni-hannover.de/testsequences)"
)
_HEVC_SOURCE = (
    "Bossen: Common test conditions and software reference configurations, JCTVC-L1100, 2013"
)


def _hevc(name: str, size: tuple[int, int], rate: int, frames: int, *other_names: str) -> Sequence:
    file_name = f"{name}_{size[0]}x{size[1]}_{rate}.yuv"
    return Sequence(name, (size,), Fraction(rate), frames, file_name, other_names)


HEVC_B = Manifest(
    name="hevc-b",
    title="HEVC common test conditions, class B, 5 sequences, 8 bits",
    page=_HEVC_PAGE,
    source=_HEVC_SOURCE,
    sequences=(
        _hevc("Kimono1", _HD, 24, 240, "Kimono"),
        _hevc("ParkScene", _HD, 24, 240),
        _hevc("Cactus", _HD, 50, 500),
        _hevc("BasketballDrive", _HD, 50, 500),
        _hevc("BQTerrace", _HD, 60, 600),
    ),
)

_WVGA = (832, 480)

HEVC_C = Manifest(
    name="hevc-c",
    title="HEVC common test conditions, class C, 4 sequences, 8 bits",
    page=_HEVC_PAGE,
    source=_HEVC_SOURCE,
    sequences=(
        _hevc("BasketballDrill", _WVGA, 50, 500),
        _hevc("BQMall", _WVGA, 60, 600),
        _hevc("PartyScene", _WVGA, 50, 500),
        _hevc("RaceHorses", _WVGA, 30, 300, "RaceHorsesC"),
    ),
)

MANIFESTS: dict[str, Manifest] = {
    manifest.name: manifest for manifest in (UVG, MCL_JCV, HEVC_B, HEVC_C)
}
"""The sets by name."""
