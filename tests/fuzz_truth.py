"""Files of truth as a stranger may send them: MOT, COCO and Wildtrack, bent."""

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from fuzz_bytes import bend
from gsvc.datasets.annotated.coco import read_coco
from gsvc.datasets.annotated.mot import read_mot
from gsvc.datasets.annotated.wildtrack import read_wildtrack

_MOT = b"1,7,11,21,30,40,1,1,0.5\n2,8,1,1,5,5,0,7,1\n"
_INFO = b"[Sequence]\nname=a\nimDir=img1\nframeRate=30\nseqLength=2\nimExt=.png\n"
_BOX = {"id": 1, "image_id": 4, "category_id": 3, "bbox": [1, 2, 30, 40], "track_id": 5}
_COCO = {
    "images": [{"id": 4, "file_name": "a.png"}],
    "categories": [{"id": 3, "name": "dog"}],
    "annotations": [_BOX],
}
_VIEW = {"viewNum": 1, "xmin": 10, "ymin": 20, "xmax": 30, "ymax": 90}
_WILDTRACK = [{"personID": 5, "positionID": 1000, "views": [_VIEW]}]

_FILES: tuple[tuple[Callable[[Path], object], str, bytes], ...] = (
    (read_mot, "gt/gt.txt", _MOT),
    (read_mot, "seqinfo.ini", _INFO),
    (lambda folder: read_coco(folder / "coco.json"), "coco.json", json.dumps(_COCO).encode()),
    (read_wildtrack, "annotations_positions/0.json", json.dumps(_WILDTRACK).encode()),
)


def make_truth(rng: random.Random) -> bytes:
    """Which file, as a byte, and its bent content."""
    which = rng.randrange(len(_FILES))
    return bytes([which]) + bend(rng, _FILES[which][2])


def check_truth(data: bytes) -> None:
    which, content = data[0] % len(_FILES) if data else 0, data[1:]
    read, bent, _ = _FILES[which]
    with tempfile.TemporaryDirectory() as name:
        for _, path, valid in _FILES:
            target = Path(name) / path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content if path == bent else valid)
        read(Path(name))
