"""Gradients of the operations that networks are mostly made of, written with other operations.

A formula is called with what saves a tensor and with the overload's arguments, before the overload is; it returns a function
from the result's gradient to those of the tensors among the arguments, in their order. The formulas are those of PyTorch's
``derivatives.yaml``, for real tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.torch_dispatch import Value

Save: TypeAlias = Callable[[Value], Callable[[], Value]]
Backward: TypeAlias = Callable[[Value], list[Value]]


def _fitted(gradient: Value, shape: Sequence[int], dtype: Value) -> Value:
    """Return a gradient for what was repeated and converted."""
    if tuple(gradient.shape) != tuple(shape):
        extra = gradient.dim() - len(shape)
        dims = list(range(extra))
        dims += [extra + place for place, size in enumerate(shape) if size == 1 and gradient.shape[extra + place] != 1]
        gradient = gradient.sum(dims, keepdim=True) if dims else gradient
        gradient = gradient.reshape(tuple(shape)) if extra else gradient
    return gradient if gradient.dtype is dtype else gradient.to(dtype)


def _of(value: Value) -> tuple[Value, Value]:
    return (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else ((), None)


def _pair(first: Value, second: Value, forward: Callable[[Value], Value], other: Callable[[Value], Value]) -> Backward:
    """Return the backward of an operation on two operands, of which the second may be a number."""
    ours, theirs = _of(first), _of(second)

    def backward(gradient: Value) -> list[Value]:
        found = [_fitted(forward(gradient), *ours)] if ours[1] is not None else []
        return [*found, _fitted(other(gradient), *theirs)] if theirs[1] is not None else found

    return backward


def _add(save: Save, first: Value, second: Value, *, alpha: Value = 1) -> Backward:
    return _pair(first, second, lambda g: g, lambda g: g if alpha == 1 else g * alpha)


def _sub(save: Save, first: Value, second: Value, *, alpha: Value = 1) -> Backward:
    return _pair(first, second, lambda g: g, lambda g: -g if alpha == 1 else g * -alpha)


def _factor(save: Save, value: Value) -> Callable[[], Value]:
    return save(value) if isinstance(value, Tensor) else lambda: value


def _mul(save: Save, first: Value, second: Value) -> Backward:
    left, right = _factor(save, first), _factor(save, second)
    return _pair(first, second, lambda g: g * right(), lambda g: g * left())


def _div(save: Save, first: Value, second: Value) -> Backward:
    left, right = _factor(save, first), _factor(save, second)
    return _pair(first, second, lambda g: g / right(), lambda g: -g * ((left() / right()) / right()))


def _linear(back: Callable[..., Value]) -> Callable[..., Backward]:
    """Return the formula of what needs nothing but the gradient and the arguments after the tensor."""
    return lambda save, self, *args, **_: lambda g: [back(g, *args)]


def _product(save: Save, first: Value, second: Value) -> Backward:
    left, right = save(first), save(second)
    ours, theirs = first.dtype, second.dtype
    return lambda g: [(g @ right().mT).to(ours), (left().mT @ g).to(theirs)]


def _addmm(save: Save, bias: Value, first: Value, second: Value, *, beta: Value = 1, alpha: Value = 1) -> Backward:
    place, product = _of(bias), _product(save, first, second)

    def backward(g: Value) -> list[Value]:
        scaled = g if alpha == 1 else g * alpha
        return [_fitted(g if beta == 1 else g * beta, *place), *product(scaled)]

    return backward


def _permute(save: Save, self: Value, dims: Sequence[int]) -> Backward:
    count = self.dim()
    places = [dim % count for dim in dims]
    return lambda g: [g.permute(tuple(places.index(dim) for dim in range(count)))]


def _reshaped(save: Save, self: Value, *_: Value, **__: Value) -> Backward | None:
    shape = tuple(self.shape)
    # A view may be of another type, too.
    return None if _ and not isinstance(_[0], list | tuple | int) else lambda g: [g.reshape(shape)]


def _repeated(save: Save, self: Value, *_: Value, **__: Value) -> Backward:
    place = _of(self)
    return lambda g: [_fitted(g, *place)]


def _to_copy(save: Save, self: Value, **_: Value) -> Backward:
    dtype, device = self.dtype, self.device
    return lambda g: [g.to(device, dtype)]


def _copied(save: Save, self: Value, source: Value, non_blocking: bool = False) -> Backward:
    return _pair(self, source, lambda g: g * 0, lambda g: g)


def _sum(save: Save, self: Value, dim: Value = None, keepdim: bool = False, *, dtype: Value = None) -> Backward:
    shape, kind = tuple(self.shape), self.dtype

    def backward(g: Value) -> list[Value]:
        dims = range(len(shape)) if not dim else sorted(each % len(shape) for each in dim) if shape else ()
        if not keepdim:
            for each in dims:
                g = g.unsqueeze(each)
        return [(g if g.dtype is kind else g.to(kind)).expand(shape)]

    return backward


def _mean(save: Save, self: Value, dim: Value = None, keepdim: bool = False, *, dtype: Value = None) -> Backward:
    total, shape = _sum(save, self, dim, keepdim), self.shape
    count = 1
    for each in dim or range(len(shape)) if shape else ():
        count *= shape[each]
    del dtype
    return lambda g: [each / count for each in total(g)]


def _elementwise(slope: Callable[[Value, Value], Value]) -> Callable[..., Backward]:
    def formula(save: Save, self: Value) -> Backward:
        kept = save(self)
        return lambda g: [slope(g, kept())]

    return formula


def _pow(save: Save, self: Value, exponent: Value) -> Backward:
    kept = save(self)
    return lambda g: [g * (exponent * kept() ** (exponent - 1)) if exponent else g * 0]


FORMULAS: dict[str, Callable[..., Backward | None]] = {
    "add.Tensor": _add, "add_.Tensor": _add, "sub.Tensor": _sub, "sub_.Tensor": _sub, "mul.Tensor": _mul, "div.Tensor": _div,
    "copy_.default": _copied, "fill_.Scalar": _copied, "fill_.Tensor": _copied, "neg.default": _linear(lambda g: -g),
    "mm.default": _product, "bmm.default": _product, "addmm.default": _addmm, "t.default": _linear(lambda g: g.t()),
    "transpose.int": _linear(lambda g, dim0, dim1: g.transpose(dim0, dim1)), "permute.default": _permute,
    "view.default": _reshaped, "_unsafe_view.default": _reshaped,
    "unsqueeze.default": _reshaped, "squeeze.default": _reshaped, "squeeze.dim": _reshaped, "squeeze.dims": _reshaped,
    "expand.default": _repeated, "alias.default": _linear(lambda g: g), "clone.default": _linear(lambda g: g),
    "_to_copy.default": _to_copy,
    "sum.default": _sum, "sum.dim_IntList": _sum, "mean.default": _mean, "mean.dim": _mean, "pow.Tensor_Scalar": _pow,
    "relu.default": _elementwise(lambda g, x: g * (x > 0)), "exp.default": _elementwise(lambda g, x: g * x.exp()),
    "log.default": _elementwise(lambda g, x: g / x), "sin.default": _elementwise(lambda g, x: g * x.cos()),
    "cos.default": _elementwise(lambda g, x: g * -x.sin()), "tanh.default": _elementwise(lambda g, x: g * (1 - x.tanh() ** 2)),
    "sigmoid.default": _elementwise(lambda g, x: g * (x.sigmoid() * (1 - x.sigmoid()))),
}  # fmt: skip
