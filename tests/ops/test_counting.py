"""Counting, segments, results written into ``out``, and methods that work in place, against PyTorch."""

from __future__ import annotations

import pytest
import torch
import webgpu_torch as facade
from ops_oracle import both_raise, check, compare, sample, to_ours

COUNTS = {
    "bincount": lambda t, x: t.bincount(x),
    "bincount minlength": lambda t, x: x.bincount(minlength=20),
    "bincount weights": lambda t, x: t.bincount(x, (x * 0.5).to(t.float32)),
    "bincount empty": lambda t, x: t.bincount(x[:0], minlength=3),
}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_bincount(name: str, device: str) -> None:
    assert check(COUNTS[name], [sample((50,), torch.int64).abs()], device)


def test_bincount_refuses(device: str) -> None:
    both_raise(lambda t, x: t.bincount(x), [torch.tensor([1, -1])], device, "non-negative")
    both_raise(lambda t, x: t.bincount(x), [torch.tensor([[1, 1]])], device, "1-d")
    both_raise(lambda t, x: t.bincount(x, minlength=-1), [torch.tensor([1])], device, "minlength")
    both_raise(lambda t, x: t.bincount(x, x[1:].float()), [torch.tensor([1, 2])], device, "same length")


@pytest.mark.parametrize("initial", [None, 1.5])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce: str, initial: float | None, device: str) -> None:
    rows = torch.tensor([[1, 2, 0, 3], [4, 0, 1, 1]])
    assert check(
        lambda t, x, each: t.segment_reduce(x, reduce, lengths=each, initial=initial),
        [sample((6, 5), torch.float32), rows[0]], device,
    )  # fmt: skip
    offsets = torch.cat([torch.zeros(2, 1, dtype=torch.int64), rows.cumsum(1)], 1)
    assert check(
        lambda t, x, each: t.segment_reduce(x, reduce, offsets=each, axis=1, initial=initial),
        [sample((2, 6, 3), torch.float32), offsets], device,
    )  # fmt: skip


def test_segments_refuse(device: str) -> None:
    x = sample((4,), torch.float32)
    both_raise(lambda t, x: t.segment_reduce(x, "sum"), [x], device, "Either lengths or offsets must be defined")
    for lengths in (torch.tensor([1, 2]), torch.tensor([5, -1])):
        both_raise(lambda t, x, each: t.segment_reduce(x, "sum", lengths=each), [x, lengths], device)


OUT = {
    "cumsum": (lambda t, x, out: t.cumsum(x, 1, out=out), 1),
    "cumprod": (lambda t, x, out: t.cumprod(x, 1, out=out), 1),
    "cummax": (lambda t, x, out: t.cummax(x, 1, out=out), 2),
    "cummin": (lambda t, x, out: t.cummin(x, 1, out=out), 2),
    "sort": (lambda t, x, out: t.sort(x, 1, out=out), 2),
    "topk": (lambda t, x, out: t.topk(x, 2, out=out), 2),
    "kthvalue": (lambda t, x, out: t.kthvalue(x, 2, out=out), 2),
    "median": (lambda t, x, out: t.median(x, 1, out=out), 2),
    "mode": (lambda t, x, out: t.mode(x, 1, out=out), 2),
    "max": (lambda t, x, out: t.max(x, 1, out=out), 2),
    "min": (lambda t, x, out: t.min(x, 0, out=out), 2),
    "aminmax": (lambda t, x, out: t.aminmax(x, dim=1, out=out), 3),
    "diff": (lambda t, x, out: t.diff(x, out=out), 1),
    "tril": (lambda t, x, out: t.tril(x, out=out), 1),
    "triu": (lambda t, x, out: t.triu(x, out=out), 1),
    "softmax": (lambda t, x, out: t.softmax(x, 1, out=out), 1),
    "log_softmax": (lambda t, x, out: t.log_softmax(x, 1, out=out), 1),
    "prod": (lambda t, x, out: t.prod(x, 1, out=out), 1),
    "gather": (lambda t, x, out: t.gather(x, 1, x.long().abs() % 3, out=out), 1),
    "take": (lambda t, x, out: t.take(x, x.long().abs(), out=out), 1),
    "scatter": (lambda t, x, out: t.scatter(x, 1, x.long().abs() % 3, 2.0, out=out), 1),
    "scatter_add": (lambda t, x, out: t.scatter_add(x, 1, x.long().abs() % 3, x, out=out), 1),
    "scatter_reduce": (lambda t, x, out: t.scatter_reduce(x, 1, x.long().abs() % 3, x, "amax", out=out), 1),
    "index_copy": (lambda t, x, out: t.index_copy(x, 0, t.tensor([1], device=x.device), x[:1], out=out), 1),
    "slice_scatter": (lambda t, x, out: t.slice_scatter(x, x[:1], 0, 1, 2, out=out), 1),
}


@pytest.mark.parametrize("name", sorted(OUT))
def test_out(name: str, device: str) -> None:
    """``out`` is resized, filled and returned."""
    function, kinds = OUT[name]
    x = torch.randperm(15, generator=torch.Generator().manual_seed(3)).reshape(5, 3).float()
    types = {1: ("float32",), 2: ("float32", "int64"), 3: ("float32", "float32")}[kinds]
    wanted = tuple(torch.empty(0, dtype=getattr(torch, each)) for each in types)
    function(torch, x, wanted if len(wanted) > 1 else wanted[0])
    found = tuple(facade.empty(0, dtype=getattr(facade, each), device=device) for each in types)
    result = function(facade, to_ours(x, device), found if len(found) > 1 else found[0])
    for one, other in zip(result if len(found) > 1 else (result,), found, strict=True):
        assert one is other
    compare(found, wanted)


IN_PLACE = {
    "tril_": lambda t, x: x.clone().tril_(),
    "triu_": lambda t, x: x.clone().triu_(1),
    "addmm_": lambda t, x: x.clone().addmm_(x, x[:5], beta=0.5),
    "addmv_": lambda t, x: x[:, 0].clone().addmv_(x, x[0]),
    "addr_": lambda t, x: x.clone().addr_(x[:, 0], x[0]),
    "baddbmm_": lambda t, x: x[None].clone().baddbmm_(x[None], x[None, :5]),
    "addbmm_": lambda t, x: x.clone().addbmm_(x[None], x[None, :5]),
    "fill_diagonal_": lambda t, x: x.clone().fill_diagonal_(9.0),
    "as_strided_": lambda t, x: x.clone().as_strided_((2, 3), (1, 5), 2),
    "narrow_copy": lambda t, x: x.narrow_copy(1, 1, 2),
    "row_stack": lambda t, x: t.row_stack((x, x[0])),
    "unsafe_split_with_sizes": lambda t, x: x.unsafe_split_with_sizes([2, 5], 0),
    "split_copy": lambda t, x: t.split_copy(x, 2),
    "select_copy": lambda t, x: t.select_copy(x, 1, 2),
}


@pytest.mark.parametrize("name", sorted(IN_PLACE))
def test_in_place(name: str, device: str) -> None:
    assert check(IN_PLACE[name], [sample((7, 5), torch.float32)], device)


@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(wrap: bool, device: str) -> None:
    for shape in ((7, 3), (3, 7), (4, 3), (8, 3), (3, 3), (12, 5), (3, 3, 3), (0, 3)):
        check(lambda t, x: x.clone().fill_diagonal_(5.0, wrap), [torch.zeros(shape)], device)
        check(lambda t, x: x.clone().mT.fill_diagonal_(5.0, wrap), [torch.zeros(shape).mT.contiguous()], device)


def test_questions(device: str) -> None:
    x = facade.arange(6.0, device=device)
    assert x.is_set_to(x.view(6))
    assert not x.is_set_to(x[1:])
    assert x.is_same_size(x * 2)
    assert 3.0 in x
    assert 7 not in x
    assert [each.item() for each in reversed(x)] == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert facade.is_nonzero(x[1])
    for one in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64):
        for other in (torch.bool, torch.int32, torch.bfloat16, torch.complex64):
            ours = (getattr(facade, str(each).removeprefix("torch.")) for each in (one, other))
            assert facade.can_cast(*ours) == torch.can_cast(one, other)


def test_python_functions() -> None:
    assert check(
        lambda t, x: x.clone().apply_(lambda each: each + 1), [sample((3, 2), torch.float32)], "cpu", gradient=False
    )
    assert check(
        lambda t, x: x.clone().map_(x[0], lambda one, other: one * other), [sample((3, 2), torch.float32)], "cpu",
        gradient=False,
    )  # fmt: skip
