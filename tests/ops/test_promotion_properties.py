"""Which type comes out: every pair of types, tensors with and without dimensions, and Python numbers, on both sides."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from ops_oracle import to_ours

KINDS = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
FORMS = ("tensor", "0-d")
NUMBERS = {"bool": True, "int": 3, "float": 1.5, "complex": 1 + 2j}
DEFAULTS = ("float32", "float64", "float16", "bfloat16")
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "eq": operator.eq,
    "lt": operator.lt,
    "and": operator.and_,
    "shift": operator.lshift,
}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    for library in (ours, torch):
        library.set_default_dtype(library.float32)


def operand(library: Any, form: str, kind: str) -> Any:
    """Return a tensor of ones and twos, a 0-d tensor, or a Python number."""
    if form == "number":
        return NUMBERS[kind]
    values = torch.tensor([1, 2] if form == "tensor" else 2).to(getattr(torch, kind))
    return values if library is torch else to_ours(values, "cpu")


def operands() -> list[tuple[str, str]]:
    return [(form, kind) for form in FORMS for kind in KINDS] + [("number", kind) for kind in NUMBERS]


def outcome(function: Callable[[], Any]) -> str:
    """Return the type that comes out, or the class of what is raised."""
    try:
        result = function()
    except NotImplementedError as error:
        # A kernel that PyTorch was not given (logical shifts of bool, half-precision complex); a result is no error then.
        missing = any(each in str(error) for each in ("for 'Bool'", "for 'ComplexHalf'"))
        return "no kernel" if missing else "NotImplementedError"
    except Exception as error:  # noqa: BLE001 - whatever the oracle raises is the expectation
        return type(error).__name__
    return f"{getattr(result, 'dtype', result)!r}"


def differences(what: Callable[[Any, Any, Any], Any], pairs: Any) -> list[str]:
    """Return where the two libraries give other types."""
    found = []
    for left, right in pairs:
        mine, theirs = (
            outcome(lambda: what(library, operand(library, *left), operand(library, *right)))
            for library in (ours, torch)
        )
        if mine != theirs and not unsupported(mine, theirs):
            found.append(f"{left} and {right}: {mine} instead of {theirs}")
    return found


def unsupported(mine: str, theirs: str) -> bool:
    """Return whether PyTorch lacks the kernel, or its answer is a type that this library does not store."""
    if theirs == "no kernel":
        return mine.startswith("torch.") or mine == "NotImplementedError"
    # NotImplementedError is a RuntimeError, and the more exact of the two.
    if (mine, theirs) == ("NotImplementedError", "RuntimeError"):
        return True
    return False


def pairs_with_a_tensor() -> list[Any]:
    return [
        each for each in itertools.product(operands(), repeat=2) if each[0][0] != "number" or each[1][0] != "number"
    ]


def test_promote_types() -> None:
    for left, right in itertools.product((*KINDS, "complex32"), repeat=2):
        answers = [repr(lib.promote_types(getattr(lib, left), getattr(lib, right))) for lib in (ours, torch)]
        assert answers[0] == answers[1] or unsupported(*answers), (left, right)


def test_can_cast() -> None:
    for left, right in itertools.product(KINDS, repeat=2):
        answers = [lib.can_cast(getattr(lib, left), getattr(lib, right)) for lib in (ours, torch)]
        assert answers[0] == answers[1], (left, right)


@pytest.mark.parametrize("default", DEFAULTS)
def test_result_type(default: str) -> None:
    for library in (ours, torch):
        library.set_default_dtype(getattr(library, default))
    # Of two plain numbers PyTorch has an overload, too.
    pairs = itertools.product(operands(), repeat=2)
    assert not differences(lambda library, left, right: library.result_type(left, right), pairs)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("default", DEFAULTS)
def test_results(name: str, default: str) -> None:
    for library in (ours, torch):
        library.set_default_dtype(getattr(library, default))
    pairs = pairs_with_a_tensor()
    if default != "float32":
        pairs = [each for each in pairs if "number" in (each[0][0], each[1][0])]
    assert not differences(lambda library, left, right: OPERATIONS[name](left, right), pairs)


JOINED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda library, left, right: library.where(library.tensor([True, False]), left, right),
    "where 0-d": lambda library, left, right: library.where(library.tensor(True), left, right),
    "cat": lambda library, left, right: library.cat([left, right]),
    "stack": lambda library, left, right: library.stack([left, right]),
    "maximum": lambda library, left, right: library.maximum(left, right),
    "fmod": lambda library, left, right: library.fmod(left, right),
    "atan2": lambda library, left, right: library.atan2(left, right),
    "true_divide": lambda library, left, right: library.true_divide(left, right),
    "xlogy": lambda library, left, right: library.xlogy(left, right),
    "copysign": lambda library, left, right: library.copysign(left, right),
    "clamp": lambda library, left, right: library.clamp(left, right, right),
    "lerp": lambda library, left, right: library.lerp(left, right, 0.5),
    "addcmul": lambda library, left, right: library.addcmul(left, left, right),
    "add alpha": lambda library, left, right: library.add(left, right, alpha=2),
    "div floor": lambda library, left, right: library.div(left, right, rounding_mode="floor"),
    "div trunc": lambda library, left, right: library.div(left, right, rounding_mode="trunc"),
    "logical_and": lambda library, left, right: library.logical_and(left, right),
    "isclose": lambda library, left, right: library.isclose(left, right),
    "masked_fill": lambda library, left, right: library.masked_fill(left, left == left, right),
    "full_like": lambda library, left, right: library.full_like(left, right),
}


@pytest.mark.filterwarnings("ignore:Casting complex values to real", "ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", JOINED)
def test_functions(name: str) -> None:
    assert not differences(JOINED[name], pairs_with_a_tensor())


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "add_": operator.iadd,
    "mul_": operator.imul,
    "div_": operator.itruediv,
    "floor_divide_": operator.ifloordiv,
    "pow_": operator.ipow,
    "and_": operator.iand,
    "copy_": lambda left, right: left.copy_(right),
    "fill_": lambda left, right: left.fill_(right),
    "eq_": lambda left, right: left.eq_(right),
    "setitem": lambda left, right: operator.setitem(left, ..., right),
    "masked_fill_": lambda left, right: left.masked_fill_(left == left, right),
    "clamp_": lambda left, right: left.clamp_(right, right),
}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    """The type of the written tensor stays; a result that cannot be cast to it is refused."""
    pairs = [each for each in pairs_with_a_tensor() if each[0][0] == "tensor"]
    assert not differences(lambda library, left, right: IN_PLACE[name](left, right), pairs)


def message(function: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        function()
    return str(caught.value)


def test_messages_of_refused_casts() -> None:
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    for left, right in itertools.product(names, (*names, "complex64")):
        if torch.can_cast(getattr(torch, right), getattr(torch, left)):
            continue
        texts = [
            message(lambda: operand(library, "tensor", left).add_(operand(library, "tensor", right)))
            for library in (ours, torch)
        ]
        assert texts[0] == texts[1]
        texts = [
            message(lambda: library.add(operand(library, "tensor", right), 1, out=operand(library, "tensor", left)))
            for library in (ours, torch)
        ]
        assert texts[0] == texts[1]


UNARY = (
    "abs neg exp sqrt sin floor ceil round sign reciprocal square sum mean prod cumsum cumprod max argmax any all std var "
    "sigmoid tanh erf log1p isnan isfinite logical_not bitwise_not relu trunc frac norm median sort softmax float half nonzero "
    "count_nonzero expm1 rsqrt digamma lgamma nan_to_num sgn angle positive signbit logsumexp amax nansum nanmean"
).split()


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, default: str) -> None:
    for library in (ours, torch):
        library.set_default_dtype(getattr(library, default))
    found = []
    for kind in KINDS:
        answers = []
        for library in (ours, torch):
            result = outcome(
                lambda: first(getattr(library, name, None) or getattr(library.Tensor, name), kind, library)
            )
            answers.append(result)
        if answers[0] != answers[1] and not unsupported(*answers):
            found.append(f"{kind}: {answers[0]} instead of {answers[1]}")
    assert not found


def first(function: Callable[..., Any], kind: str, library: Any) -> Any:
    name = function.__name__
    extra = (0,) if name in ("cumsum", "cumprod", "softmax", "logsumexp") else ()
    result = function(operand(library, "tensor", kind), *extra)
    return result[0] if isinstance(result, tuple) else result


CREATED: dict[str, Callable[[Any], Any]] = {
    "tensor of floats": lambda library: library.tensor([1.0, 2]),
    "tensor of ints": lambda library: library.tensor([1, 2]),
    "tensor of bools": lambda library: library.tensor([True]),
    "tensor of mixed": lambda library: library.tensor([True, 2, 3.0]),
    "tensor of nothing": lambda library: library.tensor([]),
    "zeros": lambda library: library.zeros(2),
    "arange": lambda library: library.arange(3),
    "arange of floats": lambda library: library.arange(3.0),
    "full": lambda library: library.full((2,), 1),
    "full of floats": lambda library: library.full((2,), 1.0),
    "full of bools": lambda library: library.full((2,), True),
    "linspace": lambda library: library.linspace(0, 1, 3),
    "eye": lambda library: library.eye(2),
    "rand": lambda library: library.rand(2),
    "randint": lambda library: library.randint(3, (2,)),
    "scalar_tensor": lambda library: library.scalar_tensor(2),
    "as_tensor": lambda library: library.as_tensor(2.5),
    "new_tensor": lambda library: library.zeros(1, dtype=library.int32).new_tensor([1.5]),
    "get": lambda library: library.get_default_dtype(),
    "true division": lambda library: library.tensor([1]) / 2,
    "float": lambda library: library.tensor([1]).to(float),
}


@pytest.mark.parametrize("default", DEFAULTS)
def test_default_type(default: str) -> None:
    for library in (ours, torch):
        library.set_default_dtype(getattr(library, default))
    for name, make in CREATED.items():
        answers = [outcome(lambda: make(library)) for library in (ours, torch)]
        assert answers[0] == answers[1], name


def test_default_type_is_floating_point() -> None:
    texts = []
    for library in (ours, torch):
        with pytest.raises(TypeError) as caught:
            library.set_default_dtype(library.int64)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
