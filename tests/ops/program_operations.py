"""Operations of random programs: for each family, what draws the arguments of one call from the shape and type of a tensor.

A maker gets a source of random numbers and the oracle's tensor and returns a step: a function of a namespace, a tensor, and
what gives the namespace's own copy of an argument. Some arguments are wrong on purpose: dimensions that are not there, sizes
that do not fit, positions outside, types that an operation does not take.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from view_programs import dimension as any_dimension
from view_programs import numbers, positions, subscript
from view_writes import operand

Convert = Callable[[Any], Any]
Step = Callable[[Any, Any, Convert], Any]
Maker = Callable[[random.Random, torch.Tensor], Step]


def dimension(draw: random.Random, x: torch.Tensor) -> int:
    """Return a dimension, of tensors with elements now and then one that is not there: of others PyTorch may look away."""
    return any_dimension(draw, x) if x.numel() else draw.randrange(-max(x.ndim, 1), max(x.ndim, 1))


def _size(x: torch.Tensor, dim: int) -> int:
    return x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1


def _kind(draw: random.Random) -> torch.dtype:
    return getattr(torch, draw.choice(draw.kinds))  # type: ignore[attr-defined]


def _named(t: Any, name: str) -> Any:
    """Return the function of a dotted name."""
    for part in name.split("."):
        t = getattr(t, part)
    return t


def other(draw: random.Random, x: torch.Tensor, mixed: float = 0.25) -> Any:
    """Return a second operand: mostly of the tensor's type, now and then a number or another type."""
    value = operand(draw, x, _kind(draw) if draw.random() < mixed else None)
    if not isinstance(value, torch.Tensor) and not isinstance(value, bool) and draw.random() < 0.3:
        return draw.choice((-1, 0.5, -2.0, 2.5))
    return value


# Elements


def unary(draw: random.Random, x: torch.Tensor) -> Step:
    name = draw.choice(UNARY)
    if name == "signbit" and x.isnan().any():
        # Of NaN the sign is promised nowhere.
        name = "isnan"
    if name == "nn.functional.gelu" and x.isinf().any():
        # On some processors PyTorch has NaN for what is infinite.
        name = "nn.functional.silu"
    if name in AT_NAN and x.requires_grad and x.isnan().any():
        # What the gradient is there depends on whether the processor's vector unit computes it.
        name = "nn.functional.silu"
    return lambda t, y, c: _named(t, name)(y)


def zeros_of_both_signs(*values: Any) -> bool:
    """Return whether there are zeros of both signs: which of the two is the larger nobody says."""
    zeros = [each[each == 0] for each in values if isinstance(each, torch.Tensor) and each.is_floating_point()]
    signs = {sign for each in zeros for sign in each.signbit().tolist()}
    signs |= {False for each in values if not isinstance(each, torch.Tensor) and each == 0}
    return len(signs) == 2


def _steep(x: torch.Tensor, value: Any) -> bool:
    """Return whether a complex power multiplies the rounding of a logarithm by a large exponent."""
    values = [each for each in (x, value) if isinstance(each, torch.Tensor)]
    return any(each.is_complex() for each in values) and any(
        bool((each.to(torch.complex128).abs() > 16).any()) for each in values
    )


def binary(draw: random.Random, x: torch.Tensor) -> Step:
    name, value, turned = draw.choice(BINARY), other(draw, x), draw.random() < 0.3 and x.ndim > 0
    if name in EXTREMES and zeros_of_both_signs(x, value):
        name = "add"
    if name in ("pow", "float_power", "ldexp") and _steep(x, value):
        name = "mul"
    if name == "copysign" and x.isnan().any():
        # Of NaN the sign is promised nowhere.
        name = "maximum"
    if turned and isinstance(value, torch.Tensor):
        return lambda t, y, c: _named(t, name)(c(value), y)
    return lambda t, y, c: _named(t, name)(y, c(value))


def operator(draw: random.Random, x: torch.Tensor) -> Step:
    name, value = draw.choice(OPERATORS), other(draw, x)
    if name == "__matmul__" and (not isinstance(value, torch.Tensor) or value.is_complex() != x.is_complex()):
        # Of a complex and a real matrix there is a product here.
        name = "__add__"
    if name in ("__pow__", "__rpow__") and _steep(x, value):
        name = "__mul__"
    return lambda t, y, c: getattr(y, name)(c(value))


def rounded_division(draw: random.Random, x: torch.Tensor) -> Step:
    mode, value = draw.choice(("floor", "trunc", None)), other(draw, x)
    return lambda t, y, c: t.div(y, c(value), rounding_mode=mode)


def ternary(draw: random.Random, x: torch.Tensor) -> Step:
    name, first, second = draw.choice(("lerp", "addcmul", "addcdiv", "clamp")), other(draw, x), other(draw, x)
    return lambda t, y, c: getattr(t, name)(y, c(first), c(second))


def where(draw: random.Random, x: torch.Tensor) -> Step:
    mask, value = operand(draw, x, torch.bool), other(draw, x)
    mask = mask if isinstance(mask, torch.Tensor) else torch.tensor(bool(mask))
    return lambda t, y, c: t.where(c(mask), y, c(value))


def cast(draw: random.Random, x: torch.Tensor) -> Step:
    kind = str(_kind(draw)).removeprefix("torch.")
    form = draw.randrange(3)
    if form == 0:
        return lambda t, y, c: y.to(getattr(t, kind))
    if form == 1:
        return lambda t, y, c: y.type(getattr(t, kind))
    return lambda t, y, c: y.to(getattr(t, kind), copy=True)


def copied(draw: random.Random, x: torch.Tensor) -> Step:
    name = draw.choice(("clone", "contiguous", "detach", "zeros_like", "ones_like", "tril", "triu"))
    if name in ("zeros_like", "ones_like"):
        return lambda t, y, c: getattr(t, name)(y)
    return lambda t, y, c: getattr(y, name)()


# Reductions, scans and sorts


def _along(draw: random.Random, x: torch.Tensor) -> dict[str, Any]:
    """Return arguments of a reduction over no, one or several dimensions."""
    choice = draw.random()
    if choice < 0.3:
        return {}
    dim: Any = dimension(draw, x)
    if choice > 0.7:
        dim = tuple(draw.sample(range(x.ndim), draw.randrange(x.ndim + 1)))
    return {"dim": dim, "keepdim": draw.random() < 0.4}


def _distinct(name: str, x: torch.Tensor) -> bool:
    """Return whether a reduction gets a copy: of elements that share memory PyTorch's medians read what is not theirs."""
    return name in ("median", "nanmedian") and len(set(positions(x))) < x.numel()


def _overflowing(name: str, x: torch.Tensor) -> bool:
    """Return whether a product of float16 leaves its range on the way: PyTorch rounds each factor's, and here one result."""
    return name == "prod" and x.dtype is torch.float16 and bool(x.double().abs().clamp(min=1).prod() > 65504)


def reduced(draw: random.Random, x: torch.Tensor) -> Step:
    name, options = draw.choice(REDUCTIONS), _along(draw, x)
    name = "sum" if _overflowing(name, x) else name
    if name in ("sum", "mean", "nansum") and draw.random() < 0.25:
        kind = str(_kind(draw)).removeprefix("torch.")
        return lambda t, y, c: getattr(t, name)(y, dtype=getattr(t, kind), **options)
    if _distinct(name, x):
        return lambda t, y, c: getattr(t, name)(y.clone(memory_format=t.contiguous_format), **options)
    return lambda t, y, c: getattr(t, name)(y, **options)


def reduced_along_one(draw: random.Random, x: torch.Tensor) -> Step:
    name, dim, keep = draw.choice(REDUCTIONS_OF_ONE), dimension(draw, x), draw.random() < 0.4
    name = "amax" if _overflowing(name, x) else name
    if name == "mode" and x.is_complex():
        name = "prod"
    if name == "mode" and (_size(x, dim) > SORTED_STABLY or x.isnan().any()):
        # Which of equal elements it is, and what is most among NaN, depends on how PyTorch sorts.
        name = "amax"
    if _distinct(name, x):
        return lambda t, y, c: getattr(t, name)(y.clone(memory_format=t.contiguous_format), dim, keepdim=keep)
    return lambda t, y, c: getattr(t, name)(y, dim, keepdim=keep)


def _squares_leave(x: torch.Tensor) -> bool:
    """Return whether squares or cubes of float32 numbers are beyond its range."""
    if not (x.is_floating_point() or x.is_complex()):
        return False
    sizes = x.abs()[(x != 0) & x.isfinite()]
    return bool(((sizes.double() < 1e-12) | (sizes.double() > 1e12)).any())


def spread(draw: random.Random, x: torch.Tensor) -> Step:
    name, options = draw.choice(("std", "var")), _along(draw, x)
    if options.get("dim") == ():
        # PyTorch's gradient over no dimension, which means all, divides by zero.
        options = {}
    correction = draw.choice((0, 1, 1, 2))
    if _squares_leave(x) and draw.place != "cpu":  # type: ignore[attr-defined]
        return lambda t, y, c: y.sum(**options)
    return lambda t, y, c: getattr(t, name)(y, correction=correction, **options)


def norm(draw: random.Random, x: torch.Tensor) -> Step:
    order, options = draw.choice((0, 1, 2, 3, float("inf"), -float("inf"))), _along(draw, x)
    order = 1 if _squares_leave(x) else order
    return lambda t, y, c: t.linalg.vector_norm(y, order, **options)


def scanned(draw: random.Random, x: torch.Tensor) -> Step:
    name, dim = draw.choice(SCANS), dimension(draw, x)
    if x.is_complex():
        # PyTorch takes extrema of up to one complex number.
        name = draw.choice(("cumsum", "cumprod", "logcumsumexp"))
    return lambda t, y, c: getattr(t, name)(y, dim)


def differences(draw: random.Random, x: torch.Tensor) -> Step:
    count = draw.choice((0, 1, 1, 2))
    dim = dimension(draw, x) if count else -1
    return lambda t, y, c: y.diff(count, dim)


def sorted_(draw: random.Random, x: torch.Tensor) -> Step:
    dim, down = dimension(draw, x), draw.random() < 0.4
    name = draw.choice(("sort", "argsort", "msort", "sort"))
    if name == "msort" and not (x.requires_grad and _size(x, 0) > SORTED_STABLY):
        return lambda t, y, c: y.msort()
    name = "sort" if name == "msort" else name
    return lambda t, y, c: getattr(y, name)(dim=dim, descending=down, stable=True)


def largest(draw: random.Random, x: torch.Tensor) -> Step:
    dim = dimension(draw, x)
    count, most = draw.randrange(_size(x, dim) + 1 + (draw.random() < 0.05)), draw.random() < 0.5
    # Of equal elements, an order is promised neither here nor there.
    return lambda t, y, c: y.topk(count, dim, most).values


def placed(draw: random.Random, x: torch.Tensor) -> Step:
    dim, keep = dimension(draw, x), draw.random() < 0.4
    if x.is_complex():
        # PyTorch takes the only one of a single complex number.
        return lambda t, y, c: y.topk(1, dim).values
    place = draw.randrange(1, max(_size(x, dim), 1) + 1 + (draw.random() < 0.05))
    return lambda t, y, c: y.kthvalue(place, dim, keep).values


def unique(draw: random.Random, x: torch.Tensor) -> Step:
    inverse, counts, along = draw.random() < 0.4, draw.random() < 0.4, draw.random() < 0.3
    options: dict[str, Any] = {"return_inverse": inverse, "return_counts": counts}
    if along:
        options["dim"] = dimension(draw, x)
    name = draw.choice(("unique", "unique_consecutive"))
    if x.isnan().sum() > 1:
        # Which of several NaN comes first is promised nowhere.
        options["return_inverse"] = False
    if name == "unique" and x.isnan().any():
        # Rows with NaN have no order, and PyTorch compares neighbours of what it sorted nevertheless.
        options.pop("dim", None)
    return lambda t, y, c: getattr(t, name)(y, **options)


def searched(draw: random.Random, x: torch.Tensor) -> Step:
    bounds, right = torch.tensor([0, 2, 3, 3, 7]), draw.random() < 0.5
    kind = x.dtype if draw.random() < 0.8 else _kind(draw)
    bounds = bounds.to(kind if not kind.is_complex else torch.float32)
    return lambda t, y, c: t.bucketize(y, c(bounds), right=right)


# Positions


def _positions(draw: random.Random, shape: Sequence[int], size: int) -> torch.Tensor:
    """Return positions in a dimension, now and then one that lies outside, negative, or of another integer type."""
    count = torch.Size(shape).numel()
    values = [draw.randrange(size) if size else 0 for _ in range(count)]
    if values and draw.random() < 0.1:
        values[draw.randrange(count)] = draw.choice((size, -1, size + 3, -size - 1, 2**33))
    kind = torch.int64 if draw.random() < 0.9 else draw.choice((torch.int32, torch.float32, torch.bool))
    return torch.tensor(values, dtype=torch.int64).reshape(tuple(shape)).to(kind)


def gathered(draw: random.Random, x: torch.Tensor) -> Step:
    dim = dimension(draw, x)
    shape = [draw.choice((each, max(each - 1, 0))) for each in x.shape]
    if shape:
        shape[dim % len(shape)] = draw.choice((1, 2, 3))
    name, index = draw.choice(("gather", "take_along_dim")), _positions(draw, shape, _size(x, dim))
    if name == "take_along_dim":
        # Positions outside are PyTorch's by what is left of a division; here they are refused.
        index = (
            torch.where((index >= 0) & (index < max(_size(x, dim), 1)), index, 0)
            if index.dtype == torch.int64
            else index
        )
    return lambda t, y, c: getattr(t, name)(y, *((dim, c(index)) if name == "gather" else (c(index), dim)))


def selected(draw: random.Random, x: torch.Tensor) -> Step:
    dim = dimension(draw, x)
    index = _positions(draw, [draw.choice((0, 1, 2, 3))], _size(x, dim))
    return lambda t, y, c: y.index_select(dim, c(index))


def taken(draw: random.Random, x: torch.Tensor) -> Step:
    index = _positions(draw, draw.choice(([], [2], [2, 2], [0])), x.numel())
    return lambda t, y, c: y.take(c(index))


def scattered(draw: random.Random, x: torch.Tensor) -> Step:
    dim, size = dimension(draw, x), 0
    shape = [draw.choice((each, max(each - 1, 0))) for each in x.shape]
    size = _size(x, dim)
    name = draw.choice(("scatter_add", "scatter_reduce", "index_add", "index_fill"))
    if name.startswith("index"):
        index = _positions(draw, [draw.choice((0, 1, 2))], size)
        if name == "index_fill":
            return lambda t, y, c: y.index_fill(dim, c(index), 2)
        sizes = list(x.shape)
        if sizes and -x.ndim <= dim < x.ndim:
            sizes[dim] = len(index) + (draw.random() < 0.03)
        source = numbers(draw, sizes, x.dtype)
        return lambda t, y, c: y.index_add(dim, c(index), c(source))
    index, source = (
        _positions(draw, shape, size),
        numbers(draw, shape, x.dtype if draw.random() < 0.95 else _kind(draw)),
    )
    if name == "scatter_add":
        return lambda t, y, c: y.scatter_add(dim, c(index), c(source))
    way, own = draw.choice(("sum", "prod", "amax", "amin", "mean")), draw.random() < 0.5
    return lambda t, y, c: y.scatter_reduce(dim, c(index), c(source), way, include_self=own)


def put(draw: random.Random, x: torch.Tensor) -> Step:
    size = _size(x, 0)
    index, total = _positions(draw, [draw.choice((1, 2))], size), draw.random() < 0.5
    index = index if total else index[:1]
    source = numbers(draw, list(x.shape[1:]), x.dtype)
    return lambda t, y, c: y.index_put((c(index),), c(source), accumulate=total)


def masks(draw: random.Random, x: torch.Tensor) -> Step:
    mask, choice = operand(draw, x, torch.bool), draw.randrange(3)
    mask = mask if isinstance(mask, torch.Tensor) else torch.tensor(bool(mask))
    if choice == 0:
        return lambda t, y, c: y.masked_select(c(mask))
    if choice == 1:
        return lambda t, y, c: y.masked_fill(c(mask), 2)
    source = numbers(draw, [draw.choice((x.numel(), x.numel(), 2))], x.dtype)
    return lambda t, y, c: y.masked_scatter(c(mask), c(source))


def nonzero(draw: random.Random, x: torch.Tensor) -> Step:
    name = draw.choice(("nonzero", "argwhere", "count_nonzero", "flatnonzero"))
    if name == "flatnonzero":
        return lambda t, y, c: y.nonzero(as_tuple=True)
    return lambda t, y, c: getattr(t, name)(y)


def hot(draw: random.Random, x: torch.Tensor) -> Step:
    count = draw.choice((-1, 9, 10, 3))
    return lambda t, y, c: t.nn.functional.one_hot(y, count)


def embedded(draw: random.Random, x: torch.Tensor) -> Step:
    index = _positions(draw, draw.choice(([2], [2, 2], [])), _size(x, 0))
    if not x.ndim:
        return lambda t, y, c: y.sum()
    return lambda t, y, c: t.nn.functional.embedding(c(index), y)


# Shapes


def joined(draw: random.Random, x: torch.Tensor) -> Step:
    name, dim = draw.choice(("cat", "stack", "hstack", "vstack", "dstack")), dimension(draw, x)
    shape = list(x.shape)
    if shape and name == "cat" and -x.ndim <= dim < x.ndim:
        shape[dim] = draw.choice((0, 1, 2))
    if draw.random() < 0.04:
        shape.append(2)
    value = numbers(draw, shape, x.dtype if draw.random() < 0.8 else _kind(draw))
    options = {"dim": dim} if name in ("cat", "stack") else {}
    return lambda t, y, c: getattr(t, name)([y, c(value), y], **options)


def repeated(draw: random.Random, x: torch.Tensor) -> Step:
    sizes = [draw.choice((0, 1, 1, 2)) for _ in range(max(x.ndim + draw.choice((-1, 0, 0, 1)), 0))]
    name = draw.choice(("repeat", "tile"))
    if draw.random() < 0.4:
        dim, count = draw.choice((None, dimension(draw, x) if x.ndim else None)), draw.choice((0, 1, 2))
        return lambda t, y, c: y.repeat_interleave(count, dim)
    return lambda t, y, c: getattr(y, name)(sizes)


def turned(draw: random.Random, x: torch.Tensor) -> Step:
    name, dim, count = draw.choice(("flip", "roll", "rot90")), dimension(draw, x), draw.randrange(-2, 4)
    if name == "flip":
        return lambda t, y, c: y.flip(dim)
    if name == "roll":
        return lambda t, y, c: y.roll(count, dim)
    return lambda t, y, c: y.rot90(count)


def padded(draw: random.Random, x: torch.Tensor) -> Step:
    pads = [draw.choice((0, 1, 2, -1)) for _ in range(2 * draw.randrange(max(x.ndim, 1) + 1))]
    return lambda t, y, c: t.nn.functional.pad(y, pads, value=1)


def diagonals(draw: random.Random, x: torch.Tensor) -> Step:
    name, offset = draw.choice(("diag", "diag_embed", "diagflat", "tril", "triu", "trace")), draw.randrange(-1, 2)
    if name == "trace":
        return lambda t, y, c: y.trace()
    return lambda t, y, c: getattr(t, name)(y, offset)


def with_part(draw: random.Random, x: torch.Tensor) -> Step:
    dim, name = dimension(draw, x), draw.choice(("select_scatter", "slice_scatter", "diagonal_scatter"))
    size = _size(x, dim)
    if name == "select_scatter":
        place = draw.randrange(size) if size else 0
        return lambda t, y, c: t.select_scatter(y, y.select(dim, place) + y.select(dim, place), dim, place)
    if name == "diagonal_scatter":
        return lambda t, y, c: t.diagonal_scatter(y, y.diagonal() + y.diagonal())
    return lambda t, y, c: t.slice_scatter(y, y.narrow(dim, 0, 1) + y.narrow(dim, 0, 1), dim, 0, 1)


# Products and rows


def product(draw: random.Random, x: torch.Tensor) -> Step:
    inner = x.shape[-1] if x.ndim else 1
    shape = draw.choice(([inner], [inner, 2], [inner, 0], [*x.shape[:-2], inner, 3]))
    # Of a complex and a real matrix there is a product here.
    mixed = draw.random() > 0.95 and "complex64" not in draw.kinds  # type: ignore[attr-defined]
    value = numbers(draw, list(shape), _kind(draw) if mixed else x.dtype)
    name = draw.choice(("matmul", "matmul", "mm", "mv", "bmm", "outer", "inner", "dot"))
    return lambda t, y, c: getattr(t, name)(y, c(value))


def row(draw: random.Random, x: torch.Tensor) -> Step:
    name, dim = draw.choice(("softmax", "log_softmax", "logsumexp", "softmin", "normalize", "glu")), dimension(draw, x)
    if name == "logsumexp":
        return lambda t, y, c: y.logsumexp(dim)
    return lambda t, y, c: getattr(t.nn.functional, name)(y, dim=dim)


def loss(draw: random.Random, x: torch.Tensor) -> Step:
    name, target = (
        draw.choice(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")),
        numbers(draw, list(x.shape), x.dtype),
    )
    way = draw.choice(("none", "mean", "sum"))
    return lambda t, y, c: getattr(t.nn.functional, name)(y, c(target), reduction=way)


def part(draw: random.Random, x: torch.Tensor) -> Step:
    item = subscript(draw, x)
    return lambda t, y, c: y[c(item)]


def subscript_outside(draw: random.Random, x: torch.Tensor) -> Step:
    dim = draw.randrange(max(x.ndim, 1))
    index = _positions(draw, draw.choice(([1], [2], [2, 1])), _size(x, dim))
    item = (slice(None),) * dim + (index,)
    return lambda t, y, c: y[c(item)]


UNARY = (
    "abs", "neg", "sign", "floor", "ceil", "round", "trunc", "frac", "square", "relu", "positive", "logical_not", "isnan",
    "isfinite", "isinf", "signbit", "bitwise_not", "exp", "sin", "cos", "tanh", "sqrt", "rsqrt", "log", "log1p", "expm1",
    "sigmoid", "reciprocal", "atan", "erf", "nn.functional.softplus", "nn.functional.gelu", "nn.functional.silu",
    "nn.functional.relu6", "nn.functional.hardtanh", "nn.functional.leaky_relu", "nn.functional.elu", "nan_to_num", "exp2",
    "log2", "asinh", "angle", "real", "conj_physical", "isposinf", "sgn", "sinc", "deg2rad", "nn.functional.logsigmoid", "acos",
)  # fmt: skip
#: whose gradient of NaN is not the same for every element in PyTorch
AT_NAN = ("nn.functional.relu6", "nn.functional.hardtanh", "nn.functional.elu")
#: up to how many elements PyTorch's sort keeps equal ones in order
SORTED_STABLY = 16
EXTREMES = ("maximum", "minimum", "fmax", "fmin")
BINARY = (
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "maximum", "minimum", "fmax", "fmin", "atan2",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "copysign", "hypot", "gcd", "lcm", "xlogy", "logaddexp",
    "rsub", "isclose", "nextafter", "true_divide", "float_power", "heaviside", "ldexp",
)  # fmt: skip
OPERATORS = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__floordiv__",
    "__mod__", "__pow__", "__rpow__", "__and__", "__or__", "__xor__", "__lt__", "__ge__", "__eq__", "__matmul__",
    "__lshift__", "__rshift__", "__rfloordiv__", "__rmod__",
)  # fmt: skip
REDUCTIONS = (
    "sum", "mean", "prod", "amax", "amin", "all", "any", "nansum", "max", "min", "count_nonzero", "argmax", "argmin", "median",
    "nanmedian", "aminmax", "nanmean", "norm",
)  # fmt: skip
REDUCTIONS_OF_ONE = ("max", "min", "median", "nanmedian", "mode", "argmax", "argmin", "prod", "all", "any", "amax")
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
#: what writes at positions
WRITERS = (scattered, put)
OPERATIONS: tuple[Maker, ...] = (
    unary, unary, unary, unary, binary, binary, binary, binary, operator, operator, rounded_division, ternary, where, cast,
    cast, copied, reduced, reduced, reduced, reduced_along_one, spread, norm, scanned, scanned, differences, sorted_,
    sorted_, largest, placed, unique, searched, gathered, selected, taken, scattered, scattered, put, masks, nonzero, hot,
    embedded, joined, repeated, turned, padded, diagonals, with_part, product, product, row, loss, part, subscript_outside,
)  # fmt: skip
