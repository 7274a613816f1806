"""PyTorch's own signatures, read from its stub files and its Python functions, and how ours is compared with them."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from webgpu_torch_core.dispatch import numpy_names

#: a way to call a function: names by position, names by keyword only, names that may be left out
Overload = tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]
Overloads = dict[str, list[Overload]]


def _overload(node: ast.FunctionDef) -> Overload | None:
    """Return a stub's parameters; None if it takes any number of positional ones, whose names don't matter."""
    given = node.args
    if given.vararg:
        return None
    positional = [each.arg for each in given.posonlyargs + given.args]
    optional = set(positional[len(positional) - len(given.defaults) :])
    by_keyword = [each.arg for each in given.kwonlyargs]
    optional |= {name for name, default in zip(by_keyword, given.kw_defaults, strict=True) if default is not None}
    return tuple(positional), tuple(by_keyword), frozenset(optional)


def _read(file: str, owner: str | None = None) -> Overloads:
    tree = ast.parse((Path(torch.__file__).parent / "_C" / file).read_text())
    body = tree.body
    if owner is not None:
        body = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == owner).body
    found: Overloads = defaultdict(list)
    for node in body:
        if isinstance(node, ast.FunctionDef) and (overload := _overload(node)):
            found[node.name].append(overload)
    return dict(found)


@functools.cache
def functions() -> Overloads:
    """Return the ways to call every function under ``torch``."""
    found = {name: each for name, each in _read("_VariableFunctions.pyi").items() if hasattr(torch, name)}
    return _with_python(found, torch)


@functools.cache
def methods() -> Overloads:
    """Return the ways to call every method of a tensor."""
    return _with_python(_read("__init__.pyi", "TensorBase"), torch.Tensor)


@functools.cache
def network_functions() -> Overloads:
    """Return the ways to call every function of ``torch.nn.functional``."""
    native = {
        name: each for name, each in (_read("_nn.pyi") | functions()).items() if hasattr(torch.nn.functional, name)
    }
    return _with_python(native, torch.nn.functional)


def _with_python(found: Overloads, owner: Any) -> Overloads:
    result = dict(found)
    for name, value in vars(owner).items():
        if name.startswith("_") or not inspect.isfunction(inspect.unwrap(value)) if callable(value) else True:
            continue
        if overload := of_python(value):
            result[name] = [overload]
    return result


def documented(owner: Any) -> Overloads:
    """Return the ways to call a namespace's functions and classes: their own signatures, or those their texts start with."""
    found: Overloads = {}
    for name, value in vars(owner).items():
        if name.startswith("_") or not callable(value):
            continue
        if not inspect.isbuiltin(value):
            if overload := of_python(value):
                found[name] = [overload]
            continue
        first = next((line for line in (value.__doc__ or "").splitlines() if line.strip()), "")
        written = re.search(rf"\b{name.removeprefix(owner.__name__.rpartition('.')[2] + '_')}(\(.*\))", first)
        if written:
            code = f"def f{written[1]}: ..."
            try:
                overload = _overload(ast.parse(code).body[0])  # type: ignore[arg-type]
            except SyntaxError:
                continue
            if overload:
                found[name] = [overload]
    return found


def of_python(function: Callable[..., Any]) -> Overload | None:
    """Return the one way to call a Python function or class; None if it takes any number of positional arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = {each.kind for each in parameters}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        return None
    by_keyword = tuple(each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY)
    positional = tuple(each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY)
    optional = frozenset(each.name for each in parameters if each.default is not inspect.Parameter.empty)
    return positional, by_keyword, optional


def _other_names(overload: Overload, function: Callable[..., Any], ours: set[str]) -> Overload:
    """Return PyTorch's names as ours, where our function takes both: see ``numpy_names``, tested call by call."""
    several = numpy_names.SEVERAL.get(function.__name__)

    def own(name: str) -> str:
        if name in ours or name == several:
            return name
        if name == "input" and "self" in ours:
            return "self"
        return numpy_names.NAMES[name] if numpy_names.NAMES.get(name) in ours else name

    positional, by_keyword, optional = overload
    found = frozenset(map(own, optional))
    return tuple(map(own, positional)), tuple(map(own, by_keyword)), found


def problems(function: Callable[..., Any], overload: Overload, bound: bool = False) -> str | None:
    """Return why a call that PyTorch takes does not reach the same parameters of our function; None if it does.

    ``bound`` says that the first parameter is the tensor itself, whose name does not matter.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "has no signature"
    parameters = list(signature.parameters.values())
    kinds = {each.kind for each in parameters}
    names = {each.name for each in parameters}
    positional, by_keyword, optional = _other_names(overload, function, names)
    names.add(numpy_names.SEVERAL.get(function.__name__, ""))
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        missing = [each for each in (*positional[bound:], *by_keyword) if each not in names]
        if missing:
            return f"lacks {', '.join(missing)}"
        demanded = {
            each.name
            for each in parameters[bound:]
            if each.default is inspect.Parameter.empty
            and each.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        }
        extra = demanded - (set(positional) | set(by_keyword)) | (demanded & optional)
        if extra:
            return f"demands {', '.join(sorted(extra))}"
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    try:
        reached = list(signature.bind(*[None] * len(positional)).arguments)
    except TypeError as error:
        if all(each in optional for each in by_keyword) and not str(error).startswith("missing"):
            return f"with {len(positional)} arguments by position: {error}"
        return None
    if reached[bound:] != list(positional[bound:]):
        return f"has {reached[bound:]} where PyTorch has {list(positional[bound:])}"
    return None
