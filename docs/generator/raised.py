"""Errors that a definition raises, read from its source: the class and the message, of helpers that it calls too."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

from .public_names import unwrapped

#: how far helpers are followed
DEPTH = 2
MOST_ERRORS = 4
#: methods of a class whose errors its users meet first
METHODS = ("__init__", "__new__", "__call__", "forward", "step", "__iter__", "__getitem__", "log_prob")


def raised(value: Any) -> list[tuple[str, str]]:
    """Return (error's class, message or nothing) of what a function or a class raises, each once."""
    value = value if inspect.isclass(value) else unwrapped(value)
    parts = [vars(value).get(name) for name in METHODS] if inspect.isclass(value) else [value]
    found: dict[tuple[str, str], None] = {}
    for each in parts:
        found |= dict.fromkeys(_of(getattr(each, "__func__", each), DEPTH))
    told = [each for each in found if each[1]]
    kinds = {kind for kind, _ in told}
    return [*told, *(each for each in found if not each[1] and each[0] not in kinds)][:MOST_ERRORS]


@cache
def _tree(function: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _of(function: Any, depth: int) -> Iterator[tuple[str, str]]:
    if not inspect.isfunction(function) or not function.__module__.startswith("webgpu_torch"):
        return
    function = inspect.unwrap(function)
    tree = _tree(function)
    if tree is None:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from _error(node.exc)
    if depth:
        names = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        for name in sorted(names):
            yield from _of(function.__globals__.get(name), depth - 1)


def _error(node: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield the class and the message of what a statement raises, where both are written there."""
    made = node.func if isinstance(node, ast.Call) else node
    name = made.attr if isinstance(made, ast.Attribute) else made.id if isinstance(made, ast.Name) else ""
    if not name[:1].isupper() or name in ("StopIteration", "KeyboardInterrupt"):
        return
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    yield name, _message(given)


def _message(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_message(each) for each in node.values)
    if isinstance(node, ast.FormattedValue):
        text = ast.unparse(node.value)
        return "{" + text + "}" if text.isidentifier() else "…"
    return ""
