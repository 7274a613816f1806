"""Gamma variates, and the shares of several: samples of the distributions made of them."""

from __future__ import annotations

from ...ir.dtypes import float32, float64
from ...ir.type_limits import finfo
from ...record.devices import has_float64, on_host
from ...record.grad_mode import no_grad
from ...tensors.tensor import Tensor
from ..creation.factories import ones_like, zeros_like
from ..creation.reading import read_bytes
from ..elementwise.choosing import where
from .draws import draw, host_draw, source_generator
from .generator import Generator


def standard_gamma(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Return gamma variates of rate 1, one for each element (Marsaglia & Tsang, "A simple method for generating gamma variables", 2000).

    They carry no gradient. On the CPU they are PyTorch's. Elsewhere each round accepts more than 95 % of what is left, and the
    device is asked after each whether all are there.
    """
    kind = concentration.dtype
    wide = concentration.detach() if kind in (float32, float64) else concentration.detach().to(float32)
    if on_host(wide.device):
        stream, shape = source_generator(generator, wide.device), tuple(wide._layout.shape)
        return host_draw("gamma", shape, wide.dtype, wide.device, stream, read_bytes(wide)).to(kind)
    with no_grad():
        return _in_rounds(wide, generator).to(kind)


def _in_rounds(concentration: Tensor, generator: Generator | None) -> Tensor:
    shape, kind, place = tuple(concentration._layout.shape), concentration.dtype, concentration.device
    small = concentration < 1
    shifted = where(small, concentration + 1, concentration) - 1 / 3
    slope = (9 * shifted).rsqrt()
    result = zeros_like(concentration)
    missing = ones_like(concentration).bool()
    tiny = finfo(kind).tiny
    while missing.any():
        normal = draw("normal", shape, kind, place, generator, 0.0, 1.0)
        chance = draw("uniform", shape, kind, place, generator, 0.0, 1.0).clamp(min=tiny)
        cube = (1 + slope * normal) ** 3
        bound = 0.5 * normal * normal + shifted * (1 - cube + cube.clamp(min=tiny).log())
        taken = missing & (cube > 0) & (chance.log() < bound)
        result = where(taken, shifted * cube, result)
        missing = missing & ~taken
    # Below 1: a variate of one more, times a uniform number's power.
    boost = draw("uniform", shape, kind, place, generator, 0.0, 1.0).clamp(min=tiny).pow(concentration.reciprocal())
    return where(small, result * boost, result).clamp(min=tiny)


def gamma_shares(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Return gamma variates along the last dimension divided by their sum: samples of Dirichlet's distribution.

    Where there is double precision they are drawn and divided in it, as PyTorch does.
    """
    kind = concentration.dtype
    wide = concentration.detach()
    with no_grad():
        parts = standard_gamma(wide.to(float64) if has_float64(wide.device) else wide, generator)
        limits = finfo(kind)
        return (parts / parts.sum(-1, True)).to(kind).clamp(limits.tiny, 1.0 - limits.eps / 2)
