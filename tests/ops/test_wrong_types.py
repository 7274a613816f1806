"""Options of a type that PyTorch refuses are refused with a TypeError; those that it takes are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

#: arguments after a matrix of 3 by 4 and options of calls that are right, by the function's name: what is in place, and
#: the positions that no sample of the database has (``tests/conformance/test_wrong_options.py`` draws from those)
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Tensor.normal_": ((0.0, 1.0), {}),
    "Tensor.uniform_": ((0.0, 1.0), {}),
    "add": ((2.0,), {}),
    "all": ((0,), {}),
    "amax": ((0,), {}),
    "diagonal": ((1,), {}),
    "div": ((2.0,), {}),
    "flatten": ((0, 1), {}),
    "lerp": ((torch.ones(3, 4), 0.5), {}),
    "linalg.vector_norm": ((2.0,), {}),
    "median": ((1,), {}),
    "nn.functional.dropout": ((), {"inplace": False}),
    "nn.functional.softmax": ((), {"dim": 1, "dtype": torch.float64}),
    "repeat_interleave": ((2,), {}),
    "sub": ((2.0,), {}),
    "sum": ((1,), {}),
}
WRONG = [
    None,
    True,
    1,
    1.5,
    1j,
    "nope",
    [0.5],
    ["a", "b"],
    {},
    NotImplemented,
    torch.float32,
    torch.ones(2),
    torch.tensor(0.5),
]


def _function(library: Any, name: str) -> Any:
    for part in name.split("."):
        library = getattr(library, part)
    return library


def _translated(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return getattr(ours, str(value).removeprefix("torch."))
    return ours.tensor(value.tolist()) if isinstance(value, torch.Tensor) else value


def _error(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _check(name: str, place: int | str, wrong: Any) -> None:
    args, options = CALLS[name]
    args, options = list(args), dict(options)
    if isinstance(place, int):
        args[place] = wrong
    else:
        options[place] = wrong
    x = torch.arange(12.0).reshape(3, 4)
    refusal = _error(lambda: _function(torch, name)(x, *args, **options))
    found = _error(
        lambda: _function(ours, name)(
            ours.arange(12.0).reshape(3, 4),
            *map(_translated, args),
            **{key: _translated(options[key]) for key in options},
        )
    )
    asked = f"{name}({place}={wrong!r}): {found!r} instead of {refusal!r}"
    assert (refusal is None) == (found is None), asked
    assert not isinstance(refusal, TypeError) or isinstance(found, TypeError), asked


PLACES = [(name, place) for name, (args, options) in CALLS.items() for place in (*range(len(args)), *options)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_options_of_wrong_types(wrong: Any) -> None:
    for place in PLACES:
        _check(*place, wrong)


def test_every_call_is_right() -> None:
    for name, (args, options) in CALLS.items():
        _function(ours, name)(
            ours.arange(12.0).reshape(3, 4),
            *map(_translated, args),
            **{key: _translated(options[key]) for key in options},
        )


def test_errors_name_the_option() -> None:
    x = ours.ones(2, 3)
    with pytest.raises(TypeError, match=r"sum\(\): argument 'keepdim' must be bool, not int"):
        x.sum(0, keepdim=1)
    with pytest.raises(TypeError, match=r"softmax\(\): argument 'dim' \(position 2\) must be int, not bool"):
        ours.softmax(x, True)
    with pytest.raises(TypeError, match=r"argument 'axis' must be tuple of ints, not str"):
        ours.sum(x, axis="rows")
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not list"):
        ours.cumsum([1, 2], 0)


#: calls with an option, of which equal numbers of other types and signs are other options
WITH_OPTION = {
    "add": lambda library, x, option: library.add(x, x, alpha=option),
    "sub": lambda library, x, option: library.sub(x, x, alpha=option),
    "nan_to_num": lambda library, x, option: library.nan_to_num(x * float("nan"), nan=option),
    "leaky_relu": lambda library, x, option: library.nn.functional.leaky_relu(x, option),
    "celu": lambda library, x, option: library.nn.functional.celu(x, 1 + option),
    "softplus": lambda library, x, option: library.nn.functional.softplus(x, 1 + option),
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(WITH_OPTION)),
    st.lists(st.sampled_from((True, 1, 1.0, False, 0, 0.0, -0.0)), min_size=2, max_size=4),
    st.sampled_from(("float32", "int64")),
)
def test_equal_options_are_not_the_same(name, options, kind):
    for option in options:
        answers = []
        for library in (torch, ours):
            try:
                found = WITH_OPTION[name](library, library.tensor([-2, 0, 3], dtype=getattr(library, kind)), option)
                answers.append((str(found.dtype).rpartition(".")[2], [str(each) for each in found.tolist()]))
            except (TypeError, RuntimeError, NotImplementedError) as error:
                answers.append(type(error).__name__)
        expected, actual = answers
        if isinstance(expected, str) or isinstance(actual, str):
            assert actual == expected, (name, option)
        else:
            assert actual[0] == expected[0], (name, option)
            for one, other in zip(actual[1], expected[1], strict=True):
                assert one == other or float(one) == pytest.approx(float(other), rel=1e-5) and float(one), (
                    name,
                    option,
                )


@pytest.mark.parametrize("name", ["ones", "ones in a tuple", "reshape", "view", "repeat"])
@pytest.mark.parametrize("value", [np.array(3.0), np.float64(3), np.array(True), np.array(3), np.int32(3)], ids=repr)
def test_sizes_of_numpy(name: str, value: Any) -> None:
    """Arrays of integers are sizes, those of other numbers are not, though NumPy gives all arrays the same methods."""

    def run(library: Any) -> Any:
        x = library.ones(3)
        try:
            return {
                "ones": lambda: library.ones(value, 2),
                "ones in a tuple": lambda: library.ones((value, 2)),
                "reshape": lambda: x.reshape((value, 1)),
                "view": lambda: x.view(value, 1),
                "repeat": lambda: x.repeat(value, 1),
            }[name]().shape
        except (TypeError, RuntimeError) as error:
            return type(error)

    assert run(ours) == run(torch)
