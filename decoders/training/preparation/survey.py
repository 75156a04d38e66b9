"""The survey of all sources: group by group, so that it goes on where it was stopped."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gsvc.codec.bitstream.errors import InputError
from gsvc.decoders.training.preparation.clips import Clip
from gsvc.decoders.training.preparation.engine import Engine
from gsvc.decoders.training.preparation.items import Item, SourceItem
from gsvc.decoders.training.preparation.operators import Survey
from gsvc.decoders.training.preparation.selection import Found
from gsvc.decoders.training.preparation.settings import Settings
from gsvc.decoders.training.preparation.shards import Folder, costs_of, write_json

GROUP = 8
"""Sources whose findings are one file."""


@dataclass(frozen=True)
class WriteSurvey:
    """Writes what was found in a group of sources."""

    folder: Folder

    def __call__(self, items: Sequence[Item]) -> None:
        """`items`: those of one group, in order."""
        sources = [item for item in items if isinstance(item, SourceItem)]
        number = sources[0].number // GROUP
        rows = [
            {
                "address": item.address,
                "sha256": item.sha256,
                "bytes": item.bytes,
                "error": item.error,
                "found": [] if item.error else [asdict(each) for each in item.found],
            }
            for item in sources
        ]
        write_json(self.folder.costs("survey", number), costs_of(items))
        write_json(self.folder.surveyed(number), rows)


def survey(sources: Sequence[str], settings: Settings, folder: Folder, engine: Engine) -> None:
    """Survey those groups of sources that have not been."""
    missing = [
        SourceItem(number, address=address)
        for number, address in enumerate(sources)
        if not folder.surveyed(number // GROUP).exists()
    ]
    if missing:
        engine.run(missing, [Survey(settings)], WriteSurvey(folder), GROUP)


def survey_rows(sources: Sequence[str], folder: Folder) -> Iterator[dict[str, Any]]:
    """What was found in each source; `found` has objects. Raises InputError for a damaged file."""
    for number in range(-(-len(sources) // GROUP)):
        path = folder.surveyed(number)
        try:
            rows = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged: remove it, and it is made again") from error
        for row in rows:
            yield {**row, "found": [_found(one, row) for one in row["found"]]}


def _found(found: dict[str, Any], row: dict[str, Any]) -> Found:
    """`row`: of the source; its clips share the strings."""
    same = {"address": row["address"], "sha256": row["sha256"]}
    return Found(Clip(**{**found["clip"], **same}), found["measures"], found["hash"])
