"""Element-wise operations against PyTorch: values, types, shapes, gradients."""

from __future__ import annotations

import math

import pytest
import torch
import webgpu_torch_core as core
from ops_oracle import EVERY, FLOATS, INTEGERS, check, compare, kind_of, sample, to_ours, to_torch

SHAPES = ((), (0,), (1,), (5,), (3, 4), (2, 0, 3))
PAIRS = (((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((), (3,)), ((5,), ()), ((0,), (1,)), ((3, 4), (3, 4)))

# name: the range of inputs for which the gradient is compared
UNARY = {
    "abs": (-3, 3),
    "acos": (-0.9, 0.9),
    "acosh": (1.1, 5),
    "asin": (-0.9, 0.9),
    "asinh": (-3, 3),
    "atan": (-3, 3),
    "atanh": (-0.9, 0.9),
    "ceil": (-3, 3),
    "cos": (-6, 6),
    "cosh": (-3, 3),
    "deg2rad": (-180, 180),
    "digamma": (0.1, 6),
    "erf": (-3, 3),
    "erfc": (-3, 3),
    "erfinv": (-0.9, 0.9),
    "exp": (-3, 3),
    "exp2": (-3, 3),
    "expm1": (-3, 3),
    "floor": (-3, 3),
    "frac": (-3, 3),
    "lgamma": (0.1, 6),
    "log": (0.1, 5),
    "log10": (0.1, 5),
    "log1p": (-0.9, 5),
    "log2": (0.1, 5),
    "neg": (-3, 3),
    "positive": (-3, 3),
    "rad2deg": (-3, 3),
    "reciprocal": (0.2, 3),
    "relu": (-3, 3),
    "round": (-3, 3),
    "rsqrt": (0.1, 5),
    "sigmoid": (-6, 6),
    "sign": (-3, 3),
    "sin": (-6, 6),
    "sinc": (-3, 3),
    "sinh": (-3, 3),
    "sqrt": (0.1, 5),
    "square": (-3, 3),
    "tan": (-1.2, 1.2),
    "tanh": (-3, 3),
    "trunc": (-3, 3),
    "logit": (0.1, 0.9),
    "nan_to_num": (-3, 3),
    "signbit": (-3, 3),
    "isnan": (-3, 3),
    "isinf": (-3, 3),
    "isfinite": (-3, 3),
    "logical_not": (-3, 3),
    "bitwise_not": (-3, 3),
}
FUNCTIONAL = {
    "silu": lambda t, x: t.F.silu(x),
    "gelu": lambda t, x: t.F.gelu(x),
    "gelu_tanh": lambda t, x: t.F.gelu(x, approximate="tanh"),
    "leaky_relu": lambda t, x: t.F.leaky_relu(x, negative_slope=0.1),
    "softplus": lambda t, x: t.F.softplus(x),
    "logsigmoid": lambda t, x: t.F.logsigmoid(x),
    "clamp_both": lambda t, x: t.clamp(x, -1, 2),
    "clamp_low": lambda t, x: t.clamp(x, min=1),
    "clamp_high": lambda t, x: x.clamp(max=1),
    "clamp_float": lambda t, x: x.clamp(-0.5, 1.5),
    "round_decimals": lambda t, x: t.round(x, decimals=2),
    "rsub": lambda t, x: t.rsub(x, 3),
    "power_3": lambda t, x: x**3,
    "power_half": lambda t, x: x.abs() ** 0.5,
    "power_minus_1": lambda t, x: (x + 5.0) ** -1,
    "power_float": lambda t, x: (x + 5.0) ** 1.7,
    "power_0": lambda t, x: x**0,
    "base": lambda t, x: 2.5**x,
    "add_int": lambda t, x: x + 2,
    "add_float": lambda t, x: x + 2.5,
    "add_alpha": lambda t, x: t.add(x, 3, alpha=2),
    "sub_scalar": lambda t, x: 2 - x,
    "mul_bool": lambda t, x: x * True,
    "div_int": lambda t, x: x / 3,
    "div_by": lambda t, x: 3 / (x + 10),
    "floordiv": lambda t, x: x // 2,
    "floordiv_float": lambda t, x: x // 0.7,
    "mod": lambda t, x: x % 3,
    "mod_negative": lambda t, x: x % -3,
    "fmod": lambda t, x: t.fmod(x, 3),
    "eq": lambda t, x: x == 2,
    "lt_float": lambda t, x: x < 1.5,
    "and": lambda t, x: x & 3,
    "shift": lambda t, x: x << 1,
    "shift_right": lambda t, x: x >> 1,
    "masked_fill": lambda t, x: x.masked_fill(x > 1, 7),
    "where": lambda t, x: t.where(x > 1, x, 0),
    "where_float": lambda t, x: t.where(x > 1, x, 0.5),
    "lerp": lambda t, x: t.lerp(x, x * 2, 0.3),
    "nan_to_num": lambda t, x: t.nan_to_num(x, nan=1.0, posinf=9.0),
    "float_power": lambda t, x: t.float_power(x.abs() + 1, 2) if x.dtype == t.float64 else x,
    "logit_eps": lambda t, x: t.logit(x, eps=1e-3),
}
BINARY = {
    "add": (-3, 3),
    "sub": (-3, 3),
    "mul": (-3, 3),
    "div": (0.5, 3),
    "pow": (0.3, 3),
    "atan2": (0.2, 3),
    "copysign": (0.2, 3),
    "hypot": (0.2, 3),
    "logaddexp": (-3, 3),
    "logaddexp2": (-3, 3),
    "xlogy": (0.1, 3),
    "maximum": (-3, 3),
    "minimum": (-3, 3),
    "fmax": (-3, 3),
    "fmin": (-3, 3),
    "fmod": (0.3, 4),
    "remainder": (0.3, 4),
    "floor_divide": (0.3, 4),
    "ldexp": (-3, 3),
    "eq": (-1, 1),
    "ne": (-1, 1),
    "lt": (-1, 1),
    "le": (-1, 1),
    "gt": (-1, 1),
    "ge": (-1, 1),
    "logical_and": (-1, 1),
    "logical_or": (-1, 1),
    "logical_xor": (-1, 1),
    "bitwise_and": (0, 1),
    "bitwise_or": (0, 1),
    "bitwise_xor": (0, 1),
    "bitwise_left_shift": (0, 1),
    "bitwise_right_shift": (0, 1),
    "isclose": (-1, 1),
    "nextafter": (-1, 1),
}
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1e-8,
    3e4,
    -3e4,
    math.inf,
    -math.inf,
    math.nan,
    100.0,
    -100.0,
]
DIVISIONS = ("div", "fmod", "remainder", "floor_divide", "pow", "bitwise_left_shift", "bitwise_right_shift", "ldexp")


def _variants(x: torch.Tensor) -> list[torch.Tensor]:
    """Return the same kind of numbers as transposed, expanded, stepped and offset views."""
    kind = x.dtype
    wide = sample((4, 6), kind, 5, 0.2, 0.8)
    return [wide.t(), wide[:, :1].expand(4, 3), wide[1:, ::2], wide[2], wide[3, 2]]


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name: str, dtype: str, device: str) -> None:
    kind = kind_of(dtype, device)
    if kind is None:
        pytest.skip("no such type on this device")
    low, high = UNARY[name]
    function = lambda t, x: getattr(t, name)(x)  # noqa: E731
    for number, shape in enumerate(SHAPES):
        check(function, [sample(shape, kind, number, low, high)], device, where=f"{name}{shape}", strides=True)
    for each in _variants(sample((1,), kind)):
        check(
            function,
            [each],
            device,
            where=f"{name} view {tuple(each.shape)}",
            gradient=low <= 0.2 and high >= 0.8,
            strides=True,
        )
    if kind.is_floating_point:
        check(function, [torch.tensor(SPECIAL, dtype=kind)], device, gradient=False, where=f"{name} special values")


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("name", sorted(FUNCTIONAL))
def test_with_scalars(name: str, dtype: str, device: str) -> None:
    kind = kind_of(dtype, device)
    if kind is None:
        pytest.skip("no such type on this device")
    for number, shape in enumerate(SHAPES):
        check(FUNCTIONAL[name], [sample(shape, kind, number)], device, where=f"{name}{shape}")
    if kind.is_floating_point:
        # PyTorch's vectorised float32 GELU gives NaN at infinity, its float64 one infinity.
        values = [each for each in SPECIAL if name != "gelu" or not math.isinf(each)]
        check(
            FUNCTIONAL[name], [torch.tensor(values, dtype=kind)], device, gradient=False, where=f"{name} special values"
        )


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary(name: str, dtype: str, device: str) -> None:
    kind = kind_of(dtype, device)
    if kind is None:
        pytest.skip("no such type on this device")
    low, high = BINARY[name]
    function = lambda t, x, y: getattr(t, name)(x, y)  # noqa: E731
    for number, (left, right) in enumerate(PAIRS):
        x, y = sample(left, kind, number, low, high), sample(right, kind, number + 50, low, high)
        if not kind.is_floating_point and name in DIVISIONS:
            y = y.abs() % 4 + 1 if kind is not torch.bool else torch.ones_like(y)
        y = y.round() if name == "ldexp" and kind.is_floating_point else y
        check(function, [x, y], device, where=f"{name}{left}{right}")
    if kind.is_floating_point:
        values = torch.tensor(SPECIAL, dtype=kind)
        check(function, [values[:, None], values], device, gradient=False, where=f"{name} special values")


@pytest.mark.slow_on(
    *(f"webgpu-{each}" for each in ("mul", "div", "pow", "maximum", "atan2", "floor_divide", "remainder"))
)
@pytest.mark.parametrize(
    "name", ["add", "mul", "div", "pow", "maximum", "eq", "atan2", "floor_divide", "remainder", "where"]
)
def test_promotion(name: str, device: str) -> None:
    kinds = [kind_of(each, device) for each in EVERY]
    for left in kinds:
        for right in kinds:
            if left is None or right is None:
                continue
            for shapes in (((3,), (3,)), ((), (3,)), ((3,), ()), ((), ())):
                x = sample(shapes[0], left, 3, 1, 3)
                y = sample(shapes[1], right, 4, 1, 3)
                y = torch.ones_like(y) if not right.is_floating_point else y
                if name == "where":
                    function = lambda t, a, b: t.where(a > 1, a, b)  # noqa: E731
                else:
                    function = lambda t, a, b: getattr(t, name)(a, b)  # noqa: E731
                check(function, [x, y], device, gradient=False, where=f"{name} {left} {right} {shapes}")


TERNARY = {
    "addcmul": lambda t, x, y, z: t.addcmul(x, y, z, value=0.5),
    "addcdiv": lambda t, x, y, z: t.addcdiv(x, y, z, value=2),
    "lerp": lambda t, x, y, z: t.lerp(x, y, z),
    "where": lambda t, x, y, z: t.where(x > y, y, z),
    "clamp": lambda t, x, y, z: t.clamp(x, y, z),
    "clamp_min": lambda t, x, y, z: t.clamp(x, min=y) + z,
    "add_alpha": lambda t, x, y, z: (t.add(x, y, alpha=3), t.sub(y, z, alpha=2)),
    "div_floor": lambda t, x, y, z: t.div(x, z, rounding_mode="floor"),
    "div_trunc": lambda t, x, y, z: t.div(x, z, rounding_mode="trunc"),
    "masked_fill": lambda t, x, y, z: t.masked_fill(x, y > z, 2.0),
    "masked_fill_tensor": lambda t, x, y, z: t.masked_fill(x, y > 1, z.reshape(-1)[0]),
}


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8"))
@pytest.mark.parametrize("name", sorted(TERNARY))
def test_ternary(name: str, dtype: str, device: str) -> None:
    kind = kind_of(dtype, device)
    if kind is None:
        pytest.skip("no such type on this device")
    for shapes in (((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), (3, 1)), ((2, 3), (2, 3), (1,)), ((0, 2), (2,), (2,))):
        if name == "masked_fill_tensor" and 0 in shapes[0]:
            continue
        x, y = sample(shapes[0], kind, 1), sample(shapes[1], kind, 2)
        z = sample(shapes[2], kind, 3, 0.5, 2.0)
        z = z.abs() % 5 + 1 if not kind.is_floating_point else z
        check(TERNARY[name], [x, y, z], device, where=f"{name}{shapes}")


IN_PLACE = {
    "add_": lambda t, x: x.add_(2),
    "sub_": lambda t, x: x.sub_(x),
    "mul_": lambda t, x: x.mul_(3),
    "div_": lambda t, x: x.div_(2),
    "exp_": lambda t, x: x.exp_(),
    "clamp_": lambda t, x: x.clamp_(-1, 1),
    "relu_": lambda t, x: x.relu_(),
    "neg_": lambda t, x: x.neg_(),
    "zero_": lambda t, x: x.zero_(),
    "fill_": lambda t, x: x.fill_(3),
    "pow_": lambda t, x: x.pow_(2),
    "sigmoid_": lambda t, x: x.sigmoid_(),
    "masked_fill_": lambda t, x: x.masked_fill_(x > 0, 1),
    "copy_": lambda t, x: x.copy_(x + 1),
    "lerp_": lambda t, x: x.lerp_(x * 2, 0.5),
    "addcmul_": lambda t, x: x.addcmul_(x * 1, x * 1),
    "eq_": lambda t, x: x.eq_(1),
    "round_": lambda t, x: x.round_(),
    "sqrt_": lambda t, x: x.sqrt_(),
    "floor_divide_": lambda t, x: x.floor_divide_(2),
    "add_wider": lambda t, x: x.add_(1.5),
    "iadd": lambda t, x: x.__iadd__(1),
    "logical_not_": lambda t, x: x.logical_not_(),
    "bitwise_and_": lambda t, x: x.bitwise_and_(3),
    "subtract_": lambda t, x: x.subtract_(1),
    "trunc_": lambda t, x: x.trunc_(),
}


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("name", sorted(IN_PLACE))
def test_in_place(name: str, dtype: str, device: str) -> None:
    kind = kind_of(dtype, device)
    if kind is None:
        pytest.skip("no such type on this device")

    def function(t, x):
        written = IN_PLACE[name](t, x)
        assert written is x
        return written

    def through_view(t, x):
        base = x * 1
        IN_PLACE[name](t, base[1:, ::2])
        return base

    def oracle_copy(shape, number):
        return sample(shape, kind, number, 0.1, 3).clone()

    # PyTorch leaves the old gradient history on what logical_not_ overwrites, and has no derivative of floor_divide_.
    gradient = name not in ("logical_not_", "floor_divide_")
    for number, shape in enumerate(SHAPES):
        check(
            lambda t, x: function(t, x.clone()),
            [oracle_copy(shape, number)],
            device,
            gradient=gradient,
            where=f"{name}{shape}",
        )
    check(through_view, [oracle_copy((3, 4), 9)], device, gradient=gradient, where=f"{name} view")


OUT = {
    "add": lambda t, x, o: t.add(x, x, out=o),
    "exp": lambda t, x, o: t.exp(x, out=o),
    "eq": lambda t, x, o: t.eq(x, 1, out=o),
    "div": lambda t, x, o: t.div(x, 2, out=o),
    "pow": lambda t, x, o: t.pow(x, 2, out=o),
    "clamp": lambda t, x, o: t.clamp(x, -1, 1, out=o),
    "where": lambda t, x, o: t.where(x > 1, x, x, out=o),
    "maximum": lambda t, x, o: t.maximum(x, x, out=o),
}


@pytest.mark.parametrize("name", sorted(OUT))
def test_out(name: str, device: str) -> None:
    for kind in (torch.float32, torch.int64):
        for result in (
            torch.empty(3, 4),
            torch.empty(4, 3).t(),
            torch.empty(3, 4, dtype=torch.int64),
            torch.empty(3, 4, dtype=torch.bool),
        ):

            def function(t, x, o, name=name):
                found = OUT[name](t, x, o)
                assert found is o
                return found

            check(
                function,
                [sample((3, 4), kind), torch.zeros_like(result)],
                device,
                gradient=False,
                where=f"{name} {kind} {result.dtype}",
            )


SECOND = [
    "exp",
    "sin",
    "tanh",
    "sigmoid",
    "log",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "square",
    "erf",
    "atan",
    "expm1",
    "cosh",
    "asinh",
]
SECOND_FUNCTIONS = {
    **{name: (lambda t, x, name=name: getattr(t, name)(x)) for name in SECOND},
    "silu": lambda t, x: t.F.silu(x),
    "gelu": lambda t, x: t.F.gelu(x),
    "gelu_tanh": lambda t, x: t.F.gelu(x, approximate="tanh"),
    "pow": lambda t, x: x**3,
    "mul": lambda t, x: x * x * x.exp(),
    "div": lambda t, x: x / (x * x + 1),
    "softplus": lambda t, x: t.F.softplus(x),
    "where": lambda t, x: t.where(x > 1, x * x, x**3),
    "logaddexp": lambda t, x: t.logaddexp(x, x * x),
    "atan2": lambda t, x: t.atan2(x, x * x),
}


@pytest.mark.parametrize("name", sorted(SECOND_FUNCTIONS))
def test_double_backward(name: str, device: str) -> None:
    assert check(SECOND_FUNCTIONS[name], [sample((3, 4), torch.float32, 0, 0.3, 2)], device, second=True)


DIVISIONS = {
    "floor_divide": lambda t, x, y: t.floor_divide(x, y),
    "remainder": lambda t, x, y: x % y,
    "fmod": lambda t, x, y: t.fmod(x, y),
    "floor": lambda t, x, y: t.div(x, y, rounding_mode="floor"),
    "trunc": lambda t, x, y: t.div(x, y, rounding_mode="trunc"),
    "in place": lambda t, x, y: x.floor_divide_(y),
}


@pytest.mark.parametrize("kind", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_integer_division_by_zero(name: str, kind: str, device: str) -> None:
    """An error at once by a number, else with the next read; what is computed beside it is not lost."""
    x, y = (to_ours(torch.tensor(each, dtype=getattr(torch, kind)), device) for each in ([1, 2], [1, 0]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as at_once:
        DIVISIONS[name](core, x.clone(), 0)
    beside = (y + 1).add_(x)
    y[0] = 3
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as late:
        DIVISIONS[name](core, x.clone(), y).tolist()
    assert type(at_once.value) is type(late.value) is RuntimeError
    assert beside.tolist() == [3, 3] and y.tolist() == [3, 0] and x.tolist() == [1, 2]
    assert DIVISIONS[name](core, x[:0].clone(), y[1:]).tolist() == []


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "floor", "trunc"])
def test_floats_divided_by_zero_everywhere(name: str, device: str) -> None:
    """Every element is written where every divisor is zero: no memory of other tensors is seen."""
    core.full((8,), 8.0, device=device).tolist()
    x = torch.arange(-3.0, 5.0)
    compare(DIVISIONS[name](core, to_ours(x, device), to_ours(x * 0, device)), DIVISIONS[name](torch, x, x * 0))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_wraps(dtype: str, device: str) -> None:
    kind = getattr(torch, dtype)
    limits = torch.iinfo(kind)
    x = torch.tensor([limits.max, limits.min, 3], dtype=kind)
    check(lambda t, a: a + 1, [x], device)
    check(lambda t, a: a * 3, [x], device)
    check(lambda t, a: -a, [x], device)
    check(lambda t, a: a.abs(), [x], device)


def test_conversions(device: str) -> None:
    for source in EVERY:
        for target in EVERY:
            one, two = kind_of(source, device), kind_of(target, device)
            if one is None or two is None:
                continue
            check(
                lambda t, x, target=target: x.to(getattr(t, target)),
                [sample((3, 5), one, 1, 0, 9)],
                device,
                gradient=False,
            )
    check(lambda t, x: x.to(t.float16).to(t.bfloat16).to(t.float32) * x, [sample((3, 5), torch.float32)], device)


def test_scalar_results(device: str) -> None:
    for kind in FLOATS + INTEGERS:
        if kind_of(kind, device) is None:
            continue
        for number in (3, 2.5, True):
            for operator in (
                lambda t, x, n: x + n,
                lambda t, x, n: x * n,
                lambda t, x, n: x / n,
                lambda t, x, n: x**n,
                lambda t, x, n: n - x,
            ):
                check(
                    lambda t, x, o=operator, n=number: o(t, x, n),
                    [sample((), kind_of(kind, device), 2, 1, 3)],
                    device,
                    gradient=False,
                )


@pytest.mark.parametrize("number", ["float64", "float32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_numbers_of_the_cpu(number: str, dtype: str, device: str) -> None:
    """A tensor without dimensions may stay on the CPU, on either side, whatever its precision."""
    x = torch.tensor([1.5, -2.0, 0.0], dtype=getattr(torch, dtype))
    scale = torch.tensor(3, dtype=getattr(torch, number))
    ours, ours_scale = to_ours(x, device), core.tensor(3, dtype=getattr(core, number), device="cpu")
    for operation in (lambda a, b: a * b, lambda a, b: b * a, lambda a, b: b - a, lambda a, b: a / b):
        result = operation(ours, ours_scale)
        assert result.device.type == device
        compare(result, operation(x, scale))


def test_comparing_helpers(device: str) -> None:
    x = torch.tensor([1.0, math.nan, math.inf, 2.0])
    y = torch.tensor([1.0 + 1e-9, math.nan, math.inf, 3.0])
    check(lambda t, a, b: t.isclose(a, b), [x, y], device, gradient=False)
    check(lambda t, a, b: t.isclose(a, b, equal_nan=True), [x, y], device, gradient=False)
    check(lambda t, a, b: t.allclose(a, b), [x, y], device, gradient=False)
    check(lambda t, a, b: t.equal(a, b), [x, x], device, gradient=False)


def test_helpers_can_fail(device: str) -> None:
    """The comparison itself notices a wrong value, shape and type."""
    right = torch.tensor([1.0, 2.0])
    for wrong in (torch.tensor([1.0, 2.1]), torch.tensor([[1.0, 2.0]]), torch.tensor([1, 2])):
        with pytest.raises(AssertionError):
            compare(to_ours(wrong, device), right)
    assert to_torch(to_ours(right, device)).equal(right)


def test_float_power_needs_float64(device: str) -> None:
    import webgpu_torch_core as core

    x = core.tensor([1, 2, 3], device=device)
    if core.float64 in x._engine.device.dtypes:
        assert core.float_power(x, 2).tolist() == [1.0, 4.0, 9.0]
        return
    with pytest.raises(TypeError, match="doesn't support float64"):
        core.float_power(x, 2)
