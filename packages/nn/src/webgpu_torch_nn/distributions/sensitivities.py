"""Random values of gamma and Dirichlet distributions that are differentiable functions of the concentrations."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.elementwise.approximations import FEWER_NODES, FEWER_WEIGHTS, NODES, WEIGHTS
from webgpu_torch_core.operations.elementwise.gamma_sample_derivatives import gamma_sensitivity_


def _digamma_difference(a: Tensor, b: Tensor) -> Tensor:
    """``digamma(a) - digamma(a + b)``, without cancellation: recurrence, then the asymptotic series (DLMF 5.11.2)."""
    result = torch.zeros_like(a)
    for index in range(6):
        result = result - b / ((a + index) * (a + b + index))
    one, two = 1 / (a + 6), 1 / (a + b + 6)
    first, second = one * one, two * two
    series = 1 / 12 - (first + second) / 120 + (first * first + first * second + second * second) / 252
    return result - torch.log1p(b * one) - b * one * two * (0.5 + (one + two) * series)


class _Fall:
    """How far the density of log odds falls from x outwards by s, to ``exp(-(a + b) m - r s)`` of itself.

    There ``m = log(q + p exp(-s))``; p is the share that s makes smaller, q the other one, r the concentration of the
    side, above x or below it, on which the score ``log t - E log t`` keeps its sign.
    """

    def __init__(self, x: Tensor, a: Tensor, b: Tensor) -> None:
        self.score = x.log() - _digamma_difference(a, b)
        self.above = self.score >= 0
        self.total = a + b
        self.share, self.rest = torch.where(self.above, 1 - x, x), torch.where(self.above, x, 1 - x)
        self.rate = torch.where(self.above, b, a)

    def unsqueezed(self) -> _Fall:
        """Return the same with one more dimension."""
        made = _Fall.__new__(_Fall)
        made.__dict__.update({key: value.unsqueeze(-1) for key, value in self.__dict__.items()})
        return made

    def logarithm(self, s: Tensor) -> Tensor:
        """Return ``m``, of small shares without cancellation."""
        small = torch.log1p(self.share.clamp(max=0.75) * torch.expm1(-s))
        return torch.where(self.share < 0.75, small, (self.rest + self.share * (-s).exp()).log())

    def end(self, depth: float) -> Tensor:
        """Return where the density has fallen by so many nepers, by Newton's method.

        The convex fall never reaches a depth after its asymptote does: the steps come down from there.
        """
        end = (depth - self.total * self.rest.log()) / self.rate
        for _ in range(5):
            left = self.share * (-end).exp()
            slope = self.rate - self.total * left / (self.rest + left)
            end = end - (self.rate * end + self.total * self.logarithm(end) - depth) / slope
        return end


def beta_sensitivity(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return the change of a beta value with its first concentration, over ``1 - x`` (Figurnov et al., 2018).

    It is ``-(dF/da) / (dF/dx)``, F being the distribution function. dF/da is the integral of density times score from x
    outwards, on the side on which the score keeps its sign, so that nothing cancels. Over the log odds the density is
    log-concave; Gauss's quadrature takes it in two parts, between which it may bend, and gathers its nodes there.
    """
    wide = x.dtype == torch.float64
    nodes, weights, depth = (NODES, WEIGHTS, 36.0) if wide else (FEWER_NODES, FEWER_WEIGHTS, 18.0)
    limits = torch.finfo(x.dtype)
    x = x.clamp(limits.tiny, 1 - limits.eps / 2)
    fall = _Fall(x, a, b)
    end = fall.end(depth).unsqueeze(-1)
    fall = fall.unsqueezed()
    bend = torch.minimum((fall.share / fall.rest).log().clamp(min=0.0), end)
    options: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
    halves = torch.tensor([*nodes, *(-each for each in nodes)], **options)
    place, weight = 0.5 + 0.5 * halves, 0.5 * torch.tensor([*weights, *weights], **options)
    result: Any = 0.0
    for length in (-bend, end - bend):
        s = bend + length * place * place
        shift = fall.logarithm(s)
        change = torch.where(fall.above, fall.score - shift, s + shift - fall.score)
        density = torch.exp(-(fall.total * shift + fall.rate * s))
        result = result + (2 * place * weight * length.abs() * density * change).sum(-1)
    return x * result


def _wide(value: Tensor) -> Tensor:
    return value if value.dtype in (torch.float32, torch.float64) else value.float()


class _Drawn(torch.autograd.Function):
    """Values that were drawn as functions of their concentrations."""

    transformed = True

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, drawn: Tensor) -> Tensor:
        """Return the values."""
        ctx.save_for_backward(concentration, drawn)
        return drawn.clone()


class DifferentiableGamma(_Drawn):
    """Drawn gamma values as functions of their concentrations."""

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of the concentrations."""
        concentration, drawn = ctx.saved_tensors
        change = gamma_sensitivity_(_wide(concentration), _wide(drawn))
        return grad_outputs[0] * change.to(drawn.dtype), None


class DifferentiableDirichlet(_Drawn):
    """Drawn probabilities as functions of their concentrations; one's change is taken from the others by their shares."""

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of the concentrations."""
        concentration, drawn = ctx.saved_tensors
        grad, wide = grad_outputs[0], _wide(concentration)
        change = beta_sensitivity(_wide(drawn), wide, wide.sum(-1, True) - wide).to(drawn.dtype)
        return change * (grad - (drawn * grad).sum(-1, True)), None


__all__ = ["DifferentiableDirichlet", "DifferentiableGamma", "beta_sensitivity"]
