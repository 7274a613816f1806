"""Distances and similarities as modules."""

from __future__ import annotations

from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.module import Module


class PairwiseDistance(Module):
    """``‖x1 - x2 + eps‖`` with the norm of degree ``p`` over the last dimension.

    Args:
        p: degree of the norm; may be negative or infinite.
        eps: added to the differences, which keeps gradients finite at zero.
        keepdim: whether the last dimension stays, of size 1.

    Shapes: inputs [n, d] or [d] (they broadcast), output [n] or [].
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """``x1 · x2 / max(‖x1‖ ‖x2‖, eps)`` over ``dim``; inputs of any shapes that broadcast."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
