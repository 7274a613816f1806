"""Classes of differences that random programs found one example of, each drawn whole, beside PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import TOLERANCES, to_ours, to_torch
from webgpu_torch_core.backend.interface import OutOfMemoryError
from webgpu_torch_core.backend.plugins import registry

KINDS = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
EXPONENTS = (0, 1, -1, 3, -20, 40, 130, -150, 300, 2**40)
NUMBERS = (0.0, -0.0, 1.0, -1.5, 1e-30, 3e38, 7.0, 1e-42, torch.inf)
#: how a matrix lies in memory
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rows": lambda x: x,
    "columns": lambda x: x.t().contiguous().t(),
    "one column": lambda x: x[:, :1].clone(),
    "one number": lambda x: x[0, 0].clone(),
}


def _outcome(step: Callable[[], Any]) -> Any:
    """Return a result, or the type of the built-in exception that was raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return step()
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return next(each for each in type(error).__mro__ if each.__module__ == "builtins")


def _strides(x: Any) -> list[int]:
    """Return strides; those of nothing say nothing."""
    return list(x.stride()) if x.numel() else []


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
    st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(st.sampled_from(NUMBERS), min_size=9, max_size=9),
    st.lists(st.sampled_from(EXPONENTS), min_size=9, max_size=9),
)
def test_numbers_times_powers_of_two(
    kind: str, exponent: str, layout: str, other: str, numbers: list[float], powers: list[int]
) -> None:
    if {"float16", "complex64"} <= {kind, exponent}:
        return
    whole = exponent in ("uint8", "int32", "int64")
    reals = [float(number) if "float" in kind or "complex" in kind else abs(number) % 100 % 9 for number in numbers]
    reals = [each if each == each else 2.0 for each in reals]
    if not (whole and kind in ("float16", "bfloat16", "float32", "float64")):
        # Where a logarithm and a product of complex numbers take part, nothing far out.
        reals, powers = (
            [2.0 if abs(each) > 9 or abs(each) < 1 else each for each in reals],
            [each % 5 for each in powers],
        )
    base = LAYOUTS[layout](torch.tensor(reals, dtype=torch.float64).reshape(3, 3).to(getattr(torch, kind)))
    limit = 30 if exponent in ("uint8", "int32") else 2**30
    times = LAYOUTS[other](
        torch.tensor([max(min(each, limit), 0 if exponent == "uint8" else -limit) for each in powers])
        .reshape(3, 3)
        .to(getattr(torch, exponent))
    )
    wanted = _outcome(lambda: torch.ldexp(base, times))
    found = _outcome(lambda: ours.ldexp(to_ours(base, "cpu"), to_ours(times, "cpu")))
    if isinstance(wanted, type):
        assert isinstance(found, type) and issubclass(found, wanted)
        return
    assert found.dtype.name == str(wanted.dtype).removeprefix("torch.")
    assert _strides(found) == _strides(wanted)
    tolerance = TOLERANCES.get(wanted.dtype, 1e-6)
    torch.testing.assert_close(to_torch(found), wanted.resolve_conj(), rtol=tolerance, atol=0, equal_nan=True)


SHAPES = ((3,), (0,), (0, 0), (3, 0), (0, 3), (3, 3), (2, 3, 3), (1, 0, 0, 0), (2, 0, 3), (2, 3, 0), (2, 1, 3, 3))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(("matmul", "mm", "mv", "bmm", "dot", "inner")),
    st.sampled_from(("bool", "int64", "int16", "float16", "float32")),
    st.sampled_from(("bool", "int64", "uint8", "float32")),
    st.sampled_from(SHAPES),
    st.sampled_from(SHAPES),
    st.booleans(),
)
def test_products_of_unlike_types(
    name: str, kind: str, other: str, shape: tuple[int, ...], second: tuple[int, ...], expanded: bool
) -> None:
    left, right = torch.ones(shape).to(getattr(torch, kind)), torch.ones(second).to(getattr(torch, other))
    left = left.expand(3, *shape) if expanded and len(shape) == 2 else left
    wanted = _outcome(lambda: getattr(torch, name)(left, right))
    found = _outcome(lambda: getattr(ours, name)(to_ours(left, "cpu"), to_ours(right, "cpu")))
    if isinstance(wanted, type):
        assert isinstance(found, type) and issubclass(found, wanted)
        return
    assert torch.equal(to_torch(found), wanted)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(("result", "detached")),
    st.sampled_from(("result", "detached")),
    st.lists(st.sampled_from(("is_leaf", "requires_grad", "grad_fn")), min_size=1, max_size=3),
)
def test_what_a_view_says_of_itself_once_its_base_was_written(shown: str, added: str, asked: list[str]) -> None:
    answers = []
    for library in (torch, ours):
        x = library.arange(6.0).reshape(3, 2).requires_grad_()
        result = x * 1
        tensors = {"result": result, "detached": result.detach()}
        view = tensors[shown].transpose(0, 1)
        tensors["detached"].add_(tensors[added])
        answers.append([getattr(view, each) if each != "grad_fn" else view.grad_fn is None for each in asked])
    assert answers[1] == answers[0]


UNARY = ("exp", "sqrt", "tanh", "neg", "floor", "sigmoid", "isnan", "clone", "square")
BINARY = ("add", "mul", "sub", "div", "eq", "lt", "pow", "maximum", "fmod", "floor_divide", "atan2", "where")


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Sequence[int], Sequence[int]]:
    """Draw sizes, many of them 1, and strides of dense memory, those of single elements any."""
    sizes = draw(st.lists(st.sampled_from((1, 1, 2, 3)), min_size=1, max_size=4))
    order, strides, step = draw(st.permutations(range(len(sizes)))), [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step if sizes[dim] > 1 else draw(st.sampled_from((1, step, 5)))
        step *= sizes[dim]
    return sizes, strides


@settings(max_examples=200, deadline=None)
@given(layouts(), st.sampled_from(("float32", "int64", "complex64")), st.sampled_from(UNARY + BINARY), st.booleans())
def test_strides_of_single_elements(
    drawn: tuple[Sequence[int], Sequence[int]], kind: str, name: str, beside_number: bool
) -> None:
    x = torch.empty_strided(*drawn, dtype=getattr(torch, kind)).fill_(1)
    strides = []
    for library, value in ((torch, x), (ours, to_ours(x, "cpu"))):
        function = getattr(library, name)

        def call(function=function, library=library, value=value) -> Any:  # noqa: ANN001
            if name in UNARY:
                return function(value)
            second = 2 if beside_number else value.clone()
            return library.where(value == 1, value, second) if name == "where" else function(value, second)

        found = _outcome(call)
        strides.append(found if isinstance(found, type) else _strides(found))
    if isinstance(strides[0], type):
        assert isinstance(strides[1], type) and issubclass(strides[1], strides[0])
    else:
        assert strides[1] == strides[0]


@settings(max_examples=60, deadline=None)
@given(layouts(), st.data())
def test_running_sums_of_complex_numbers_can_be_read_as_real(
    drawn: tuple[Sequence[int], Sequence[int]], data: st.DataObject
) -> None:
    x = torch.empty_strided(*drawn, dtype=torch.complex64).fill_(2 + 1j)
    dim = data.draw(st.integers(0, x.ndim - 1))
    wanted = torch.logcumsumexp(x, dim)
    found = ours.logcumsumexp(to_ours(x, "cpu"), dim)
    assert _outcome(lambda: _strides(found.view(ours.float32))) == _outcome(
        lambda: _strides(wanted.view(torch.float32))
    )


def test_what_the_host_has_no_room_for() -> None:
    with pytest.raises(RuntimeError, match="cannot allocate 1152921504606846976 bytes") as caught:
        registry.device("cpu", 0).allocate(2**60)
    assert isinstance(caught.value, MemoryError)
    assert caught.type is OutOfMemoryError is ours.cuda.OutOfMemoryError
