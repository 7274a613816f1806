"""Operations that read and write elements which lie apart in memory, against PyTorch: NumPy goes other ways through these."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.ir.layouts import contiguous_strides

FLOATS, WIDE = ("float32", "float64"), ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
NUMBERS = (*FLOATS, "float16", "bfloat16", *SIGNED, "uint8")
#: the types of operands of each operation, and of each test, whose results are truth values
NEGATIONS = {"neg": (*NUMBERS, *WIDE), "conj_physical": WIDE}
UNARY = {
    **NEGATIONS, "abs": NUMBERS, "sign": NUMBERS,
    "square": NUMBERS, "bitwise_not": (*SIGNED, "uint8", "bool"), "relu": (*FLOATS, *SIGNED), "reciprocal": FLOATS,
    **dict.fromkeys(("ceil", "floor", "trunc", "round", "sqrt", "rsqrt"), (*FLOATS, "float16")),
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sigmoid", "erf"), FLOATS),
}  # fmt: skip
BINARY = {
    **dict.fromkeys(("add", "sub", "mul"), (*NUMBERS, *WIDE)), **dict.fromkeys(("maximum", "minimum", "fmod", "remainder"), NUMBERS),
    **dict.fromkeys(("div", "atan2", "copysign", "hypot", "nextafter"), FLOATS),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), (*SIGNED, "uint8", "bool")),
}  # fmt: skip
TESTS = {
    **dict.fromkeys(("isnan", "isinf", "isfinite", "signbit", "logical_not"), NUMBERS),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_xor"), NUMBERS),
}  # fmt: skip
#: what has no ``out``: its results are copied
RETURNED = ("isnan", "isinf", "isfinite", "relu")


@st.composite
def layouts(draw, shape):
    """Draw strides and an offset: dimensions in any order, elements up to eight apart."""
    order = draw(st.permutations(range(len(shape))))
    dense = contiguous_strides(tuple(shape[axis] for axis in order))
    step = draw(st.integers(1, 8))
    return tuple(dense[order.index(axis)] * step for axis in range(len(shape))), draw(st.integers(0, 3))


@st.composite
def calls(draw, table):
    """Draw an operation of a table, a type, and where operands and results lie; or that these are an operand."""
    name = draw(st.sampled_from(sorted(table)))
    kind = draw(st.sampled_from(table[name]))
    shape = tuple(draw(st.one_of(st.tuples(st.integers(0, 70)), st.lists(st.integers(1, 6), min_size=2, max_size=3))))
    lies = [draw(layouts(shape)) for _ in range(3)]
    return name, kind, shape, lies, draw(st.booleans()), draw(st.integers(0, 99))


def drawn(library, kind, shape, lie, seed):
    """Return a tensor that lies somewhere in a larger one, and the larger one."""
    strides, offset = lie
    count = offset + 1 + sum(stride * (size - 1) for stride, size in zip(strides, shape, strict=True) if size)
    generator = np.random.default_rng(seed)
    if kind in WIDE:
        # Few are enough to be told apart, and those products are exact.
        values = generator.integers(-9, 10, count) + 1j * generator.integers(-9, 10, count)
    elif kind == "bool":
        values = generator.integers(0, 2, count)
    elif "int" in kind:
        values = generator.integers(1, 100, count)
    else:
        values = generator.choice((*np.linspace(-3, 3, 12), -0.0, 0.0, np.inf, -np.inf, np.nan), count)
    whole = library.tensor(values.tolist(), dtype=getattr(library, kind))
    return whole.as_strided(shape, strides, offset), whole


def result(library, call, operands, kind_of_results=None):
    """Return all that an operation leaves in memory: its results, and what lies between them."""
    name, kind, shape, lies, in_place, seed = call
    values = [drawn(library, kind, shape, lie, seed + number) for number, lie in enumerate(lies[:operands])]
    target, whole = values[0]
    if kind_of_results or not in_place:
        target, whole = drawn(library, kind_of_results or kind, shape, lies[2], seed + 2)
    arguments = [value for value, _ in values]
    if name in RETURNED:
        target.copy_(getattr(library, name)(*arguments))
    else:
        getattr(library, name)(*arguments, out=target)
    return whole


def agree(call, operands, kind_of_results=None):
    wanted = result(torch, call, operands, kind_of_results)
    with ours.device("cpu"):
        found = result(ours, call, operands, kind_of_results)
    found = torch.tensor(found.tolist(), dtype=wanted.dtype)
    torch.testing.assert_close(found, wanted, equal_nan=True)


@settings(max_examples=150, deadline=None)
@given(calls(UNARY))
def test_of_one(call) -> None:
    agree(call, 1)


@settings(max_examples=150, deadline=None)
@given(calls(BINARY))
def test_of_two(call) -> None:
    agree(call, 2)


@settings(max_examples=100, deadline=None)
@given(calls(TESTS))
def test_truth_values(call) -> None:
    one = call[0] in ("isnan", "isinf", "isfinite", "signbit", "logical_not")
    agree(call, 1 if one else 2, "bool")


@settings(max_examples=300, deadline=None)
@given(calls(NEGATIONS))
def test_negations(call) -> None:
    """NumPy 2.4 negates other elements than those of an operand that lie as many apart as one has bytes."""
    agree(call, 1)


@pytest.mark.parametrize(("kind", "apart"), [("float32", 4), ("int64", 8)])
def test_negations_on_the_way(kind: str, apart: int) -> None:
    """Steps over many elements write into memory that lies as the results do, which an operand that overlaps itself leaves open."""

    def computed(library):
        x = library.tensor(list(range(80_000)), dtype=getattr(library, kind)).as_strided((5, 9000), (apart, apart))
        return library.mul(-x, x, out=library.zeros(9000, 5, dtype=getattr(library, kind)).t())

    wanted = computed(torch).tolist()
    with ours.device("cpu"):
        assert computed(ours).tolist() == wanted
