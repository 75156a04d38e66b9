"""Operators of `gsvc data prepare`: several on a GPU, and what they must survive."""

import os
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gsvc.decoders.training import guard
from gsvc.decoders.training.engine import Cards, OnRay, card_shares, in_turn
from gsvc.decoders.training.pipeline import ClipItem, Item, Operator, Resources
from needs import need_package
from odd_operators import EXITS, FRAGILE, HANGS, mortal, noting

need_package("fsspec")
need_package("stlpips_pytorch")

GB = 1_000_000_000
ITEMS = 8


@given(sizes=st.lists(st.integers(1, 40 * GB), max_size=6), count=st.integers(1, 4))
def test_no_gpu_is_promised_more_memory_than_it_has(sizes: list[int], count: int) -> None:
    operators: list[Operator] = [
        noting(str(n), Resources(device_memory=size)) for n, size in enumerate(sizes)
    ]
    shares = card_shares(operators, {}, Cards(count, 16 * GB))
    assert sum(shares.values()) <= count and all(share <= 1 for share in shares.values())
    for name, share in shares.items():
        assert share * 16 * GB >= sizes[int(name)]
    # What runs on the CPU is no smaller than what has a place.
    left_out = [size for n, size in enumerate(sizes) if str(n) not in shares]
    assert min(left_out, default=40 * GB) >= max((sizes[int(n)] for n in shares), default=0)


def test_models_share_a_gpu_by_what_they_were_measured_to_take() -> None:
    one = noting("n", Resources(device_memory=6 * GB))
    other = noting("m", Resources(device_memory=34 * GB // 10))
    card = Cards(1, 10 * GB)
    assert card_shares([one, other], {}, card) == {"m": 0.4}  # with its context n takes 6.6
    measured = {"n": {"device": 2.0 * GB, "wall": 8.0, "items": 4.0}}
    assert card_shares([one, other], measured, card) == {"n": 0.3, "m": 0.4}
    assert card_shares([one, other], measured, None) == {}


@dataclass
class Keep:
    """Writes groups as files."""

    folder: Path

    def __call__(self, items: Sequence[Item]) -> None:
        """See `Writes`."""
        (self.folder / f"{items[0].number}.pickle").write_bytes(pickle.dumps(list(items)))

    def items(self) -> list[Item]:
        """All, in order."""
        parts = sorted(self.folder.glob("*.pickle"), key=lambda path: int(path.stem))
        return [item for path in parts for item in pickle.loads(path.read_bytes())]


def assert_survived(items: Sequence[Item]) -> None:
    errors = {item.number: item.error for item in items if item.error}
    assert errors == {
        HANGS: "fragile took longer than 3 s",
        EXITS: "fragile ended its process (code 3)",
    }
    assert [item.number for item in items] == list(range(ITEMS))


@pytest.mark.slow
def test_what_hangs_or_ends_a_worker_is_set_aside(tmp_path: Path) -> None:
    list(in_turn([ClipItem(n) for n in range(ITEMS)], [FRAGILE], Keep(tmp_path), 2))
    assert_survived(Keep(tmp_path).items())


@pytest.mark.parametrize("deaths", [2, 9])
def test_a_clip_is_not_to_blame_for_what_others_end(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_PAUSES", (0.0, 0.0, 0.0))
    died, done = tmp_path / "died", tmp_path / "done"
    died.mkdir()
    done.mkdir()
    operator = mortal(died, deaths, worker=False)
    list(in_turn([ClipItem(n) for n in range(ITEMS)], [operator], Keep(done), 2))
    errors = {item.number: item.error for item in Keep(done).items() if item.error}
    # Memory that a clip asks for looks the same: after three times it is set aside.
    expected = {} if deaths < 3 else {EXITS: "mortal ended its process (signal 9)"}
    assert errors == expected and len(list(died.iterdir())) == min(deaths, 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_another_worker_takes_the_clip_of_one_that_was_killed(tmp_path: Path) -> None:
    ray = need_package("ray")
    died, done = tmp_path / "died", tmp_path / "done"
    died.mkdir()
    done.mkdir()
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    room: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100_000_000}
    ray.init(runtime_env={"env_vars": path}, include_dashboard=False, **room)
    try:
        operator = mortal(died, 2, worker=True)
        list(OnRay()([ClipItem(n) for n in range(ITEMS)], [operator], Keep(done), 2))
    finally:
        ray.shutdown()
    items = Keep(done).items()
    assert [item.number for item in items] == list(range(ITEMS))
    assert not any(item.error for item in items) and len(list(died.iterdir())) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_operators_share_a_logical_gpu_while_cpus_work(tmp_path: Path) -> None:
    ray = need_package("ray")
    able = Resources(memory=1_000_000, device_memory=3 * GB)
    operators: list[Operator] = [
        FRAGILE,
        noting("early"),
        *(noting(name, resources=able) for name in ("left", "right", "third")),
    ]
    keep = Keep(tmp_path)
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    room: dict[str, Any] = {"num_cpus": 3, "num_gpus": 1, "object_store_memory": 100_000_000}
    ray.init(runtime_env={"env_vars": path}, include_dashboard=False, **room)
    try:
        engine = OnRay(Cards(1, 9 * GB))
        shares = card_shares(operators, {}, engine.cards)
        list(engine([ClipItem(n) for n in range(ITEMS)], operators, keep, 2))
    finally:
        ray.shutdown()
    items = keep.items()
    assert_survived(items)
    assert shares == {"left": 0.4, "right": 0.4}
    notes = [x.measures for x in items if isinstance(x, ClipItem) and not x.error]
    for row in notes:
        assert [row[f"{name} gpus"] for name in ("early", "left", "right", "third")] == [0, 1, 1, 0]
    on_card = [(row[f"{n} begun"], row[f"{n} ended"]) for row in notes for n in ("left", "right")]
    on_cpu = [(row[f"{n} begun"], row[f"{n} ended"]) for row in notes for n in ("early", "third")]
    assert any(a[0] < b[1] and b[0] < a[1] for a, b in product(on_card, on_cpu))
