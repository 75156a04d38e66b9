"""Samples as files, and back. Any reader of WebDataset shards can read them.

Of a sample KEY: `KEY.json`, what is known of it and its small arrays; `KEY.NAME.png`, a stack of
pictures one above the other, without loss; `KEY.flow.npy`.
"""

import io
import json
from collections.abc import Mapping

import cv2
import numpy as np
from numpy.typing import NDArray

from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.training.packing.kinds import Arrays, Sample, Stacks
from gsvc.decoders.training.preparation.items import Members

DRAWN, FEATURES = "drawn.png", "features.npy"
"""Files of what frozen networks made."""
_SEEN = "drawn", "features"
_SPEED = [cv2.IMWRITE_PNG_COMPRESSION, 3]
_SINGLE = "gain", "confidence"
"""Stacks of one channel."""
_ARRAYS = {"scalars": np.float16, "layer": np.uint8, "frames": np.int32, "gap": np.uint8}
_ARRAYS |= {"time": np.float16}
"""Arrays of samples and their types; JSON holds the values exactly."""


def sample_members(sample: Sample, facts: Mapping[str, object]) -> Members:
    """The files of a sample, but for what networks saw in it: that has files of its own."""
    stacks = {name: stack for name, stack in sample.stacks.items() if name not in _SEEN}
    rows = {name: array for name, array in sample.arrays.items() if name not in _SEEN}
    members = {f"{name}.png": picture_bytes(stack) for name, stack in stacks.items()}
    arrays = {name: array.astype(np.float64).tolist() for name, array in rows.items()}
    text = json.dumps({**facts, "stacks": list(stacks), "arrays": arrays}, sort_keys=True)
    return members | {"json": text.encode()}


def sample_of(members: Mapping[str, bytes]) -> Sample:
    """The sample that has these files. Raises InputError where they are damaged."""
    try:
        facts = json.loads(members["json"])
        stacks = {name: _pictures(members[f"{name}.png"], name) for name in facts["stacks"]}
        arrays = {n: np.array(value, _ARRAYS[n]) for n, value in facts["arrays"].items()}
        seen_stacks, seen_arrays = seen_by_networks(members)
    except (KeyError, ValueError, TypeError, cv2.error) as error:
        raise InputError(f"a sample of the shards is damaged ({error})") from error
    place, frames = tuple(facts["place"]), tuple(facts["frames"])
    return Sample({**stacks, **seen_stacks}, {**arrays, **seen_arrays}, place, frames)


def seen_by_networks(members: Mapping[str, bytes]) -> tuple[Stacks, Arrays]:
    """What frozen networks made of a sample: the stack `drawn`, two pictures for each that was
    decoded, and the array `features`, where they are among its files.

    Raises ValueError where they are damaged.
    """
    stacks: Stacks = {}
    arrays: Arrays = {}
    if DRAWN in members:
        stacks["drawn"] = _pictures(members[DRAWN], "drawn")
    if FEATURES in members:
        arrays["features"] = np.load(io.BytesIO(members[FEATURES]), allow_pickle=False)
    return stacks, arrays


def picture_bytes(stack: NDArray[np.uint8]) -> bytes:
    """Pictures, uint8 (n, H, W, C), C 1 or 3 (RGB), as one PNG."""
    column = stack.reshape(-1, *stack.shape[2:])
    if column.shape[-1] == 3:
        column = np.asarray(cv2.cvtColor(column, cv2.COLOR_RGB2BGR), np.uint8)
    return cv2.imencode(".png", column, _SPEED)[1].tobytes()


def _pictures(data: bytes, name: str) -> NDArray[np.uint8]:
    """Of `picture_bytes`; pictures are square."""
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if found is None:
        raise ValueError("no picture")
    column = found[..., None] if name in _SINGLE else cv2.cvtColor(found, cv2.COLOR_BGR2RGB)
    side = column.shape[1]
    return np.asarray(column, np.uint8).reshape(-1, side, side, column.shape[2])


def array_bytes(array: NDArray[np.generic]) -> bytes:
    """An array as a .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
