"""Ways to fill a tensor with starting values, drawing random numbers in PyTorch's order.

Every function fills its ``tensor`` in place, outside autograd, and returns it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

_UNIT_GAIN = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the gain recommended for a nonlinearity.

    1 for linear, convolutions and sigmoid; 5/3 for tanh; sqrt(2) for relu; sqrt(2 / (1 + slope²)) for leaky_relu,
    whose slope is ``param`` (0.01 if None); 3/4 for selu.

    Raises:
        ValueError: the nonlinearity is unknown or the slope is not a number.
    """
    if nonlinearity in _UNIT_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from the uniform distribution over [a, b)."""
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from the normal distribution of the given mean and standard deviation."""
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with draws from the normal distribution truncated to [a, b], by rejection.

    Draws are made for the whole tensor and redrawn where they fall outside. Where [a, b] holds less than 30 % of
    the normal's mass, uniform draws over [a, b] are accepted with probability density / peak density instead.
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect."
        )

    def cumulative(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    mass = cumulative((b - mean) / std) - cumulative((a - mean) / std)
    with torch.no_grad():
        if mass > 0.3:
            return _reject_normal(tensor, mean, std, a, b, generator)
        return _reject_uniform(tensor, mean, std, a, b, generator)


def _reject_normal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    # The bounds are rounded to the tensor's dtype, so that a value equal to a rounded bound is inside.
    low, high = (torch.tensor(bound, dtype=tensor.dtype).item() for bound in (a, b))
    result = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (result < low) | (result > high)
        if not outside.any():
            break
        result = torch.where(outside, torch.empty_like(result).normal_(mean, std, generator=generator), result)
    return tensor if result is tensor else tensor.copy_(result)


def _reject_uniform(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    mode = max(a, min(mean, b))
    log_peak = -0.5 * ((mode - mean) / std) ** 2
    result, pending = tensor, None
    while pending is None or pending.any():
        candidates = torch.empty_like(tensor).uniform_(a, b, generator=generator)
        result = candidates if pending is None else torch.where(pending, candidates, result)
        log_density = ((candidates - mean) / std) ** 2 * -0.5 - log_peak
        rejected = torch.empty_like(tensor).uniform_(generator=generator).log_().gt(log_density)
        pending = rejected if pending is None else pending & rejected
    return tensor.copy_(result)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``."""
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    with torch.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal and zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    with torch.no_grad():
        return tensor.copy_(torch.eye(rows, columns, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight, 3 to 5 dimensions, so that it passes as many input channels through as it can."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with torch.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive_field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive_field, tensor.shape[0] * receptive_field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with uniform draws over ±gain · sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal draws of deviation gain · sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with uniform draws over ±gain · sqrt(3 / fan) (He et al., 2015)."""
    deviation = _kaiming_deviation(tensor, a, mode, nonlinearity)
    if deviation is None:
        return tensor
    bound = math.sqrt(3.0) * deviation
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with normal draws of deviation gain / sqrt(fan) (He et al., 2015)."""
    deviation = _kaiming_deviation(tensor, a, mode, nonlinearity)
    if deviation is None:
        return tensor
    return normal_(tensor, 0, deviation, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times ``gain``, trailing dimensions flattened (Saxe et al., 2013)."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with torch.no_grad():
        flat = torch.empty((rows, columns), dtype=tensor.dtype, device=tensor.device)
        flat.normal_(0, 1, generator=generator)
        q, r = torch.linalg.qr(flat.t() if rows < columns else flat)
        # Making the diagonal of r positive makes the draw uniform over the orthogonal matrices.
        q = q * torch.diag(r, 0).sign()
        if rows < columns:
            q = q.t()
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal draws, then zero the fraction ``sparsity`` of each column (Martens, 2010)."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with torch.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[torch.randperm(rows)[:zeros].to(tensor.device), column] = 0
    return tensor


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    old_name = function.__name__[:-1]

    def alias(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{function.__name__}`.", FutureWarning)
        return function(*args, **kwargs)

    alias.__name__ = alias.__qualname__ = old_name
    alias.__doc__ = f"Deprecated spelling of :func:`{function.__name__}`."
    return alias


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
