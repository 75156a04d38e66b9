"""Elements of the syntax: written, read, counted and printed by one table."""

import random
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from gsvc import BitstreamError, ConfigError
from gsvc.codec.bitstream import coded_pictures, frame_heads, group, layers, objects, scaffold
from gsvc.codec.bitstream.entropy_coding import (
    FLAG,
    SIGNED,
    Coder,
    Element,
    Reader,
    Writer,
    fitted_probabilities,
)
from gsvc.codec.bitstream.stream_info import LEDGER


def elements_of(module: ModuleType) -> list[Element]:
    return [one for one in vars(module).values() if isinstance(one, Element)]


GROUP = elements_of(group)
LAYERS = [import_module(f"{layers.__name__}.{layer.name}") for layer in layers.ALL_LAYERS]
ELEMENTS = [
    *GROUP[:3],
    *(one for module in (scaffold, coded_pictures) for one in elements_of(module)),
    *frame_heads.HEAD_ELEMENTS,
    *GROUP[3:],
    *(one for module in (*LAYERS, objects) for one in elements_of(module)),
]
"""Every syntax element, in the order of docs/format.md."""


def random_symbols(seed: int, count: int) -> list[tuple[Element, int, int]]:
    source = random.Random(seed)
    symbols = []
    for _ in range(count):
        element = source.choice(ELEMENTS)
        top = min(element.maximum, 2 ** source.randint(0, 31))
        value = source.randint(0, top)
        if element.kind is SIGNED and source.random() < 0.5:
            value = -value
        symbols.append((element, value, source.randrange(element.contexts)))
    return symbols


@pytest.mark.parametrize("seed", range(20))
def test_symbols_come_back_and_cost_what_was_counted(seed: int) -> None:
    symbols = random_symbols(seed, 400)
    writer, counter, reader = Writer(), Coder(), Reader()
    for element, value, context in symbols:
        assert writer.code(element, value, context) == value
        counter.code(element, value, context)
    data = writer.finish()
    reader.start(data)
    assert [reader.code(element, None, context) for element, _, context in symbols] == [
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
        for element, value, context in part:
            assert reader.code(element, None, context) == value


def test_extremes_come_back() -> None:
    writer, reader = Writer(), Reader()
    extremes = [
        (element, value)
        for element in ELEMENTS
        for value in (0, element.maximum, -element.maximum if element.kind is SIGNED else 0)
    ]
    for element, value in extremes:
        writer.code(element, value)
    reader.start(writer.finish())
    assert [(element, reader.code(element)) for element, _ in extremes] == extremes


@pytest.mark.parametrize("element", [e for e in ELEMENTS if e.kind is not FLAG])
def test_values_beyond_the_maximum_are_refused(element: Element) -> None:
    with pytest.raises(ConfigError, match=element.name):
        Writer().code(element, element.maximum + 1)


@pytest.mark.parametrize("element", ELEMENTS)
def test_any_bytes_give_a_value_in_range_or_a_stream_error(element: Element) -> None:
    source = random.Random(element.name)
    for _ in range(40):
        reader = Reader()
        reader.start(source.randbytes(24))
        try:
            for _ in range(8):
                value = reader.code(element)
                assert abs(value) <= element.maximum
        except BitstreamError:
            pass


def test_every_fitted_probability_is_of_an_element() -> None:
    elements = {element.name: element for element in ELEMENTS}
    for (name, context, kind, _), probability in fitted_probabilities().items():
        assert context < elements[name].contexts and 0 < probability < 256
        assert (kind == "flag") == (elements[name].kind is FLAG)


def test_trace_shows_every_element() -> None:
    writer = Writer()
    _, block, *_, vector = elements_of(layers.flow)
    writer.code(block, 2)
    writer.code(vector, -7, 1)
    seen: list[tuple[str, int]] = []
    reader = Reader(lambda name, value: seen.append((name, value)))
    reader.start(writer.finish())
    reader.code(block)
    reader.code(vector, None, 1)
    assert seen == [("flow.block", 2), ("flow.vector", -7)]


def test_every_element_has_a_layer_of_the_ledger() -> None:
    assert {element.layer for element in ELEMENTS} <= set(LEDGER)


def test_the_format_lists_every_element() -> None:
    rows = [f"| `{e.name}` | {e.kind.value} | {e.maximum} | {e.contexts} |" for e in ELEMENTS]
    page = Path(__file__).resolve().parent.parent / "docs" / "format.md"
    assert "\n".join(rows) in page.read_text()
