"""Options of a type that PyTorch refuses are refused with a TypeError; those that it takes are taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from test_view_properties import cases

#: arguments after a matrix of 3 by 4 and options of calls that are right, by the function's name
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Tensor.normal_": ((0.0, 1.0), {}),
    "Tensor.uniform_": ((0.0, 1.0), {}),
    "Tensor.unfold": ((0, 2, 1), {}),
    "add": ((2.0,), {"alpha": 2}),
    "cumulative_trapezoid": ((), {"dx": 2.0, "dim": 0}),
    "diff": ((1, 0), {}),
    "lerp": ((torch.ones(3, 4), 0.5), {}),
    "nn.functional.adaptive_avg_pool1d": ((2,), {}),
    "nn.functional.adaptive_max_pool1d": ((2,), {}),
    "randint_like": ((1, 5), {}),
    "sub": ((2.0,), {"alpha": 2}),
    "trapezoid": ((), {"dx": 2.0, "dim": 0}),
    "trapz": ((), {"dx": 2.0, "dim": 0}),
    "all": ((0,), {"keepdim": True}),
    "amax": ((0,), {"keepdim": True}),
    "argmax": ((), {"dim": 1, "keepdim": False}),
    "argsort": ((), {"dim": 0, "descending": True}),
    "chunk": ((2, 0), {}),
    "count_nonzero": ((), {"dim": 1}),
    "cummax": ((1,), {}),
    "cumsum": ((1,), {"dtype": torch.float64}),
    "diagonal": ((1,), {"dim1": 0, "dim2": 1}),
    "div": ((2.0,), {"rounding_mode": "floor"}),
    "flatten": ((0, 1), {}),
    "kthvalue": ((2,), {"dim": 1, "keepdim": True}),
    "log_softmax": ((1,), {"dtype": torch.float64}),
    "logsumexp": ((1,), {"keepdim": True}),
    "median": ((1,), {"keepdim": True}),
    "movedim": ((0, 1), {}),
    "narrow": ((0, 1), {"length": 1}),
    "norm": ((2.0,), {"dim": 1, "keepdim": True}),
    "prod": ((1,), {"keepdim": True, "dtype": torch.float64}),
    "quantile": ((0.5,), {"dim": 1, "interpolation": "lower"}),
    "repeat_interleave": ((2,), {"dim": 1}),
    "roll": ((1,), {"dims": 0}),
    "rot90": ((1, [0, 1]), {}),
    "select": ((0, 1), {}),
    "softmax": ((-1,), {"dtype": torch.float64}),
    "sort": ((), {"dim": 0, "descending": False}),
    "split": ((2,), {"dim": 1}),
    "squeeze": ((0,), {}),
    "std": ((), {"dim": 1, "keepdim": True}),
    "sum": ((1,), {"keepdim": True, "dtype": torch.float64}),
    "topk": ((2,), {"dim": 1, "largest": False, "sorted": True}),
    "transpose": ((0, 1), {}),
    "tril": ((1,), {}),
    "unsqueeze": ((0,), {}),
    "var": ((), {"dim": (0, 1), "keepdim": False}),
    "linalg.matrix_norm": (("fro",), {"keepdim": True}),
    "linalg.qr": ((), {"mode": "r"}),
    "linalg.svdvals": ((), {}),
    "linalg.vector_norm": ((2.0,), {"dim": 1, "keepdim": True}),
    "nn.functional.dropout": ((), {"p": 0.0, "training": True, "inplace": False}),
    "nn.functional.gelu": ((), {"approximate": "tanh"}),
    "nn.functional.layer_norm": (((4,),), {"eps": 1e-3}),
    "nn.functional.normalize": ((2.0,), {"dim": 1, "eps": 1e-3}),
    "nn.functional.pad": (([1, 1],), {"value": 2.0}),
    "nn.functional.relu": ((), {"inplace": False}),
    "nn.functional.softmax": ((), {"dim": 1}),
    "fft.fft": ((), {"n": 3, "dim": 0, "norm": "ortho"}),
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
    object(),
    torch.float32,
    torch.ones(2),
    torch.tensor(0.5),
]
#: what is taken or refused for another reason than its type
OTHERS = {
    ("randint_like", "high"), ("repeat_interleave", "repeats"),
    ("linalg.matrix_norm", "A"), ("count_nonzero", "dim"), ("std", "dim"), ("var", "dim"), ("median", "dim"),
    ("nn.functional.normalize", "p"), ("norm", "p"), ("norm", "dim"), ("squeeze", "dim"),
    ("nn.functional.dropout", "inplace"), ("nn.functional.softmax", "dim"), ("linalg.matrix_norm", "ord"),
}  # fmt: skip


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


PLACES = [
    (name, place)
    for name, (args, options) in CALLS.items()
    for place in (*range(len(args)), *options)
    if (name, place if isinstance(place, str) else [*inspect.signature(_function(ours, name)).parameters][place + 1])
    not in OTHERS
]


@cases(400)
@given(st.sampled_from(PLACES), st.sampled_from(WRONG))
def test_options_of_wrong_types(place: tuple[str, int | str], wrong: Any) -> None:
    _check(*place, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_all_options_of_wrong_types(name: str) -> None:
    for each, place in PLACES:
        for wrong in WRONG if each == name else ():
            _check(name, place, wrong)


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
