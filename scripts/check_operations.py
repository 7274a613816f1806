"""Checks the record of operations: what each declares fits together, and public names lead to what declared them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import webgpu_torch_core as core
from webgpu_torch_core.dispatch.registry import OPERATIONS, Operation
from webgpu_torch_core.dispatch.type_rules import RULES

KINDS = {
    "elementwise",
    "reduction",
    "indexed",
    "scan",
    "sort",
    "contraction",
    "view",
    "composite",
    "creation",
    "scatter",
    "random",
}
NAMESPACES = {"torch", "functional", "special", "linalg", "fft", "masked", "method", "internal", "signal.windows"}


def problems(operation: Operation) -> Iterator[str]:
    """Return what is wrong with one operation's record."""
    if operation.kind not in KINDS:
        yield f"its kind '{operation.kind}' is none of {', '.join(sorted(KINDS))}"
    if operation.namespace not in NAMESPACES:
        yield f"its namespace '{operation.namespace}' is none of {', '.join(sorted(NAMESPACES))}"
    if operation.namespace != "internal" and not (operation.function.__doc__ or "").strip():
        yield "it says nothing of itself: it has no docstring"
    for name in (operation.name, *operation.aliases):
        if operation.namespace == "torch" and getattr(core, name, None) is not operation.function:
            yield f"torch.{name} is another function than the declared one"
        if operation.method and not hasattr(core.Tensor, name):
            yield f"it is a method, and Tensor has no '{name}'"
    if operation.in_place is not None and not hasattr(core.Tensor, operation.in_place):
        yield f"Tensor has no '{operation.in_place}'"


def claimed_twice() -> Iterator[str]:
    """Return the public names that two operations of one namespace claim."""
    claimed: dict[tuple[str, str], str] = {}
    for key, each in OPERATIONS.items():
        for name in (each.name, *each.aliases):
            first = claimed.setdefault((each.namespace, name), key)
            if first != key:
                yield f"'{name}' of namespace {each.namespace} is claimed by '{first}' and by '{key}'"


def rules_without_operation() -> Iterator[str]:
    """Return the complex rules that no operation and no marked helper can reach: their module does not define them."""
    from importlib import import_module

    for name, module in RULES.items():
        if not hasattr(import_module(f"webgpu_torch_core.operations.complex.{module}"), f"{name}_rule"):
            yield f"'{name}' has a complex rule in '{module}', which does not define {name}_rule"


def main() -> int:
    """Print what is wrong; the exit status tells whether something was."""
    found = [f"{key}: {problem}" for key, each in OPERATIONS.items() for problem in problems(each)]
    found += [*claimed_twice(), *rules_without_operation()]
    print("\n".join(found) or f"{len(OPERATIONS)} operations, each declared once")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
