"""What PyTorch has no derivative for: arguments that no gradient may flow to, and the nodes of operators without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..tensors.tensor import Tensor
from .common import attach, needs_gradient

_Results = TypeVar("_Results", Tensor, tuple[Tensor, ...])


def refuse_gradients(function: str, **arguments: object) -> None:
    """Refuse arguments that PyTorch has no derivative for, by the names that it has for them and for the function.

    Raises:
        RuntimeError: a gradient would flow to one of them.
    """
    for name, each in arguments.items():
        if needs_gradient(each):
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot have "
                "requires_grad True."
            )


def refusing(error: Exception) -> Callable[..., Any]:
    """Return the backward of what has no derivative: it raises."""

    def run_backward(*grads: Any) -> Any:
        raise type(error)(*error.args)

    return run_backward


def attach_refusal(result: _Results, operator: str, inputs: Sequence[object], said: bool = False) -> _Results:
    """Give results the node of an operator of PyTorch's that has no derivative there; ``said``: its declaration says so."""
    if said:
        title = "".join(part.capitalize() for part in operator.split("_")) + "Backward0"
        error: Exception = NotImplementedError(f"the derivative for '{operator}' is not implemented.")
    else:
        title, error = "NotImplemented", RuntimeError(f"derivative for aten::{operator} is not implemented")
    return attach(result, title, inputs, refusing(error))
