"""Where operations go on tensors of types that kernels never see: the table of rules, and the one place that consults it.

Complex numbers are stored as their parts, 8-bit floats as their bits. An element-wise operation looks here when it meets a new
combination of operands; any other operation named in :data:`RULES` is wrapped when it is declared. What has no rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from typing import Any

from ..ir.dtypes import complex64, dtype

#: operation -> the module of :mod:`webgpu_torch_core.operations.complex` whose function ``<operation>_rule`` computes it on complex operands
RULES: dict[str, str] = {
    name: module
    for module, names in {
        "movement": (
            "join_pieces flip roll triangle place_inside take_positions gather scatter scatter_add scatter_reduce write_slices "
            "index_fill eye linspace logspace resampled patches overlapping_sum"
        ),
        "reductions": (
            "sum prod all any cumsum cumprod variance logsumexp vector_norm logcumsumexp"
        ),
        "products": "product convolution",
        "arithmetic": (
            "add sub mul true_divide_ neg reciprocal square abs power_ lerp_tensor_ addcmul addcdiv select_ eq ne isnan isinf "
            "isfinite logical_and logical_or logical_xor logical_not nan_to_num"
        ),
        "functions": (
            "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid "
            "silu sinc logaddexp"
        ),
    }.items()
    for name in names.split()
}  # fmt: skip

#: operations whose results have the type of ``out``
TYPED_BY_OUT = frozenset(("eye", "linspace", "logspace", "sum", "prod", "cumsum", "cumprod"))

_found: dict[tuple[str, bool], Callable[..., Any]] = {}


def involves_complex(values: Iterable[object]) -> bool:
    """Return whether a tensor or element type among the arguments, or a tensor in a sequence of them, is complex."""
    for each in values:
        if each.__class__ is complex or _complex_type(each) is not None:
            return True
        if isinstance(each, tuple | list) and any(_complex_type(one) is not None for one in each):
            return True
    return False


def ruled_type(values: Iterable[object]) -> dtype | None:
    """Return the first type that kernels never see among arguments, tensors of it and sequences of such, None if there is none."""
    for each in values:
        if each.__class__ is complex:
            return complex64
        found = _ruled(each)
        if found is None and isinstance(each, tuple | list) and each.__class__ in (tuple, list):
            found = next(filter(None, map(_ruled, each)), None)
        if found is not None:
            return found
    return None


def _ruled(value: object) -> dtype | None:
    kind = getattr(value, "dtype", value)
    return kind if isinstance(kind, dtype) and kind.stored is not kind else None


def _complex_type(value: object) -> dtype | None:
    """Return the element type that a value has or is, if it is complex."""
    kind = getattr(value, "dtype", value)
    return kind if isinstance(kind, dtype) and kind.is_complex else None


def in_one_precision(operands: Iterable[Any], kind: dtype) -> list[Any]:
    """Return tensors among operands in a complex type, or in that of its parts where they are real."""
    return [
        each.to(kind if each.dtype.is_complex else kind.to_real()) if hasattr(each, "dtype") else each
        for each in operands
    ]


def rule(name: str, kind: dtype) -> Callable[..., Any]:
    """Return the function computing an operation on operands of a type that kernels never see.

    Raises:
        NotImplementedError: there is none.
    """
    key = name, kind.is_complex
    found = _found.get(key)
    if found is None:
        if kind.is_complex and name in RULES:
            module = import_module(f"..operations.complex.{RULES[name]}", __package__)
            found = getattr(module, f"{name}_rule")
        elif not kind.is_complex:
            found = import_module("..operations.float8.rules", __package__).RULES.get(name)
        if found is None:
            raise NotImplementedError(f"\"{name}\" not implemented for '{kind.title}'")
        _found[key] = found
    return found


def _deciding(name: str, kwargs: dict[str, object]) -> list[object]:
    """Return the named arguments that decide whether an operation has operands of a type that kernels never see."""
    return [each for key, each in kwargs.items() if key != "out" or name in TYPED_BY_OUT]


def with_type_rule(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorate an operation so that arguments of types that kernels never see go to its rule, which gets it as first argument."""

    def decorate(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def dispatching(*args: Any, **kwargs: Any) -> Any:
            kind = ruled_type(args)
            if kind is None and kwargs:
                kind = ruled_type(_deciding(name, kwargs))
            if kind is not None:
                return rule(name, kind)(function, *args, **kwargs)
            return function(*args, **kwargs)

        return dispatching

    return decorate
