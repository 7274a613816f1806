"""``torch._foreach_*``: one operation on every tensor of a list.

Recorded one after the other, as the optimisers do it: the engine merges the kernels and hands them over together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

Tensors: TypeAlias = Sequence[Tensor]
#: one for all tensors, or one for each
Operand: TypeAlias = Tensor | complex | Tensors | Sequence[complex]

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log",
    "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip
_BINARY = ("clamp_max", "clamp_min", "div", "maximum", "minimum", "mul")


def _checked(tensors: Tensors) -> Tensors:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"a list or a tuple of tensors is needed, got {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return tensors


def _each(tensors: Tensors, operand: Operand) -> Sequence[Tensor | complex]:
    """Return an operand for each tensor."""
    if not isinstance(operand, (list, tuple)):
        return [operand] * len(tensors)  # type: ignore[list-item]
    if len(operand) != len(tensors):
        kind = (
            "Tensor lists"
            if operand and isinstance(operand[0], Tensor)
            else "Tensor list must have same number of elements as scalar list"
        )
        raise RuntimeError(f"{kind} must have the same number of tensors, got {len(tensors)} and {len(operand)}")
    return operand


def _limit(name: str) -> Callable[..., Tensor]:
    """Return maximum or minimum, or a method of a tensor, that takes numbers too."""
    limits = {"maximum": "clamp_min", "minimum": "clamp_max", "maximum_": "clamp_min_", "minimum_": "clamp_max_"}
    return getattr(Tensor, limits.get(name, name))


def _unary(name: str) -> Callable[[Tensors], Tensors]:
    method = getattr(Tensor, name)

    def apply(self: Tensors) -> Tensors:
        made = [method(each) for each in _checked(self)]
        return self if name.endswith("_") else tuple(made)

    return apply


def _binary(name: str) -> Callable[[Tensors, Operand], Tensors]:
    method = _limit(name)

    def apply(self: Tensors, other: Operand) -> Tensors:
        made = [method(each, value) for each, value in zip(_checked(self), _each(self, other), strict=True)]
        return self if name.endswith("_") else tuple(made)

    return apply


def _scaled(name: str) -> Callable[..., Tensors]:
    method = getattr(Tensor, name)

    def apply(self: Tensors, other: Operand, *, alpha: complex = 1) -> Tensors:
        made = [
            method(each, value, alpha=alpha) for each, value in zip(_checked(self), _each(self, other), strict=True)
        ]
        return self if name.endswith("_") else tuple(made)

    return apply


def _packed(scalars: Operand, count: int) -> Operand:
    """Return one factor for each tensor.

    Raises:
        RuntimeError: they are a tensor of another shape, or one that does not lie side by side.
    """
    if isinstance(scalars, Tensor):
        if scalars.ndim != 1:
            raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.ndim} instead.")
        if not scalars.is_contiguous():
            raise RuntimeError("Expected scalars to be contiguous.")
        if len(scalars) != count:
            raise RuntimeError(
                f"Expected length of scalars to match input of length {count} but got {len(scalars)} instead."
            )
    return scalars


def _ternary(name: str) -> Callable[..., Tensors]:
    method = getattr(Tensor, name)

    def apply(
        self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Operand = 1, *, scalars: Operand | None = None
    ) -> Tensors:
        # Several factors go by another name.
        value = value if scalars is None else _packed(scalars, len(self))
        values = _each(self, list(value.unbind(0)) if isinstance(value, Tensor) and value.ndim else value)
        made = [
            method(each, first, second, value=factor)
            if not isinstance(factor, Tensor)
            else method(each, first, second, value=factor.item())
            for each, first, second, factor in zip(
                _checked(self), _each(self, tensor1), _each(self, tensor2), values, strict=True
            )
        ]
        return self if name.endswith("_") else tuple(made)

    return apply


def _lerp(name: str) -> Callable[[Tensors, Tensors, Operand], Tensors]:
    method = getattr(Tensor, name)

    def apply(self: Tensors, tensors1: Tensors, weight: Operand) -> Tensors:
        ends, weights = _each(self, tensors1), _each(self, weight)
        made = [method(each, end, part) for each, end, part in zip(_checked(self), ends, weights, strict=True)]
        return self if name.endswith("_") else tuple(made)

    return apply


def _foreach_pow(self: Tensors | complex, exponent: Operand) -> tuple[Tensor, ...]:
    """Return powers: of every tensor, or of one number by every tensor."""
    if isinstance(self, (list, tuple)):
        return tuple(torch.pow(each, power) for each, power in zip(_checked(self), _each(self, exponent), strict=True))  # type: ignore[arg-type]
    return tuple(torch.pow(self, power) for power in _checked(exponent))  # type: ignore[arg-type]


def _foreach_norm(self: Tensors, ord: float = 2, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """Return the norm of each tensor, a scalar."""
    return tuple(torch.linalg.vector_norm(each, ord, dtype=dtype) for each in _checked(self))


def _foreach_powsum(self: Tensors, ord: float = 2, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """Return for each tensor the sum of its elements' absolute values to a power, a scalar."""
    return tuple(each.abs().to(dtype or each.dtype).pow(ord).sum() for each in _checked(self))


def _foreach_max(self: Tensors) -> tuple[Tensor, ...]:
    """Return the largest element of each tensor, a scalar."""
    return tuple(each.max() for each in _checked(self))


def _foreach_clone(self: Tensors, *, memory_format: torch.memory_format | None = None) -> tuple[Tensor, ...]:
    """Return a copy of each tensor."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(each.clone(**options) for each in _checked(self))


def _foreach_mm(self: Tensors, mat2: Tensors) -> tuple[Tensor, ...]:
    """Return the product of each pair of matrices."""
    return tuple(torch.mm(each, other) for each, other in zip(_checked(self), _each(self, mat2), strict=True))  # type: ignore[arg-type]


def _foreach_copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> Tensors:
    """Write each tensor of the second list over that of the first."""
    for each, source in zip(_checked(self), _each(self, src), strict=True):
        each.copy_(source, non_blocking)  # type: ignore[arg-type]
    return self


def _foreach_zero_(self: Tensors) -> Tensors:
    """Fill every tensor with zeros."""
    for each in _checked(self):
        each.zero_()
    return self


def _amp_foreach_non_finite_check_and_unscale_(self: Tensors, found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiply gradients by a number in place, and write 1 into ``found_inf`` [1] if any of them is not finite.

    Raises:
        RuntimeError: ``found_inf`` or ``inv_scale`` [1] has several elements, or is not of float32.
        NotImplementedError: gradients that are not floating-point numbers.
    """
    for name, each in (("inv_scale", inv_scale), ("found_inf", found_inf)):
        if each.numel() != 1:
            raise RuntimeError(f"{name} must be a 1-element tensor.")
        if each.dtype is not torch.float32:
            raise RuntimeError(f"{name} must be a float tensor.")
    for each in self:
        if not each.is_floating_point():
            title = each.type().rpartition(".")[2].removesuffix("Tensor")
            raise NotImplementedError(
                f"\"_amp_foreach_non_finite_check_and_unscale_{each.device.type}\" not implemented for '{title}'"
            )
        finite = each.isfinite().all()
        found_inf.copy_(torch.where(finite.to(found_inf.device), found_inf, torch.ones_like(found_inf)))
        # The kernel multiplies in float32 whatever the gradients' type.
        each.copy_(each * inv_scale.to(each.device).reshape(()))


def _amp_update_scale_(
    self: Tensor, growth_tracker: Tensor, found_inf: Tensor, scale_growth_factor: float, scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:  # fmt: skip
    """Update a loss's scale [1] in place after a step: smaller after infinities, larger after so many steps without any.

    ``growth_tracker`` [1] counts these steps, an int32.
    """
    failed = found_inf.reshape(self.shape) != 0
    steps = growth_tracker + 1
    grows = (steps == growth_interval).reshape(self.shape)
    larger = self * scale_growth_factor
    kept = torch.where(grows & larger.isfinite(), larger, self)
    self.copy_(torch.where(failed, self * scale_backoff_factor, kept))
    growth_tracker.copy_(steps * ~(grows | failed).reshape(growth_tracker.shape))
    return self


#: the functions by PyTorch's names
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"_foreach_{name}{end}": _unary(name + end) for name in _UNARY for end in ("", "_")},
    **{f"_foreach_{name}{end}": _binary(name + end) for name in _BINARY for end in ("", "_")},
    **{f"_foreach_{name}{end}": _scaled(name + end) for name in ("add", "sub") for end in ("", "_")},
    **{f"_foreach_{name}{end}": _ternary(name + end) for name in ("addcdiv", "addcmul") for end in ("", "_")},
    **{f"_foreach_lerp{end}": _lerp(f"lerp{end}") for end in ("", "_")},
    "_foreach_pow_": _binary("pow_"),
}
for _function in (
    _foreach_pow, _foreach_norm, _foreach_powsum, _foreach_max, _foreach_clone, _foreach_mm, _foreach_copy_, _foreach_zero_,
    _amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_,
):  # fmt: skip
    FUNCTIONS[_function.__name__] = _function
for _name, _made in FUNCTIONS.items():
    _made.__name__ = _made.__qualname__ = _name
    _made.__doc__ = _made.__doc__ or f"Apply ``torch.{_name.removeprefix('_foreach_')}`` to every tensor of a list."
