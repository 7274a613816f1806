"""What is refused is named by its place among the arguments, where a method's tensor is none, as PyTorch counts."""

from __future__ import annotations

from typing import Any

import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

#: by name, what is right for each argument after the tensor
_CALLS: dict[str, tuple[Any, ...]] = {
    "transpose": (0, 1), "softmax": (1,), "unsqueeze": (1,), "topk": (2, 1), "cumsum": (1,), "cumprod": (0,), "flatten": (0, 1),
    "chunk": (2, 0), "triu": (1,), "tril": (0,), "diagonal": (0, 0, 1), "kthvalue": (1, 0), "argmax": (1,), "argmin": (0, True),
    "logcumsumexp": (0,), "log_softmax": (1,),
}  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(_CALLS)), st.integers(0, 2), st.sampled_from([1.5, "a"]), st.booleans())
def test_places_are_pytorchs(name: str, place: int, wrong: object, method: bool) -> None:
    values = list(_CALLS[name])
    values[place % len(values)] = wrong
    said = []
    for library in (torch, ours):
        x = library.ones(3, 4)
        try:
            getattr(x, name)(*values) if method else getattr(library, name)(x, *values)
        except TypeError as error:
            said.append(str(error).splitlines()[0])
    assert len(said) == 2 and said[0] == said[1]


def test_calls_that_fit_no_declaration_are_told_without_their_tensor() -> None:
    for call in (
        lambda library, x: x.squeeze(0.5),
        lambda library, x: x.var(0.5),
        lambda library, x: library.var(x, 0.5),
        lambda library, x: x.movedim(0.5, 1),
        lambda library, x: x.scatter(0.5, x.long(), x),
        lambda library, x: library.scatter(x, 0.5, x.long(), x),
    ):
        said = []
        for library in (torch, ours):
            try:
                call(library, library.ones(3, 4))
            except TypeError as error:
                said.append(str(error).splitlines()[0])
        assert len(said) == 2 and said[0] == said[1]


#: functions and methods of one declaration, and how many arguments each takes after the tensor
_COUNTED = {
    "abs_": 0, "transpose_": 2, "index_add_": 3, "relu_": 0, "swapaxes_": 2, "cumprod_": 1, "abs": 0, "exp": 0, "acos": 0, "ceil": 0, "isnan": 0, "transpose": 2, "gather": 2, "index_select": 2, "select": 2, "unsqueeze": 1,
    "bmm": 1, "outer": 1, "swapaxes": 2, "diagonal": 3, "triu": 1, "topk": 4, "masked_fill": 2,
    "index_add": 3, "cumprod": 1, "amax": 2, "roll": 2, "take": 1, "dot": 1, "mv": 1,
}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(_COUNTED)), st.integers(0, 6), st.booleans(), st.booleans(), st.booleans())
def test_counts_and_names_are_pytorchs(name: str, count: int, method: bool, unknown: bool, twice: bool) -> None:
    said = []
    for library in (torch, ours):
        x = library.ones(3, 3)
        method = method or name.endswith("_")
        # A method that is looked up on its own says another class than one that is called at once.
        function = getattr(library.Tensor if method else library, name)
        named = ({"unknown": 1} if unknown else {}) | ({"dim": 0} if twice else {})
        own = [x] if method or count or not unknown else []
        try:
            function(*own, *[0] * count, **named)
        except (TypeError, RuntimeError, IndexError) as error:
            said.append(str(error).splitlines()[0] if isinstance(error, TypeError) else type(error).__name__)
    # What one takes the other takes; PyTorch's lists of several declarations are told apart above.
    several = any("invalid combination" in each for each in said)
    assert several or len(set(said)) < 2
    assert len(said) != 1
