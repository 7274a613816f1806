"""Nodes of gradients of sparse tensors, which are those of their values: under PyTorch's names, one for each operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.titles import Named, Positional, Title, retitled

from .._holding import HoldingTensor
from .layouts import sparse_coo

Given = ParamSpec("Given")
Result = TypeVar("Result")


def converted(args: Positional, kwargs: Named) -> str:
    """Return the name of a conversion to a layout."""
    kind = kwargs.get("layout")
    if kind is None or kind == sparse_coo:
        return f"ToSparseBackward{int(len(args) < 2 and kwargs.get('sparse_dim') is None)}"
    return f"ToSparse{str(kind)[-3:].capitalize()}Backward0"


def product(args: Positional, kwargs: Named) -> str:
    """Return the name of a product of a sparse tensor and another."""
    return {1: "MvBackward0", 2: "MmBackward0"}.get(args[1].dim(), "BmmBackward0")


def softened(args: Positional, kwargs: Named) -> str:
    """Return the name of a softmax or its logarithm."""
    return f"Sparse{'Log' if kwargs.get('logarithms') else ''}SoftmaxBackward0"


def summed(args: Positional, kwargs: Named) -> str:
    """Return the name of a sum in ``torch.sparse``."""
    return "SumBackward0" if len(args) < 2 and kwargs.get("dim") is None else "SparseSumBackward0"


def multiplied(args: Positional, kwargs: Named) -> str:
    """Return the name of a product in ``torch.sparse``."""
    return "SparseMmReduceImplBackward0" if len(args) > 2 or "reduce" in kwargs else "SparseAddmmBackward0"


def noted(title: Title) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Decorate a function so that its result has a node of a name, also where it has the values of an argument as they are."""

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @wraps(function)
        def named(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            result = function(*args, **kwargs)
            if not isinstance(result, Tensor) or not result.requires_grad or any(result is each for each in args):
                return result
            values = result._held if isinstance(result, HoldingTensor) else result
            given = (each._held if isinstance(each, HoldingTensor) else each for each in (*args, *kwargs.values()))
            if any(values is each for each in given):
                values = values.view_as(values)
                # Others see no view: the values are shared as they were.
                values._base = None
                result = result._with(values) if isinstance(result, HoldingTensor) else values
            retitled(values, title if isinstance(title, str) else title(args, dict(kwargs)))
            return result  # type: ignore[return-value]

        return named

    return decorate
