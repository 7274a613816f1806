"""Pipes of samples give what PyTorch's give."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch.utils.data as reference_data
import torch.utils.data.datapipes as reference
import webgpu_torch.utils.data as our_data
import webgpu_torch.utils.data.datapipes as ours
from hypothesis import given
from hypothesis import strategies as st

#: PyTorch warns of functions that cannot be pickled
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

#: what is done to a pipe of numbers, and whether numbers are left
STEPS: dict[str, tuple[Any, bool]] = {
    "map": (lambda pipe, kind: pipe.map(lambda x: x * 3 + 1), True),
    "filter": (lambda pipe, kind: pipe.filter(lambda x: x % 2 == 0), True),
    "batch": (lambda pipe, kind: pipe.batch(3).unbatch(), True),
    "drop": (lambda pipe, kind: pipe.batch(4, drop_last=True).unbatch(), True),
    "concat": (lambda pipe, kind: pipe.concat(kind.IterableWrapper([7, 8])), True),
    "mux": (lambda pipe, kind: pipe.mux(kind.IterableWrapper(range(5))), True),
    "fork": (lambda pipe, kind: pipe.fork(2)[1], True),
    "demux": (lambda pipe, kind: pipe.demux(2, lambda x: x % 2)[0], True),
    "shard": (lambda pipe, kind: shared(pipe.sharding_filter()), True),
    "unshuffled": (lambda pipe, kind: pipe.shuffle().set_shuffle(False), True),
    "zip": (lambda pipe, kind: pipe.zip(kind.IterableWrapper("abcdef")), False),
    "group": (lambda pipe, kind: pipe.groupby(lambda x: x % 3, group_size=2, keep_key=True), False),
    "nested": (lambda pipe, kind: pipe.batch(2).batch(2).unbatch(unbatch_level=2).batch(2), False),
    "columns": (
        lambda pipe, kind: pipe.zip(kind.IterableWrapper(range(50))).map(lambda a, b: a - b, input_col=[0, 1]),
        False,
    ),
    "appended": (lambda pipe, kind: pipe.map(lambda x: (x, 2)).map(lambda a: a + 1, input_col=0, output_col=-1), False),
}


def shared(pipe: Any) -> Any:
    pipe.apply_sharding(3, 1)
    return pipe


def outcome(module: ModuleType, count: int, steps: list[str]) -> Any:
    pipe: Any = module.iter.IterableWrapper(range(count))
    for each in steps:
        pipe = STEPS[each][0](pipe, module.iter)
    try:
        length: Any = len(pipe)
    except TypeError:
        length = "none"
    try:
        return length, list(pipe), list(pipe)
    except Exception as error:
        return length, type(error).__name__


@given(
    st.integers(0, 14),
    st.lists(st.sampled_from([name for name, step in STEPS.items() if step[1]]), max_size=4),
    st.sampled_from(["", *(name for name, step in STEPS.items() if not step[1])]),
)
def test_chains(count: int, steps: list[str], last: str) -> None:
    chain = [*steps, last] if last else steps
    assert outcome(ours, count, chain) == outcome(reference, count, chain)


@pytest.mark.parametrize("module", [ours, reference])
def test_what_is_refused(module: ModuleType) -> None:
    pipe = module.iter.IterableWrapper(range(4))
    for refused, error in (
        (lambda: pipe.batch(0), AssertionError),
        (lambda: pipe.fork(0), ValueError),
        (lambda: pipe.no_such_method(), AttributeError),
        (lambda: list(pipe.filter(lambda x: x)), ValueError),
        (lambda: list(pipe.unbatch(unbatch_level=2)), IndexError),
        (lambda: list(pipe.demux(2, lambda x: 5)[0]), ValueError),
        (lambda: len(pipe.filter(lambda x: True)), TypeError),
        (lambda: module.iter.Zipper([1, 2]), TypeError),
        (lambda: pipe.map(lambda x: x, output_col=1), ValueError),
    ):
        with pytest.raises(error):
            refused()


@pytest.mark.parametrize(("module", "data"), [(ours, our_data), (reference, reference_data)])
def test_own_pipes_and_loaders(module: ModuleType, data: ModuleType) -> None:
    name = f"tripled_{data.__name__.replace('.', '_')}"

    @data.functional_datapipe(name)
    class Tripled(data.IterDataPipe):
        def __init__(self, source: Any) -> None:
            self.source = source

        def __iter__(self) -> Any:
            return (3 * each for each in self.source)

    pipe = getattr(module.iter.IterableWrapper(range(6)), name)()
    assert list(pipe) == [0, 3, 6, 9, 12, 15]
    loader = data.DataLoader(module.iter.IterableWrapper(range(6)).map(abs), batch_size=4)
    assert [each.tolist() for each in loader] == [[0, 1, 2, 3], [4, 5]]
    with pytest.raises(Exception, match="already taken"):
        data.functional_datapipe(name)(Tripled)


@pytest.mark.parametrize("module", [ours, reference])
def test_shuffled(module: ModuleType) -> None:
    pipe = module.iter.IterableWrapper(range(20)).shuffle(buffer_size=8)
    found = list(pipe.set_seed(3))
    assert sorted(found) == list(range(20)) and found != list(range(20)) and found == list(pipe.set_seed(3))
    mapped = module.map.SequenceWrapper([1, 2, 3]).map(lambda x: x + 1)
    assert [mapped[0], mapped[2], len(mapped)] == [2, 4, 3]
