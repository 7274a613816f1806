"""Activation functions."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import elu as _elu
from webgpu_torch_core.api.functional import elu_ as _elu_of
from webgpu_torch_core.api.functional import gelu as gelu
from webgpu_torch_core.api.functional import leaky_relu as _leaky_relu
from webgpu_torch_core.api.functional import log_softmax as _log_softmax
from webgpu_torch_core.api.functional import logsigmoid as logsigmoid
from webgpu_torch_core.api.functional import silu as _silu
from webgpu_torch_core.api.functional import softmax as _softmax
from webgpu_torch_core.api.functional import softplus as softplus
from webgpu_torch_core.dispatch.titles import titled
from webgpu_torch_core.ir.host_bytes import check_number
from webgpu_torch_core.ir.layouts import wrap_dimension
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.common import attach, dtype_title, refuse_halves, refuse_types
from webgpu_torch_core.operations.elementwise.activation import (
    hardshrink_of,
    hardsigmoid_of,
    hardswish_of,
    hardtanh_of,
    mish_of,
    prelu_of,
    softshrink_of,
)
from webgpu_torch_core.operations.in_place.writing import replaced
from webgpu_torch_core.operations.outputs import into
from webgpu_torch_core.operations.without_derivatives import refusing
from webgpu_torch_core.record.devices import has_float64, on_host

from ._arguments import before, narrowed, wide, written

#: what PyTorch has to say besides of a function whose backward does not run
_MORE = {
    "leakyReLu": " File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu backward "
    "calculation with negative slope"
}


def _one_way(result: Tensor, input: Tensor, slope: float, name: str) -> Tensor:
    """Return a result that is stored in its input, where only a slope that is not negative leaves the input's sign to be seen.

    With any other PyTorch's backward, which reads the result, refuses to run, and so does this one.
    """
    node = result.grad_fn
    if slope >= 0 or node is None:
        return result
    refusal = RuntimeError(
        f"In-place {name} backward calculation is triggered with a negative slope which is not supported. This is caused by calling "
        "in-place forward function with a negative slope, please call out-of-place version instead."
        + _MORE.get(name, "")
    )
    return attach(result.detach(), node.name(), (input,), refusing(refusal))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)``."""
    if not inplace:
        return torch.relu(input)
    return written(input, torch.relu(before(input, inplace)), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)`` (Hendrycks and Gimpel, 2016)."""
    target, input = input, before(input, inplace)
    return written(target, _silu(input), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al., 2015)."""
    if not inplace:
        return _elu(input, alpha)
    target, input = input, before(input, True)
    return replaced(target, _one_way(_elu(input, alpha), input, alpha, "elu"))


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``negative_slope * x`` elsewhere."""
    if not inplace:
        return _leaky_relu(input, negative_slope=negative_slope)
    target, input = input, before(input, True)
    result = _leaky_relu(input, negative_slope=negative_slope)
    return replaced(target, _one_way(result, input, negative_slope, "leakyReLu"))


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``, elementwise."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent, elementwise."""
    return input.tanh()


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` where positive, ``weight * x`` elsewhere; ``weight`` has one element or one per channel (dimension 1).

    Raises:
        RuntimeError: the two are of different types or of integers, or the weights do not fit the channels.
    """
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.numel() != 1:
        if input.ndim < 2 or input.shape[1] != weight.numel():
            if input.ndim == 0:
                raise RuntimeError("Not allow zero-dim input tensor.")
            channels = input.shape[1] if input.ndim > 1 else 1
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape(1, -1, *(1 for _ in input.shape[2:]))
    else:
        weight = weight.reshape(())
    if weight.dtype is not input.dtype:
        names = (dtype_title(each.dtype) for each in (input, weight))
        raise RuntimeError(f"prelu: Type promoting not supported. Got {' and '.join(names)}")
    refuse_types("prelu_cpu", input, 0, 1, 3)
    return prelu_of(input, weight)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """``x`` where positive, ``a * x`` elsewhere: ``a`` random from [lower, upper] in training, else their mean."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    refuse_types("rrelu_with_noise_out_cpu", input, 0, 1, 3)
    if input.dtype is torch.float16:
        refuse_halves("rrelu_with_noise_out_cpu", input)
    target, input = input, before(input, inplace)
    kind = input.dtype
    if on_host(input.device) and has_float64(input.device):
        # PyTorch's CPU kernel draws only where it needs a slope, in double precision.
        negative = (input.detach() <= 0).reshape(-1)
        draws = torch.empty(int(negative.sum().item()), dtype=torch.float64, device=input.device).uniform_(lower, upper)
        slopes = torch.ones(negative.shape, dtype=torch.float64, device=input.device).masked_scatter(negative, draws)
        noise = slopes.to(kind).reshape(input.shape)
    else:
        draws = torch.empty(input.shape, dtype=kind, device=input.device).uniform_(lower, upper)
        noise = torch.where(input.detach() <= 0, draws, torch.ones_like(draws))
    return written(target, input * noise, inplace)


@titled("HardtanhBackward0")
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)``."""
    return hardtanh(input, 0.0, 6.0, inplace)


def _limit(number: float, kind: torch.dtype) -> float:
    """Return a limit as a type of floats or, without its fraction, of integers holds it; unsigned ones take it by way of int64."""
    if kind.is_floating_point:
        return float(number)
    check_number(number, kind if kind.is_signed else torch.int64)
    if int(number) >= 0:
        check_number(int(number), kind)
    return int(number)


@titled("HardtanhBackward0")
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` limited to [min_val, max_val]."""
    target, input = input, before(input, inplace)
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype is torch.bool:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    low, high = (_limit(each, input.dtype) for each in (min_val, max_val))
    if not input.dtype.is_signed and low < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return written(target, hardtanh_of(input, low=low, high=high), inplace)


@titled("HardsigmoidBackward0")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(x + 3) / 6``."""
    target, input = input, before(input, inplace)
    return written(target, hardsigmoid_of(input), inplace)


@titled("HardswishBackward0")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * relu6(x + 3) / 6`` (Howard et al., 2019)."""
    target, input = input, before(input, inplace)
    return written(target, hardswish_of(input), inplace)


@titled("CeluBackward0")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`` (Barron, 2017)."""
    target, input = input, before(input, inplace)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    result = _elu_of(input, alpha=float(alpha), slope=1.0 / alpha)
    return replaced(target, _one_way(result, input, alpha, "elu")) if inplace else result


@titled("EluBackward0")
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``scale * elu(x, alpha)`` with the constants of Klambauer et al. (2017)."""
    target, input = input, before(input, inplace)
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return written(target, narrowed(elu(wide(input), alpha) * scale, input.dtype), inplace)


@titled("MishBackward0")
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra, 2019)."""
    target, input = input, before(input, inplace)
    return written(target, mish_of(input), inplace)


def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``."""
    single = wide(input)
    return narrowed(single / (single.abs() + 1), input.dtype)


def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``."""
    return input - input.tanh()


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """``x`` moved towards zero by ``lambd``, and zero within that distance."""
    refuse_types("softshrink_check", input, 0, 1, 3)
    if lambd < 0:
        raise RuntimeError(
            f"lambda must be in range [0, {input.dtype.maximum:g}] for input dtype {dtype_title(input.dtype)}, but found {lambd:g}"
        )
    return into(softshrink_of(input, float(lambd)), out, True, (input,))


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """``x``, and zero where ``|x| <= lambd``."""
    refuse_types("hardshrink_cpu", input, 0, 1, 3)
    return into(hardshrink_of(input, float(lambd)), out, True, (input,))


@titled("ThresholdBackward0")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` where above ``threshold``, ``value`` elsewhere; NaN stays."""
    target, input = input, before(input, inplace)
    refuse_types("threshold_cpu", input, 0, 3)
    return written(target, torch.where(input <= threshold, torch.full_like(input, value), input), inplace)


@titled("GluBackward0")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)`` for the two halves of ``dim`` (Dauphin et al., 2016)."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    dim = wrap_dimension(dim, input.ndim)
    if input.shape[dim] % 2 != 0:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.ndim} is size {input.shape[dim]}"
        )
    refuse_types("glu_cpu", input, 0, 1, 3)
    half, whole = input.shape[dim] // 2, wide(input)
    result = whole.narrow(dim, 0, half) * whole.narrow(dim, half, half).sigmoid()
    return result if whole is input else result.to(input.dtype)


def _implicit(name: str, input: Tensor, dim: int | None) -> int:
    """Return a dimension; without one PyTorch's legacy choice."""
    if dim is None:
        warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
        )
        return 0 if input.ndim in (0, 1, 3) else 1
    return dim


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``."""
    return _softmax(input, _implicit("softmax", input, dim), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """``exp(-x) / sum(exp(-x))`` along ``dim``."""
    return _softmax(-input, _implicit("softmin", input, dim), dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """``x - log(sum(exp(x)))`` along ``dim``."""
    return _log_softmax(input, _implicit("log_softmax", input, dim), dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """``softmax((logits + g) / tau)`` with Gumbel noise ``g``; ``hard`` returns one-hot values with soft gradients.

    Source: Jang et al., "Categorical reparameterization with Gumbel-softmax", 2016.
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -torch.empty(logits.shape, dtype=logits.dtype, device=logits.device).exponential_().log()
    soft = _softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = soft.detach().argmax(dim, keepdim=True)
    one_hot = torch.zeros_like(soft.detach()).scatter(dim, chosen, 1.0)
    return one_hot - soft.detach() + soft


# In-place forms


def relu_(input: Tensor) -> Tensor:
    """In-place version of :func:`relu`."""
    return relu(input, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of :func:`elu`."""
    return elu(input, alpha, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of :func:`celu`."""
    return celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """In-place version of :func:`selu`."""
    return selu(input, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place version of :func:`leaky_relu`."""
    return leaky_relu(input, negative_slope, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place version of :func:`hardtanh`."""
    return hardtanh(input, min_val, max_val, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place version of :func:`threshold`."""
    target, input = input, before(input, True)
    return written(target, torch.where(input <= threshold, torch.full_like(input, value), input), True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """In-place version of :func:`rrelu`."""
    return rrelu(input, lower, upper, training, True)
