"""The names that gradient nodes go by, ``MeanBackward0`` and its kin, where PyTorch's differ from what an operation is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..record.node import Node
from ..tensors.tensor import Tensor

#: what a function was called with, by position and by name
Positional = tuple[Any, ...]
Named = dict[str, Any]
Title = str | Callable[[Positional, Named], str]


def by_dimension(name: str, whole: int, along: int) -> Callable[[Positional, Named], str]:
    """Return a title that tells a reduction of everything from one along dimensions."""

    def title(args: Positional, kwargs: Named) -> str:
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        return f"{name}Backward{whole if dim is None else along}"

    return title


def by_second(name: str) -> Callable[[Positional], str]:
    """Return a title that tells, of an element-wise operation, a second operand that is a tensor from a number."""
    return lambda operands: f"{name}Backward{int(isinstance(operands[1], Tensor))}"


def by_numbers(name: str) -> Callable[[Positional], str]:
    """Return a title that tells, of an element-wise operation, which of two operands is a number."""

    def title(operands: Positional) -> str:
        first, second = (not isinstance(each, Tensor) for each in operands)
        return f"{name}Backward{1 if first else 2 if second else 0}"

    return title


def alone(result: Tensor, operands: Positional, title: str | Callable[[Positional], str]) -> None:
    """Name the node of what a rule for other types made of an operation ``[...]``, and forget views that nobody else sees."""
    if result._grad_fn is not None and not any(result is each for each in operands):
        result._grad_fn.title, result._base = title if isinstance(title, str) else title(operands), None


def by_value(name: str, place: int) -> Callable[[Positional, Named], str]:
    """Return a title that tells a ``value`` that is a tensor from a number."""

    def title(args: Positional, kwargs: Named) -> str:
        value = args[place] if len(args) > place else kwargs.get("value")
        return f"{name}Backward{int(isinstance(value, Tensor))}"

    return title


def retitled(result: Tensor, title: str) -> Tensor:
    """Return a tensor of any shape that was made just now; its node, if it has one, goes by a name from now on."""
    if result._grad_fn is not None:
        result._grad_fn.title = title
    return result


def _join(results: Sequence[Tensor]) -> None:
    """Give results that have nodes of their own one node, whose hooks hear of all of their gradients, as PyTorch's have."""
    made = [each for each in results if each._grad_fn is not None and each._base is None]
    nodes = [each._grad_fn for each in made if each._grad_fn is not None]
    if len(set(map(id, nodes))) < 2:
        return
    edges = tuple(each._gradient_edge() for each in made)
    node = Node(nodes[0].title, edges, lambda *grads: grads, len(made))
    for number, each in enumerate(made):
        each._set_gradient(node, number)


def titled(title: Title) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function written with differentiable operations so that its results' nodes go by one name."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            numbers: list[int] | None = None
            for each in (result,) if isinstance(result, Tensor) else result:
                if each._base is not None:
                    if numbers is None:
                        numbers = [given._storage.number for given in args if isinstance(given, Tensor)]
                    if each._storage.number not in numbers:
                        # Made by way of a view of something that nobody else sees.
                        each._base = None
                if each._grad_fn is not None and not any(each is given for given in args):
                    each._grad_fn.title = title if isinstance(title, str) else title(args, kwargs)
            if not isinstance(result, Tensor):
                _join(result)
            return result

        return named

    return decorate
