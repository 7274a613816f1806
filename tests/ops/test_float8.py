"""8-bit floats: what they hold after conversions and writes, which operations there are, files, and what is refused."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch
from hypothesis import given, settings
from hypothesis import strategies as st

KINDS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
OTHERS = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", *KINDS)
NUMBERS = st.one_of(
    st.floats(width=32), st.floats(-600, 600, width=32), st.floats(-0.015625, 0.015625, width=32),
    st.integers(0, 511).map(lambda half: half / 2 * 0.0625), st.integers(-70000, 70000).map(float),
)  # fmt: skip


def both(numbers: list[float], kind: str, device: str) -> tuple[Any, Any]:
    """Return the same 8-bit floats here and in PyTorch."""
    theirs = torch.tensor(numbers).to(getattr(torch, kind))
    bits = webgpu_torch.tensor(theirs.view(torch.uint8).tolist(), dtype=webgpu_torch.uint8, device=device)
    return bits.view(getattr(webgpu_torch, kind)), theirs


def told(value: Any) -> object:
    """Return what two equal tensors have in common: of 8-bit floats the bits, but for which NaN it is."""
    if not hasattr(value, "dtype"):
        return value
    kind, numbers = str(value.dtype).removeprefix("torch."), value.flatten().tolist()
    if kind in KINDS:
        module = torch if isinstance(value, torch.Tensor) else webgpu_torch
        bits = value.contiguous().view(module.uint8).flatten().tolist()
        numbers = ["nan" if math.isnan(number) else bit for number, bit in zip(numbers, bits, strict=True)]
    elif numbers and isinstance(numbers[0], float | complex):
        numbers = [str(number) for number in numbers]
    return kind, tuple(value.shape), numbers


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(KINDS), st.lists(NUMBERS, min_size=1, max_size=40), st.sampled_from(OTHERS[5:9]))
def test_numbers_become_the_nearest(kind: str, numbers: list[float], source: str) -> None:
    results = []
    for module in (webgpu_torch, torch):
        given_in = module.tensor(numbers).to(getattr(module, source))
        results.append(
            [told(given_in.to(getattr(module, kind))), told(module.tensor(numbers, dtype=getattr(module, kind)))]
        )
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", KINDS)
def test_conversions_on_devices(kind: str, device: str) -> None:
    numbers = [
        sign * number * 2.0**power for sign in (1, -1) for power in range(-20, 18, 3) for number in (1, 1.0625, 1.9)
    ]
    numbers += [0.0, -0.0, math.inf, -math.inf, math.nan]
    ours = webgpu_torch.tensor(numbers, device=device).to(getattr(webgpu_torch, kind))
    theirs = torch.tensor(numbers).to(getattr(torch, kind))
    assert told(ours.cpu()) == told(theirs)
    assert told(ours.float().cpu()) == told(theirs.float())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.lists(st.integers(0, 255), min_size=4, max_size=12), st.sampled_from(OTHERS))
def test_every_number_is_read(kind: str, bits: list[int], other: str) -> None:
    results = []
    for module in (webgpu_torch, torch):
        value = module.tensor(bits, dtype=module.uint8).view(getattr(module, kind))
        numbers = value if "float" in other else value.where(value == value, 1.0)
        if other in OTHERS[1:5]:
            # What does not fit an integer is undefined.
            numbers = numbers.where(numbers.float().abs() < 100, 1.0)
        results.append([told(numbers.to(getattr(module, other))), repr(value), value.element_size(), value.nbytes])
    assert results[0] == results[1]


def _written(t: Any, x: Any, y: Any) -> Any:
    whole = x.clone()
    whole[0], whole[1:2], whole[..., 1] = y[1], y[:1], 3.0
    return [whole.t(), whole.clone().copy_(y.float() * 1.3)]


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "compared": lambda t, x, y: [x == y, x != y, x.isnan(), x == 1.5, t.equal(x, y), t.equal(x, x.clone())],
    "computed": lambda t, x, y: [x * y, x.abs(), +x, x.any(), x.all(0)],
    "product": lambda t, x, y: (x @ y.t()),
    "moved": lambda t, x, y: [
        x.t().contiguous(), x.flip(0), x.roll(1, 1), x.repeat(2, 1), t.cat([x, y], 1), t.stack([x, y]), x.diag(),
        x.unfold(1, 2, 1), x.expand(2, 3, 4).clone(), t.nn.functional.pad(x, (1, 0)), t.nn.functional.pad(x, (1, 0), value=2.0),
    ],
    "indexed": lambda t, x, y: [
        x[t.tensor([2, 0])], x[x == x], x.index_select(1, t.tensor([3, 1])), x.masked_select(y == y), x[-1], x[:, ::2],
        t.where(x == y, x, y), x.where(y == y, 0.5), t.nn.functional.embedding(t.tensor([[0, 2]]), x),
        x.index_put((t.tensor([1]),), y[:1]), x.index_put((t.tensor([1]),), y[:1], accumulate=True),
    ],
    "written": lambda t, x, y: _written(t, x, y),
    "made": lambda t, x, y: [
        t.zeros(3, dtype=x.dtype), t.ones_like(x), t.full((2,), 0.3, dtype=x.dtype), x.new_zeros(2), t.eye(3, dtype=x.dtype),
        x.clone().fill_(0.7), x.clone().zero_(), t.empty(2, 3, dtype=x.dtype).shape, x.new_tensor([0.1, 9.9]),
    ],
    "viewed": lambda t, x, y: [x.view(t.uint8), x.view(t.int8), x.view(t.int32), x.view(12), x.type(), x.dtype.itemsize],
    "infinite": lambda t, x, y: [each.to(t.float8_e5m2).isinf() for each in (x, y)] + [x.to(t.float8_e5m2).isfinite()],
    "summed": lambda t, x, y: [x.sum(dtype=t.float32), x.sum(0, dtype=t.float16)],
    "types": lambda t, x, y: [str(t.result_type(x, 1.0)), t.can_cast(x.dtype, t.float32), str(t.finfo(x.dtype).max)],
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.floats(-4, 4, width=32), min_size=24, max_size=24),
    st.sampled_from(sorted(PROGRAMS)),
)
def test_programs(kind: str, numbers: list[float], name: str) -> None:
    ours, theirs = both(numbers, kind, "cpu")
    results = []
    for module, value in ((webgpu_torch, ours), (torch, theirs)):
        x, y = value.reshape(2, 3, 4)
        found = PROGRAMS[name](module, x, y)
        results.append([told(each) for each in found] if isinstance(found, list) else told(found))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_on_devices(name: str, device: str) -> None:
    if device == "cpu":
        pytest.skip("drawn cases run there")
    ours, theirs = both([number / 5 - 2 for number in range(24)], "float8_e4m3fn", device)
    results = []
    with webgpu_torch.device(device):
        for module, value in ((webgpu_torch, ours), (torch, theirs)):
            found = PROGRAMS[name](module, *value.reshape(2, 3, 4))
            found = found if isinstance(found, list) else [found]
            results.append([told(each) for each in found if not isinstance(each, str) or "Tensor" not in each])
    assert results[0] == results[1]


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, x: x + x, "number": lambda t, x: x * 2, "neg": lambda t, x: -x, "lt": lambda t, x: x < x,
    "sum": lambda t, x: x.sum(), "sort": lambda t, x: x.sort(), "max": lambda t, x: x.max(), "sin": lambda t, x: x.sin(),
    "gather": lambda t, x: x.gather(0, t.tensor([[0]])), "tril": lambda t, x: x.tril(), "cumsum": lambda t, x: x.cumsum(0),
    "rand": lambda t, x: t.rand(2, dtype=x.dtype), "normal_": lambda t, x: x.normal_(), "numpy": lambda t, x: x.numpy(),
    "mixed": lambda t, x: x + t.ones(4), "cat": lambda t, x: t.cat([x, x.float()]), "int": lambda t, x: x == t.tensor([1]),
    "promote": lambda t, x: t.promote_types(x.dtype, t.int32), "full": lambda t, x: t.full((2,), 1e6, dtype=x.dtype),
    "default": lambda t, x: t.set_default_dtype(x.dtype), "isinf": lambda t, x: x.isinf(), "argmax": lambda t, x: x.argmax(),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    ours, theirs = both([1.0, 2.0, 3.0, 4.0] * 2, "float8_e4m3fn", "cpu")
    errors = []
    for module, value in ((webgpu_torch, ours), (torch, theirs)):
        with pytest.raises((NotImplementedError, RuntimeError, TypeError)) as caught:
            REFUSED[name](module, value.reshape(2, 4))
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    # The names of kernels are PyTorch's own affair.
    said = [str(each).partition("not implemented")[2] or str(each) for each in errors]
    assert said[0] == said[1]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(NUMBERS, min_size=6, max_size=6),
    st.sampled_from([(0, 1), (1, 0), (1, 1)]),
    st.booleans(),
)
def test_files(kind: str, numbers: list[float], ways: tuple[int, int], weights_only: bool) -> None:
    ours, theirs = both(numbers, kind, "cpu")
    value = (theirs, ours)[ways[0]].reshape(2, 3).t()
    writer, reader = ((torch, webgpu_torch)[each] for each in ways)
    file = io.BytesIO()
    writer.save({"value": value, "view": value[1:]}, file)
    found = reader.load(io.BytesIO(file.getvalue()), weights_only=weights_only)
    assert told(found["value"]) == told(value)
    assert found["value"].stride() == value.stride()
    found["view"].zero_()
    assert found["value"][1:].float().abs().sum().item() == 0
    assert told(copy.deepcopy(ours)) == told(pickle.loads(pickle.dumps(ours))) == told(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_flow_through_conversions(kind: str) -> None:
    results = []
    for module in (webgpu_torch, torch):
        x = module.tensor([0.3, -1.7, 5.0], requires_grad=True)
        leaf = module.tensor([1.0, 2.0]).to(getattr(module, kind)).requires_grad_()
        low = x.to(getattr(module, kind))
        (
            (low.float() * module.tensor([1.0, 2.0, 3.0])).sum() + (module.cat([leaf, low.detach()]).float() * 2).sum()
        ).backward()
        results.append([told(low.detach()), x.grad.tolist(), told(leaf.grad)])
    assert results[0] == results[1]


def test_meta() -> None:
    value = webgpu_torch.empty(3, dtype=webgpu_torch.float8_e5m2, device="meta")
    assert value.to(webgpu_torch.float32).shape == (3,)
    assert webgpu_torch.ones(3, device="meta").to(webgpu_torch.float8_e5m2).dtype is webgpu_torch.float8_e5m2
