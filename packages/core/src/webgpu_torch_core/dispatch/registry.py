"""One place per operation: what each is called, where it appears, and the machinery that records it.

``@elementwise`` turns a scalar definition into a torch-level function; ``@operation`` registers a function written with
other operations. Both give the method, the aliases, the in-place form and the row of the compatibility table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensors.tensor import Tensor
from .autocast import with_autocast
from .direct import within
from .numpy_names import with_numpy_names
from .overrides import public
from .python_functions import written_in_python
from .titles import Title, titled
from .type_rules import RULES, with_type_rule


class Operation:
    """A registered operation.

    Attributes:
        name: PyTorch's name without namespace.
        namespace: ``torch``, ``functional`` (``torch.nn.functional``), ``special`` or ``linalg``; ``method`` only a method.
        function: the torch-level callable.
        kind: elementwise, reduction, indexed, scan, sort, scatter, contraction, view, creation, random, composite.
        aliases: other names of the same function.
        method: whether it is a Tensor method too.
        in_place: the name of the in-place method (None: there is none).
    """

    __slots__ = ("aliases", "definition", "function", "in_place", "kind", "method", "name", "namespace")

    def __init__(
        self, name: str, namespace: str, kind: str, function: Callable[..., Any], method: bool, aliases: tuple[str, ...]
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.kind = kind
        self.function = function
        self.method = method
        self.aliases = aliases
        self.in_place: str | None = None
        self.definition: Any = None


OPERATIONS: dict[str, Operation] = {}
#: where the functions of a namespace are found by their names
_HOMES = {"torch": "webgpu_torch_core"} | {
    each: f"webgpu_torch_core.api.{each}" for each in ("functional", "special", "linalg", "fft", "masked")
}
#: namespaces whose functions PyTorch names with a prefix
_PREFIXED = ("special", "linalg", "fft")


def register(operation: Operation) -> Operation:
    """Add an operation to the registry and to Tensor.

    Raises:
        ValueError: the name is taken; there is one place per operation.
    """
    key = operation.name if operation.namespace in ("torch", "method") else f"{operation.namespace}.{operation.name}"
    if key in OPERATIONS:
        raise ValueError(f"operation '{key}' is declared twice")
    OPERATIONS[key] = operation
    declared = operation.function
    named = with_numpy_names(with_autocast(operation.name, declared))
    if operation.method:
        method = public(named, f"torch.Tensor.{operation.name}", declared)
        for name in (operation.name, *operation.aliases):
            setattr(Tensor, name, method)
    home = _HOMES.get(operation.namespace)
    if home is not None:
        operation.function = public(named, _path(operation), declared, written_in_python(_path(operation)))
        # Pickled functions are found by name, and the name in the declaring module is not the public function's.
        operation.function.__module__ = home
        prefix = f"{operation.namespace}_" if operation.namespace in _PREFIXED else ""
        operation.function.__name__ = prefix + operation.name
    elif operation.namespace == "method":
        operation.function = getattr(Tensor, operation.name, named)
    else:
        operation.function = named
    return operation


def _path(operation: Operation) -> str:
    namespace = {"torch": "torch", "functional": "torch.nn.functional"}.get(operation.namespace)
    return f"{namespace or f'torch.{operation.namespace}'}.{operation.name}"


def operation(
    kind: str = "composite",
    *,
    namespace: str = "torch",
    method: bool | None = None,
    aliases: tuple[str, ...] = (),
    name: str | None = None,
    title: Title | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Register a torch-level function written with other operations.

    ``method`` defaults to True in namespaces ``torch`` and ``method``. ``title``: what its gradient nodes are called, or a
    function of its arguments that says so; by default they keep the names of what the function is made of.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        is_method = namespace in ("torch", "method") if method is None else method
        ruled = (name or function.__name__) in RULES and namespace in ("torch", "method", "linalg")
        if ruled and kind != "elementwise":
            function = within(with_type_rule(name or function.__name__), function)
        if title is not None:
            function = within(titled(title), function)
        register(Operation(name or function.__name__, namespace, kind, function, is_method, aliases))
        return function

    return decorate


def functions(namespace: str) -> dict[str, Callable[..., Any]]:
    """Return the functions of a namespace by name, aliases included."""
    found: dict[str, Callable[..., Any]] = {}
    for each in OPERATIONS.values():
        if each.namespace == namespace:
            for name in (each.name, *each.aliases):
                found[name] = each.function
    return found
