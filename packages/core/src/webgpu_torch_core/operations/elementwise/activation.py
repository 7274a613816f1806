"""Activation functions of networks. Each operation is one definition; gradients derive from it unless a better one is declared."""

# Definitions are traced on expressions and run on numbers: their operands have no one type.
# pyright: basic
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...ir.dtypes import bool_
from ...ir.scalar import absolute as _absolute
from ...ir.scalar import erf as _erf
from ...ir.scalar import exp as _exp
from ...ir.scalar import expm1 as _expm1
from ...ir.scalar import less, where
from ...ir.scalar import log1p as _log1p
from ...ir.scalar import maximum as _maximum
from ...ir.scalar import minimum as _minimum
from ...ir.scalar import tanh as _tanh
from .call import elementwise
from .refusals import floats_only

if TYPE_CHECKING:
    from ...ir.expression import Expression

# Activations


def _of_floats(name):
    """Declare an activation that takes floating-point numbers only, by the name that PyTorch's kernel and node have."""
    return elementwise(
        namespace="internal",
        promotion="float",
        method=False,
        title=f"{name.capitalize()}Backward0",
        refuses=floats_only(f"{name}_cpu"),
    )


def _refuse_flags(operands, promoted):
    if promoted is bool_:
        raise RuntimeError("Boolean inputs not supported for relu")


@elementwise(saves_result=True, refuses=_refuse_flags, gradients_decided=(1,))
def relu(input):
    """``max(input, 0)``."""
    # Of equal zeros the second is returned: the input, as in PyTorch.
    return _maximum(0, input)


@relu.backward
def _(grad, input):
    # Nothing of NaN is at most 0: there the gradient passes, as in PyTorch.
    return where(input <= 0.0, 0.0, grad)


@elementwise(promotion="float", namespace="functional", method=False, refuses=floats_only("silu_cpu"))
def silu(input):
    """``input * sigmoid(input)``."""
    return input / (1.0 + _exp(-input))


@silu.backward
def _(grad, input):
    share = 1.0 / (1.0 + _exp(-input))
    return grad * share * (1.0 + input * (1.0 - share))


@elementwise(
    promotion="float", method=False, namespace="internal", title="GeluBackward0", refuses=floats_only("GeluKernelImpl")
)
def gelu_erf(input):
    """``input * Phi(input)`` with the exact normal distribution function."""
    return input * 0.5 * (1.0 + _erf(input * math.sqrt(0.5)))


@gelu_erf.backward
def _(grad, input):
    distribution = 0.5 * (1.0 + _erf(input * math.sqrt(0.5)))
    density = _exp(input * input * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return grad * (distribution + input * density)


@elementwise(
    promotion="float", method=False, namespace="internal", title="GeluBackward0", refuses=floats_only("GeluKernelImpl")
)
def gelu_tanh(input):
    """GELU by Hendrycks and Gimpel's tanh formula."""
    inner = math.sqrt(2.0 / math.pi) * (input + input * input * input * 0.044715)
    return input * 0.5 * (1.0 + _tanh(inner))


@gelu_tanh.backward
def _(grad, input):
    scale = math.sqrt(2.0 / math.pi)
    curve = _tanh(scale * (input + input * input * input * 0.044715))
    slope = (1.0 - curve * curve) * scale * (1.0 + input * input * (3.0 * 0.044715))
    return grad * (0.5 * (1.0 + curve) + input * 0.5 * slope)


@elementwise(namespace="functional", method=False, refuses=floats_only("leaky_relu_cpu"), gradients_decided=(1,))
def leaky_relu(input, *, negative_slope=0.01):
    """``input`` where positive, else ``negative_slope * input``."""
    return where(less(0.0, input), input, input * negative_slope)


@elementwise(promotion="float", namespace="functional", method=False, refuses=floats_only("elu_cpu"))
def elu_(input, *, alpha=1.0, slope=1.0):
    """``input`` where positive, else ``alpha * (exp(slope * input) - 1)``."""
    return where(less(0.0, input), input, _expm1(input * slope) * alpha)


@elu_.backward
def _(grad, input, alpha, slope):
    # NaN is not at most 0: there the gradient passes, as in PyTorch.
    return where(input <= 0.0, grad * (alpha * slope) * _exp(input * slope), grad)


@elementwise(promotion="float", namespace="functional", method=False, refuses=floats_only("softplus_cpu"))
def softplus_(input, *, beta=1.0, threshold=20.0):
    """``log(1 + exp(beta * input)) / beta``, linear above the threshold."""
    scaled = input * beta
    return where(less(threshold, scaled), input, _log1p(_exp(scaled)) / beta)


@elementwise(
    promotion="float",
    namespace="functional",
    method=False,
    title="LogSigmoidBackward0",
    refuses=floats_only("log_sigmoid_cpu"),
    row_major=True,
    exact_out=True,
)
def logsigmoid(input):
    """``log(sigmoid(input))`` without overflow."""
    return _minimum(input, 0.0) - _log1p(_exp(-_absolute(input)))


@logsigmoid.backward
def _(grad, input):
    # As in PyTorch: what is small stays small, so that the product with an infinite gradient is infinite.
    small = _exp(-_absolute(input))
    share = small / (1.0 + small)
    return grad * where(less(input, 0.0), 1.0 - share, share)


@elementwise(namespace="internal", method=False, title="HardtanhBackward0", like_nothing=(0, 1, 2))
def hardtanh_of(input: Expression, *, low: float = -1.0, high: float = 1.0) -> Expression:
    """``input`` limited to ``[low, high]``."""
    # Of equal zeros the second is returned: the input, as in PyTorch.
    return _minimum(high, _maximum(low, input))


@hardtanh_of.backward
def _(grad: Expression, input: Expression, low: float, high: float) -> Expression:
    # Zero at the limits, unlike clamp's; of NaN, which is at neither, it passes.
    return where((input <= low) | (input >= high), 0.0, grad)


@elementwise(namespace="internal", method=False, title="HardshrinkBackward0", rounds_numbers=True, numbers_apart=True)
def hardshrink_of(input: Expression, limit: Expression) -> Expression:
    """``input``, and zero where ``|input| <= limit``."""
    return where(_absolute(input) <= limit, 0.0, input)


@elementwise(namespace="internal", method=False, title="SoftshrinkBackward0", rounds_numbers=True, numbers_apart=True)
def softshrink_of(input: Expression, limit: Expression) -> Expression:
    """``input`` moved towards zero by ``limit``, and zero within that distance."""
    return where(_absolute(input) <= limit, 0.0, where(less(0.0, input), input - limit, input + limit))


@_of_floats("hardsigmoid")
def hardsigmoid_of(input: Expression) -> Expression:
    """``min(max(input + 3, 0), 6) / 6``."""
    return _minimum(_maximum(input + 3.0, 0.0), 6.0) / 6.0


@hardsigmoid_of.backward
def _(grad: Expression, input: Expression) -> Expression:
    return where(less(-3.0, input) & less(input, 3.0), grad * (1.0 / 6.0), 0.0)


@_of_floats("hardswish")
def hardswish_of(input: Expression) -> Expression:
    """``input * min(max(input + 3, 0), 6) / 6``."""
    return input * _minimum(_maximum(input + 3.0, 0.0), 6.0) / 6.0


@hardswish_of.backward
def _(grad: Expression, input: Expression) -> Expression:
    return where(input <= -3.0, 0.0, where(less(input, 3.0), grad * (input / 3.0 + 0.5), grad))


@_of_floats("mish")
def mish_of(input: Expression) -> Expression:
    """``input * tanh(softplus(input))``."""
    return input * _tanh(where(less(20.0, input), input, _log1p(_exp(input))))


@mish_of.backward
def _(grad: Expression, input: Expression) -> Expression:
    share = _tanh(where(less(20.0, input), input, _log1p(_exp(input))))
    return grad * (share + input * (1.0 / (1.0 + _exp(-input))) * (1.0 - share * share))


@elementwise(
    namespace="internal", method=False, title="PreluKernelBackward0", like_nothing=(2,), gradients_decided=(1, 1)
)
def prelu_of(input: Expression, weight: Expression) -> Expression:
    """``input`` where positive, else ``weight * input``, element by element."""
    return where(less(0.0, input), input, input * weight)


@prelu_of.backward
def _(grad: Expression, input: Expression, weight: Expression) -> tuple[Expression, Expression]:
    return where(less(0.0, input), grad, grad * weight), where(less(0.0, input), 0.0, grad * input)
