"""Tensors in files and on devices.

Files have the safetensors format, for machines that lack its package. See
https://huggingface.co/docs/safetensors: the length of a JSON header (8 bytes, little endian), the
header (type, shape and place of each tensor), then the values.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gsvc.codec.bitstream.errors import InputError

AVERAGE, RUN = "average.safetensors", "run"
"""The result of a run in its folder, and the metadata that says what it is."""

_TYPES = {
    "U8": torch.uint8,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_ALIGNED = 8
_LONGEST_HEADER = 100_000_000


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], most_bytes: int
) -> None:
    """Write a file whole or not at all.

    Types are uint8, int32, int64, float16, bfloat16 and float32. Raises ValueError where the file
    would be larger than `most_bytes`.
    """
    data = tensor_bytes(tensors, metadata)
    if len(data) > most_bytes:
        raise ValueError(f"{path.name} would have {len(data)} bytes: {most_bytes} are permitted")
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Tensors as the bytes of a file; types as of `write_tensors`."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    parts, place = [], 0
    # Larger types first, so that each tensor lies where its type may lie.
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        end = place + len(data)
        shape, kind = list(tensor.shape), _NAMES[tensor.dtype]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [place, end]}
        parts.append(data)
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return b"".join([len(text).to_bytes(_ALIGNED, "little"), text, *parts])


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file by name, and its metadata. Raises ValueError for a damaged file."""
    return tensors_of(bytearray(path.read_bytes()), str(path))


def tensors_of(data: bytearray, place: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """As `read_tensors`, of a file's bytes. `place`: where they are from, for errors."""
    length = int.from_bytes(data[:_ALIGNED], "little")
    start = _ALIGNED + length
    if length > _LONGEST_HEADER or start > len(data):
        raise ValueError(f"{place} is cut off or not a file of tensors")
    try:
        header = json.loads(data[_ALIGNED:start])
        metadata = header.pop("__metadata__", {})
        return {name: _tensor(data, start, entry) for name, entry in header.items()}, metadata
    except (AttributeError, KeyError, TypeError, RuntimeError, ValueError) as error:
        raise ValueError(f"{place} is damaged ({error})") from error


def _tensor(data: bytearray, start: int, entry: Mapping[str, list[int]]) -> Tensor:
    kind, (first, end) = _TYPES[str(entry["dtype"])], entry["data_offsets"]
    if first == end:
        return torch.zeros(entry["shape"], dtype=kind)
    count = (end - first) // torch.empty((), dtype=kind).element_size()
    found = torch.frombuffer(data, dtype=torch.uint8, count=end - first, offset=start + first)
    # A copy: the bytes in the file need not lie where the type may lie.
    return found.clone().view(kind)[:count].view(entry["shape"])


def read_average(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights, float32, and what is known of the run that wrote them: step, recipe and so on.

    Raises InputError for a file that is missing, damaged or no run's.
    """
    try:
        tensors, metadata = read_tensors(path)
        run: dict[str, Any] = json.loads(metadata[RUN])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not the result of a training run ({error})") from error
    return {name: value.float() for name, value in tensors.items()}, run


_Placed = TypeVar("_Placed", bound=nn.Module)


def on_device(network: _Placed, device: torch.device) -> _Placed:
    """The network there, channels last in memory: convolutions are faster so."""
    return network.to(device).to(memory_format=torch.channels_last)
