"""What an encoder is made of, by its settings."""

import logging
from math import inf

from gsvc.codec.encoder_settings import EncoderSettings
from gsvc.codec.errors import MissingDependencyError, MissingModelError
from gsvc.codec.frames import VideoFormat
from gsvc.codec.scaffold.layers.pose import POSE
from gsvc.codec.scaffold.layers.segmentation import SEGMENTATION
from gsvc.codec.scaffold.tools import Tools
from gsvc.codec.stream.header import Header
from gsvc.decoders.people.body_pose import PoseEstimator
from gsvc.encoders.events_only import EventsOnly
from gsvc.encoders.group_coder import GroupCoder, Recipe
from gsvc.encoders.look_ahead import LookAhead
from gsvc.encoders.low_delay import LowDelay
from gsvc.encoders.no_pictures import NoPictures
from gsvc.encoders.objects.coder import ObjectCoder
from gsvc.encoders.objects.tasks import object_coder
from gsvc.encoders.people.person_mask import PersonSegmenter
from gsvc.encoders.pictures import check_size
from gsvc.encoders.tuning import LEVELS, PRESETS, TUNES

_log = logging.getLogger(__name__)


def group_coder(settings: EncoderSettings, recipe: Recipe) -> GroupCoder:
    """What codes its pictures."""
    if settings.task is not None:
        return NoPictures()
    coder: GroupCoder = LowDelay(recipe) if settings.low_delay else LookAhead(recipe)
    if settings.events_only:
        return EventsOnly(coder, recipe.header, recipe.longest_interval, settings.pre_roll)
    return coder


def objects_of(settings: EncoderSettings, header: Header) -> ObjectCoder | None:
    """What codes its objects; None where it sends none."""
    if not settings.objects and settings.task is None:
        return None
    return object_coder(header, settings.task, settings.detector, low_delay=settings.low_delay)


def header_of(settings: EncoderSettings, video: VideoFormat, *, audio: bool) -> Header:
    """Of its stream. Raises InputError for pictures that are too large or too small."""
    check_size(video.width, video.height)
    return Header(
        format=video,
        level=settings.chosen_level(video),
        tools=_tools(settings),
        audio=audio,
        seed=settings.seed,
        model_id=settings.named_model(),
    )


def _tools(settings: EncoderSettings) -> Tools:
    """The layers: of people, which only the preset asks for, those whose models are here."""
    tools = settings.chosen_tools()
    if settings.tools is not None or settings.semantics:
        return tools
    for layer, finder in ((SEGMENTATION, PersonSegmenter), (POSE, PoseEstimator)):
        if layer.name in tools:
            try:
                finder()
            except (MissingModelError, MissingDependencyError) as cause:
                _log.warning("%s is not tried: %s", layer.name, cause)
                tools = tools.without(layer.name)
    return tools


def recipe_of(settings: EncoderSettings, header: Header) -> Recipe:
    """How its groups are coded."""
    video = header.format
    level = LEVELS[header.level].suited_to(video.width * video.height, float(video.frame_rate))
    target = settings.target_bpp(video)
    limit = level.most_bpp if settings.quality is None else inf
    return Recipe(
        header=header,
        level=level,
        effort=PRESETS[settings.preset],
        bpp=limit if target is None else target,
        exact=target is not None,
        tune=TUNES[settings.tune],
        people=settings.people,
        faces=settings.faces,
        semantics=settings.semantics,
        quality=settings.quality,
        lean=settings.lean,
        max_bitrate=settings.max_bitrate,
        packet_bytes=settings.max_packet_bytes,
    )
