"""Hooks of all modules under PyTorch's private names, and modules that are pickled before and after they have sizes."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st


def test_hooks_of_all_modules_are_replaced() -> None:
    for library in (torch, ours):
        module, called = library.nn.modules.module, list[int]()
        library.nn.modules.module.register_module_forward_hook(lambda *_, called=called: called.append(1))
        library.nn.ReLU()(library.ones(1))
        assert len(module._global_forward_hooks) == 1
        module._global_forward_hooks = OrderedDict()
        library.nn.ReLU()(library.ones(1))
        assert called == [1]


@pytest.mark.parametrize("name", ["LazyLinear", "LazyBatchNorm1d", "LazyConv1d", "LazyConvTranspose1d"])
def test_lazy_modules(name: str) -> None:
    module: Any = getattr(ours.nn, name)(*{"LazyLinear": (3,), "LazyBatchNorm1d": ()}.get(name, (3, 2)))
    module = pickle.loads(pickle.dumps(module))
    assert isinstance(module, getattr(ours.nn, name))
    module(ours.ones(2, 4, 5))
    module = pickle.loads(pickle.dumps(module))
    assert type(module) is getattr(ours.nn, name.removeprefix("Lazy"))
    assert not module._forward_pre_hooks and not module._load_state_dict_pre_hooks
    module(ours.ones(2, 4, 5))


def outcome(run: Any) -> Any:
    try:
        return run()
    except (RuntimeError, ValueError, IndexError) as error:
        return str(error)


@settings(deadline=None)
@given(
    st.sampled_from(["sum", "mean", "max"]), st.lists(st.integers(-2, 5), min_size=1, max_size=4),
    st.none() | st.integers(-5, 5), st.sampled_from(["int32", "int64"]), st.booleans(),
)  # fmt: skip
def test_bags(mode: str, chosen: list[int], padding: int | None, kind: str, limited: bool) -> None:
    if limited or (padding is None and mode != "max"):
        chosen = [each % 4 for each in chosen]

    def run(library: Any) -> Any:
        table = (library.arange(8.0).reshape(4, 2) + 1).requires_grad_(not limited)
        rows = library.tensor([chosen], dtype=getattr(library, kind))
        result = library.nn.functional.embedding_bag(
            rows, table, mode=mode, padding_idx=padding, max_norm=3.0 if limited else None
        )
        if not limited:
            result.sum().backward()
        return [round(each, 4) for each in result.flatten().tolist()], None if limited else table.grad.tolist()

    assert outcome(lambda: run(ours)) == outcome(lambda: run(torch))


def test_weights_of_empty_bags_have_gradients() -> None:
    for library in (torch, ours):
        weights = library.ones(0).requires_grad_()
        rows = library.tensor([], dtype=library.int64)
        bags = library.nn.functional.embedding_bag(
            rows, library.ones(4, 2), library.tensor([0, 0]), mode="sum", per_sample_weights=weights
        )
        bags.sum().backward()
        assert weights.grad.shape == (0,)
