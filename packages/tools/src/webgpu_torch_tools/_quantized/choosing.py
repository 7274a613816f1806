"""Scales and zero points that cover a range of numbers.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018:
zero is a number that integers stand for exactly.
"""

from __future__ import annotations

import math

from webgpu_torch_core import Tensor

from .schemes import PerTensor, single

#: a scale below it has an inverse that float32 does not hold well
_SMALLEST = 6.1e-5


def choose_parameters(values: Tensor, least: int, greatest: int, reduce_range: bool = False) -> PerTensor:
    """Return the scale and zero point with which integers of a range cover a tensor's numbers."""
    bounds = (0.0, 0.0)
    if values.numel():
        low, high = values.detach().aminmax()
        bounds = low.item(), high.item()
    if reduce_range:
        least, greatest = math.trunc(least / 2), math.trunc(greatest / 2)
    return covering(bounds[0], bounds[1], least, greatest)


def covering(low: float, high: float, least: int, greatest: int, symmetric: bool = False) -> PerTensor:
    """Return the scale and zero point with which integers from ``least`` to ``greatest`` cover numbers.

    ``symmetric``: with zero in the middle, where there are numbers on either side of it.

    Raises:
        RuntimeError: the range is none.
    """
    if not low <= high:
        raise RuntimeError(f"In ChooseQuantizationParams, min should be less than or equal to max: {low}, {high}")
    low, high = min(low, 0.0), max(high, 0.0)
    middle = symmetric and low < 0.0 < high
    if middle:
        lower = -((greatest - least) // 2 + 1)
        upper = greatest - least + lower
        step = max(abs(low / lower), abs(high / upper))
        low, high = step * lower, step * upper
    # The difference is taken in double precision, and the scale is a float32.
    scale = single((high - low) / (greatest - least))
    if scale == 0.0 or math.isinf(single(1.0 / scale) if scale > 1e-38 else math.inf):
        scale = 0.1
    if scale < _SMALLEST:
        scale, low, high = _widened(scale, low, high, greatest - least)
    from_low, from_high = least - low / scale, greatest - high / scale
    # The end that is told with the smaller error decides.
    low_is_better = abs(least) + abs(low / scale) < abs(greatest) + abs(high / scale)
    zero = (least + greatest) / 2 if middle else from_low if low_is_better else from_high
    nearest = min(max(round(zero), least), greatest)
    return PerTensor(scale, nearest)


def _widened(scale: float, low: float, high: float, steps: int) -> tuple[float, float, float]:
    """Return the least scale, and the numbers that it covers."""
    factor = single(_SMALLEST / scale)
    scale = single(_SMALLEST)
    if low == 0.0:
        return scale, low, scale * steps
    if high == 0.0:
        return scale, -scale * steps, high
    return scale, low * factor, high * factor
