"""Where operations on complex tensors go: the table of rules, and the one place that consults it.

Kernels never see a complex type. An element-wise operation looks here when it meets a new combination of operands; any other
operation named in :data:`RULES` is wrapped when it is declared. What has no rule is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from typing import Any

from ..ir.dtypes import complex64, float64

#: operation -> the module of :mod:`webgpu_torch_core.operations.complex` whose function ``<operation>_rule`` computes it on complex operands
RULES: dict[str, str] = {
    name: module
    for module, names in {
        "movement": (
            "join_pieces flip roll triangle place_inside take_positions gather scatter scatter_add scatter_reduce index_add "
            "index_copy index_fill eye linspace resampled patches overlapping_sum"
        ),
        "reductions": (
            "sum prod all any cumsum cumprod mean_square logsumexp vector_norm logcumsumexp"
        ),
        "products": "product convolution",
        "arithmetic": (
            "add sub mul true_divide_ neg reciprocal square abs power_ lerp_tensor_ addcmul addcdiv select_ eq ne isnan isinf "
            "isfinite logical_and logical_or logical_xor logical_not"
        ),
        "functions": (
            "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid "
            "silu sinc logaddexp"
        ),
    }.items()
    for name in names.split()
}  # fmt: skip

_found: dict[str, Callable[..., Any]] = {}


def involves_complex(values: Iterable[Any]) -> bool:
    """Return whether a tensor or element type among the arguments, or a tensor in a sequence of them, is complex."""
    for each in values:
        if each is complex64 or getattr(each, "dtype", None) is complex64 or each.__class__ is complex:
            return True
        if each.__class__ in (tuple, list) and any(getattr(one, "dtype", None) is complex64 for one in each):
            return True
    return False


def warn_of_lost_precision(operands: Iterable[Any]) -> None:
    """Say that float64 beside complex numbers becomes complex64: PyTorch's complex128 does not exist here."""
    if any(getattr(each, "dtype", None) is float64 and each.ndim for each in operands):
        warnings.warn(
            "float64 and complex numbers give complex64, whose parts have the precision of float32: there is no complex128 here. "
            "Convert to float32 first to show that this is meant.",
            stacklevel=4,
        )


def rule(name: str) -> Callable[..., Any]:
    """Return the function computing an operation on complex operands.

    Raises:
        NotImplementedError: there is none.
    """
    found = _found.get(name)
    if found is None:
        module = RULES.get(name)
        if module is None:
            raise NotImplementedError(f"\"{name}\" not implemented for 'ComplexFloat'")
        found = _found[name] = getattr(import_module(f"..operations.complex.{module}", __package__), f"{name}_rule")
    return found


def with_complex_rule(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorate an operation so that complex arguments go to its rule, which gets the real one as first argument."""

    def decorate(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def dispatching(*args: Any, **kwargs: Any) -> Any:
            if involves_complex(args) or (kwargs and involves_complex(kwargs.values())):
                return rule(name)(function, *args, **kwargs)
            return function(*args, **kwargs)

        return dispatching

    return decorate
