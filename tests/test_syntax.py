"""Elements of the syntax: written, read, counted and printed by one table."""

import random
from pathlib import Path

import pytest

from gsvc.codec.errors import BitstreamError, ConfigError
from gsvc.codec.scaffold.coder import ELEMENTS, FLAG, LAYERS, SIGNED, Coder, Reader, Writer


def random_symbols(seed: int, count: int) -> list[tuple[str, int, int]]:
    source = random.Random(seed)
    symbols = []
    for _ in range(count):
        name = source.choice(list(ELEMENTS))
        element = ELEMENTS[name]
        top = min(element.maximum, 2 ** source.randint(0, 31))
        value = source.randint(0, top)
        if element.kind == SIGNED and source.random() < 0.5:
            value = -value
        symbols.append((name, value, source.randrange(element.contexts)))
    return symbols


@pytest.mark.parametrize("seed", range(20))
def test_symbols_come_back_and_cost_what_was_counted(seed: int) -> None:
    symbols = random_symbols(seed, 400)
    writer, counter, reader = Writer(), Coder(), Reader()
    for name, value, context in symbols:
        assert writer.code(name, value, context) == value
        counter.code(name, value, context)
    data = writer.finish()
    reader.start(data)
    assert [reader.code(name, None, context) for name, _, context in symbols] == [
        value for _, value, _ in symbols
    ]
    assert dict(writer.bits) == dict(counter.bits) == dict(reader.bits)
    assert -2 <= len(data) - sum(counter.bits.values()) / 8 <= 1.5


def test_models_outlive_a_run_of_bytes() -> None:
    symbols = random_symbols(3, 300)
    writer, reader = Writer(), Reader()
    for part in (symbols[:100], symbols[100:200], symbols[200:]):
        for symbol in part:
            writer.code(*symbol)
        reader.start(writer.finish())
        for name, value, context in part:
            assert reader.code(name, None, context) == value


def test_extremes_come_back() -> None:
    writer, reader = Writer(), Reader()
    extremes = [
        (name, value)
        for name, element in ELEMENTS.items()
        for value in (0, element.maximum, -element.maximum if element.kind == SIGNED else 0)
    ]
    for name, value in extremes:
        writer.code(name, value)
    reader.start(writer.finish())
    assert [(name, reader.code(name)) for name, _ in extremes] == extremes


@pytest.mark.parametrize("name", [n for n, e in ELEMENTS.items() if e.kind != FLAG])
def test_values_beyond_the_maximum_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Writer().code(name, ELEMENTS[name].maximum + 1)


@pytest.mark.parametrize("name", list(ELEMENTS))
def test_any_bytes_give_a_value_in_range_or_a_stream_error(name: str) -> None:
    source = random.Random(name)
    for _ in range(40):
        reader = Reader()
        reader.start(source.randbytes(24))
        try:
            for _ in range(8):
                value = reader.code(name)
                assert abs(value) <= ELEMENTS[name].maximum
        except BitstreamError:
            pass


def test_trace_shows_every_element() -> None:
    writer = Writer()
    writer.code("flow.block", 2)
    writer.code("flow.vector", -7, 1)
    seen: list[tuple[str, int]] = []
    reader = Reader(lambda name, value: seen.append((name, value)))
    reader.start(writer.finish())
    reader.code("flow.block")
    reader.code("flow.vector", None, 1)
    assert seen == [("flow.block", 2), ("flow.vector", -7)]


def test_every_element_has_a_layer_of_the_ledger() -> None:
    assert {element.layer for element in ELEMENTS.values()} <= set(LAYERS)


def test_the_format_lists_every_element() -> None:
    rows = [
        f"| `{name}` | {e.kind} | {e.maximum} | {e.contexts} | {e.layer} |"
        for name, e in ELEMENTS.items()
    ]
    page = Path(__file__).resolve().parent.parent / "docs" / "format.md"
    assert "\n".join(rows) in page.read_text()
