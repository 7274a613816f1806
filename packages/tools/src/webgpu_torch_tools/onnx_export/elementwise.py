"""Operations on each element, and what networks do between layers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import webgpu_torch as torch

from .writing import CONVERTERS, Converter, UnsupportedOperatorError, Value, Writer, converts

#: operations that ONNX has, whose result has the operand's type
_SAME = {
    "neg": "Neg", "abs": "Abs", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign", "relu": "Relu",
}  # fmt: skip
#: operations that ONNX has on floating-point numbers
_FLOATING = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
    "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "special_erf": "Erf", "sigmoid": "Sigmoid", "special_expit": "Sigmoid", "tanh": "Tanh", "reciprocal": "Reciprocal",
    "mish": "Mish",
}  # fmt: skip
_ARITHMETIC = {"mul": "Mul", "multiply": "Mul", "maximum": "Max", "minimum": "Min"}
_QUESTIONS = {
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "less": "Less", "greater": "Greater",
}  # fmt: skip
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_BITS = {
    "bitwise_and": "And",
    "bitwise_or": "Or",
    "bitwise_xor": "Xor",
    "__and__": "And",
    "__or__": "Or",
    "__xor__": "Xor",
}


def _floating(kind: str) -> Converter:
    return lambda w, a: w.op(kind, w.name(a.self, w.result_type()))


def _same(kind: str) -> Converter:
    def write(w: Writer, a: SimpleNamespace) -> Value:
        if kind in ("Floor", "Ceil", "Round") and not w.dtype(a.self).is_floating_point:
            return w.op("Identity", w.name(a.self))
        if getattr(a, "decimals", 0):
            raise UnsupportedOperatorError("round to decimals")
        return w.op(kind, w.name(a.self))

    return write


def _binary(kind: str) -> Converter:
    return lambda w, a: w.op(kind, *w.common(a.self, a.other))


for _name, _kind in _SAME.items():
    CONVERTERS[_name] = _same(_kind)
for _name, _kind in _FLOATING.items():
    CONVERTERS[_name] = _floating(_kind)
for _name, _kind in (*_ARITHMETIC.items(), *_QUESTIONS.items()):
    CONVERTERS[_name] = _binary(_kind)


def _logical(kind: str) -> Converter:
    return lambda w, a: w.op(kind, *(w.name(each, torch.bool) for each in (a.self, a.other)))


def _bits(kind: str) -> Converter:
    def write(w: Writer, a: SimpleNamespace) -> Value:
        first, second = w.common(a.self, a.other)
        return w.op(kind if w.result_type() is torch.bool else f"Bitwise{kind}", first, second)

    return write


for _name, _kind in _LOGICAL.items():
    CONVERTERS[_name] = _logical(_kind)
for _name, _kind in _BITS.items():
    CONVERTERS[_name] = _bits(_kind)


@converts("logical_not", "bitwise_not")
def _not(w: Writer, a: SimpleNamespace) -> Value:
    if w.describe().startswith("aten.bitwise_not") and w.dtype(a.self) is not torch.bool:
        return w.op("BitwiseNot", w.name(a.self))
    return w.op("Not", w.name(a.self, torch.bool))


def _sum(w: Writer, first: Value, second: Value, alpha: complex, kind: str) -> Value:
    left, right = w.common(first, second)
    if alpha != 1:
        right = w.op("Mul", right, w.number(alpha, w.result_type()))
    return w.op(kind, left, right)


@converts("add")
def _add(w: Writer, a: SimpleNamespace) -> Value:
    if w.result_type() is torch.bool:
        return w.op("Or", w.name(a.self), w.name(a.other))
    return _sum(w, a.self, a.other, a.alpha, "Add")


@converts("div", "divide", "true_divide", "floor_divide")
def _div(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    left, right = w.name(a.self, dtype), w.name(a.other, dtype)
    mode = "floor" if "floor_divide" in w.describe() else getattr(a, "rounding_mode", None)
    if mode is None:
        return w.op("Div", left, right)
    if dtype.is_floating_point:
        quotient = w.op("Div", left, right)
        return w.op("Floor", quotient) if mode == "floor" else _truncated(w, quotient)
    quotient = w.op("Div", left, right)
    if mode == "trunc":
        return quotient
    # ONNX divides whole numbers toward zero: one less where the signs differ and something is left.
    remainder = w.op("Sub", left, w.op("Mul", quotient, right))
    zero = w.number(0, dtype)
    left_over = w.op("Not", w.op("Equal", remainder, zero))
    differ = w.op("Xor", w.op("Less", remainder, zero), w.op("Less", right, zero))
    return w.op("Sub", quotient, w.cast(w.op("And", left_over, differ), dtype))


def _truncated(w: Writer, name: str) -> str:
    return w.op("Mul", w.op("Sign", name), w.op("Floor", w.op("Abs", name)))


@converts("trunc", "fix")
def _trunc(w: Writer, a: SimpleNamespace) -> Value:
    return _truncated(w, w.name(a.self)) if w.dtype(a.self).is_floating_point else w.op("Identity", w.name(a.self))


@converts("remainder")
def _remainder(w: Writer, a: SimpleNamespace) -> Value:
    left, right = w.common(a.self, a.other)
    if not w.result_type().is_floating_point:
        return w.op("Mod", left, right)
    return w.op("Sub", left, w.op("Mul", w.op("Floor", w.op("Div", left, right)), right))


@converts("pow")
def _pow(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    return w.op("Pow", w.name(a.self, dtype), w.name(a.exponent, dtype))


def _of_logarithm(base: float) -> Converter:
    return lambda w, a: w.op(
        "Div", w.op("Log", w.name(a.self, w.result_type())), w.number(math.log(base), w.result_type())
    )


CONVERTERS["log2"], CONVERTERS["log10"] = _of_logarithm(2), _of_logarithm(10)


@converts("log1p")
def _log1p(w: Writer, a: SimpleNamespace) -> Value:
    # log(1 + x) * x / ((1 + x) - 1) is right where 1 + x is rounded (Higham, Accuracy and Stability, 1.14.1).
    dtype = w.result_type()
    x, one = w.name(a.self, dtype), w.number(1, dtype)
    total = w.op("Add", x, one)
    rounded = w.op("Sub", total, one)
    none = w.op("Equal", rounded, w.number(0, dtype))
    divisor = w.op("Where", none, one, rounded)
    return w.op("Where", none, x, w.op("Div", w.op("Mul", w.op("Log", total), x), divisor))


@converts("expm1", "special_expm1")
def _expm1(w: Writer, a: SimpleNamespace) -> Value:
    # 2 sinh(x / 2) exp(x / 2)
    dtype = w.result_type()
    half = w.op("Mul", w.name(a.self, dtype), w.number(0.5, dtype))
    return w.op("Mul", w.op("Mul", w.op("Sinh", half), w.number(2, dtype)), w.op("Exp", half))


@converts("exp2", "special_exp2")
def _exp2(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    return w.op("Pow", w.number(2, dtype), w.name(a.self, dtype))


@converts("erfc", "special_erfc")
def _erfc(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    return w.op("Sub", w.number(1, dtype), w.op("Erf", w.name(a.self, dtype)))


@converts("isnan", "isinf")
def _is(w: Writer, a: SimpleNamespace) -> Value:
    return w.op("IsNaN" if "isnan" in w.describe() else "IsInf", w.name(a.self, torch.float32))


@converts("isfinite")
def _isfinite(w: Writer, a: SimpleNamespace) -> Value:
    x = w.name(a.self, torch.float32)
    return w.op("Not", w.op("Or", w.op("IsNaN", x), w.op("IsInf", x)))


@converts("masked_fill")
def _masked_fill(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    return w.op("Where", w.name(a.mask, torch.bool), w.name(a.value, dtype), w.name(a.self, dtype))


@converts("clamp", "clip", "clamp_min", "clamp_max")
def _clamp(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    result = w.name(a.self, dtype)
    low, high = getattr(a, "min", None), getattr(a, "max", None)
    if low is not None:
        result = w.op("Max", result, w.name(low, dtype))
    return result if high is None else w.op("Min", result, w.name(high, dtype))


def _between(w: Writer, x: str, low: float, high: float) -> str:
    dtype = w.result_type()
    return w.op("Min", w.op("Max", x, w.number(low, dtype)), w.number(high, dtype))


@converts("lerp")
def _lerp(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    start = w.name(a.self)
    return w.op("Add", start, w.op("Mul", w.name(a.weight, dtype), w.op("Sub", w.name(a.end), start)))


@converts("addcmul", "addcdiv")
def _addc(w: Writer, a: SimpleNamespace) -> Value:
    dtype = w.result_type()
    part = w.op("Mul" if "addcmul" in w.describe() else "Div", w.name(a.tensor1, dtype), w.name(a.tensor2, dtype))
    return w.op("Add", w.name(a.self, dtype), part if a.value == 1 else w.op("Mul", part, w.number(a.value, dtype)))


@converts("clone", "contiguous", "detach", "alias", "lift_fresh", "positive")
def _identity(w: Writer, a: SimpleNamespace) -> Value:
    return w.op("Identity", w.name(a.self))


@converts("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def _dropout(w: Writer, a: SimpleNamespace) -> Value:
    if a.train and a.p:
        raise UnsupportedOperatorError("dropout in training: call model.eval() first")
    return w.op("Identity", w.name(a.input))


# Activations


@converts("elu")
def _elu(w: Writer, a: SimpleNamespace) -> Value:
    if (a.scale, a.input_scale) != (1, 1):
        raise UnsupportedOperatorError("elu with scales")
    return w.op("Elu", w.name(a.self), alpha=float(a.alpha))


@converts("prelu")
def _prelu(w: Writer, a: SimpleNamespace) -> Value:
    slope = w.name(a.weight)
    if w.rank(a.self) == 0:
        slope = w.reshaped(slope, [])
    elif w.rank(a.self) > 2 and w.fixed(a.weight, 0) > 1:
        slope = w.reshaped(slope, [-1, *(1,) * (w.rank(a.self) - 2)])
    return w.op("PRelu", w.name(a.self), slope)


@converts("softplus")
def _softplus(w: Writer, a: SimpleNamespace) -> Value:
    dtype, x = w.result_type(), w.name(a.self)
    scaled = x if a.beta == 1 else w.op("Mul", x, w.number(a.beta, dtype))
    result = w.op("Softplus", scaled)
    if a.beta != 1:
        result = w.op("Div", result, w.number(a.beta, dtype))
    return w.op("Where", w.op("Greater", scaled, w.number(a.threshold, dtype)), x, result)


@converts("hardshrink", "softshrink")
def _shrink(w: Writer, a: SimpleNamespace) -> Value:
    bias = a.lambd if "softshrink" in w.describe() else 0
    return w.op("Shrink", w.name(a.self), lambd=float(a.lambd), bias=float(bias))


@converts("threshold")
def _threshold(w: Writer, a: SimpleNamespace) -> Value:
    dtype, x = w.result_type(), w.name(a.self)
    return w.op("Where", w.op("Greater", x, w.number(a.threshold, dtype)), x, w.number(a.value, dtype))


@converts("softmax", "log_softmax", "_softmax", "_log_softmax")
def _softmax(w: Writer, a: SimpleNamespace) -> Value:
    return _of_rows(
        w, "LogSoftmax" if "log_softmax" in w.describe() else "Softmax", w.name(a.self, w.result_type()), a.dim
    )


def _of_rows(w: Writer, kind: str, name: str, dim: int) -> str:
    assert w.node is not None
    if not w.rank(w.node):
        return w.reshaped(w.op(kind, w.reshaped(name, [1]), axis=0), [])
    return w.op(kind, name, axis=dim)


@converts("glu")
def _glu(w: Writer, a: SimpleNamespace) -> Value:
    first, gate = w.op("Split", w.name(a.self), outputs=2, axis=a.dim, num_outputs=2)
    return w.op("Mul", first, w.op("Sigmoid", gate))


#: what takes one line
CONVERTERS |= {
    **dict.fromkeys(("ne", "not_equal"), lambda w, a: w.op("Not", w.op("Equal", *w.common(a.self, a.other)))),
    **dict.fromkeys(("sub", "subtract"), lambda w, a: _sum(w, a.self, a.other, a.alpha, "Sub")),
    "rsub": lambda w, a: _sum(w, a.other, a.self, a.alpha, "Sub"),
    "frac": lambda w, a: w.op("Sub", w.name(a.self), _truncated(w, w.name(a.self))),
    "fmod": lambda w, a: w.op("Mod", *w.common(a.self, a.other), fmod=1),
    "square": lambda w, a: w.op("Mul", w.name(a.self), w.name(a.self)),
    "rsqrt": lambda w, a: w.op("Reciprocal", w.op("Sqrt", w.name(a.self, w.result_type()))),
    "where": lambda w, a: w.op("Where", w.name(a.condition, torch.bool), *w.common(a.self, a.other)),
    "hardtanh": lambda w, a: _between(w, w.name(a.self), a.min_val, a.max_val),
    "relu6": lambda w, a: _between(w, w.name(a.self), 0, 6),
    **dict.fromkeys(("to", "_to_copy", "type_as"), lambda w, a: w.op("Identity", w.name(a.self, w.result_type()))),
    "gelu": lambda w, a: w.op("Gelu", w.name(a.self), approximate=a.approximate),
    "selu": lambda w, a: w.op("Selu", w.name(a.self)),
    "celu": lambda w, a: w.op("Celu", w.name(a.self), alpha=float(a.alpha)),
    "leaky_relu": lambda w, a: w.op("LeakyRelu", w.name(a.self), alpha=float(a.negative_slope)),
    "hardsigmoid": lambda w, a: w.op("HardSigmoid", w.name(a.self), alpha=1 / 6, beta=0.5),
    "hardswish": lambda w, a: w.op("HardSwish", w.name(a.self)),
    "silu": lambda w, a: w.op("Mul", w.name(a.self), w.op("Sigmoid", w.name(a.self))),
    "log_sigmoid": lambda w, a: w.op("Neg", w.op("Softplus", w.op("Neg", w.name(a.self)))),
    "softsign": lambda w, a: w.op("Softsign", w.name(a.input)),
    "tanhshrink": lambda w, a: w.op("Sub", w.name(a.input), w.op("Tanh", w.name(a.input))),
    "softmin": lambda w, a: _of_rows(w, "Softmax", w.op("Neg", w.name(a.input)), a.dim),
}  # fmt: skip
