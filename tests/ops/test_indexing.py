"""Subscripts, gathers and scatters against PyTorch, by tables and by random subscripts."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from ops_oracle import INTEGERS, OURS, both_raise, check, kind_of, sample, to_ours

quick = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def _subscript(draw: Any, shape: tuple[int, ...]) -> list[Any]:
    """Draw one entry per dimension or fewer; index tensors share one shape that broadcasts."""
    entries: list[Any] = []
    tensors = draw(st.sampled_from(((), (1,), (3,), (2, 3), (0,))))
    masked = False
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kinds = (
            ["slice", "slice", "full", "tensor"] + (["int", "negative"] if size else []) + ([] if masked else ["mask"])
        )
        kind = draw(st.sampled_from(kinds))
        if kind == "tensor" and not size:
            kind = "full"
        if kind == "slice":
            bounds = st.one_of(st.none(), st.integers(-size - 1, size + 1))
            entries.append(slice(draw(bounds), draw(bounds), draw(st.sampled_from((None, 1, 2, 3)))))
        elif kind == "full":
            entries.append(slice(None))
        elif kind == "int":
            entries.append(draw(st.integers(0, size - 1)))
        elif kind == "negative":
            entries.append(draw(st.integers(-size, -1)))
        elif kind == "tensor":
            count = 1
            for each in tensors:
                count *= each
            values = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            entries.append(torch.tensor(values, dtype=torch.int64).reshape(tensors))
        else:
            masked = True
            entries.append(torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=torch.bool))
        if draw(st.integers(0, 7)) == 0:
            entries.append(None)
    if draw(st.integers(0, 4)) == 0 and len([each for each in entries if each is not None]) < len(shape):
        entries.append(Ellipsis)
    return entries


@st.composite
def subscripts(draw: Any) -> tuple[tuple[int, ...], list[Any]]:
    shape = tuple(draw(st.lists(st.sampled_from((0, 1, 2, 3, 4)), min_size=1, max_size=3)))
    return shape, _subscript(draw, shape)


def _translated(t: Any, entries: list[Any], device: str) -> Any:
    return tuple(to_ours(each, device) if t is OURS and isinstance(each, torch.Tensor) else each for each in entries)


@quick
@given(case=subscripts())
def test_random_reads(device: str, case: Any) -> None:
    shape, entries = case
    x = sample(shape, torch.float32, 3)
    check(lambda t, a: a[_translated(t, entries, device)], [x], device, where=f"x{list(shape)}[{entries}]")
    check(
        lambda t, a: a.transpose(0, -1)[_translated(t, entries, device)],
        [x],
        device,
        where=f"x{list(shape)}.transpose[{entries}]",
    )


@quick
@given(case=subscripts(), scalar=st.booleans())
def test_random_writes(device: str, case: Any, scalar: bool) -> None:
    shape, entries = case
    x = sample(shape, torch.float32, 3)
    try:
        target = x[tuple(entries)].shape
    except IndexError:
        return
    if any(isinstance(each, torch.Tensor) and each.dtype is torch.int64 for each in entries):
        # Which of several writers wins is not defined: write a value that depends on the place only.
        value = torch.tensor(9.0)
    else:
        value = torch.tensor(5.0) if scalar else sample(target, torch.float32, 8)

    def write(t: Any, a: Any, v: Any) -> Any:
        a = a * 1
        a[_translated(t, entries, device)] = v
        return a

    check(
        write,
        [x, value],
        device,
        gradient=value.ndim > 0 or value.item() == 5.0,
        where=f"x{list(shape)}[{entries}] = {list(value.shape)}",
    )
    number = lambda t, a: write(t, a, 7)  # noqa: E731
    check(number, [x], device, where=f"x{list(shape)}[{entries}] = 7")


@quick
@given(case=subscripts())
def test_random_accumulation(device: str, case: Any) -> None:
    shape, entries = case
    chosen = [each for each in entries if isinstance(each, torch.Tensor) and each.dtype is torch.int64]
    if not chosen or len(chosen) != len(entries):
        return
    x = sample(shape, torch.float32, 3)
    values = sample(x[tuple(chosen)].shape, torch.float32, 6)
    check(
        lambda t, a, v: t.index_put(a, _translated(t, chosen, device), v, accumulate=True),
        [x, values],
        device,
        where=f"{list(shape)} {chosen}",
    )


X, I2 = (4, 5), torch.tensor([[0, 1, 3], [3, 0, 2]])
DIM0, DIM1 = torch.tensor([2, 0, 3]), torch.tensor([4, 0])
CASES = {
    "gather 0": lambda t, x, y, i, j: x.gather(0, i),
    "gather 1": lambda t, x, y, i, j: t.gather(x, 1, i),
    "scatter 1": lambda t, x, y, i, j: x.scatter(1, i, y[:2, :3]),
    "scatter number": lambda t, x, y, i, j: x.scatter(0, i, 3),
    "scatter part": lambda t, x, y, i, j: x.scatter(1, i[:1], y),
    "scatter add": lambda t, x, y, i, j: x.scatter_add(0, i, y[:2, :3]),
    "scatter add 1": lambda t, x, y, i, j: t.scatter_add(x, 1, i, y),
    "sum": lambda t, x, y, i, j: x.scatter_reduce(0, i, y[:2, :3], "sum"),
    "prod": lambda t, x, y, i, j: x.scatter_reduce(0, i, y[:2, :3], "prod"),
    "amax": lambda t, x, y, i, j: x.scatter_reduce(0, i, y[:2, :3], "amax"),
    "amin": lambda t, x, y, i, j: x.scatter_reduce(1, i, y[:2, :3], "amin"),
    "mean": lambda t, x, y, i, j: x.scatter_reduce(1, i, y[:2, :3], "mean"),
    "sum without self": lambda t, x, y, i, j: x.scatter_reduce(0, i, y[:2, :3], "sum", include_self=False),
    "amax without self": lambda t, x, y, i, j: x.scatter_reduce(0, i, y[:2, :3], "amax", include_self=False),
    "mean without self": lambda t, x, y, i, j: x.scatter_reduce(0, i, y[:2, :3], "mean", include_self=False),
    "scatter reduce add": lambda t, x, y, i, j: x.scatter(0, i, y[:2, :3], reduce="add"),
    "index_select 0": lambda t, x, y, i, j: x.index_select(0, j),
    "index_select 1": lambda t, x, y, i, j: t.index_select(x, 1, j),
    "index_add": lambda t, x, y, i, j: x.index_add(0, j, y[:3]),
    "index_add alpha": lambda t, x, y, i, j: t.index_add(x, 1, j, y[:, :3], alpha=2),
    "index_copy": lambda t, x, y, i, j: x.index_copy(0, j, y[:3]),
    "index_fill": lambda t, x, y, i, j: x.index_fill(1, j, 2),
    "take": lambda t, x, y, i, j: x.take(i * 3),
    "take_along_dim": lambda t, x, y, i, j: t.take_along_dim(x, i, 0),
    "masked_select": lambda t, x, y, i, j: x.masked_select(x > y),
    "masked_select broadcast": lambda t, x, y, i, j: t.masked_select(x, y[0] > 1),
    "masked_scatter": lambda t, x, y, i, j: x.masked_scatter(x > 1, y),
    "masked_scatter_": lambda t, x, y, i, j: (x * 1).masked_scatter_(y > 1, x * 2),
    "nonzero": lambda t, x, y, i, j: (x > 1).nonzero(),
    "nonzero tuple": lambda t, x, y, i, j: t.nonzero(x > 1, as_tuple=True),
    "where 1": lambda t, x, y, i, j: t.where(x > 1),
    "mask": lambda t, x, y, i, j: x[x > 1],
    "mask rows": lambda t, x, y, i, j: x[x[:, 0] > 1],
    "mask then int": lambda t, x, y, i, j: x[x[:, 0] > 1, 2],
    "mask write": lambda t, x, y, i, j: _write(x, x > 1, 3),
    "mask write tensor": lambda t, x, y, i, j: _write(x, x > 1, y[x > 1]),
    "index_put": lambda t, x, y, i, j: t.index_put(x, (j, i[0]), y[0, :3]),
    "index_put accumulate": lambda t, x, y, i, j: x.index_put((j * 0, j * 0), y[0, :3], accumulate=True),
    "index_put in place": lambda t, x, y, i, j: (x * 1).index_put_((i,), y[0]),
    "list": lambda t, x, y, i, j: x[[0, 2]],
    "list of lists": lambda t, x, y, i, j: x[[0, 2], [1, 3]],
    "list of range": lambda t, x, y, i, j: x[range(2)],
    "int tensor": lambda t, x, y, i, j: x[j[0]],
    "int tensor view": lambda t, x, y, i, j: _through_view(x, j[0]),
    "int tensor apart": lambda t, x, y, i, j: x.reshape(2, 2, 5)[j % 2, :, j[1]],
    "separated": lambda t, x, y, i, j: x.reshape(2, 2, 5)[j % 2, :, i[0]],
    "slice between": lambda t, x, y, i, j: x[1:, j][:, None],
    "ellipsis": lambda t, x, y, i, j: x[..., j],
    "none index": lambda t, x, y, i, j: x[None, j],
    "true": lambda t, x, y, i, j: x[True],
    "false": lambda t, x, y, i, j: x[False],
    "rows write": lambda t, x, y, i, j: _write(x, j, y[:3]),
    "column write": lambda t, x, y, i, j: _write(x, (slice(None), j), y[:, :3]),
    "broadcast write": lambda t, x, y, i, j: _write(x, j, y[0]),
    "int write": lambda t, x, y, i, j: _write(x, 1, y[2]),
    "iadd": lambda t, x, y, i, j: _add(x, (slice(None), 1), y[:, 0]),
    "iadd index": lambda t, x, y, i, j: _add(x, j, y[:3]),
    "uint8 mask": lambda t, x, y, i, j: x[(x > 1).long() != 0],
    "listed from the end": lambda t, x, y, i, j: x[:, [-1]] * x[[0, -2]][:1],
    "int32 index": lambda t, x, y, i, j: x[j.int()],
    "select_scatter": lambda t, x, y, i, j: t.select_scatter(x, y[0], 0, 1),
    "slice_scatter": lambda t, x, y, i, j: t.slice_scatter(x, y[:2], 0, 1, 3),
    "gather negative dim": lambda t, x, y, i, j: x.gather(-1, i),
    "bincount": lambda t, x, y, i, j: t.bincount(j),
    "unique": lambda t, x, y, i, j: t.unique(i),
    "searchsorted": lambda t, x, y, i, j: t.searchsorted(x[0].sort()[0], y[0]),
    "argwhere": lambda t, x, y, i, j: t.argwhere(x > 1),
    "flatnonzero": lambda t, x, y, i, j: (x.reshape(-1) > 1).nonzero().squeeze(1),
}
FLOAT_ONLY_GRADIENT = {"prod", "amax", "amin"}


def _write(x: Any, subscript: Any, value: Any) -> Any:
    x = x * 1
    x[subscript] = value
    return x


def _through_view(x: Any, index: Any) -> Any:
    x = x * 1
    x[index].mul_(3)
    return x


def _add(x: Any, subscript: Any, value: Any) -> Any:
    x = x * 1
    x[subscript] += value
    return x


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name", sorted(CASES))
def test_forms(name: str, device: str) -> None:
    import webgpu_torch_core as core

    if hasattr(torch, name) and not hasattr(core, name):
        pytest.skip(f"{name} is not offered")
    for dtype in ("float32", "float16", "bfloat16", "float64", *INTEGERS):
        kind = kind_of(dtype, device)
        if kind is None:
            continue
        x, y = sample(X, kind, 1, 0.2, 2), sample(X, kind, 2, 0.2, 2)
        check(CASES[name], [x, y, I2, DIM0], device, where=f"{name} {dtype}")
        check(
            CASES[name], [sample((5, 4), kind, 3, 0.2, 2).t(), y, I2, DIM0], device, where=f"{name} {dtype} transposed"
        )


@pytest.mark.parametrize(
    "name",
    [
        "gather 1",
        "index_select 0",
        "scatter add",
        "index_add",
        "index_put accumulate",
        "rows write",
        "take",
        "mask",
        "list of lists",
        "index_copy",
    ],
)
def test_double_backward(name: str, device: str) -> None:
    check(
        lambda t, x, y, i, j: CASES[name](t, x * x, y * y * x, i, j),
        [sample(X, torch.float32, 1), sample(X, torch.float32, 2), I2, DIM0],
        device,
        second=True,
        where=name,
    )


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_rows_at_few_places(ndim: int, count: int, device: str) -> None:
    x = sample((3, 4, 5)[:ndim], torch.float32)
    for dim in range(ndim):
        index = torch.arange(count) + 1
        check(lambda t, x, i: (x[(slice(None),) * dim + (i,)], x.index_select(dim, i)), [x, index], device)
    check(
        lambda t, x, i: (x[[-1]], x[x == x.max()], x[True], x[i, i][:1]),
        [sample((3, 3), torch.float32), torch.tensor([1])],
        device,
    )


ERRORS = {
    "range": (lambda t, x, i: x[9], "out of bounds"),
    "float index": (lambda t, x, i: x[1.5], ""),
    "mask shape": (
        lambda t, x, i: x[t.tensor([True, False], device=x.device)],
        "does not match the shape of the indexed tensor",
    ),
    "too many": (lambda t, x, i: x[0, 0, 0], "too many indices"),
    "float tensor": (lambda t, x, i: x[x], "tensors used as indices must be long, int, byte or bool tensors"),
    "gather dtype": (lambda t, x, i: x.gather(0, i.float()), "int64"),
    "gather ranks": (lambda t, x, i: x.gather(0, i[0]), "same number of dimensions"),
    "index_select": (lambda t, x, i: x.index_select(0, i), ""),
    "step": (lambda t, x, i: x[::0], ""),
    "write shape": (lambda t, x, i: x.__setitem__(0, x[:, :3]), ""),
    "masked_select": (lambda t, x, i: x.masked_select(i), ""),
    "masked_fill": (lambda t, x, i: x.masked_fill(i[:, :1][:1], 1), "only supports boolean masks"),
    "index_add": (lambda t, x, i: x.index_add(0, i[0], x[:1]), ""),
    "scatter sizes": (lambda t, x, i: x.scatter(0, i, x[:1]), ""),
    "index_add dtype": (lambda t, x, i: x.index_add(0, i[0], x[:3].half()), ""),
    "index shapes": (lambda t, x, i: x[i[0], i[0, :2]], "shape mismatch"),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name: str, device: str) -> None:
    function, words = ERRORS[name]
    if device != "cpu" and "double" in name:
        pytest.skip("no float64")
    both_raise(function, [sample(X, torch.float32), I2], device, words)
