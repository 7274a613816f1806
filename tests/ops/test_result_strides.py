"""Strides of results, for inputs of any layout: they decide what ``view`` takes and whether writes through ``flatten`` are kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import ORACLE, OURS, check, sample, to_ours


def _index(x: Any, values: Any) -> Any:
    return (OURS if isinstance(x, OURS.Tensor) else ORACLE).tensor(values, device=x.device)


#: of a namespace, a tensor of at least two dimensions of at least 2, and a dimension
MAKERS = {
    "cumsum": lambda t, x, d: x.cumsum(d),
    "cumprod": lambda t, x, d: x.cumprod(d),
    "cummax": lambda t, x, d: tuple(x.cummax(d)),
    "cummin": lambda t, x, d: tuple(x.cummin(d)),
    "logcumsumexp": lambda t, x, d: x.logcumsumexp(d),
    "sort": lambda t, x, d: tuple(x.sort(dim=d, stable=True)),
    "sort descending": lambda t, x, d: tuple(x.sort(dim=d, descending=True, stable=True)),
    "argsort": lambda t, x, d: x.argsort(dim=d, stable=True),
    "msort": lambda t, x, d: x.msort(),
    "topk": lambda t, x, d: x.topk(2, d).values,
    "kthvalue": lambda t, x, d: x.kthvalue(2, d).values,
    "kthvalue kept": lambda t, x, d: x.kthvalue(2, d, keepdim=True).values,
    "median": lambda t, x, d: x.median(d).values,
    "mode": lambda t, x, d: x.mode(d).values,
    "nonzero": lambda t, x, d: x.nonzero(),
    "argwhere": lambda t, x, d: t.argwhere(x),
    "max": lambda t, x, d: tuple(x.max(d)),
    "logsumexp": lambda t, x, d: x.logsumexp(d),
    "cumulative_trapezoid": lambda t, x, d: t.cumulative_trapezoid(x, dim=d),
    "quantile": lambda t, x, d: x.quantile(0.3, d, keepdim=True),
    "flip": lambda t, x, d: x.flip(d),
    "roll": lambda t, x, d: x.roll(1, d),
    "rot90": lambda t, x, d: x.rot90(),
    "clone": lambda t, x, d: x.clone(),
    "add": lambda t, x, d: x + x.sum(d, keepdim=True),
    "masked_fill": lambda t, x, d: x.masked_fill(x > 0, 1.0),
    "where": lambda t, x, d: t.where(x > 0, x, 2.0),
    "diff": lambda t, x, d: x.diff(dim=d),
    "index": lambda t, x, d: x[(slice(None),) * d + (_index(x, [1, 0]),)],
    "two indices": lambda t, x, d: x[_index(x, [[1], [0]]), _index(x, [0, 1])],
    "mask": lambda t, x, d: x[x > 0],
    "index_select": lambda t, x, d: x.index_select(d, _index(x, [1, 0])),
    "cat": lambda t, x, d: t.cat([x, x], d),
    "stack": lambda t, x, d: t.stack([x, x], d),
    "repeat_interleave": lambda t, x, d: x.repeat_interleave(2, d),
    "select_scatter": lambda t, x, d: x.select_scatter(x.select(d, 0), d, 1),
    "diagonal_scatter": lambda t, x, d: x.diagonal_scatter(x.diagonal()),
    "kron": lambda t, x, d: x.kron(x),
    "renorm": lambda t, x, d: x.renorm(2, d, 1.0),
}


@st.composite
def laid_out(draw: Any) -> torch.Tensor:
    """A tensor of 2 to 4 dimensions: in any order, in steps, expanded, or with the channels last."""
    shape = draw(st.lists(st.integers(2, 4), min_size=2, max_size=4))
    order = draw(st.permutations(range(len(shape))))
    form = draw(st.sampled_from(("dense", "stepped", "expanded", "channels last")))
    x = sample([shape[each] for each in order], torch.float32, draw(st.integers(0, 99)))
    x = x.permute([order.index(each) for each in range(len(shape))])
    if form == "stepped":
        x = x.repeat_interleave(2, -1)[..., ::2]
    elif form == "expanded":
        dim = draw(st.integers(0, len(shape) - 1))
        x = x.narrow(dim, 0, 1).expand(x.shape)
    elif form == "channels last" and len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    return x


@settings(max_examples=40, deadline=None)
@given(x=laid_out(), dim=st.integers(0, 3), name=st.sampled_from(sorted(MAKERS)))
def test_strides(x: torch.Tensor, dim: int, name: str) -> None:
    _compare(name, x, dim % x.ndim, "cpu")


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(x=laid_out(), dim=st.integers(0, 3), name=st.sampled_from(sorted(MAKERS)))
def test_strides_of_many(x: torch.Tensor, dim: int, name: str) -> None:
    _compare(name, x, dim % x.ndim, "cpu")


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_strides_of_each(name: str, device: str) -> None:
    x = sample((3, 2, 4), torch.float32, 5)
    _compare(name, x, 1, device)
    _compare(name, x.permute(2, 0, 1), 0, device)


def _compare(name: str, x: torch.Tensor, dim: int, device: str) -> None:
    ours = to_ours(x, device)
    wanted, found = MAKERS[name](ORACLE, x, dim), MAKERS[name](OURS, ours, dim)
    pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
    for want, have in pairs:
        assert tuple(have.shape) == tuple(want.shape)
        assert have.stride() == want.stride(), f"{name} of {tuple(x.shape)} {x.stride()} along {dim}"
        assert have._is_view() == want._is_view(), name


#: what gives a result of its own memory that its backward does not need; a part of it is then written
SCANS = {
    "cumsum": lambda x, d: x.cumsum(d),
    "cummax": lambda x, d: x.cummax(d).values,
    "cummin": lambda x, d: x.cummin(d).values,
    "sort": lambda x, d: x.sort(d).values,
    "topk": lambda x, d: x.topk(2, d).values,
    "kthvalue": lambda x, d: x.kthvalue(2, d, keepdim=True).values,
    "median": lambda x, d: x.median(d, keepdim=True).values,
    "max": lambda x, d: x.max(d, keepdim=True).values,
    "mode": lambda x, d: x.mode(d, keepdim=True).values,
    "flip": lambda x, d: x.flip(d),
    "rot90": lambda x, d: x.rot90(),
}


def _first(y: Any) -> None:
    y[0] = 5


def _every_second(y: Any) -> None:
    y[..., ::2] *= 3


def _through_flatten(y: Any) -> None:
    y.flatten()[0].mul_(2)


@pytest.mark.parametrize("write", [_first, _every_second, _through_flatten])
@pytest.mark.parametrize("name", sorted(SCANS))
def test_gradient_after_writing_into_a_part(name: str, write: Any, device: str) -> None:
    def program(t: Any, w: Any) -> Any:
        results = []
        for dim in (0, 1):
            y = SCANS[name](w, dim)
            write(y)
            results.append(y)
        return (*results, w * w)

    assert check(program, [torch.tensor([[1.0, 4.0, 2.0], [3.0, -1.0, 7.0]])], device, where=name)


def test_writes_through_a_flattened_result_are_kept(device: str) -> None:
    order = to_ours(torch.arange(8.0).reshape(4, 2), device).argsort(dim=0, stable=True)
    order.flatten()[::2].add_(1)
    assert order.tolist() == [[1, 0], [2, 1], [3, 2], [4, 3]]


#: of a namespace, and operands that lie in any order; results that are written into an empty ``out`` lie as those that are made
INTO = {
    "add": (lambda t, x, **out: t.add(x, 1, **out), 1),
    "atan2": (lambda t, x, **out: t.atan2(x, x, **out), 1),
    "where": (lambda t, x, **out: t.where(x > 0, x, x, **out), 1),
    "lerp": (lambda t, x, **out: t.lerp(x, x, 0.5, **out), 1),
    "sort": (lambda t, x, **out: t.sort(x, stable=True, dim=0, **out), 2),
    "amax": (lambda t, x, **out: t.amax(x, 0, keepdim=True, **out), 1),
    "kron": (lambda t, x, **out: t.kron(x, x, **out), 1),
    "slice_scatter": (lambda t, x, **out: t.slice_scatter(x, x[:1], 0, 0, 1, **out), 1),
    "inv": (lambda t, x, **out: t.linalg.inv(x, **out), 1),
    "solve": (lambda t, x, **out: t.linalg.solve(x, x, **out), 1),
    "cholesky": (lambda t, x, **out: t.linalg.cholesky(x, **out), 1),
    "older cholesky": (lambda t, x, **out: t.cholesky(x, **out), 1),
    "cholesky_solve": (lambda t, x, **out: t.cholesky_solve(x, x, **out), 1),
    "lu_factor": (lambda t, x, **out: t.linalg.lu_factor(x, **out), 2),
    "qr": (lambda t, x, **out: t.linalg.qr(x, **out), 2),
    "svd": (lambda t, x, **out: t.linalg.svd(x, **out), 3),
    "tensorinv": (lambda t, x, **out: t.linalg.tensorinv(x, 1, **out), 1),
}


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated")
@pytest.mark.parametrize("name", INTO)
def test_strides_of_what_is_resized(name: str) -> None:
    function, count = INTO[name]
    x = torch.tensor([[4.0, 1.0, 0.5], [1.0, 5.0, 0.25], [0.5, 0.25, 6.0]])

    def run(library: Any, x: Any) -> list[Any]:
        kinds = {"lu_factor": {1: library.int32}, "sort": {1: library.int64}}.get(name, {})
        outs = tuple(library.empty(0, dtype=kinds.get(number, x.dtype)) for number in range(count))
        result = function(library, x.t(), out=outs if count > 1 else outs[0])
        return [type(result).__name__ if count > 1 else "", *outs]

    wanted, found = run(ORACLE, x), run(OURS, to_ours(x, "cpu"))
    assert found[0] == wanted[0]
    for have, want in zip(found[1:], wanted[1:], strict=True):
        assert (tuple(have.shape), have.stride()) == (tuple(want.shape), want.stride())
