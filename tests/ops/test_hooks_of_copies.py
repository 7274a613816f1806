"""Hooks of a tensor are its own: no copy has them, however it was made, and what hooks pack is not asked for its version."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours


def _saved(library: Any, tensor: Any) -> Any:
    file = io.BytesIO()
    library.save(tensor, file)
    file.seek(0)
    return library.load(file, weights_only=False)


COPIES: dict[str, Callable[[Any, Any], Any]] = {
    "deepcopy": lambda library, tensor: copy.deepcopy(tensor),
    "pickle": lambda library, tensor: pickle.loads(pickle.dumps(tensor)),
    "copy": lambda library, tensor: copy.copy(tensor),
    "file": _saved,
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("parameter", [False, True])
def test_copies_have_no_hooks_of_accumulated_gradients(name: str, parameter: bool) -> None:
    for library in (torch, ours):
        calls: list[int] = []
        tensor = library.ones(2, requires_grad=True)
        tensor = library.nn.Parameter(tensor) if parameter else tensor
        tensor.register_post_accumulate_grad_hook(lambda _, calls=calls: calls.append(1))
        tensor.mark = 3
        copied = COPIES[name](library, tensor)
        (copied * 2).sum().backward()
        assert copied.grad.tolist() == [2.0, 2.0] and not calls, library
        (tensor * 2).sum().backward()
        assert len(calls) == 1


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "sqrt", "reciprocal", "relu"])
def test_results_that_hooks_have_packed_may_be_written_into(name: str) -> None:
    gradients = []
    for library in (torch, ours):
        x = library.tensor([0.5, 1.0, 2.0], requires_grad=True)
        with library.autograd.graph.allow_mutation_on_saved_tensors():
            result = getattr(library, name)(x * 1)
            result.mul_(3)
            result.sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[1] == pytest.approx(gradients[0], rel=1e-6)
