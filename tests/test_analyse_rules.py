"""Rules of users: what they mean, what is wrong with them, and where their events go."""

import json
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import gsvc
from gsvc import ConfigError, FrameAnalysis
from gsvc.codec.command.main import main
from gsvc.decoders.detection.findings import TrackedObject
from gsvc.decoders.detection.rules import (
    Activity,
    Count,
    Inside,
    RuleWatcher,
    Visit,
    Watcher,
    check_rules,
    parse_file,
)


def frame(second: float, people: int = 0, activity: float | None = None) -> FrameAnalysis:
    box = np.array([0.0, 0.0, 8.0, 8.0])
    objects = tuple(TrackedObject("person", n + 1, box, 1.0) for n in range(people))
    return FrameAnalysis(round(second), second, objects, activity=activity)


def told(rule: str, frames: Sequence[tuple[FrameAnalysis, list[Visit]]]) -> list[tuple[str, float]]:
    watcher = RuleWatcher((gsvc.parse_rule(rule),))
    events = [event for one, visits in frames for event in watcher.events(one, visits)]
    return [(event.kind, event.seconds) for event in [*events, *watcher.finish()]]


def test_words_become_conditions() -> None:
    rule = gsvc.parse_rule('a crowd: count person in "zone 1" >= 3 and activity < .5')
    assert rule.name == "a crowd"
    assert rule.conditions == (Count("person", "zone 1", ">=", 3.0), Activity("<", 0.5))
    assert gsvc.parse_rule("anything in door > 2.5 s").conditions == (
        Inside("anything", "door", 2.5),
    )


def test_an_event_lasts_while_its_rule_holds() -> None:
    visits = [(frame(second), [Visit("door", "person", second - 2)]) for second in range(2, 9)]
    gone: list[tuple[FrameAnalysis, list[Visit]]] = [(frame(second), []) for second in (9, 10, 11)]
    rule = "person in door > 3 s"
    assert told(rule, [*visits, *gone]) == [("begin", 5), ("end", 8)]
    assert told(rule.replace("person", "car"), visits) == []


def test_a_short_gap_does_not_end_an_event() -> None:
    counts = [0, 2, 1, 2, 0, 0, 0, 2]
    frames: list[tuple[FrameAnalysis, list[Visit]]] = [
        (frame(second, people), []) for second, people in enumerate(counts)
    ]
    assert told("count person > 1", frames) == [("begin", 1), ("end", 3), ("begin", 7), ("end", 7)]


def test_without_motion_there_is_no_activity() -> None:
    frames: list[tuple[FrameAnalysis, list[Visit]]] = [(frame(0), []), (frame(1, activity=0.2), [])]
    assert told("activity > 0.1", frames) == [("begin", 1), ("end", 1)]


def test_a_file_has_regions_and_rules() -> None:
    text = (
        '# all\nzone my door = 1,2,3,4,5,0\n\nline l=0,0,5,5 # short\nvisit: person in "my door"\n'
    )
    found = parse_file(text, "rules.txt")
    assert found.zones == (gsvc.Zone("my door", ((1, 2), (3, 4), (5, 0))),)
    assert found.lines == (gsvc.Line("l", (0, 0), (5, 5)),)
    assert [rule.name for rule in found.rules] == ["visit"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zone a = 1,2,3,4", "r.txt:1:9: '1,2,3,4' is no zone"),
        ("\nline a = 1,2,x,4", "r.txt:2:9: '1,2,x,4': write points"),
        ("person at door", "r.txt:1:8: 'at' stands where in should"),
        ("long: person in door > 5", "r.txt:1:25: the end stands where s should"),
        ("count person", "r.txt:1:13: the end stands where one of > >= < <= should"),
        ("activity > lots", "r.txt:1:12: 'lots' stands where a number should"),
        ("person in door or car in door", "r.txt:1:16: 'or' stands where and should"),
        ("x:", "r.txt:1:3: the end stands where a class, anything, count or activity should"),
        ("# none\n", "r.txt: it has no rule, line or zone: write one"),
        ("\ta: person in (", "r.txt:1:15: '(' stands where a zone should"),
    ],
)
def test_errors_say_line_and_column(text: str, message: str) -> None:
    with pytest.raises(gsvc.ConfigError) as error:
        parse_file(text, "r.txt")
    assert str(error.value).startswith(message)


def test_the_command_takes_rules_and_makes_a_page(
    stream: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.txt"
    rules.write_text("zone all = 0,0,64,0,64,48,0,48\nquiet <&>: count anything < 99\n")
    analyse: Callable[..., int] = lambda *more: main(
        ["analyse", str(stream), "--detector", "moving", "--rules", str(rules), *more]
    )
    assert analyse() == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    mine = [(e["event"], e["frame"]) for e in events if e.get("name") == "quiet <&>"]
    assert mine == [("begin", 0), ("end", 19)]

    page, boxes = tmp_path / "page.html", tmp_path / "boxes.json"
    assert analyse("--format", "html", "-o", str(page)) == 0
    assert "quiet &lt;&amp;&gt;" in page.read_text() and "quiet <&>" not in page.read_text()
    assert analyse("--format", "coco", "-o", str(boxes)) == 0
    content = json.loads(boxes.read_text())
    assert len(content["images"]) == 20
    assert {one["image_id"] for one in content["annotations"]} <= set(range(20))

    assert analyse("--when", "person in cellar") == 2
    assert "there is no zone 'cellar' (there are: all)" in capsys.readouterr().err
    assert main(["analyse", str(stream), "--rules", str(tmp_path / "none.txt")]) != 0
    assert "none.txt: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "zone a = 0,0,9,0,9,9\n  late: person in b",
            "r.txt:2:3: rule 'late': there is no zone 'b'",
        ),
        ("x: activity > 1\nx: activity > 2", "r.txt:2:1: two rules are named 'x'"),
    ],
)
def test_rules_that_do_not_fit_say_line_and_column(text: str, message: str) -> None:
    _, zones, rules = parse_file(text, "r.txt")
    with pytest.raises(ConfigError, match=message):
        check_rules(rules, [zone.name for zone in zones])


def test_the_memory_of_lines_and_zones_does_not_grow() -> None:
    """Four thousand people pass within two hours; who is gone is forgotten."""
    line = gsvc.Line("gate", (50.0, 0.0), (50.0, 100.0))
    zone = gsvc.Zone("hall", ((0.0, 0.0), (100.0, 0.0), (100.0, 100.0), (0.0, 100.0)))
    watcher = Watcher((line,), (zone,), 100.0)
    held = []
    tracemalloc.start()
    for number in range(4000):
        for at in (20.0, 80.0):
            box = np.array([at, 40.0, at + 10, 60.0])
            one = TrackedObject("person", number, box, 1.0)
            watcher.events(FrameAnalysis(2 * number, 2.0 * number, (one,)))
        if number % 1000 == 999:
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert watcher.totals.objects == {"person": 4000}
    assert sum(watcher.totals.lines["gate"].values()) == 4000
    assert held[-1] < 1.5 * held[0] + 20_000
