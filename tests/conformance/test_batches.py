"""``torch.vmap`` of the database's functions gives what they give for one example after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from database import Missing, entries, our_function
from translation import Translator, Untranslatable, to_torch
from webgpu_torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from webgpu_torch_core.func.rules import RULES

EXAMPLES = 3
#: what vmap refuses, as PyTorch's does
REFUSED = (
    "randomness",
    "batched tensor as input while the running_mean",
    "data-dependent",
    "dynamic shape",
    "calling .",
    "depends on the elements",
    "not possible because",
    "memory",
    "sparse tensors",
    "torch.sparse_",
)
#: results nobody defined
UNDEFINED = ("empty", "new_empty", "fractional_max_pool", "multi_head_attention_forward", "put", "index_put")
QUICK = (
    "add", "bmm", "cat", "cumsum", "diagonal", "einsum", "expand", "flatten", "gather", "index_select", "linalg.det", "lerp",
    "masked_fill", "matmul", "max.reduction_with_dim", "mean", "narrow", "nn.functional.conv2d", "nn.functional.cross_entropy",
    "nn.functional.embedding", "nn.functional.layer_norm", "nn.functional.linear", "nn.functional.mse_loss",
    "nn.functional.scaled_dot_product_attention", "outer", "permute", "repeat", "scatter_add", "softmax", "sort", "squeeze",
    "std.unbiased", "sum", "transpose", "unbind", "unfold", "unsqueeze", "where", "__getitem__", "nn.functional.pad.reflect",
)  # fmt: skip


def batches(entry: Any, limit: int) -> Iterator[tuple[Callable[..., Any], list[list[Any]], tuple[Any, ...]]]:
    """Yield a function of leaves, its arguments for each example, and which of them make up a batch."""
    function = our_function(entry)
    for sample in islice(entry.sample_inputs("cpu", torch.float32), limit):
        try:
            translate = Translator("cpu")
            whole, keywords = translate((sample.input, tuple(sample.args))), translate(sample.kwargs)
        except Untranslatable:
            continue
        leaves, spec = tree_flatten(whole)
        tensors = [number for number, leaf in enumerate(leaves) if isinstance(leaf, ours.Tensor)]

        def call(*given: Any, spec: Any = spec, keywords: Any = keywords) -> Any:
            first, rest = tree_unflatten(list(given), spec)
            return function(first, *rest, **keywords)

        choices = dict.fromkeys((tuple(tensors[:1]), tuple(tensors[1:2]), tuple(tensors)))
        for chosen in (each for each in choices if each):
            examples = [
                [varied(leaf, number) if place in chosen else leaf for place, leaf in enumerate(leaves)]
                for number in range(EXAMPLES)
            ]
            yield call, examples, tuple(0 if place in chosen else None for place in range(len(leaves)))


def varied(leaf: Any, number: int) -> Any:
    """Return a tensor of other numbers; of integers, which may be positions, a copy."""
    return leaf.detach() * (1 - 0.1 * number) + 0.01 * number if leaf.dtype is ours.float32 else leaf.clone()


def expected(call: Callable[..., Any], examples: list[list[Any]]) -> list[Any] | None:
    """Return the stacked results, None where the function refuses or its results do not stack."""
    results: list[list[Any]] = []
    # AttributeError: methods of types that are not there.
    with contextlib.suppress(RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
        results = [tree_leaves(call(*(clone(each) for each in example))) for example in examples]
    if not results or not all(isinstance(each, ours.Tensor) for row in results for each in row):
        return None
    if any([each.shape for each in row] != [each.shape for each in results[0]] for row in results):
        return None
    try:
        return [ours.stack(column) for column in zip(*results, strict=True)]
    except RuntimeError:
        # Matrices with compressed rows do not stack.
        assert any(each.layout not in (ours.strided, ours.sparse_coo) for row in results for each in row)
        return None


def clone(value: Any) -> Any:
    return value.clone() if isinstance(value, ours.Tensor) else value


def check(name: str, limit: int) -> int:
    """Compare the batches of an entry's samples; return how many were compared."""
    count = 0
    for call, examples, dims in batches(entries()[name], limit):
        wanted = expected(call, examples)
        if wanted is None:
            continue
        columns = zip(*examples, dims, strict=True)
        given = [each[0] if each[-1] is None else ours.stack(each[:-1]) for each in columns]
        try:
            found = tree_leaves(ours.vmap(call, in_dims=dims)(*given))
        except RuntimeError as error:
            assert any(each in str(error) for each in REFUSED), (name, error)
            continue
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(to_torch(one), to_torch(other), rtol=1e-4, atol=1e-4, equal_nan=True)
        count += 1
    return count


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
def test_batches(name: str) -> None:
    assert check(name, 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore")
def test_batches_of_all_functions() -> None:
    count = 0
    for name in entries():
        if not any(name.removeprefix("nn.functional.").startswith(each) for each in UNDEFINED):
            with contextlib.suppress(Missing):
                count += check(name, 4)
    assert count > 2000


def test_every_rule_is_of_a_function() -> None:
    for name in RULES:
        home = ours.linalg if name.startswith("linalg.") else ours
        bare = name.rpartition(".")[2]
        places = (home, ours.Tensor, ours.nn.functional, ours)
        assert any(hasattr(each, bare) for each in places), name
