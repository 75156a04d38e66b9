"""Levels, presets and every number of the encoder that was fitted or tried, with where it is from.

Titles in quotes are sections of docs/logs/search.md; "development clips" are those named there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

_SMALL_PIXELS = 80_000
"""Pixels below which a pixel may take more bits, as the root of the ratio: a small picture has no
idle parts. Set with the levels."""
_USUAL_FRAME_RATE = 25.0
"""Frames per second from which `most_bpp` holds; at fewer a frame may take up to twice as much."""


@dataclass(frozen=True)
class Level:
    """Settings of one level."""

    lmbda: float
    """Lagrange multiplier: the distortion (see `distortion.py`), summed over pixels and
    frames, that a bit must save. It decides everything that the encoder chooses."""
    most_bpp: float
    """Bits per pixel that a stream stays under where `lmbda` would buy more."""
    usual_bpp: float
    """Rate target, in bits per pixel, up to which this level is chosen for it."""
    spacing: float
    """Seconds between coded pictures without look-ahead, where nothing can be chosen."""
    block_log2: int
    """Blocks of motion corrections are 2^n cells wide."""
    texture_log2: int
    """Blocks of texture gains are 2^n cells wide ("Texture gains")."""
    guide_structure_weight: float
    """Weight of structure where a guide is chosen, in proportion to the tune's: the better the
    picture is, the more the texture that the restorer draws must be right."""

    def suited_to(self, pixels: int, frame_rate: float) -> "Level":
        """The level for frames of `pixels` pixels, `frame_rate` a second."""
        small = max(1.0, math.sqrt(_SMALL_PIXELS / pixels))
        slow = min(2.0, max(1.0, _USUAL_FRAME_RATE / frame_rate))
        return replace(self, lmbda=self.lmbda / small, most_bpp=self.most_bpp * small * slow)


LEVELS = (
    Level(300, 0.001, 0.0015, 0.8, block_log2=3, texture_log2=3, guide_structure_weight=3),
    Level(90, 0.003, 0.0045, 0.5, block_log2=2, texture_log2=2, guide_structure_weight=6),
    Level(30, 0.007, 0.012, 0.33, block_log2=2, texture_log2=2, guide_structure_weight=8),
    Level(9, 0.02, math.inf, 0.2, block_log2=1, texture_log2=2, guide_structure_weight=12),
)
"""Index = level. The rates are decided, not fitted; the multipliers are those at which development
clips of 288 lines come near to them, scaled to the distance of "Place"."""
_SHAPES = (
    *((lines, 30.0) for lines in (2160, 1440, 1080, 720, 576, 480, 360, 288, 240, 180)),
    (180, 12.5), (144, 12.5), (144, 10.0), (144, 5.0), (96, 5.0),
)  # fmt: skip
"""Shorter side and most frames a second, by falling rate. Below 180 lines little is seen: there
frames go first. By hand."""
_LEAST_BPP = 0.0005
"""Bits per pixel below which a size is too large for a rate: half of what level 0 stays under."""


def shape_for(
    bitrate: float, width: int, height: int, frame_rate: float, *, is_asked: bool
) -> tuple[int, float] | None:
    """Shorter side in pixels, and frames per second, that suit a rate: level 1's bits per pixel.

    None where the video's own do; unless it `is_asked` for, whatever the rate may just reach.
    """
    small = max(1.0, math.sqrt(_SMALL_PIXELS / (width * height)))
    if not is_asked and bitrate >= _LEAST_BPP * small * width * height * frame_rate:
        return None
    shorter = min(width, height)
    for lines, most in _SHAPES:
        factor = min(1.0, lines / shorter)
        pixels = factor**2 * width * height
        rate = frame_rate / math.ceil(frame_rate / most - 0.01)
        level = LEVELS[1].suited_to(round(pixels), max(rate, _USUAL_FRAME_RATE))
        if bitrate >= level.most_bpp * pixels * rate:
            break
    return None if factor == 1 and rate == frame_rate else (min(lines, shorter), rate)


def shape_instead(
    bitrate: float, width: int, height: int, frame_rate: float
) -> tuple[str, int, float] | None:
    """Where the video has over twice as many pixels a second as suit: what is wrong, and a shape
    as of `shape_for`; else None."""
    shape = shape_for(bitrate, width, height, frame_rate, is_asked=True)
    if not shape or 2 * (shape[0] / min(width, height)) ** 2 * shape[1] >= frame_rate:
        return None
    own = f"{width}x{height}, {frame_rate:.3g} frames/s"
    return f"{own} is too large for {bitrate / 1000:.3g} kbit/s of pictures", *shape


STILL_BPP = 0.016
"""Bits per pixel below which a single picture is too large for its bytes. Above, a larger one is
nearer to its source than a smaller one of as many bytes, by ST-LPIPS VGG (four photographs, 500 and
2000 bytes)."""
PREVIEW_BPP = 0.25
"""The same of a preview of 200 bytes: above, faces and colours go. By eye."""


def shape_of_still(
    bits: float, width: int, height: int, least_bpp: float = STILL_BPP
) -> int | None:
    """Shorter side in pixels of a single picture of so many bits; None where its own is right."""
    factor = math.sqrt(bits / least_bpp / (width * height))
    return None if factor >= 1 else round(factor * min(width, height))


LEAST_BITRATE = 100.0
"""Bits per second: who gives less has left out the k."""
FILE_GOP, LIVE_GOP = 32.0, 4.0
"""Keyframe interval in seconds, at most: with look-ahead, where a file is decoded from its
beginning or from an index, and without, where a receiver waits for the next group to join."""
MOST_GROUP_PIXELS = 1 << 28
"""Pixels of a group with look-ahead, in memory: 129 frames of 1080p, 1820 of 512x288."""

_CLOSE = 8
"""Frames between coded pictures below which coding them takes most of the time: there SVT-AV1 runs
one preset faster ("The search leaps")."""
_USUAL_FRAMES = 100


PROBE_PRESET = 8
"""SVT-AV1's usual preset for probes: 10 loses points, 6 gains none."""


@dataclass(frozen=True)
class Effort:
    """How much time the encoder takes."""

    probes: int
    """Plans tried for a group."""
    probe: int
    """SVT-AV1's preset for probes; one slower where a rate is to be met ("Plans for a rate")."""
    samples: int
    """Frames that distortion is measured on, of a group of up to 100."""
    svt: int
    """SVT-AV1's preset, 0-13, for the coded pictures that are sent."""
    live: int
    """The same without look-ahead, where a picture is coded while the next one arrives."""
    guides: int
    """Coded pictures whose restoration is tried, about, of a group of 100 frames or more."""
    anchors: int
    """Most scaffold samples tried between two coded pictures."""
    is_rough: bool = False
    """Whether motion of faces is tried in one form, and short intervals by fewer frames."""

    def probes_of(self, begins: bool) -> int:
        """Plans tried for a group that `begins` a scene, or that goes on from a good plan."""
        return self.probes if begins else max(2, (self.probes + 1) // 2)

    def preset_of(self, keys: Sequence[int]) -> int:
        """SVT-AV1's preset for coded pictures at these indices."""
        return self.svt + (keys[-1] - keys[0] < _CLOSE * (len(keys) - 1))

    def guides_of(self, frames: int) -> int:
        """Of how many coded pictures of a group of `frames` restoration is tried, about."""
        return max(min(4, self.guides), round(self.guides * min(1.0, frames / _USUAL_FRAMES)))

    def samples_of(self, frames: int) -> int:
        """How many frames of a group of `frames` distortion is measured on."""
        return round(self.samples * max(1.0, frames / _USUAL_FRAMES))


PRESETS = {
    "fast": Effort(
        probes=2, probe=10, samples=6, svt=8, live=8, guides=1, anchors=1, is_rough=True
    ),
    "medium": Effort(probes=4, probe=PROBE_PRESET, samples=16, svt=2, live=4, guides=12, anchors=1),
    "slow": Effort(
        probes=16, probe=PROBE_PRESET, samples=32, svt=0, live=2, guides=1000, anchors=3
    ),
}
"""Probes: "Foretelling trials"; SVT-AV1's presets: "Final coding"."""
DEFAULT_PRESET = "medium"

# Distortion: how far a rendering is from the source.

FLAT = 10.0
"""Gradient (Sobel 3x3 of 0-255 luma) below which texture counts for little ("A distance for the
encoder's search")."""


@dataclass(frozen=True)
class Tune:
    """What bits go to."""

    structure_weight: float
    """Weight of structure out of place, 1 - SSIM, beside a logarithm of gradient energies ("An
    objective that sees motion")."""
    visual: bool
    """Whether SVT-AV1 is tuned for texture, with hard edges between blocks, or for fidelity ("How
    SVT-AV1 is tuned")."""


TUNES = {
    "balanced": Tune(4.0, visual=False),
    "texture": Tune(0.2, visual=True),
    "motion": Tune(12.0, visual=False),
}
DEFAULT_TUNE = "balanced"
PEOPLE, MOST_PEOPLE = 4.0, 8.0
"""Weight of faces, usual and greatest ("Faces weigh more")."""
TEXTURE_OF_ST_LPIPS = 0.73, 0.04
"""Slope and offset: ST-LPIPS AlexNet as a line in the texture part of distortion, fitted to the
probes of "A distance for the encoder's search"; within about 15 % for most video, too careful for
soft gray pictures."""
TEXTURE_SLOPE = 0.05
"""Rise of the logarithm of texture with one crf: where a walk to a quality begins. By hand."""

# The search: what it tries.

MORE_AT_RATE = 4
"""Probes of a group more than for a lambda: the first ones miss the rate ("Plans for a rate")."""
LEAST_PROBE_CRF = 24.0
"""Finest quantiser that is tried: the finest of the grids of "The search leaps"."""
RETURNS_CRF, RETURNS_AT = 48.0, 0.5
"""A shot comes back where its first picture, at this quantiser, takes at most such a share of its
bits after an earlier shot. By hand."""
SHORTEST_FADE = 5
"""Frames of an interval that may dissolve: in a shorter one motion, too, looks like a mixture."""
FADED, MIXED = 4.0, 0.4
"""A dissolve is tried where the frame in the middle differs from either end by FADED (mean luma,
0-255), and from their mixture by less than MIXED of that."""


def usual_crf(lmbda: float) -> float:
    """The quantiser that searches on development clips end at, about; drawn by hand."""
    return min(68.0, max(LEAST_PROBE_CRF, round(52 + 2.6 * math.log2(lmbda / 9))))


# How bits and distortion follow from a plan: "Foretelling trials", all of it.


@dataclass(frozen=True)
class Prior:
    """Of the coefficients of a linear regression, each normal and independent of the others."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    noise: float
    """Standard deviation of what the regression leaves."""


LOG_BITS_OF_CRF = (
    (24.0, 42.0, 48.0, 54.0, 60.0, 65.0, 70.0),
    (2.2, 1.3, 1.0, 0.6, 0.0, -0.74, -0.97),
)
"""Quantisers, and the logarithm of bits that they leave."""


def log_bits_of_crf(crf: float) -> float:
    """The logarithm of the bits that a quantiser leaves, in proportion to those of 60."""
    finer = max(0.0, LOG_BITS_OF_CRF[0][0] - crf)
    return float(np.interp(crf, *LOG_BITS_OF_CRF)) + CRF_SLOPE * finer


def crf_of_log_bits(log_bits: float) -> float:
    """The quantiser that leaves them."""
    crfs, bits = LOG_BITS_OF_CRF
    beyond = max(0.0, log_bits - bits[0])
    return float(np.interp(-log_bits, [-one for one in bits], crfs)) - beyond / CRF_SLOPE


MODEL_LEAST_ERROR = 0.003
"""Least error of drawing frames between coded pictures, beside the error between sources."""
MODEL_BITS = Prior(
    (-4.346, 0.694, 0.925, 1.127, 0.02, 0.02, -0.007, 0.009, 0.145),
    (0.642, 0.086, 0.089, 0.127, 0.032, 0.058, 0.051, 0.046, 0.13),
    0.067,
)
MODEL_DISTORTION = Prior(
    (-0.229, -0.175, -0.185, -0.072, 0.073, -0.031, 0.3, 0.019, 0.097, 0.138),
    (0.452, 0.12, 0.125, 0.078, 0.061, 0.081, 0.182, 0.035, 0.058, 0.077),
    0.087,
)
"""Logarithms per pixel; the order is that of `PlanFeatures`."""
PLANS_APART = 0.2, 0.2, 0.1
"""Distances in count of pictures, quantiser, size, as logarithms: of nearer plans one is tried."""

# Rate.

CRF_SLOPE = 0.055
"""By how much the logarithm of the bits falls with one crf ("The search leaps": 0.06)."""
EASIER = 0.7
"""Factor applied to a raised lambda when the next group starts. By hand."""
DISTORTION_OF_BITS = 0.6
"""By how much the logarithm of the distortion falls with that of coded pictures' bits: .35 to .8 on
talking heads."""
USUAL_JUMP, FREE_JUMP = 10.0, 40.0
"""Low delay: by how much the quantiser may move from group to group, and where another rate was
asked for. By hand."""

# Scene cuts: all by hand.

LEAST_CUT, CUT_RATIO, SURE_CUT = 12.0, 2.5, 30.0
"""Mean difference of luma of thumbnails, 0-255: least at a cut, in proportion to what is usual, and
where the histogram need not change."""
LEAST_SPREAD = 8.0
"""Mean difference of sorted luma of thumbnails at a cut, else."""

# Layers of the scaffold.

CAMERA_TOLERANCE = 0.75
"""Mean error of the camera's path at the corners of the picture, in units of motion, up to which
nodes may lie apart ("The camera's path")."""
CORRECTION_LMBDA = 2.0
"""What a bit of correction must save at its anchor, in units of lambda: corrections fade towards
their neighbours, so half of it is saved on average."""
CORRECTION_LEAST_BITS = 80.0
"""Bits that all that a rendering lacks must be worth before corrections, which win back a part of
it, are tried ("The camera's path")."""

# Texture and pre-emphasis.

TEXTURE_LMBDA = 6.0
"""What a bit of texture gain must save, in units of lambda: a coded picture's gain reaches the
frames drawn from it only in part."""
EMPHASIS_BAND = 0.7, 3.0
"""Standard deviations, in pixels, of the Gaussians around the detail that pre-emphasis raises:
finer detail is not worth its bits ("Pre-emphasis")."""
EMPHASIS_SHARE, EMPHASIS_MOST = 0.8, 1.0
"""Share of the lacking detail that is raised; the most that detail is raised by
("Pre-emphasis")."""
EMPHASIS_CRFS = 62.0, 70.0
"""Quantiser from which less is raised, and at which nothing is: there the decoder's texture gains
are cheaper ("Pre-emphasis")."""


DETECT, KEY_POINTS, MOTION = TASKS = "detect", "people", "motion"
"""Boxes of everything; of people, with key points; of what moves, with activity and camera."""
