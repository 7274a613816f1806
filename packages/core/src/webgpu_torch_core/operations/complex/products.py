"""Rules of matrix products and convolutions of complex tensors: sums of real ones."""

from __future__ import annotations

from typing import Any

from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient
from .arithmetic import reduce_gradient, split
from .interleaving import ZERO, join
from .views import conj


def product_rule(function: Any, left: Tensor, right: Tensor, title: str, wide: bool = False) -> Tensor:
    """Return a batched matrix product of four real ones (two where one side is real)."""
    if left.dtype.to_real() is not right.dtype.to_real():
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {left.dtype.word} != {right.dtype.word}"
        )
    a, b = split(left.detach())
    c, d = split(right.detach())
    real = function(a, c, title)
    imag = ZERO
    if b is not ZERO and d is not ZERO:
        real, imag = real - function(b, d, title), function(a, d, title) + function(b, c, title)
    elif d is not ZERO:
        imag = function(a, d, title)
    else:
        imag = function(b, c, title)
    result = join(real, imag)
    if needs_gradient(left, right):
        saved = left._save(), right._save()

        def run_backward(grad: Tensor) -> Any:
            first, second = saved[0].unpack(), saved[1].unpack()
            left_part = (
                product_rule_or(function, grad, conj(second).transpose(-1, -2), title) if left.requires_grad else None
            )
            right_part = (
                product_rule_or(function, conj(first).transpose(-1, -2), grad, title) if right.requires_grad else None
            )
            return reduce_gradient(left_part, left), reduce_gradient(right_part, right)

        attach(result, title, (left, right), run_backward)
    return result


def product_rule_or(function: Any, left: Tensor, right: Tensor, title: str) -> Tensor:
    """Return a product whose operands may both be real."""
    if left.dtype.is_complex or right.dtype.is_complex:
        return product_rule(function, left, right, title)
    return function(left, right, title)


def convolution_rule(function: Any, input: Tensor, weight: Tensor, *rest: Any, **named: Any) -> Tensor:
    """Return a convolution (without bias) of complex tensors by real ones."""
    a, b = split(input)
    c, d = split(weight)
    real = function(a, c, *rest, **named)
    if b is ZERO or d is ZERO:
        return join(real, function(a, d, *rest, **named) if b is ZERO else function(b, c, *rest, **named))
    mixed = function(a, d, *rest, **named) + function(b, c, *rest, **named)
    return join(real - function(b, d, *rest, **named), mixed)
