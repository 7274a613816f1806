"""``torch.compile`` of functions whose arguments are objects that hold tensors and whose results are classes of their own."""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict
from typing import Any

import pytest
import webgpu_torch_core as ours


class Cache:
    """Keys kept in place, and how many there are."""

    def __init__(self, size: int, device: str) -> None:
        self.keys = ours.zeros(size, device=device)
        self.count = ours.zeros((), dtype=ours.int64, device=device)
        self.layers = [self]
        self.size = size

    def update(self, value: Any) -> Any:
        position = self.count + ours.arange(1, device=value.device)
        self.count.add_(1)
        self.keys.index_copy_(0, position, value.reshape(1))
        return self.keys


class Output(OrderedDict):
    """Items that are attributes, too."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


def step(value: Any, cache: Cache) -> Output:
    found = Output()
    found["total"] = cache.update(value).sum()
    found["cache"] = cache
    return found


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_object_of_tensors_is_an_argument(device: str) -> None:
    compiled = ours.compile(step)
    for _ in range(3):
        cache = Cache(8, device)
        for number in range(1, 6):
            found = compiled(ours.tensor(float(number), device=device), cache)
            assert found.cache is cache
            assert found["total"] is found.total
            assert found.total.item() == number * (number + 1) / 2
        assert cache.keys.tolist() == [1, 2, 3, 4, 5, 0, 0, 0]
        assert cache.count.item() == 5
    assert compiled.statistics["recorded"] == 1
    assert compiled.statistics["replayed"] == 14


def test_other_numbers_in_the_object_are_another_recording() -> None:
    compiled = ours.compile(step)
    for size in (4, 6, 4, 6):
        cache = Cache(size, "cpu")
        assert compiled(ours.tensor(2.0), cache).total.item() == 2
    assert compiled.statistics == {"recorded": 2, "replayed": 2, "fallbacks": 0}


def test_object_that_a_call_changes_is_not_replayed() -> None:
    def count(cache: Any) -> Any:
        cache.size += 1
        return cache.keys + cache.size

    compiled = ours.compile(count)
    cache = Cache(2, "cpu")
    with pytest.warns(UserWarning, match="changes attributes of its arguments"):
        assert compiled(cache).tolist() == [3, 3]
    cache.size = 2
    assert compiled(cache).tolist() == [3, 3]
    assert cache.size == 3
    assert compiled.statistics["fallbacks"] == 1


def test_object_that_gets_new_tensors_is_not_replayed() -> None:
    def grow(cache: Any) -> Any:
        cache.keys = cache.keys + 1
        return cache.keys.sum()

    compiled = ours.compile(grow)
    cache = Cache(2, "cpu")
    with pytest.warns(UserWarning, match="puts new tensors into its arguments"):
        assert compiled(cache).item() == 2
    assert [compiled(cache).item() for _ in range(2)] == [4, 6]


def test_new_object_with_tensors_is_not_replayed() -> None:
    compiled = ours.compile(lambda: Cache(2, "cpu"))
    with pytest.warns(UserWarning, match="returns a new Cache"):
        first = compiled()
    assert compiled() is not first


@dataclasses.dataclass
class Pair:
    """A result with fields, one of which the caller gave."""

    total: Any
    given: Any
    parts: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    total: Any


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_data_classes_are_results(device: str) -> None:
    def both(value: Any, given: Any) -> Any:
        return Pair(value.sum(), given, [value * 2]), Sealed(value + 1), types.SimpleNamespace(least=value.min())

    compiled = ours.compile(both)
    given = Pair(None, None)
    kept = []
    for number in range(4):
        pair, sealed, space = compiled(ours.tensor([1.0, float(number)], device=device), given)
        assert type(pair) is Pair and pair.given is given
        kept.append((pair.total, pair.parts[0], sealed.total, space.least))
    assert [each.tolist() for each in kept[3]] == [4.0, [2.0, 6.0], [2.0, 4.0], 1.0]
    assert [each.tolist() for each in kept[0]] == [1.0, [2.0, 0.0], [2.0, 1.0], 0.0]
    assert compiled.statistics["recorded"] == 1 and compiled.statistics["replayed"] == 3


def test_a_given_container_is_returned_itself() -> None:
    def through(value: Any, given: list[Any]) -> Any:
        return value + 1, given

    compiled = ours.compile(through)
    given = [1, 2]
    for _ in range(3):
        assert compiled(ours.ones(2), given)[1] is given
