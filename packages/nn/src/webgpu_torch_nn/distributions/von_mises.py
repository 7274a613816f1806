"""Von Mises's distribution of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.devices import has_float64

from . import constraints
from .parametric import Located
from .utils import broadcast_all


class VonMises(Located):
    """Angles in radians of density ``exp(concentration cos(x - loc)) / (2 pi I0(concentration))``."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        self._validate_sample(value)
        # The Bessel function is scaled by the concentration's exponential.
        scaled = torch.special.i0e(self.concentration).log()
        return self.concentration * (torch.cos(value - self.loc) - 1) - math.log(2 * math.pi) - scaled

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return angles between -pi and pi (D. Best, N. Fisher, "Efficient simulation of the von Mises distribution", 1979).

        Computed in float64 where there is one, else in the parameters' type. The device is asked after each round whether
        all are drawn.
        """
        with torch.no_grad():
            kind = torch.float64 if has_float64(self.loc.device) else self.loc.dtype
            loc, kappa = self.loc.to(kind), self.concentration.to(kind)
            tau = 1 + (1 + 4 * kappa**2).sqrt()
            # Best's and Fisher's rho and r, without differences of what is alike for small and for large concentrations.
            rho = 2 * kappa / (tau + (2 * tau).sqrt())
            ratio, excess = (rho.reciprocal() + rho) / 2, ((rho.reciprocal() - rho) / 2) ** 2
            shape = self._extended_shape(sample_shape)
            result = torch.zeros(shape, dtype=kind, device=loc.device)
            done = torch.zeros(shape, dtype=torch.bool, device=loc.device)
            while not done.all():
                first, second, third = torch.rand((3, *shape), dtype=kind, device=loc.device).unbind(0)
                wave = torch.cos(math.pi * first)
                cosine = (1 + ratio * wave) / (ratio + wave)
                weight = kappa * excess / (ratio + wave)
                taken = (weight * (2 - weight) - second > 0) | ((weight / second).log() + 1 - weight >= 0)
                result = torch.where(taken, (third - 0.5).sign() * cosine.clamp(-1, 1).acos(), result)
                done = done | taken
            return ((result + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        """The circular variance, ``1 - I1 / I0``."""
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)


__all__ = ["VonMises"]
