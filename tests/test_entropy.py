"""The range coder and its models, against a decoder written from docs/format.md alone."""

import random
from itertools import pairwise

import pytest

from gsvc import BitstreamError
from gsvc.codec.bitstream.entropy_coding import BitModel, RangeReader, RangeWriter, bit_cost


class PlainDecoder:
    """The range decoder of docs/format.md in plain integers."""

    def __init__(self, data: bytes) -> None:
        self.data = data + bytes(8)
        self.low, self.range, self.point = 0, 2**64 - 1, int.from_bytes(self.data[:8], "big")
        self.position = 8

    def bit(self, probability: int) -> int:
        split = (4096 - probability) * (2**24 - 2) // 4096 + 1
        scale = self.range >> 24
        bit = int((self.point - self.low) % 2**64 // scale >= split)
        start, end = (split, 2**24) if bit else (0, split)
        self.low = (self.low + scale * start) % 2**64
        self.range = scale * (end - start)
        if self.range < 2**32:
            word = self.data[self.position : self.position + 4].ljust(4, b"\0")
            self.position += 4
            self.low, self.range = (self.low << 32) % 2**64, self.range << 32
            self.point = (self.point << 32) % 2**64 | int.from_bytes(word, "big")
        return bit


def random_bits(seed: int) -> list[tuple[int, int]]:
    """Pairs of bit and probability of a 1, in 1/4096."""
    source = random.Random(seed)
    count = source.choice([0, 1, 2, 7, 60, 400, 3000])
    skew = source.choice([0.0, 0.1, 1.0])
    result = []
    for _ in range(count):
        probability = source.randint(24, 4072)
        surprising = source.random() < skew
        likely = int(source.random() < probability / 4096)
        result.append((1 - likely if surprising else likely, probability))
    return result


def coded(bits: list[tuple[int, int]]) -> bytes:
    writer = RangeWriter()
    for bit, probability in bits:
        writer.bit(bit, probability)
    return writer.finish()


@pytest.mark.parametrize("seed", range(120))
def test_bits_come_back_from_both_decoders(seed: int) -> None:
    bits = random_bits(seed)
    data = coded(bits)
    reader, plain = RangeReader(data), PlainDecoder(data)
    for bit, probability in bits:
        assert reader.bit(None, probability) == bit
        assert plain.bit(probability) == bit


@pytest.mark.parametrize("seed", range(60))
def test_bytes_are_the_information_rounded_up(seed: int) -> None:
    bits = random_bits(seed)
    information = sum(bit_cost(probability, bit) for bit, probability in bits) / 8
    assert len(coded(bits)) <= information + 1.5


def test_nothing_takes_nothing() -> None:
    assert coded([]) == b""
    assert coded([(0, 24)] * 30) == b""


def test_literal_bytes_stay() -> None:
    """A change here makes every stream in the world unreadable."""
    pattern = [(k * k // 3 & 1, 200 + 37 * k) for k in range(100)]
    assert coded(pattern).hex() == PATTERN


PATTERN = "e56213b28100e4e111b4721f289a3e84"


def test_any_bytes_decode_or_are_refused() -> None:
    source = random.Random(5)
    for _ in range(50):
        reader = RangeReader(source.randbytes(source.randint(0, 40)))
        try:
            for _ in range(300):
                assert reader.bit(None, source.randint(24, 4072)) in (0, 1)
        except BitstreamError:
            pass


def test_model_learns_and_stays_in_range() -> None:
    model = BitModel()
    seen = [model.probability]
    for _ in range(200):
        model.update(1)
        seen.append(model.probability)
    assert seen[0] == 2048 and seen[-1] == 4072
    assert all(a <= b for a, b in pairwise(seen))
    for _ in range(400):
        model.update(0)
    assert model.probability == 24


def test_model_follows_the_update_rule() -> None:
    source = random.Random(1)
    model, one, count = BitModel(), 1 << 15, 0
    for _ in range(500):
        assert model.probability == min(max(one >> 4, 24), 4072)
        bit = source.randint(0, 1)
        model.update(bit)
        one += ((65535 if bit else 0) - one) * 2 // (2 * count + 3)
        count = min(count + 1, 14)
