"""What random programs found: each family of differences beside PyTorch, on every device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_oracle import to_torch

INF, NAN = float("inf"), float("nan")


def _gradient(t: Any, make: Callable[[Any], Any], *numbers: float) -> Any:
    x = t.tensor(numbers, requires_grad=True)
    result = make(x)
    (found,) = t.autograd.grad(result, x, t.ones_like(result))
    return found


def _overwritten(t: Any, product: Callable[[Any, Any], Any]) -> Any:
    """Return the gradient of a product whose other operand, which nothing needs, was overwritten."""
    x, w = t.ones(2, 3, 2, requires_grad=True) * 2, t.tensor([[1.0, 2.0], [3.0, 4.0]])
    result = product(x, w)
    x.fill_(5)
    return t.autograd.grad(result, x, t.ones_like(result), allow_unused=True)[0] is None, result


#: real and imaginary parts of complex numbers at extremes
EXTREME = [complex(a, b) for a in (INF, -INF, NAN, 0.0, 1.5, -0.0) for b in (INF, -INF, NAN, 0.0, 1.5)]
COMPLEX_FUNCTIONS = (
    "exp", "expm1", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "reciprocal", "sigmoid",
)  # fmt: skip


def _of_extremes(t: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Return a function of every pair of extreme complex numbers."""
    numbers = t.tensor(EXTREME)
    return function(numbers.repeat_interleave(len(EXTREME)), numbers.repeat(len(EXTREME)))


def _refusal(step: Callable[[], Any]) -> str:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - which one it is, is what is compared
        return next(each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins")
    return "none"


def _filled(t: Any, fill: Callable[[Any], Any], size: int) -> Any:
    """Return what a tensor that was expanded and filled is then."""
    y = t.ones(1, 3, requires_grad=True) * 1
    fill(y.expand(size, 3))
    return y


def _assigned(x: Any, item: Any, value: Any) -> Callable[[], None]:
    return lambda: x.__setitem__(item, value)


FAMILIES: dict[str, Callable[[Any], Any]] = {
    "powers of zero of what is no number": lambda t: _gradient(t, lambda x: x**0, math.nan, 2.0, math.inf),
    "means of nothing": lambda t: (
        t.zeros(0, 3).nanmean(),
        t.zeros(0, 3).nanmean(0),
        t.zeros(2, 0, dtype=t.complex64).var(1),
    ),
    "running products of one that is no number": lambda t: _gradient(t, lambda x: x.reshape(2, 1).cumprod(1), NAN, 2.0),
    "products of what is no number": lambda t: (
        *(
            _gradient(t, lambda x: x.prod(-1), *numbers)
            for numbers in ((NAN, 2.0), (INF, 2.0), (0.0, NAN), (0.0, NAN, 0.0))
        ),
        *(_gradient(t, lambda x: x.prod(), *numbers) for numbers in ((NAN,), (0.0, NAN), (0.0, NAN, 0.0))),
    ),
    "assignment into a dimension without elements": lambda t: t.zeros(3, 0, 2).__setitem__(
        (Ellipsis, t.tensor([[0, 0, 2]]), 0), t.tensor([5.0, 0.0])
    ),
    "classes of what was found in the same kernel": lambda t: (
        t.nn.functional.one_hot(t.zeros(5, 2).clone().argmin(-1), 9).shape == (5, 9),
        t.arange(3),
        t.nn.functional.one_hot((t.arange(4) > 9).sum().argmin(-1), 9),
    ),
    "variance of as many as are taken off": lambda t: _gradient(t, lambda x: x.var(0, correction=3), 1.0, 2.0, 6.0),
    "variance of fewer than are taken off": lambda t: _gradient(t, lambda x: x.var(0, correction=5), 1.0, 2.0, 6.0),
    "variance of all with all taken off": lambda t: _gradient(t, lambda x: x.var(correction=2), 1.0, 1.0),
    "deviation of all with all taken off": lambda t: _gradient(t, lambda x: x.std(correction=2), 1.0, 3.0),
    "xlogy without a gradient": lambda t: _gradient(t, lambda x: t.xlogy(x, -2.0) * 0, 1.0, 2.0),
    "amax of not a number": lambda t: _gradient(t, lambda x: x.reshape(2, 2).amax(1), 1.0, NAN, 3.0, 2.0),
    "powers at zero": lambda t: [_gradient(t, lambda x, p=p: x**p, 0.0, 2.0) for p in (-2.0, -1.0, -0.5, 0.5)],
    "a power whose result is overwritten": lambda t: _gradient(
        t, lambda x: (y := x**-1.0, y + 1, y.zero_())[1], 2.0, 4.0
    ),
    "a remainder by what needs a gradient": lambda t: _gradient(t, lambda x: 5.0 % x, 2.0, 4.0),
    "a remainder of what needs a gradient": lambda t: _gradient(t, lambda x: x % 3.0, 2.0, 4.0),
    "a product whose operand is overwritten": lambda t: _overwritten(t, t.matmul),
    "ldexp of halves": lambda t: t.ldexp(t.ones(2, dtype=t.int64), t.tensor([1.0, 2.0], dtype=t.float16)),
    "ldexp of truth values": lambda t: t.ldexp(t.ones(2), t.tensor([True, False])),
    "one_hot of a transposed tensor": lambda t: t.nn.functional.one_hot(t.tensor([[0, 1], [2, 0]]).t()),
    "a slice replaced behind an offset": lambda t: t.select_scatter(t.arange(6.0).reshape(3, 2)[1:], t.zeros(2), 0, 1),
    "a slice replaced among overlaps": lambda t: t.select_scatter(
        t.arange(6.0).as_strided((3, 3), (1, 1)), t.zeros(3), 0, 1
    ),
    "median of nothing": lambda t: [t.zeros(0, dtype=each).median() for each in (t.int8, t.int16, t.int64, t.uint8)],
    "complex sum of truth values": lambda t: t.tensor([1j, 0j]).sum(dtype=t.bool),
    "complex products that meet": lambda t: t.tensor([1j, 2 + 1j]).scatter_reduce(
        0, t.tensor([0, 0, 1]), t.tensor([2j, 1 + 1j, 3.0 + 0j]), "prod"
    ),
    "complex products without their start": lambda t: t.tensor([1j, 2 + 1j]).scatter_reduce(
        0, t.tensor([0, 0, 0]), t.tensor([2j, 1 + 1j, 3.0 + 0j]), "prod", include_self=False
    ),
    "an assignment to a leaf by a mask that does not fit": lambda t: t.ones(2, requires_grad=True).__setitem__(
        t.tensor([True, False, True]), 1.0
    ),
    "scatter_add of another type outside": lambda t: t.ones(2).scatter_add(3, t.tensor([0]), t.ones(1, dtype=t.int64)),
    "index_add at fractions outside": lambda t: t.ones(2).index_add(3, t.tensor([0.0]), t.ones(1)),
    "numbers joined along a dimension that there is not": lambda t: t.cat([t.tensor(1.0), t.tensor(2.0)], 1),
    "integers of what has none": lambda t: [
        (t.tensor([INF, -INF, NAN, 3e9, -3e9, 1e20]) * 2).to(each)
        for each in (t.int64, t.int32, t.int16, t.int8, t.uint8)
    ],
    "powers of truth values": lambda t: t.tensor([True, False, True, False]) ** t.tensor([True, True, False, False]),
    "a norm of zero and not a number": lambda t: _gradient(t, lambda x: t.linalg.vector_norm(x) * NAN, 0.0, 0.0),
    "a sum of no products divided by zero": lambda t: (
        (t.zeros(2, 0) @ t.zeros(0, 2)) // t.tensor([7.0, 0.0]),
        t.zeros(2, 0) @ t.zeros(0, 2) / t.tensor([7.0, 0.0]),
    ),
    "the gradient of what was read outside of nothing": lambda t: _gradient(
        t, lambda x: x[:0].reshape(3, 0)[t.tensor([-4, 1])], 1.0
    ),
    "positions of a number": lambda t: [each._is_view() for each in t.tensor(2.0).nonzero(as_tuple=True)],
    "scatters of nothing into a transposed tensor": lambda t: [
        t.ones(3, 2).t().scatter_reduce(0, t.zeros(0, 2, dtype=t.int64), t.zeros(0, 2), each)
        for each in ("sum", "mean", "amax")
    ],
    "nothing at a position of nothing": lambda t: t.zeros(0, 0)[t.tensor([0])],
    "nothing at a position outside": lambda t: t.zeros(2, 0).index_select(0, t.tensor([5])),
    "norms of infinite order of NaN": lambda t: [
        _gradient(t, lambda x: t.linalg.vector_norm(x, order, 0), NAN, 1.0, 2.0) for order in (INF, -INF)
    ],
    "losses at infinity": lambda t: [
        _gradient(t, lambda x: loss(x, t.ones(4)), INF, -INF, NAN, 1.5)
        for loss in (t.nn.functional.smooth_l1_loss, t.nn.functional.huber_loss)
    ],
    "complex numbers as truth values": lambda t: t.zeros(3, dtype=t.bool).copy_(t.tensor([1j, 0j, 1 + 0j])),
    "lerp of integers by a floating-point number": lambda t: [
        t.lerp(t.tensor([3]), t.tensor([8]), t.tensor(0.5)),
        t.lerp(t.tensor([3]), t.tensor([8]), t.tensor(2)),
    ],
    "float16 zeros normalized": lambda t: t.nn.functional.normalize(t.zeros(2, dtype=t.float16), dim=0),
    "branches of running logarithms": lambda t: t.tensor([4 + 5j, 4 + 1j, 3 + 60j, 4 + 61j]).logcumsumexp(0),
    "variance of complex numbers with one part alike": lambda t: t.tensor([1 + 2j, 3 + 2j]).var(0, correction=2),
    "complex extrema of nothing": lambda t: t.zeros(0, 3, dtype=t.complex64).amin(-1),
    "an inner product of truth values": lambda t: t.ones(2, dtype=t.bool).inner(t.ones(2, dtype=t.bool)),
    "a dimension before sizes": lambda t: t.stack([t.zeros(3), t.zeros(3, 2)], 2),
    "a dimension before elements that repeat": lambda t: (
        t.zeros(1, 2).expand(3, 2).index_add_(4, t.tensor([0]), t.ones(3, 2))
    ),
    "orders of complex results": lambda t: [
        step(t.tensor([[1 + 1j, 2j], [3.0, 4 + 2j], [5.0, 6j]]).t())
        for step in (
            lambda x: x.exp(),
            lambda x: x * x.contiguous(),
            lambda x: 2 / x,
            lambda x: x / x.contiguous(),
            lambda x: x.index_fill(0, t.tensor([0]), 2),
            lambda x: x.angle(),
            lambda x: x**2.5,
        )
    ],
    "orders of powers, truth and crops": lambda t: [
        2.0 ** t.ones(2, 3).t(),
        t.ones(2, 3).t().any(()),
        t.nn.functional.pad(t.ones(2, 3).t(), [-1, 0]),
    ],
    "orders of what is chosen beside dimensions of one element": lambda t: [
        t.arange(8).reshape(4, 2).unfold(0, 4, 1)[:, t.tensor([[0], [0]])],
        t.ones(1, 2, 3).permute(0, 2, 1)[:, :, t.tensor([0, 1])],
        t.ones(2, 4).t().masked_fill(t.ones(2, 4, 1, dtype=t.bool), 2),
        t.ones(1, 1, 2).masked_fill(t.ones(3, 2, dtype=t.bool), 2),
        t.ones(2, 3).t().rot90(0),
        t.nn.functional.logsigmoid(t.ones(2, 3).t()),
        t.tensor([[1j, 2, 3]] * 3).t().lerp(t.tensor([1j, 2, 3]), t.tensor([[1j, 2, 3]] * 3)),
    ],
    "functions of complex numbers at infinity": lambda t: [
        getattr(t, each)(t.tensor(EXTREME)) for each in COMPLEX_FUNCTIONS
    ],
    "products of complex numbers at infinity": lambda t: _of_extremes(t, lambda x, y: x * y),
    "quotients of complex numbers at infinity": lambda t: _of_extremes(t, lambda x, y: x / y),
    "logarithms of sums at infinity": lambda t: [
        _of_extremes(t, t.logaddexp),
        _of_extremes(t, lambda x, y: t.stack([x, y, x]).logcumsumexp(0)),
    ],
    "complex and real numbers at infinity": lambda t: [
        step(t.tensor(EXTREME), other)
        for other in (2.0, 0.0, INF, t.tensor([2.0]), t.tensor(0.0), t.tensor([True]))
        for step in (lambda x, y: x * y, lambda x, y: y * x, lambda x, y: x / y, lambda x, y: y / x)
    ],
    "complex powers of zero": lambda t: t.zeros(5) ** t.tensor([0j, 1j, 2.0, -1.0, 1 - 1j]),
    "complex extrema of no dimension": lambda t: [
        _refusal(lambda shape=shape, dim=dim: t.aminmax(t.zeros(shape, dtype=t.complex64), dim=dim))
        for shape in ((0,), (0, 3), (2, 0))
        for dim in (None, 0, -1, 2)
    ],
    "lerp of integers by a complex number": lambda t: t.lerp(t.tensor([3]), t.tensor([8]), t.tensor(0.5j)),
    "complex sum of no numbers": lambda t: t.zeros(0, 2).nansum(0, dtype=t.complex64),
    "what is refused first of an assignment": lambda t: [
        _refusal(each)
        for each in (
            _assigned(t.ones(4, 1), (..., t.tensor([-2, 0])), t.ones(3)),
            _assigned(t.ones(1, 0, requires_grad=True), (t.tensor([True]), 0), 1.0),
            _assigned(t.ones(3, 2, requires_grad=True)[:], (t.tensor([True]), 5), 1.0),
            _assigned(t.ones(3, 2), (t.tensor([0, 1, 1]), t.tensor([0, 1])), 1.0),
        )
    ],
    "nothing gathered is memory of its own": lambda t: (
        t.ones(3, 3).gather(0, t.zeros(0, 3, dtype=t.int64)).as_strided((2,), (2,), 0)
    ),
    "running sums whose gradient is NaN": lambda t: [
        _gradient(t, lambda x: x.logcumsumexp(0) * t.tensor([1.0, NAN, 2.0]), 1.0, 2.0, 0.5),
        _gradient(t, lambda x: x.cumprod(0) * t.tensor([1.0, INF, NAN, 2.0]), 1.5, 0.0, 0.0, 2.0),
        _gradient(t, lambda x: x.cumprod(0) * t.tensor([1.0, 2.0, 3.0, INF]), 1.5, 0.0, 0.5, 0.0),
    ],
    "norms whose gradient is infinite": lambda t: [
        _gradient(t, lambda x: t.linalg.vector_norm(x, order, 0) * INF, 0.0, 1.0, -2.0) for order in (0.5, 1.5, 3, -2)
    ],
    "a sum of what was overwritten after ldexp": lambda t: _gradient(
        t, lambda x: (y := x * 1, z := t.ldexp(y, t.tensor(2.0)), y.zero_(), z)[-1], 1.0, 2.0
    ),
    "arguments that nothing has": lambda t: (
        [
            _refusal(lambda: function(t.ones(2, 2), other=1))
            for function in (
                t.reshape,
                t.permute,
                t.flip,
                t.Tensor.expand,
                t.Tensor.reshape,
                t.Tensor.uniform_,
                t.Tensor.random_,
                t.Tensor.repeat,
            )
        ]
        + [
            _refusal(lambda: make(2, dtpye=t.float64))
            for make in (t.rand, t.randn, t.zeros, t.empty, t.randint, t.randperm)
        ]
        + [_refusal(lambda: make(2, size=(2,))) for make in (t.rand, t.randn, t.zeros)]
        + [
            t.rand(size=(0, 2)),
            t.ones(2, 3).reshape(shape=(3, 2)),
            t.ones(2, 3).permute(dims=(1, 0)),
            t.ones(1, 3).expand(size=(2, 3)),
        ]
    ),
    "pieces of nothing": lambda t: [
        [tuple(piece.shape) for piece in t.zeros(shape).chunk(count, dim)]
        for shape, dim in (((0,), 0), ((0, 3), 0), ((0, 3), 1), ((3, 0), -1))
        for count in (1, 2, 5)
    ],
    "draws for no rows": lambda t: (
        [tuple(t.multinomial(t.ones(0, 3), count, again).shape) for count in (1, 3) for again in (False, True)]
        + [_refusal(lambda: t.multinomial(t.ones(rows, 3), 4)) for rows in (0, 2)]
    ),
    "a row times a batch": lambda t: [
        t.matmul(t.ones(rows, 2, requires_grad=True), t.ones(3, 2, 2))._is_view() for rows in (1, 2)
    ],
    "shifts by counts of a narrower type": lambda t: [
        shift(t.tensor([[6, 2], [8, -1]]), t.tensor([[2, 3]], dtype=kind))
        for shift in (t.bitwise_left_shift, t.bitwise_right_shift)
        for kind in (t.uint8, t.int16, t.int32)
    ],
    "deviations whose gradient is infinite": lambda t: [
        _gradient(t, lambda x: getattr(t, name)(x, **options) * seed, 1.0, -2.0, 0.0)
        for name in ("var", "std")
        for options in ({}, {"dim": 0}, {"correction": 3}, {"dim": 0, "correction": 4})
        for seed in (INF, NAN, 0.0)
    ],
    "deviations of equal elements": lambda t: [
        getattr(t, name)(t.tensor([[each] * 3 for each in (0.1, 0.7, 1.3, 1e-3, 123.4)]), 1) for name in ("var", "std")
    ],
    "means of 16-bit numbers": lambda t: [
        (t.arange(24).reshape(2, 3, 4) % 5 * 0.37 + 0.1).to(kind).mean(dim)
        for kind in (t.float16, t.bfloat16)
        for dim in (0, 1, 2, (0, 1), (0, 1, 2))
    ],
    "what is refused first of a write into expanded memory": lambda t: [
        _refusal(lambda write=write: write(t.ones(1, 3).expand(2, 3)).tolist())
        for write in (
            lambda y: y.index_copy_(0, t.tensor([0]), t.ones(2, 3)),
            lambda y: y.index_copy_(0, t.tensor([0, 9]), t.ones(2, 3)),
            lambda y: y.index_copy_(5, t.tensor([0, 1]), t.ones(2, 3)),
            lambda y: y.index_add_(0, t.tensor([[0, 1]]), t.ones(2, 3)),
            lambda y: y.index_add_(0, t.tensor([0, 1]), t.ones(2, 3)),
            lambda y: y.scatter_(5, t.tensor([[0, 1, 0]]), 2.0),
            lambda y: y.put_(t.tensor([0, 99]), t.ones(2)),
            lambda y: y.mul_(t.ones(4)),
            lambda y: y.index_fill_(0, t.tensor([0, 9]), 2.0),
        )
    ],
    "fills of expanded memory": lambda t: [
        t.arange(3.0)
        .reshape(1, 3)
        .expand(2, 3)
        .masked_fill_(t.tensor([[True, False, False], [False, False, True]]), 9),
        t.arange(3.0).reshape(1, 3).expand(2, 3).index_fill_(0, t.tensor([1]), 9),
        t.arange(3.0).reshape(1, 3).expand(2, 3).index_fill_(0, t.tensor([], dtype=t.int64), 9),
        t.arange(3.0).reshape(1, 3).expand(2, 3).index_fill_(1, t.tensor([0, -1]), 9),
    ],
    "products of booleans": lambda t: [
        _refusal(lambda call=call, one=one, two=two: call(t.ones(one, dtype=t.bool), t.ones(two, dtype=t.bool)))
        for call in (t.matmul, t.inner, t.dot, t.vdot, lambda x, y: t.tensordot(x, y, 1))
        for one in ((0,), (1,), (2,), (1, 0), (1, 2), (2, 0), (1, 1))
        for two in ((0,), (1,), (2,), (0, 1), (2, 1), (1, 0), (1, 1))
    ],
    "products of rows of booleans that lie apart": lambda t: [
        _refusal(lambda one=one, two=two: t.inner(one, two).tolist())
        for rows in (t.ones(6, dtype=t.bool),)
        for one, two in (
            (rows[::2], rows[:3]),
            (rows[:3], rows[3:]),
            (rows[:1].expand(3), rows[:3]),
            (rows[::3][:1], rows[:1]),
            (rows[::2], rows.reshape(2, 3)),
            (rows[::2], rows.reshape(2, 3)[:1]),
        )
    ],
    "types of complex sources": lambda t: [
        _refusal(each)
        for each in (
            lambda: t.zeros(3, dtype=t.complex64).index_copy(0, t.tensor([1]), t.tensor([1.0])),
            lambda: t.zeros(3, dtype=t.complex64).index_add(0, t.tensor([1]), t.tensor([1.0])),
            lambda: t.zeros(3).index_add(0, t.tensor([1]), t.tensor([1j])),
            lambda: t.zeros(3, dtype=t.complex64).scatter(0, t.tensor([1]), t.tensor([1.0])),
        )
    ],
    "classes below zero": lambda t: _refusal(lambda: t.nn.functional.one_hot(t.tensor([-1]))),
    "seeds that are not finite": lambda t: [
        t.autograd.grad(call(x := t.tensor([0.0, -0.0, 2.0, 3.0], requires_grad=True)), x, seed)[0]
        for call, shape in (
            (lambda x: t.nextafter(x.detach(), x), (4,)),
            (lambda x: t.nextafter(x, t.ones(4)), (4,)),
            (lambda x: x.prod(), ()),
            (lambda x: x.var(), ()),
        )
        for seed in (t.full(shape, NAN), t.full(shape, INF))
    ],
    "gradients of fills of expanded memory": lambda t: [
        _refusal(lambda fill=fill, size=size: _filled(t, fill, size).sum().backward())
        for size in (1, 2)
        for fill in (
            lambda y: y.zero_(),
            lambda y: y.fill_(2.0),
            lambda y: y.masked_fill_(t.tensor([True, False, True]), 2.0),
            lambda y: y.index_fill_(1, t.tensor([0]), 2.0),
        )
    ],
    "a batch of one times a batch": lambda t: [
        t.matmul(t.ones(1, rows, 2, requires_grad=True), t.ones(2, 2, 1))._is_view() for rows in (1, 2)
    ],
    "what is refused first of a sum without NaN": lambda t: [
        _refusal(lambda kind=kind, options=options: t.nansum(t.zeros(2, dtype=kind), **options))
        for kind in (t.complex64, t.float32)
        for options in ({}, {"dim": 5}, {"dim": (0, 0)}, {"dim": 5, "dtype": t.complex64}, {"dim": 5, "dtype": t.int64})
    ],
    "norms of single elements": lambda t: [
        (t.linalg.vector_norm(t.tensor([[3.0, 1e30, -1e-30, -0.7, NAN, INF]]), order, 0) == each)
        for order in (-3, -1, 0.5, 1, 2, 3, 7, 1e3)
        for each in t.tensor([3.0, 1e30, 1e-30, 0.7, NAN, INF])
    ],
    "products of nothing scattered into transposed complex numbers": lambda t: [
        t.ones(shape, dtype=t.complex64).mT.scatter_reduce(
            0, t.zeros(0, 2, dtype=t.int64), t.zeros(0, 2, dtype=t.complex64), way
        )
        for shape in ((2, 2), (3, 2))
        for way in ("prod", "amin")
    ],
    "sums in narrow types of what they cannot hold": lambda t: [
        t.tensor(values).sum(dtype=kind)
        for values in ([NAN], [3e9, 1.0], [-INF, 1.0], [-3e9], [2.5, -1.5])
        for kind in (t.int32, t.int64)
    ],
    "gradients of means of nothing": lambda t: [
        _gradient(t, lambda x, name=name, options=options: getattr(x.reshape(2, 2), name)(**options), *numbers)
        for name in ("nansum", "nanmean")
        for options in ({}, {"dim": 1}, {"dim": (0, 1), "keepdim": True})
        for numbers in ((NAN, NAN, 1.0, NAN), (NAN, NAN, NAN, NAN), (1.0, 2.0, 3.0, INF))
    ],
    "complex powers that are real numbers": lambda t: [
        t.tensor([0j, 1 + 1j, -2 + 0.5j]) ** exponent
        for exponent in (0, 0j, 1 + 0j, 2 + 0j, 3 + 0j, -1 + 0j, 0.5 + 0j, -0.5 + 0j, 1j)
    ],
    "an empty row of embeddings outside": lambda t: t.nn.functional.embedding(t.tensor([-2, 0]), t.zeros(1, 0)),
}
#: what is compared by strides and offsets, too
STRIDED = (
    "scatters of nothing into a transposed tensor",
    "products of nothing scattered into transposed complex numbers",
    "one_hot of a transposed tensor",
    "a slice replaced behind an offset",
    "a slice replaced among overlaps",
    "orders of complex results",
    "orders of powers, truth and crops",
    "orders of what is chosen beside dimensions of one element",
)


def _flat(result: Any) -> list[Any]:
    return [part for each in result for part in _flat(each)] if isinstance(result, list | tuple) else [result]


def _outcome(t: Any, name: str) -> Any:
    try:
        return _flat(FAMILIES[name](t))
    except Exception as error:
        return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str, device: str) -> None:
    expected = _outcome(torch, name)
    with ours.device(device):
        found = _outcome(ours, name)
    if isinstance(expected, Exception):
        assert isinstance(found, type(expected)), f"{found!r} instead of {expected!r}"
        return
    assert isinstance(found, list), repr(found)
    for wanted, mine in zip(expected, found, strict=True):
        if not isinstance(wanted, torch.Tensor):
            assert wanted == mine
            continue
        assert str(mine.dtype) == str(wanted.dtype) and tuple(mine.shape) == tuple(wanted.shape)
        if name in STRIDED:
            assert (mine.stride(), mine.storage_offset()) == (wanted.stride(), wanted.storage_offset())
        found_, wanted_ = to_torch(mine), wanted.detach().contiguous()
        if wanted_.is_complex():
            # Part by part: NaN in one says nothing of the other.
            found_, wanted_ = torch.view_as_real(found_), torch.view_as_real(wanted_)
        torch.testing.assert_close(found_, wanted_, equal_nan=True)


#: parts of subscripts: truth values, masks, positions
PARTS = {
    "truth": lambda library: True,
    "falsehood": lambda library: False,
    "rest": lambda library: ...,
    "mask": lambda library: library.ones((2, 2), dtype=library.bool),
    "row mask": lambda library: library.tensor([True, False]),
    "number": lambda library: 0,
    "positions": lambda library: library.tensor([0, 1, 1]),
    "far": lambda library: library.tensor([5]),
}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=3),
    st.sampled_from(("float32", "float64", "int64")),
    st.sampled_from(((), (1,))),
)
def test_writes_by_masks_and_truth_values(parts, kind, shape):
    answers = []
    for library in (torch, ours):
        x = library.zeros(2, 2)
        try:
            x[tuple(PARTS[each](library) for each in parts)] = library.ones(shape, dtype=getattr(library, kind))
            answers.append(x.tolist())
        except (IndexError, RuntimeError) as error:
            answers.append(type(error))
    assert answers[1] == answers[0]


SEARCHED = ("uint8", "int8", "int64", "float32", "float16", "bfloat16", "bool", "complex64")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SEARCHED),
    st.sampled_from(SEARCHED),
    st.lists(st.integers(-3, 130), min_size=0, max_size=3),
    st.booleans(),
)
def test_searches_in_other_types(boundaries, values, numbers, one):
    answers = []
    for library in (torch, ours):
        edges = library.tensor([0, 1, 3, 127]).to(getattr(library, boundaries))
        given = library.tensor(7 if one else numbers).to(getattr(library, values))
        for search in (library.searchsorted, lambda edges, given: library.bucketize(given, edges)):  # noqa: B023
            try:
                answers.append(search(edges, given).tolist())
            except (RuntimeError, NotImplementedError) as error:
                answers.append(type(error))
    assert answers[2:] == answers[:2]
    assert ours.searchsorted(ours.arange(4), 2.5).item() == torch.searchsorted(torch.arange(4), 2.5).item() == 3
