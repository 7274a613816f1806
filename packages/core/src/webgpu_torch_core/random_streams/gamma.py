"""Gamma variates as PyTorch's CPU kernel draws them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from webgpu_torch_core.ir.dtypes import dtype, float32
from webgpu_torch_core.random_streams.distributions import encode, normal_doubles, uniform_doubles
from webgpu_torch_core.random_streams.streams import MersenneTwister

# Constants of single precision in a computation in double precision.
_THIRD, _SQUEEZE = array("f", (1.0 / 3.0, 0.0331))


def fill_gamma(generator: MersenneTwister, concentrations: Sequence[float], element: dtype) -> array[float]:
    """Return one variate of rate 1 per concentration, as the samples of ``torch.distributions.Gamma``.

    Source: G. Marsaglia and W. Tsang, "A simple method for generating gamma variables", 2000.
    """
    smallest = float(2.0**-126 if element is float32 else 2.0**-1022)
    return encode([max(smallest, _gamma(generator, each, element is float32)) for each in concentrations], element)


def _gamma(generator: MersenneTwister, concentration: float, single: bool) -> float:
    scale = 1.0
    if concentration < 1.0:
        if concentration == 0.0:
            return 0.0
        # One more accepts more often; a power of a uniform number makes up for it.
        exponent = _rounded(1.0 / concentration, single)
        scale = math.pow(1.0 - uniform_doubles(generator, 1)[0], exponent)
        concentration = _rounded(concentration + 1.0, single)
    shifted = _rounded(concentration - _THIRD, single)
    slope = 1.0 / math.sqrt(9.0 * shifted)
    while True:
        base = normal = 0.0
        while base <= 0.0:
            (normal,) = normal_doubles(generator, 1, 0.0, 1.0)
            base = 1.0 + slope * normal
        cube = base * base * base
        chance = 1.0 - uniform_doubles(generator, 1)[0]
        square = normal * normal
        if chance < 1.0 - _SQUEEZE * square * square:
            return scale * shifted * cube
        if math.log(chance) < 0.5 * square + shifted * (1.0 - cube + math.log(cube)):
            return scale * shifted * cube


def _rounded(value: float, single: bool) -> float:
    return array("f", (value,))[0] if single else value
