"""Files of rules and of homographies as a stranger may send them, bent."""

import json
import random
import re

import numpy as np

from fuzz_bytes import any_bytes, bend
from gsvc import ConfigError, FrameAnalysis
from gsvc.codec.command.analyse import parse_homographies
from gsvc.decoders.detection.findings import TrackedObject
from gsvc.decoders.detection.rules import (
    RuleWatcher,
    Watcher,
    check_names,
    check_regions,
    check_rules,
    parse_file,
)
from gsvc.decoders.detection.tracker import standing

_RULES = b"""# at the door
zone door = 300,150,768,150,768,450
line gate = 400,150,600,400
long visit: person in door > 5 s
crowd: count person in "door" >= 3 and activity > 0.1
"""
_MAPS = [
    json.dumps({"C1": [[20.5, 3, 40], [0, -7.25, 200], [0, 0.01, 1]]}, indent=1).encode(),
    b"[[[[9, 0, 0], [0, 9.5, 0], [0, 0, 1]]], [[1e3, 0, 5],\\n [0, 3, 1], [0, 0, 1]]]",
]
_WORDS = (
    *("zone", "line", "person", "in", "count", "activity", "and", ">", "<", ">=", "s", "door", "="),
    *(":", ",", "1", "-2.5", "1e300", "nan", "#", '"', "0", "1,2,3,4", "1,2,3,4,5,6"),
)
_JSON = "0", "-7", "1e30", "1e999", "NaN", "true", "null", '"a"', "[", "]", "[[]]", "{}", ",", "\n"
_PLACE = re.compile(r"file:\d+:\d+: ")
_THING = TrackedObject("person", 1, np.array([310.0, 160.0, 420.0, 300.0]), 0.5)


def make_rules(rng: random.Random) -> bytes:
    """The file above, bent, or words of it in any order."""
    if rng.random() < 0.5:
        return bend(rng, _RULES)
    rows = (" ".join(rng.choices(_WORDS, k=rng.randrange(9))) for _ in range(rng.randint(1, 4)))
    return "\n".join(rows).encode()


def check_rules_file(data: bytes) -> None:
    """What is read can be watched; what is not says line and column."""
    try:
        lines, zones, rules = parse_file(data.decode("utf-8", "replace"), "file")
    except ConfigError as error:
        assert _PLACE.match(str(error)) or "no rule, line or zone" in str(error), error
        raise
    check_names(lines, zones)
    check_regions(lines, zones, (768, 576))
    check_rules(rules, [zone.name for zone in zones])
    watcher, watched = Watcher(lines, zones, 576), RuleWatcher(rules)
    for number in range(3):
        frame = FrameAnalysis(number, 4.0 * number, (_THING,), activity=0.5 * (number % 2))
        watcher.events(frame)
        watched.events(frame, watcher.visits())
    watcher.finish()
    watched.finish()


def make_homographies(rng: random.Random) -> bytes:
    """Files of one and of two cameras, with other words in places, or bent, or anything."""
    given = rng.choice(_MAPS)
    if rng.random() < 0.5:
        return bend(rng, given) if rng.random() < 0.9 else any_bytes(rng)
    words = re.findall(r"[^\s\[\]{},:]+|.", given.decode(), re.DOTALL)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(words))
        words[at] = rng.choice([*_JSON, rng.choice(words)])
    return "".join(words).encode()


def check_homographies(data: bytes) -> None:
    """What is read tells where things stand."""
    maps = parse_homographies(data.decode("utf-8", "replace"), "file")
    for one in maps:
        matrices = np.array(one, np.float64).reshape(-1, 3, 3)
        standing(_THING, matrices[0], 576)
