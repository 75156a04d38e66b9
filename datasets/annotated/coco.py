"""Annotations in COCO's JSON: images, categories and boxes.

Format: T.-Y. Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014;
https://cocodataset.org/#format-data.
"""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gsvc.codec.bitstream.errors import InputError
from gsvc.datasets.annotated.truth import NO_ID, AnnotatedClip, Boxes, make_boxes, read_json

_RATE = Fraction(25)
"""Frames per second, which the format does not state."""
_TRACK = "track_id"
"""Not COCO's own; sets of video have it."""


def read_coco(path: str | Path, images: str | Path | None = None) -> AnnotatedClip:
    """The images of a file as a clip, in the file's order, at 25 frames per second.

    `images`: the folder that the file names are in (None: the annotation file's own). Crowds are
    ignored. A box without `track_id` has no id. Raises InputError that names what is wrong.
    """
    path = Path(path)
    folder = path.parent if images is None else Path(images)
    content = read_json(path)
    try:
        names, order = _tables(content)
        rows = [_row(f"annotations[{n}]", one) for n, one in enumerate(content["annotations"])]
        truth = _truth(rows, names, order)
        files = tuple(folder / one["file_name"] for one in content["images"])
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path}: {error} is missing or wrong: COCO's format has images (id, file_name), "
            "categories (id, name) and annotations (image_id, category_id, bbox of four numbers)"
        ) from error
    if not files:
        raise InputError(f"{path}: lists no images: give annotations of some")
    return AnnotatedClip(path.stem, files, _RATE, truth)


def _truth(
    rows: list[Mapping[str, Any]], names: Mapping[int, str], order: Mapping[int, int]
) -> Boxes:
    corners = np.array([one["bbox"] for one in rows], np.float64).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    return make_boxes(
        [order[one["image_id"]] for one in rows],
        corners,
        label=[names[one["category_id"]] for one in rows],
        id=[int(one.get(_TRACK, NO_ID)) for one in rows],
        ignored=[bool(one.get("iscrowd")) for one in rows],
    )


def _tables(content: Mapping[str, Any]) -> tuple[dict[int, str], dict[int, int]]:
    """Names of categories by their id, and frames by the image's id."""
    names = {one["id"]: str(one["name"]) for one in content["categories"]}
    return names, {one["id"]: frame for frame, one in enumerate(content["images"])}


def _row(place: str, one: Mapping[str, Any]) -> Mapping[str, Any]:
    box = np.asarray(one["bbox"], np.float64)
    if box.shape != (4,) or not np.isfinite(box).all() or min(box[2:]) < 0:
        raise ValueError(f"{place}.bbox {one['bbox']}")
    return one
