"""Parameters that are swapped or made anew where modules are converted and loaded, beside PyTorch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import webgpu_torch as ours


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    for library in (torch, ours):
        library.__future__.set_swap_module_params_on_conversion(False)
        library.__future__.set_overwrite_module_params_on_conversion(False)


def _outcome(run: Callable[[Any], Any], library: Any) -> Any:
    try:
        return run(library)
    except (RuntimeError, ValueError) as error:
        return type(error).__name__, str(error)


def exchanged(library: Any) -> Any:
    one, other = library.nn.Parameter(library.ones(2)), library.zeros(3, dtype=library.float64)
    one.note = "one"
    library.utils.swap_tensors(one, other)
    return type(one).__name__, one.tolist(), str(one.dtype), hasattr(one, "note"), type(other).__name__, other.note


def with_weak_references(library: Any) -> Any:
    one, other = library.ones(2), library.zeros(3)
    _reference = weakref.ref(one)
    library.utils.swap_tensors(one, other)


def converted(library: Any) -> Any:
    library.__future__.set_swap_module_params_on_conversion(True)
    module = library.nn.Linear(2, 1)
    weight = module.weight
    module(library.ones(1, 2)).sum().backward()
    gradient = weight.grad
    module.double()
    same = module.weight is weight, weight.grad is gradient, weight.is_leaf, weight.requires_grad
    return same, str(weight.dtype), str(gradient.dtype), gradient.tolist()


def backward_after_conversion(library: Any) -> Any:
    library.__future__.set_swap_module_params_on_conversion(True)
    module = library.nn.Linear(2, 1, bias=False)
    total = module(library.ones(1, 2)).sum()
    module.double()
    total.backward()


def converted_with_references(library: Any) -> Any:
    library.__future__.set_swap_module_params_on_conversion(True)
    module = library.nn.Linear(2, 1)
    _reference = weakref.ref(module.weight)
    module.double()


def loaded(library: Any) -> Any:
    library.__future__.set_swap_module_params_on_conversion(True)
    module = library.nn.Linear(2, 1)
    weight, state = module.weight, {"weight": library.ones(1, 2).double(), "bias": library.zeros(1).double()}
    module.load_state_dict(state)
    copied = str(module.weight.dtype)
    module.load_state_dict(state, assign=True)
    return copied, str(module.weight.dtype), module.weight is weight, weight.tolist(), weight.requires_grad


def made_anew(library: Any) -> Any:
    library.__future__.set_overwrite_module_params_on_conversion(True)
    module = library.nn.Linear(2, 1)
    weight = module.weight
    module(library.ones(1, 2)).sum().backward()
    module.double()
    return module.weight is weight, str(module.weight.grad.dtype), str(weight.dtype)


def inverse_of_another_shape(library: Any) -> Any:
    class Shorter(library.nn.Module):
        def forward(self, x: Any) -> Any:
            return x

        def right_inverse(self, x: Any) -> Any:
            return x[:-1]

    parametrize, module = library.nn.utils.parametrize, library.nn.Linear(2, 3)
    parametrize.register_parametrization(module, "weight", library.nn.Identity())
    parametrize.register_parametrization(module, "weight", Shorter())


def without_a_size(library: Any) -> Any:
    outcomes = []
    for run in (
        lambda: library.empty_like(library.nn.UninitializedParameter()),
        lambda: library.nn.UninitializedParameter() + 1,
        lambda: library.nn.utils.weight_norm(library.nn.LazyLinear(3)),
    ):
        try:
            run()
        except ValueError as error:
            outcomes.append("uninitialized parameter" in str(error))
    lazy = library.nn.LazyLinear(3)
    lazy.load_state_dict(library.nn.LazyLinear(3).state_dict())
    return outcomes, lazy.has_uninitialized_params(), lazy.double()(library.ones(1, 2).double()).shape[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "run",
    [
        exchanged, with_weak_references, converted, backward_after_conversion, converted_with_references, loaded, made_anew,
        inverse_of_another_shape, without_a_size,
    ],
)  # fmt: skip
def test_as_pytorch(run: Callable[[Any], Any]) -> None:
    expected = _outcome(run, torch)
    assert expected is not None
    assert _outcome(run, ours) == expected


def test_what_a_graph_saved_shows_that_it_was_swapped() -> None:
    x = ours.ones(2, requires_grad=True) * 1
    total = (x * x).sum()
    ours.utils.swap_tensors(x, ours.zeros(3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()
