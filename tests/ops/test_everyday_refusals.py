"""Refusals that programs meet, in PyTorch's words: second passes, sizes, matrices, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch as ours
from hypothesis import given
from hypothesis import strategies as st

#: what is computed of a tensor, some of it beside numbers
COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda t, x: x * 3, "number times": lambda t, x: 3 * x, "over": lambda t, x: x / 3,
    "number over": lambda t, x: 3 / x, "plus": lambda t, x: x + 3, "minus": lambda t, x: x - 3,
    "number minus": lambda t, x: 3 - x, "with alpha": lambda t, x: t.add(x, 1, alpha=2), "negative": lambda t, x: -x,
    "squared": lambda t, x: x**2, "cubed": lambda t, x: x**3, "first power": lambda t, x: x**1, "inverse": lambda t, x: x**-1,
    "power of two": lambda t, x: 2**x, "written times": lambda t, x: x.clone().mul_(3), "lerp": lambda t, x: t.lerp(x, x * 2, 0.5),
    "lerp of one": lambda t, x: t.lerp(x, t.ones(3), 0.5), "addcmul": lambda t, x: t.addcmul(x, t.ones(3), t.ones(3), value=2),
    "clamp": lambda t, x: x.clamp(0, 1), "sum": lambda t, x: x.sum(), "mean": lambda t, x: x.mean(), "exp": lambda t, x: x.exp(),
    "mod": lambda t, x: x % 2, "maximum": lambda t, x: t.maximum(x, t.ones(3)), "xlogy": lambda t, x: t.xlogy(x, 2.0),
    "view": lambda t, x: x.view(3, 1), "where": lambda t, x: t.where(x > 0, x, 0.0), "degrees": lambda t, x: x.deg2rad(),
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(COMPUTED)), min_size=1, max_size=3))
def test_second_passes_are_refused_where_pytorch_refuses_them(names: list[str]) -> None:
    answers = []
    for library in (torch, ours):
        leaf = library.tensor([0.5, 0.75, 1.25], requires_grad=True)
        value = leaf
        for name in names:
            value = COMPUTED[name](library, value)
            value = value.reshape(-1)[:1].expand(3) if value.shape != (3,) else value
        value.sum().backward()
        try:
            value.sum().backward()
            answers.append("again")
        except RuntimeError as error:
            answers.append(str(error)[:60])
    assert answers[1] == answers[0]


@given(
    st.lists(st.sampled_from(["whole", "truth", "tensor", "tensor of two", "real", "none", "real tensor"]), max_size=3)
)
def test_sizes_are_whole_numbers(kinds: list[str]) -> None:
    answers = []
    for library in (torch, ours):
        made = {
            "whole": 2, "truth": True, "tensor": library.tensor(3), "tensor of two": library.tensor([1, 2]), "real": 1.5,
            "none": None, "real tensor": library.tensor(1.0),
        }  # fmt: skip
        try:
            answers.append(repr(library.Size([made[each] for each in kinds])))
        except TypeError as error:
            answers.append(str(error))
    assert answers[1] == answers[0]


#: functions of matrices, and what else they are given
MATRICES: dict[str, Callable[[Any, Any], Any]] = {
    **{name: lambda t, a, name=name: getattr(t.linalg, name)(a) for name in (  # type: ignore[misc]
        "cholesky", "cholesky_ex", "eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals", "qr", "det", "lu_factor",
        "lu_factor_ex", "inv", "slogdet",
    )},
    "solve": lambda t, a: t.linalg.solve(a, a),
    "householder": lambda t, a: t.linalg.householder_product(a, t.ones(2).to(a.dtype)),
    "cholesky_solve": lambda t, a: t.cholesky_solve(t.ones(3, 1), a),
    "triangular_solve": lambda t, a: t.triangular_solve(t.ones(3, 1), a),
    "checked cholesky": lambda t, a: t.linalg.cholesky_ex(a, check_errors=True),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int64", "bool", "float32"])
def test_matrices_of_other_types(name: str, kind: str) -> None:
    answers = []
    for library in (torch, ours):
        matrix = library.tensor([[1.0, 2.0], [2.0, 1.0]]).to(getattr(library, kind))
        try:
            MATRICES[name](library, matrix)
            answers.append(("computed", ""))
        except (RuntimeError, NotImplementedError) as error:
            answers.append((type(error).__name__.strip("_"), str(error)))
    assert answers[1] == answers[0]


@pytest.mark.parametrize("name", ["cholesky_solve", "triangular_solve"])
def test_matrices_that_are_not_square(name: str) -> None:
    words = []
    for library in (torch, ours):
        with pytest.raises(RuntimeError) as error:
            getattr(library, name)(library.ones(2, 1), library.ones(2, 3))
        words.append(str(error.value))
    assert words[1] == words[0]


@given(
    argument=st.sampled_from(["kernel_size", "stride", "padding", "dilation"]), sizes=st.lists(st.just(1), max_size=3),
    pool=st.sampled_from(["max_pool1d", "max_pool1d with positions", "avg_pool1d"]),
)  # fmt: skip
def test_windows_of_one_dimension(argument: str, sizes: list[int], pool: str) -> None:
    answers = []
    for library in (torch, ours):
        options = {"kernel_size": 2, argument: sizes} | ({"return_indices": True} if "positions" in pool else {})
        try:
            answers.append(getattr(library.nn.functional, pool.split()[0])(library.ones(1, 1, 6), **options))
            answers[-1] = "computed"
        except (RuntimeError, TypeError) as error:
            answers.append(str(error).partition("\n")[0])
    if argument == "dilation" and pool == "avg_pool1d":
        assert "computed" not in answers
    else:
        assert answers[1] == answers[0]


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_storages_are_as_large_as_their_elements() -> None:
    for count in (0, 10, 100):
        grown = [lib.ones(count).storage().__sizeof__() - lib.ones(0).storage().__sizeof__() for lib in (torch, ours)]
        assert grown[1] == grown[0]


def test_what_requires_a_gradient_is_not_lent() -> None:
    words = []
    for library in (torch, ours):
        with pytest.raises(BufferError) as error:
            library.from_dlpack(library.ones(2, requires_grad=True))
        words.append(str(error.value))
    assert words[1] == words[0]


@pytest.mark.parametrize("function", ["tensor", "from_numpy", "as_tensor"])
@pytest.mark.parametrize("kind", ["U1", "O", "datetime64[D]", "S2", "timedelta64[s]", "longdouble", "i8,f4"])
def test_arrays_of_types_that_tensors_do_not_have(kind: str, function: str) -> None:
    answers = []
    for library in (torch, ours):
        with pytest.raises(TypeError) as raised:
            getattr(library, function)(numpy.zeros(2, kind))
        answers.append(str(raised.value))
    assert answers[1] == answers[0]
