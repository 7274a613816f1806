"""Modules that are moved and converted keep or replace parameters and gradients as PyTorch's do, however ``torch.__future__`` is set."""

from __future__ import annotations

from typing import Any

import pytest
import torch as oracle
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

#: what is done to a module, in turn
MOVES = ("meta", "cpu", "double", "half", "bfloat16", "to_empty", "channels_last", "requires", "empty_meta")


def moved(torch: Any, module: Any, move: str) -> None:
    if move in ("meta", "cpu"):
        module.to(move)
    elif move == "to_empty":
        module.to_empty(device="cpu")
    elif move == "empty_meta":
        module.to_empty(device="meta")
    elif move == "channels_last":
        module.to(memory_format=torch.channels_last)
    elif move == "requires":
        module.requires_grad_(not next(module.parameters()).requires_grad)
    else:
        getattr(module, move)()


def told(tensor: Any) -> Any:
    return (
        tensor
        if tensor is None
        else (str(tensor.dtype), tensor.device.type, tensor.requires_grad, tuple(tensor.stride()))
    )


def outcome(torch: Any, start: str, tied: bool, grads: str, overwrite: bool, swap: bool, moves: list[str]) -> list[Any]:
    """Return what a module's parameters are after each move, and which of them are the objects that they were."""
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 2, device=start), torch.nn.BatchNorm2d(2, device=start))
    if tied:
        module[1].bias = module[0].bias
    for parameter in module.parameters() if grads else ():
        parameter.grad = torch.ones_like(parameter, requires_grad=grads == "tracked")
    torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    torch.__future__.set_swap_module_params_on_conversion(swap)
    found: list[Any] = []
    try:
        for move in moves:
            named = dict(module.named_parameters(remove_duplicate=False))
            before = {name: (each, each.grad) for name, each in named.items()}
            try:
                moved(torch, module, move)
            except Exception as error:
                found.append((type(error).__name__, str(error)))
            for name, each in module.named_parameters(remove_duplicate=False):
                old, grad = before[name]
                found.append(
                    (move, name, each is old, each.grad is grad, told(each), told(each.grad), told(old), told(grad))
                )
            found.append([(name, told(each)) for name, each in module.named_buffers()])
            found.append(module[1].bias is module[0].bias)
            # Weak references would be in the way of a swap, as would ours to what was.
            before.clear()
            old = grad = None
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
        torch.__future__.set_swap_module_params_on_conversion(False)
    return found


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(("cpu", "meta")), st.booleans(), st.sampled_from(("", "plain", "tracked")), st.booleans(), st.booleans(),
    st.lists(st.sampled_from(MOVES), min_size=1, max_size=3),
)  # fmt: skip
def test_parameters_and_gradients_are_those_of_pytorch(start, tied, grads, overwrite, swap, moves) -> None:
    assert outcome(ours, start, tied, grads, overwrite, swap, moves) == outcome(
        oracle, start, tied, grads, overwrite, swap, moves
    )


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("torch", (oracle, ours))
def test_a_tensor_takes_no_memory_of_another_kind(torch: Any) -> None:
    values = (torch.ones(2), torch.ones(2, device="meta"), torch.ones(2).to_sparse(), torch.eye(2).to_sparse_csr())
    for first in range(4):
        for second in range(4):
            tensor = values[first].clone()
            if first == second:
                tensor.data = values[second]
                continue
            with pytest.raises(RuntimeError, match="incompatible tensor type"):
                tensor.data = values[second]


@pytest.mark.parametrize("torch", (oracle, ours))
def test_what_is_no_parameter_is_not_replaced(torch: Any) -> None:
    layer = torch.nn.Linear(2, 2)
    layer._parameters["weight"] = torch.ones(2, 2)
    layer.to(torch.float64)
    assert layer.weight.dtype is torch.float64
    with pytest.raises(AssertionError, match="param must be a Parameter"):
        layer.to("meta")


@pytest.mark.parametrize("torch", (oracle, ours))
def test_optimizers_go_on_only_with_what_stayed(torch: Any) -> None:
    layer = torch.nn.Linear(2, 2)
    weight = layer.weight
    layer.to("meta")
    assert layer.weight is not weight and weight.device.type == "cpu"
    layer.to_empty(device="cpu")
    assert layer.weight.device.type == "cpu" and layer.weight.is_leaf and layer.weight.requires_grad
