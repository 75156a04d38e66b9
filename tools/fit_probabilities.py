"""Fits the probabilities that entropy coding begins with: codec/bitstream/fitted.json.

`python tools/fit_probabilities.py STREAM...`, of development clips at many rates, with and without
look-ahead (the table's were 216: 27 clips, 160 frames; levels 0 to 3; --bitrate 2k and 6k at 192
lines with preset fast; --low-delay at 4k and 12k). All streams coded so far depend on the table: it
may change only with another flag of the header. The first 8 bits of a model count, each time that
it begins anew. `--leave-out` tells what the table saves on clips that it does not know; a clip is
what a name has from its first underscore on.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsvc.codec.bitstream import entropy_coding
from gsvc.codec.bitstream.container import PacketType, StreamReader
from gsvc.codec.bitstream.entropy_coding import Coder, Element, Writer, fitted_probabilities
from gsvc.codec.bitstream.group import GroupReader, GroupWriter

TABLE = Path(entropy_coding.__file__).with_name("fitted.json")
Key = tuple[str, int, str, int]
_FIRST, _LEAST = 8, 12
"""Bits of a model that count, and fewest that fit a probability."""


class Counts:
    """Ones and bits of each model, of what `Writer` codes while this is in use."""

    def __init__(self) -> None:
        self.ones, self.bits = Counter[Key](), Counter[Key]()
        self._seen = defaultdict[Coder, Counter[Key]](Counter)
        modelled, forget = Coder._modelled, Coder.forget

        def counted(coder: Coder, element: Element, key: Key, bit: int | None) -> int:
            coded = modelled(coder, element, key, bit)
            if isinstance(coder, Writer) and self._seen[coder][key] < _FIRST:
                self._seen[coder][key] += 1
                self.ones[key] += coded
                self.bits[key] += 1
            return coded

        def forgotten(coder: Coder, elements: Container[str]) -> None:
            for key in [key for key in self._seen[coder] if key[0] in elements]:
                del self._seen[coder][key]
            forget(coder, elements)

        for name, own in {"_modelled": counted, "forget": forgotten}.items():
            setattr(Coder, name, own)

    def take(self) -> tuple[Counter[Key], Counter[Key]]:
        """What was counted since the last call."""
        taken = self.ones, self.bits
        self.ones, self.bits = Counter(), Counter()
        self._seen.clear()
        return taken


def coded_again(path: Path) -> tuple[int, int]:
    """Bytes of a stream's picture packets: as they are, and with the table in use."""
    before = after = 0
    with path.open("rb") as file:
        reader = StreamReader(file)
        groups, writers = GroupReader(reader.header), dict[int, GroupWriter]()
        header = replace(reader.header, fitted=True)
        for packet in reader:
            if packet.is_picture:
                parsed = groups.read(packet)
                if parsed.begins:
                    writers[parsed.slot] = GroupWriter(header, parsed.coding)
                slot = parsed.slot if packet.type == PacketType.SHOT else None
                payload = writers[parsed.slot].write(parsed.intervals, parsed.units, slot)
                before, after = before + len(packet.payload), after + len(payload)
    return before, after


def table_of(counts: Sequence[tuple[Counter[Key], Counter[Key]]]) -> dict[Key, int]:
    """Probabilities of a 1, in 1/256."""
    ones, bits = (sum(part, Counter[Key]()) for part in zip(*counts, strict=True))
    return {
        key: min(255, max(1, round(256 * (ones[key] + 0.4) / (count + 0.8))))
        for key, count in sorted(bits.items())
        if count >= _LEAST
    }


def write_table(table: Mapping[Key, int]) -> None:
    rows = defaultdict[str, list[Any]](list)
    for (name, *key), probability in table.items():
        rows[name].append([*key, probability])
    lines = (
        f"{json.dumps(name)}: {json.dumps(rows[name], separators=(',', ':'))}" for name in rows
    )
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def use(table: dict[Key, int]) -> None:
    setattr(entropy_coding, fitted_probabilities.__name__, lambda: table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("streams", nargs="+", type=Path)
    parser.add_argument("--leave-out", action="store_true", help="measure, and write no table")
    given = parser.parse_args()
    use({})
    counts, clips = Counts(), defaultdict[str, list[Any]](list)
    for path in given.streams:
        coded_again(path)
        clips[path.stem.partition("_")[2]].append((path, counts.take()))
    everything = [pair for clip in clips.values() for _, pair in clip]
    if not given.leave_out:
        write_table(table_of(everything))
        return
    sizes = defaultdict[str, list[tuple[int, int]]](list)
    for own in clips.values():
        use(table_of([pair for clip in clips.values() if clip is not own for _, pair in clip]))
        for path, _ in own:
            sizes[path.stem.partition("_")[0]].append(coded_again(path))
    for kind, pairs in sorted(sizes.items()):
        before, after = map(sum, zip(*pairs, strict=True))
        print(f"{kind:12} {before} -> {after} bytes, {100 * (after / before - 1):+.1f} %")


if __name__ == "__main__":
    main()
