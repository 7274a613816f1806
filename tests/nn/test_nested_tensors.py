"""Nested tensors with one ragged size: what programs make of them and their gradients, next to PyTorch's; what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def _heads(t: Any, x: Any) -> Any:
    """[batch, ragged, 4] as [batch, 2 heads, ragged, 2]."""
    return x.unflatten(-1, (2, 2)).transpose(1, 2)


def _block(t: Any, x: Any) -> Any:
    weight = t.arange(16.0).reshape(4, 4) / 16
    h = t.nn.functional.layer_norm(x, (4,))
    q, k, v = t.nn.functional.linear(h, t.cat([weight, weight.t(), weight + 1])).chunk(3, -1)
    out = t.nn.functional.scaled_dot_product_attention(_heads(t, q), _heads(t, k), _heads(t, v))
    x = x + out.transpose(1, 2).flatten(-2)
    return x + t.nn.functional.gelu(x @ weight)


#: of x: [batch, ragged, 4]
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda t, x: (x * 2 + 1).tanh() * x.sigmoid() - x / 3 + (1 - x) ** 2,
    "two": lambda t, x: x * x.exp() + t.maximum(x, -x) + t.where(x > 0, x, 0.5 * x),
    "beside rows": lambda t, x: x + t.arange(4.0) - t.ones(1), "beside components": lambda t, x: x * t.arange(float(x.size(0)))[:, None, None],
    "filled": lambda t, x: x.masked_fill(x > 0.3, -1.0).clamp(-0.5, 2), "typed": lambda t, x: x.double() * 2,
    "linear": lambda t, x: t.nn.functional.linear(x, t.arange(12.0).reshape(3, 4) / 9, t.ones(3)),
    "product": lambda t, x: x @ t.arange(8.0).reshape(4, 2), "normalised": lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "batched": lambda t, x: t.bmm(x, t.ones(x.size(0), 4, 3) / 7), "root": lambda t, x: t.nn.functional.rms_norm(x, (4,)),
    "softmax of features": lambda t, x: x.softmax(-1), "softmax of positions": lambda t, x: x.softmax(1) * x,
    "logarithms": lambda t, x: x.log_softmax(-1), "sum": lambda t, x: x.sum() * x.mean(), "features": lambda t, x: x.sum(-1) * x.mean(-1),
    "positions": lambda t, x: x.sum(1) * x.mean(1), "kept": lambda t, x: x.sum(1, keepdim=True) + x.mean(-1, keepdim=True).sum(1, keepdim=True),
    "greatest": lambda t, x: x.amax(1) + x.amin(1), "heads": lambda t, x: _heads(t, x) * 2, "views": lambda t, x: x.view(x.size(0), -1, 2, 2) * 3,
    "same size": lambda t, x: x.view(x.shape) + x.reshape(x.size(0), x.size(1), 2, 2).flatten(2), "joined": lambda t, x: t.cat([x, x * 2], -1),
    "parts": lambda t, x: x.chunk(2, -1)[1] * x.split(2, -1)[0] + x.narrow(-1, 1, 2), "ends": lambda t, x: x.unsqueeze(-1).squeeze(-1),
    "padded": lambda t, x: x.to_padded_tensor(-1.0), "longer": lambda t, x: t.nested.to_padded_tensor(x, 0.0, (x.size(0), 9, 4)),
    "component": lambda t, x: x[-1] * 2, "one feature": lambda t, x: x[..., 1], "unbound": lambda t, x: sum(each.sum() for each in x.unbind()),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(_heads(t, x), _heads(t, x * 2), _heads(t, x)),
    "causal": lambda t, x: t.nn.functional.scaled_dot_product_attention(*[_heads(t, x)] * 3, is_causal=True, scale=0.3),
    "block": _block, "values": lambda t, x: t.nested.nested_tensor_from_jagged(x.values() * 3, x.offsets()) + x,
    "compared": lambda t, x: (x > 0).float() * x.eq(x).float(), "questions": lambda t, x: (x > 0).any() | (x < 9).all(),
    "likes": lambda t, x: t.ones_like(x) + t.zeros_like(x) * x, "dropped": lambda t, x: t.nn.functional.dropout(x, 0.5, training=False),
    "detached": lambda t, x: x.detach() * x, "copied": lambda t, x: x.clone().mul_(2).add_(1), "contiguous": lambda t, x: _heads(t, x).transpose(1, 2).contiguous(),
}  # fmt: skip


#: programs in which components meet: their oracle is PyTorch's nested tensor, that of the others each component by itself
OF_THE_BATCH = ("beside components", "sum", "padded", "longer", "component", "unbound", "values", "questions")


def told(value: Any) -> Any:
    """Return a tensor's components as numbers."""
    if getattr(value, "is_nested", False):
        return [told(each) for each in value.unbind()]
    return str(value.dtype), tuple(value.shape), torch.tensor(value.detach().tolist(), dtype=torch.float64)


def same(first: Any, second: Any) -> None:
    assert type(first) is type(second)
    if isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            same(one, other)
        return
    assert first[:2] == second[:2]
    torch.testing.assert_close(first[2], second[2], rtol=1e-4, atol=1e-5)


def components(sizes: list[int], seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, 4, generator=generator) for size in sizes]


def here(tensor: Any, device: str = "cpu") -> Any:
    return webgpu_torch.tensor(tensor.tolist(), device=device).reshape(tuple(tensor.shape))


def gradients(loss: Any, leaves: list[Any]) -> list[Any]:
    if not loss.requires_grad:
        return []
    loss.backward()
    return [told(each.grad) for each in leaves]


def ours(name: str, parts: list[Any], device: str = "cpu") -> list[Any]:
    """Return what a program makes of a nested tensor of copies, and its gradient."""
    t = webgpu_torch
    x = t.nested.nested_tensor([here(each, device) for each in parts], layout=t.jagged, requires_grad=True)
    with t.device(device):
        result = PROGRAMS[name](t, x)
        values = result.values() if result.is_nested else result
        return [told(result), gradients((values * values).sum(), [x])]


def theirs(name: str, parts: list[Any]) -> list[Any]:
    """Return the same of PyTorch's."""
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    result = PROGRAMS[name](torch, x)
    values = result.values() if result.is_nested else result
    return [told(result), gradients((values * values).sum(), [x])]


def one_by_one(name: str, parts: list[Any]) -> list[Any]:
    """Return the same of PyTorch's dense tensors, of one component after the other."""
    leaves = [each.clone().requires_grad_() for each in parts]
    found = [PROGRAMS[name](torch, each.unsqueeze(0)).squeeze(0) for each in leaves]
    loss = torch.stack([(each * each).sum() for each in found]).sum()
    return [[told(each) for each in found], [gradients(loss, leaves)] if loss.requires_grad else []]


def compare(name: str, parts: list[Any], device: str = "cpu") -> None:
    mine = ours(name, parts, device)
    if name in OF_THE_BATCH:
        same(mine, theirs(name, parts))
        return
    if not isinstance(mine[0], list):
        kind, shape, numbers = mine[0]
        mine[0] = [(kind, shape[1:], each) for each in numbers]
    same(mine, one_by_one(name, parts))


SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), SIZES, st.integers(0, 9))
def test_programs(name: str, sizes: list[int], seed: int) -> None:
    compare(name, components(sizes, seed))


@pytest.mark.parametrize("name", ["block", "softmax of positions", "positions", "padded", "beside components"])
def test_programs_on_devices(name: str, device: str) -> None:
    compare(name, components([3, 1, 4], 1), device)


def test_components_with_gaps() -> None:
    t = webgpu_torch
    values = t.arange(14.0).reshape(7, 2).requires_grad_()
    x = t.nested.nested_tensor_from_jagged(values, t.tensor([0, 3, 7]), lengths=t.tensor([2, 3]))
    assert not x.is_contiguous() and x.numel() == 10
    assert [each.tolist() for each in x.unbind()] == [values[:2].tolist(), values[3:6].tolist()]
    (x.sum(1) + (x * 2).contiguous().sum(1)).sum().backward()
    assert values.grad.tolist() == [[3.0, 3.0]] * 2 + [[0.0, 0.0]] + [[3.0, 3.0]] * 3 + [[0.0, 0.0]]


MADE: dict[str, Callable[[Any, list[Any]], Any]] = {
    "list": lambda t, parts: t.nested.nested_tensor([each.tolist() for each in parts], layout=t.jagged),
    "typed": lambda t, parts: t.nested.nested_tensor(parts, dtype=t.float64, layout=t.jagged),
    "as": lambda t, parts: t.nested.as_nested_tensor(parts, layout=t.jagged),
    "turned": lambda t, parts: t.nested.nested_tensor([each.t() for each in parts], layout=t.jagged),
    "dense": lambda t, parts: t.nested.as_nested_tensor(t.stack([each[:1] for each in parts]), layout=t.jagged),
    "lengths": lambda t, parts: t.nested.nested_tensor_from_jagged(t.cat(parts), lengths=t.tensor([len(each) for each in parts])),
    "narrow": lambda t, parts: t.nested.narrow(
        t.ones(len(parts), 6, 2).cumsum(1), 1, t.tensor([0] * len(parts)), t.tensor([len(each) for each in parts]), layout=t.jagged
    ),
    "number": lambda t, parts: t.nested.narrow(t.ones(len(parts), 6, 2).cumsum(1), 1, 2, 3, layout=t.jagged).contiguous(),
    "mask": lambda t, parts: t.nested.masked_select(t.arange(12.0).reshape(3, 4), t.arange(12).reshape(3, 4) % len(parts) == 0),
}  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(MADE)), SIZES, st.integers(0, 9))
def test_making(name: str, sizes: list[int], seed: int) -> None:
    found = []
    for t in (webgpu_torch, torch):
        parts = components(sizes, seed)
        x = MADE[name](t, [here(each) for each in parts] if t is webgpu_torch else parts)
        shape = tuple("j" if not isinstance(each, int) or str(each)[0] == "j" else each for each in x.shape)
        found.append(
            [
                shape,
                x.dim(),
                x.numel(),
                str(x.layout),
                x.is_nested,
                x.is_contiguous(),
                x.offsets().tolist(),
                len(x),
                told(x),
            ]
        )
    assert found[0][:-1] == found[1][:-1]
    same(found[0][-1], found[1][-1])


def test_gradients_reach_components() -> None:
    gradients = []
    for t in (webgpu_torch, torch):
        parts = [t.ones(2, 3, requires_grad=True), t.ones(1, 3, requires_grad=True)]
        x = t.nested.as_nested_tensor(parts, layout=t.jagged)
        (x * x).values().sum().backward()
        values = t.ones(5, 2, requires_grad=True)
        (t.nested.nested_tensor_from_jagged(values, t.tensor([0, 2, 5])) * 3).sum().backward()
        gradients.append([each.grad.tolist() for each in (*parts, values)])
    assert gradients[0] == gradients[1]


def test_sizes_are_equal_by_offsets() -> None:
    x = webgpu_torch.nested.nested_tensor(
        [webgpu_torch.ones(2, 3), webgpu_torch.ones(1, 3)], layout=webgpu_torch.jagged
    )
    again = webgpu_torch.nested.nested_tensor_from_jagged(x.values() + 1, x.offsets())
    other = webgpu_torch.nested.nested_tensor_from_jagged(x.values() + 1, x.offsets().clone())
    assert x.shape[1] == again.shape[1] == (x * 2).size(1) != other.shape[1]
    assert x.is_same_size(again) and not x.is_same_size(other)
    assert repr(x).startswith("NestedTensor(size=(2, j") and repr(x).endswith(
        "offsets=tensor([0, 2, 3]), contiguous=True)"
    )
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        same(told(twin), told(x))
    module = webgpu_torch.nn.Sequential(
        webgpu_torch.nn.Linear(3, 4), webgpu_torch.nn.ReLU(), webgpu_torch.nn.LayerNorm(4)
    )
    assert module(x).shape[::2] == (2, 4)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "other lengths": lambda t, x: x + t.nested.nested_tensor([t.ones(1, 4)] * 2, layout=t.jagged), "batch": lambda t, x: x.sum(0),
    "part of the batch": lambda t, x: x[:1], "truth": lambda t, x: bool(x), "item": lambda t, x: x.item(), "list": lambda t, x: x.tolist(),
    "nothing": lambda t, x: t.nested.nested_tensor([], layout=t.jagged), "numbers": lambda t, x: t.nested.nested_tensor([1.0], layout=t.jagged),
    "dimensions": lambda t, x: t.nested.nested_tensor([t.ones(2), t.ones(2, 2)], layout=t.jagged), "array": lambda t, x: x.numpy(),
    "two ragged": lambda t, x: t.nested.nested_tensor([t.ones(2, 3), t.ones(3, 2)], layout=t.jagged),
    "no offsets": lambda t, x: t.nested.nested_tensor_from_jagged(t.ones(3, 2)), "running": lambda t, x: x.cumsum(1),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    errors = []
    for t in (webgpu_torch, torch):
        x = t.nested.nested_tensor([t.ones(2, 4), t.ones(3, 4)], layout=t.jagged)
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            REFUSED[name](t, x)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])


def test_sizes_are_compared_with_those_of_nested_tensors() -> None:
    def run(t: Any, layout: str) -> Any:
        nested = t.nested.nested_tensor([t.ones(2, 4), t.ones(3, 4)], layout=getattr(t, layout))
        found = []
        for one, two in ((nested, nested), (nested, t.ones(2)), (t.ones(2), nested)):
            try:
                found.append(one.is_same_size(two))
            except (RuntimeError, ValueError) as error:
                found.append((type(error), str(error)))
        return found

    for layout in ("strided", "jagged"):
        assert run(webgpu_torch, layout) == run(torch, layout)
