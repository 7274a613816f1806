"""Gradients of element-wise operations at extremes, against PyTorch's: zeros of both signs, infinities, NaN, 1e-30 to 1e30."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import to_ours, to_torch

NUMBERS = [
    1e-30, -1e-30, 1e30, -1e30, 0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 100.0, -100.0, 1e-3, 20.5,
    88.8, -88.8, 3e-39, 1e10, -1e10, 3.0, -3.0, 6.0, -6.0, 2.9999998, -2.9999998,
]  # fmt: skip

#: where this library's gradients differ, and why; the page "Numerics" says so, too
DEVIATIONS = {
    "digamma": "PyTorch's trigamma is finite at its poles",
    "polar": "PyTorch's gradient for a negative length has the wrong sign",
    "nn.functional.hardsigmoid": "PyTorch computes float64's 1 / 6 in float32",
}  # fmt: skip
#: whose gradient of NaN depends in PyTorch on whether the processor's vector unit computes it: they are compared one by one
ONE_BY_ONE = tuple(
    f"nn.functional.{name}"
    for name in ("softshrink", "hardshrink", "elu", "celu", "selu", "hardtanh", "relu6", "hardswish")
) + ("logit",)
#: whose gradient is a sum of numbers near 1: the multiples of the type's last place of 1 that it may be off by, and why
CANCELLING = {"nn.functional.gelu": (0.5, "far below 0 what is left of 1 + erf(x / sqrt(2)) is the rounding of 1")}
#: where devices without float64 differ
ON_DEVICES = {"special.erfcx": "far out 2x erfcx(x) and 2 / sqrt(pi) cancel but for the last place of erfcx"}


def _database() -> Any:
    """Return PyTorch's database of operations, and what finds ours."""
    folder = str(Path(__file__).parents[1] / "conformance")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("database")
    finally:
        sys.path.remove(folder)


def _entries(dtype: torch.dtype) -> list[Any]:
    """Return the differentiable operations of one or two tensors that compute element by element."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

    return [
        entry
        for entry in op_db
        if entry.supports_autograd
        and dtype in entry.supported_backward_dtypes("cpu")
        and (isinstance(entry, UnaryUfuncInfo | BinaryUfuncInfo) or entry.name.startswith("nn.functional."))
    ]


def _options(entry: Any, dtype: torch.dtype) -> list[dict[str, Any]]:
    """Return up to four sets of the keyword arguments that samples have."""
    found: list[dict[str, Any]] = []
    for sample in entry.sample_inputs("cpu", dtype, requires_grad=False):
        plain = not any(isinstance(each, torch.Tensor | torch.memory_format) for each in sample.kwargs.values())
        if plain and sample.kwargs not in found and (not sample.args or isinstance(sample.args[0], torch.Tensor)):
            found.append(sample.kwargs)
    return found[:4]


def _gradients(entry: Any, arguments: tuple[torch.Tensor, ...], options: dict[str, Any]) -> Any:
    """Return PyTorch's gradients, None where the call is no function of single elements."""
    try:
        result = entry.op(*arguments, **options)
        if not isinstance(result, torch.Tensor) or result.shape != arguments[0].shape or result.is_complex():
            return None
        return torch.autograd.grad(result, arguments, torch.ones_like(result), allow_unused=True)
    except Exception:  # noqa: BLE001 - not for these arguments
        return None


def _compare(dtype: torch.dtype, device: str, entry: Any, function: Any) -> int:
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo

    count, limits = 0, (1e-4, 1e-36) if dtype is torch.float32 else (1e-9, 1e-300)
    if entry.name in CANCELLING:
        limits = limits[0], CANCELLING[entry.name][0] * torch.finfo(dtype).eps
    x = torch.tensor(NUMBERS, dtype=dtype)
    two = isinstance(entry, BinaryUfuncInfo)
    for options in _options(entry, dtype):
        plain = (x.repeat_interleave(len(NUMBERS)), x.repeat(len(NUMBERS))) if two else (x,)
        arguments = tuple(each.clone().requires_grad_() for each in plain)
        wanted = _gradients(entry, arguments, options)
        if wanted is not None and entry.name in ONE_BY_ONE:
            single = [_gradients(entry, (each.detach()[None].requires_grad_(),), options)[0] for each in arguments[0]]
            wanted = (torch.cat(single),)
        if wanted is None:
            continue
        own = tuple(to_ours(each, device) for each in arguments)
        result = function(*own, **options)
        found = ours.autograd.grad(result, own, ours.ones_like(result), allow_unused=True)
        count += 1
        for number, (want, have) in enumerate(zip(wanted, found, strict=True)):
            where = f"{entry.name} {options}, gradient {number}"
            assert (want is None) == (have is None), where
            if want is None:
                continue
            close = torch.isclose(to_torch(have), want, *limits, equal_nan=True)
            at = [(*(each[place].item() for each in plain), want[place].item(), to_torch(have)[place].item())
                  for place in (~close).nonzero().flatten().tolist()]  # fmt: skip
            assert not at, f"{where}: arguments, PyTorch's, ours: {at[:5]}"
    return count


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow_on("all")
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("share", ["some", "all"])
def test_gradients_at_extremes(dtype: str, share: str) -> None:
    """``some``: every fifth operation."""
    check_gradients("cpu", dtype, 5 if share == "some" else 1, 15 if share == "some" else 100)


@pytest.mark.slow
def test_gradients_at_extremes_on_devices(device: str) -> None:
    if device != "cpu":
        check_gradients(device, "float32", 1, 100)


def check_gradients(device: str, dtype: str, step: int, least: int) -> None:
    """Compare the gradients of every ``step``-th operation on a device; at least so many calls are compared."""
    database, kind = _database(), getattr(torch, dtype)
    failures, compared = [], 0
    # Off the CPU, random numbers are others.
    random = ("dropout",) if device == "cpu" else ("dropout", "rrelu")
    for entry in _entries(kind)[::step]:
        if (
            entry.name in DEVIATIONS
            or (device != "cpu" and entry.name in ON_DEVICES)
            or any(each in entry.name for each in random)
            or (entry.name in ("complex", "polar") and dtype != "float32")
        ):
            continue
        try:
            function = database.our_function(entry)
        except database.Missing:
            continue
        try:
            compared += _compare(kind, device, entry, function)
        except AssertionError as error:
            failures.append(str(error))
        except TypeError as error:
            # Some make float64, which a device may not have.
            if "device doesn't support float64" not in str(error):
                raise
    assert not failures, "\n".join(failures)
    assert compared > least


@pytest.mark.parametrize("name", ["softplus", "mish", "elu", "selu", "celu", "gelu", "silu", "logsigmoid", "softsign"])
def test_activations_of_large_numbers(name: str, device: str) -> None:
    values = torch.tensor([-1e30, -1000.0, -90.0, -1.0, 0.5, 25.0, 89.0, 1000.0, 1e30], requires_grad=True)
    own = to_ours(values, device)
    getattr(torch.nn.functional, name)(values).sum().backward()
    getattr(ours.nn.functional, name)(own).sum().backward()
    torch.testing.assert_close(to_torch(own.grad), values.grad)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from((*NUMBERS, 1e-40, 0.3, 0.7, 0.99999994)), min_size=1, max_size=12),
    st.sampled_from((None, -1.0, 0.0, 1e-6, 0.3, 0.5, 0.6)),
    st.sampled_from((1.0, -2.0, 0.0, math.inf)),
)
def test_logits_between_limits(numbers: list[float], eps: float | None, weight: float) -> None:
    """One by one: PyTorch's gradient at NaN depends on whether the processor's vector unit computes it."""
    own = ours.tensor(numbers, dtype=ours.float32, requires_grad=True)
    result = ours.logit(own, eps)
    (result * weight).sum().backward()
    for place, number in enumerate(numbers):
        single = torch.tensor(number, requires_grad=True)
        wanted = torch.logit(single, eps)
        (wanted * weight).backward()
        torch.testing.assert_close(to_torch(result.detach())[place], wanted.detach(), equal_nan=True)
        torch.testing.assert_close(to_torch(own.grad)[place], single.grad, equal_nan=True)


REFUSED = {
    "floor_divide": lambda t, x: t.floor_divide(x, 2),
    "heaviside": lambda t, x: t.heaviside(x, x),
    "igamma": lambda t, x: t.igamma(x, x.detach()),
    "zeta": lambda t, x: t.special.zeta(x + 1, x.detach()),
    "unique": lambda t, x: t.unique(x),
    "unique_consecutive": lambda t, x: t.unique_consecutive(x),
    "histogram": lambda t, x: t.histogram(x, 3).hist,
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_no_derivative_is_an_error_and_no_zero(name: str) -> None:
    errors = []
    for library, make in ((torch, torch.tensor), (ours, ours.tensor)):
        x = make([1.0, 2.0, 2.5], requires_grad=True)
        result = REFUSED[name](library, x)
        assert result.requires_grad
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            result.sum().backward()
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def test_deviations_are_published() -> None:
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text(encoding="utf-8")
    for name, reason in DEVIATIONS.items():
        assert f"| `{name}` | {reason} |" in page
    for name, (_, reason) in CANCELLING.items():
        assert f"| `{name}` | {reason} |" in page
    for name, reason in ON_DEVICES.items():
        assert f"| `{name}` on GPUs | {reason} |" in page


def test_what_is_overwritten_by_a_strided_view_has_no_gradient(device: str) -> None:
    """Differences of results, and not PyTorch's formula, say what the gradient is."""
    start, part = torch.arange(9.0).reshape(3, 3), torch.ones(2, 2)
    weights = torch.arange(1.0, 10.0).reshape(3, 3)
    result = torch.as_strided_scatter(start, part, (2, 2), (2, 1), 1)
    changed = [torch.as_strided_scatter(start + step.reshape(3, 3), part, (2, 2), (2, 1), 1) for step in torch.eye(9)]
    wanted = torch.stack([((each - result) * weights).sum() for each in changed]).reshape(3, 3)
    own, put = to_ours(start, device).requires_grad_(), to_ours(part, device).requires_grad_()
    (ours.as_strided_scatter(own, put, (2, 2), (2, 1), 1) * to_ours(weights, device)).sum().backward()
    assert torch.equal(to_torch(own.grad), wanted)
    assert torch.equal(to_torch(put.grad), weights.as_strided((2, 2), (2, 1), 1))
