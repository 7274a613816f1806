"""Gradients of tables that name only the rows looked up, and the optimisers that take them, are PyTorch's."""

from __future__ import annotations

import copy
import math
import warnings
from itertools import product
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse [CB]S[CR] tensor support is in beta state:UserWarning"),
]
BOTH: tuple[Any, Any] = (webgpu_torch, torch)
ENTRIES = 6
OPTIMIZERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.25}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.25, "initial_accumulator_value": 0.5}),
    ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.75), "eps": 0.1, "maximize": True}),
)


def rows(count: int = 5) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, ENTRIES - 1), min_size=1, max_size=count)


def told(t: Any, grad: Any) -> tuple[str, Any]:
    return str(grad.layout), (grad.to_dense() if grad.is_sparse else grad).tolist()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_gradients_of_tables(data: st.DataObject) -> None:
    padding = data.draw(st.sampled_from([None, 0, -2]))
    passes = data.draw(st.lists(st.tuples(rows(), st.booleans(), st.booleans()), min_size=1, max_size=3))
    mode = data.draw(st.sampled_from([None, "sum", "mean"]))
    found = []
    for t in BOTH:
        weight = t.arange(ENTRIES * 2.0).reshape(ENTRIES, 2).sub(5).requires_grad_()
        seen = []
        for places, twice, dense in passes:
            index = t.tensor([places, places[::-1]])
            if mode is None:
                result = t.nn.functional.embedding(index, weight, padding_idx=padding, sparse=True)
            else:
                result = t.nn.functional.embedding_bag(index, weight, mode=mode, padding_idx=padding, sparse=True)
            loss = (result * result).sum()
            loss = loss + t.nn.functional.embedding(index[0], weight, sparse=True).sum() if twice else loss
            (loss + weight.sum() * 3 if dense else loss).backward()
            seen.append(told(t, weight.grad))
        found.append(seen)
    assert [layout for layout, _ in found[0]] == [layout for layout, _ in found[1]]
    for (_, actual), (_, expected) in zip(*found, strict=True):
        torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_steps_of_optimizers(data: st.DataObject) -> None:
    name, options = data.draw(st.sampled_from(OPTIMIZERS))
    steps = data.draw(st.lists(rows(), min_size=1, max_size=4))
    results = []
    for t in BOTH:
        weight = t.nn.Parameter(t.arange(ENTRIES * 2.0).reshape(ENTRIES, 2).sub(5))
        optimizer = getattr(t.optim, name)([weight], **options)
        for places in steps:
            optimizer.zero_grad()
            t.nn.functional.embedding(t.tensor(places), weight, sparse=True).square().sum().backward()
            optimizer.step()
        results.append(torch.tensor(weight.tolist()))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adamax", "RMSprop", "Rprop", "NAdam", "RAdam", "Adadelta", "ASGD"])
def test_other_optimizers_refuse_them(name: str) -> None:
    messages = []
    for t in BOTH:
        weight = t.nn.Parameter(t.ones(3, 2))
        t.nn.functional.embedding(t.tensor([1]), weight, sparse=True).sum().backward()
        with pytest.raises(RuntimeError) as raised:
            getattr(t.optim, name)([weight]).step()
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_what_is_refused() -> None:
    for t in BOTH:
        weight = t.nn.Parameter(t.ones(3, 2))
        weight.sum().backward()
        with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
            t.optim.SparseAdam([weight]).step()
        with pytest.raises(ValueError, match="Complex params at indices"):
            t.optim.SparseAdam([t.nn.Parameter(t.ones(2, dtype=t.complex64))])
        for wrong in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}):
            with pytest.raises(ValueError, match="Invalid"):
                t.optim.SparseAdam([weight], **wrong)
        with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
            rows = t.nn.functional.embedding(t.tensor([1]), weight, scale_grad_by_freq=True, sparse=True)
            rows.sum().backward()


LAYOUTS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("to_dense", ()), ("to_sparse", ()), ("to_sparse_csr", ()), ("to_sparse_csc", ()), ("to_sparse_bsr", ((2, 2),)),
    ("to_sparse_bsc", ((2, 2),)),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS), st.booleans())
def test_gradients_have_the_layout_of_what_they_are_of(before: Any, after: Any, whole: bool) -> None:
    def found(t: Any) -> Any:
        values = t.arange(1.0, 17.0).reshape(4, 4)
        values = values if whole else values.tril()
        source = getattr(values, before[0])(*before[1]).requires_grad_()
        result = getattr(source, after[0])(*after[1])
        (gradient,) = t.autograd.grad(result, source, getattr(values * 2, after[0])(*after[1]))
        return str(gradient.layout), gradient.to_dense().tolist()

    try:
        expected = found(torch)
    except RuntimeError:
        # PyTorch has no way from one layout to the other, or none back.
        return
    assert found(webgpu_torch) == expected


@settings(max_examples=25, deadline=None)
@given(rows(), rows(), st.booleans(), st.booleans(), st.booleans())
def test_sums_of_sparse_tensors(one: list[int], two: list[int], first: bool, second: bool, place: bool) -> None:
    def found(t: Any) -> Any:
        # Values that do not lie side by side: PyTorch merges others on a way of its own.
        made = [
            t.sparse_coo_tensor(t.tensor([each]), t.full((1,), 2.0).expand(len(each), 2), (ENTRIES, 2))
            for each in (one, two)
        ]
        left, right = (each.coalesce() if once else each for each, once in zip(made, (first, second), strict=True))
        total = left.add_(right) if place else left + right
        both = first and second
        seen = None if both else (total.is_coalesced(), total._indices().tolist())
        return seen, total.to_dense().tolist(), total.data.is_sparse

    assert found(webgpu_torch) == found(torch)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_gradients_of_greatest_rows(data: st.DataObject) -> None:
    length, bags = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    places = data.draw(st.lists(st.integers(0, 3), min_size=length * bags, max_size=length * bags))
    begins = [0, *sorted(data.draw(st.lists(st.integers(0, len(places)), max_size=3)))]
    # Few values: maxima that several rows have are the rule.
    table = data.draw(st.lists(st.sampled_from([0.0, 1.0, -1.0]), min_size=8, max_size=8))
    padding, flat = data.draw(st.sampled_from([None, 0, -1])), data.draw(st.booleans())

    def found(t: Any) -> Any:
        weight = t.tensor(table).reshape(4, 2).requires_grad_()
        index = t.tensor(places) if flat else t.tensor(places).reshape(bags, length)
        offsets = t.tensor(begins) if flat else None
        result = t.nn.functional.embedding_bag(index, weight, offsets, mode="max", padding_idx=padding)
        (result * t.arange(1.0, 1 + result.numel()).reshape(result.shape)).sum().backward()
        return result.tolist(), weight.grad.tolist()

    assert found(webgpu_torch) == found(torch)


@given(rows(), st.integers(0, ENTRIES - 1))
@settings(max_examples=10, deadline=None)
def test_gradients_keep_what_was_looked_up(places: list[int], later: int) -> None:
    def found(t: Any) -> Any:
        index, table = t.tensor([places]), t.nn.Embedding(ENTRIES, 2, sparse=True)
        table(index[0]).sum().backward()
        index.fill_(later)
        return table.weight.grad._indices().tolist()

    assert found(webgpu_torch) == found(torch)


def of_three(t: Any, places: list[int], values: list[float], coalesced: bool = True) -> Any:
    made = t.sparse_coo_tensor(t.tensor([places]), t.tensor(values), (3,))
    return made.coalesce() if coalesced else made


def caught(run: Any) -> Any:
    try:
        return run()
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("coalesced", [True, False])
def test_gradients_that_are_assigned_have_places_of_their_own(coalesced: bool) -> None:
    def run(t: Any) -> Any:
        x = of_three(t, [0, 2], [1.0, 2.0], coalesced).requires_grad_()
        given = of_three(t, [1, 2], [3.0, 4.0])
        x.grad = given
        same = x.grad is given
        first = repr(x.grad)
        x.to_dense().sum().backward()
        copied = copy.deepcopy(x)
        found = [same, first, x.grad is given, x.grad.to_dense().tolist(), copied.grad.to_dense().tolist()]
        empty = t.zeros(3).to_sparse()
        empty.grad = t.ones(3).to_sparse()
        x.grad = None
        return [*found, copied.grad is x.grad, repr(empty.grad), x.grad]

    assert run(webgpu_torch) == run(torch)


@pytest.mark.parametrize("make", ["ones(3)", "ones(2)", "ones(2).to_sparse()", "ones(3).double().to_sparse()"])
def test_gradients_of_other_kinds_are_refused(make: str) -> None:
    def run(t: Any) -> Any:
        x = of_three(t, [0, 2], [1.0, 2.0])
        return caught(lambda: setattr(x, "grad", eval(f"t.{make}", {"t": t})))

    assert run(webgpu_torch) == run(torch) is not None


def test_results_name_their_nodes_and_are_not_copied() -> None:
    def run(t: Any) -> Any:
        x = of_three(t, [0, 2], [1.0, 2.0]).requires_grad_()
        rows = t.eye(2).to_sparse_csr().requires_grad_()
        made = [x, x * x, (x * 2).coalesce(), x.to_dense().to_sparse(), rows, rows * 2]
        return [repr(each) for each in made], caught(lambda: copy.deepcopy(made[1]))

    assert run(webgpu_torch) == run(torch)


@pytest.mark.parametrize("create_graph", [False, True])
def test_who_holds_a_gradient_sees_what_is_added(create_graph: bool) -> None:
    def run(t: Any) -> Any:
        kinds = [lambda: of_three(t, [0, 2], [1.0, 2.0]), lambda: t.ones(3)]
        found = []
        for first, second in product(kinds, kinds):
            x = t.ones(3, requires_grad=True)
            x.grad = held = first()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x.backward(second(), create_graph=create_graph)
            found.append((x.grad is held, told(t, x.grad.detach())))
        return found

    assert run(webgpu_torch) == run(torch)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
def test_linear_maps_have_sparse_weights(layout: str, shape: tuple[int, ...]) -> None:
    def run(t: Any, bias: bool) -> Any:
        weight = getattr(t.arange(12.0).reshape(4, 3), f"to_sparse_{layout}")().requires_grad_()
        x = t.arange(float(math.prod(shape))).reshape(shape).requires_grad_()
        given = t.arange(4.0).requires_grad_() if bias else None
        result = t.nn.functional.linear(x, weight, given)
        result.backward(t.arange(float(result.numel())).reshape(result.shape))
        # Zeros of the weight have no gradient here.
        grad = weight.grad.to_dense() * (t.arange(12).reshape(4, 3) > 0)
        return result.tolist(), x.grad.tolist(), grad.tolist(), given.grad.tolist() if bias else None

    # PyTorch has no sum of this one.
    for bias in (False, *([True] if layout != "coo" or len(shape) != 2 else [])):
        assert run(webgpu_torch, bias) == run(torch, bias)
