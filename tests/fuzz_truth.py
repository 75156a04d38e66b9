"""Files of truth as a stranger may send them, bent: MOT, COCO, Wildtrack, VisDrone, VATIC's."""

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from fuzz_bytes import bend
from gsvc.datasets.annotated.annotation_formats import (
    read_coco,
    read_mot,
    read_vatic,
    read_visdrone,
    read_wildtrack,
)

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
_VISDRONE = b"1,7,4,6,10,20,1,1,0,2\n1,0,0,0,30,30,0,0,0,0\n"
_VATIC = b'3 10 20 30 60 1 0 1 0 "PERSON"\n3 12 20 32 60 2 1 0 1 "PERSON"\n'

_FILES: tuple[tuple[Callable[[Path], object], str, bytes], ...] = (
    (read_mot, "gt/gt.txt", _MOT),
    (read_mot, "seqinfo.ini", _INFO),
    (lambda folder: read_coco(folder / "coco.json"), "coco.json", json.dumps(_COCO).encode()),
    (read_wildtrack, "annotations_positions/0.json", json.dumps(_WILDTRACK).encode()),
    (lambda root: read_visdrone(root / "sequences" / "a"), "annotations/a.txt", _VISDRONE),
    (lambda root: read_vatic(root / "c0.txt"), "c0.txt", _VATIC),
)
_BESIDE = {"annotations/a.txt": ["sequences/a/1.jpg"], "c0.txt": ["c0.avi"]}
"""Pictures and videos, of which readers of truth want only that they are there."""


def make_truth(rng: random.Random) -> bytes:
    """Which file, as a byte, and its bent content."""
    which = rng.randrange(len(_FILES))
    return bytes([which]) + bend(rng, _FILES[which][2])


def check_truth(data: bytes) -> None:
    which, content = data[0] % len(_FILES) if data else 0, data[1:]
    read, bent, _ = _FILES[which]
    with tempfile.TemporaryDirectory() as name:
        for path in _BESIDE.get(bent, ()):
            (Path(name) / path).parent.mkdir(exist_ok=True, parents=True)
            (Path(name) / path).touch()
        for other, path, valid in _FILES:
            if other is read:
                target = Path(name) / path
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(content if path == bent else valid)
        read(Path(name))
