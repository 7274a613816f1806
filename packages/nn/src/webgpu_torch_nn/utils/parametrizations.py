"""Ready parametrisations: weights with a direction and a length, with spectral norm 1, orthogonal."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.utils import parametrize
from webgpu_torch_nn.utils.weight_norm import norm_except_dim, scaled_direction

ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled_direction(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a weight ``g v / ‖v‖``, the norm over all dimensions but ``dim`` (Salimans and Kingma, 2016).

    Args:
        module, name: whose tensor.
        dim: the dimension with a length of its own for each index; None for one length.
    """
    parametrization = _WeightNorm(dim)
    parametrize.register_parametrization(module, name, parametrization, unsafe=True)

    def rename_older(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        for old, new in ((f"{name}_g", "original0"), (f"{name}_v", "original1")):
            if f"{prefix}{old}" in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(f"{prefix}{old}")

    module._register_load_state_dict_pre_hook(rename_older)
    return module


class _SpectralNorm(Module):
    """Divides by the largest singular value, estimated by power iteration; see :func:`spectral_norm`."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.ndim
        if not -rank <= dim < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            rows, columns = matrix.size()
            u, v = (matrix.new_empty(size).normal_(0, 1) for size in (rows, columns))
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _as_matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(each for each in range(weight.dim()) if each != self.dim))
        return weight.flatten(1)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(torch.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(torch.mv(matrix.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: a second forward pass changes the buffers before the first one's backward.
        u, v = self._u.clone(), self._v.clone()
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, a matrix of ``dim`` against the rest (Miyato et al., 2018).

    Args:
        module, name: whose tensor.
        n_power_iterations: how often the estimate is improved at every use in training.
        eps: keeps norms from zero.
        dim: the matrix's rows; 0, or 1 for transposed convolutions.

    Raises:
        ValueError: there is no such tensor, or the number of iterations is not positive.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__ in ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d") else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


def _is_orthogonal(matrix: Tensor) -> bool:
    size = matrix.size(-1)
    eps = 10 * size * torch.finfo(matrix.dtype).eps
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    return bool(torch.allclose(matrix.mH @ matrix, unit, atol=eps))


def _nearest_orthogonal(matrix: Tensor) -> Tensor:
    """Return the orthogonal factor of a QR decomposition whose R has a positive diagonal."""
    reflectors, tau = torch.geqrf(matrix)
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return torch.linalg.householder_product(reflectors, tau) * signs


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _from_skew(self, tall: Tensor) -> Tensor:
        rows, columns = tall.shape[-2:]
        lower = tall.tril()
        if rows != columns:
            lower = torch.cat([lower, lower.new_zeros(*lower.shape[:-2], rows, rows - columns)], dim=-1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            result = torch.matrix_exp(skew)
        else:
            unit = torch.eye(rows, dtype=skew.dtype, device=skew.device)
            result = torch.linalg.solve(unit - skew / 2, unit + skew / 2)
        return result[..., :columns]

    def forward(self, X: Tensor) -> Tensor:
        transposed = X.size(-2) < X.size(-1)
        tall = X.mT if transposed else X
        if self.orthogonal_map == "householder":
            reflectors = tall.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
            result = torch.linalg.householder_product(reflectors, tau)
            # The diagonal holds signs, through which nothing is differentiated.
            result = result * tall.detach().diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            result = self._from_skew(tall)
        if hasattr(self, "base"):
            result = self.base @ result
        return result.mT if transposed else result

    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        with torch.no_grad():
            transposed = Q.size(-2) < Q.size(-1)
            tall = Q.mT if transposed else Q
            if hasattr(self, "base"):
                self.base = self._completed(tall)
                start = torch.zeros_like(Q)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
                return start
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            reflectors, tau = torch.geqrf(tall)
            signs = reflectors.diagonal(dim1=-2, dim2=-1).sign()
            signs = torch.where(tau == 0.0, -signs, signs)
            reflectors.diagonal(dim1=-2, dim2=-1).copy_(signs)
            return reflectors.mT if transposed else reflectors

    @staticmethod
    def _completed(tall: Tensor) -> Tensor:
        """Return a square orthogonal matrix that begins with given columns."""
        rows, columns = tall.shape[-2:]
        if rows == columns:
            return tall.clone() if _is_orthogonal(tall) else _nearest_orthogonal(tall)
        more = torch.randn(*tall.shape[:-2], rows, rows - columns, dtype=tall.dtype, device=tall.device)
        return _nearest_orthogonal(torch.cat([tall, more], dim=-1))


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix orthogonal, or its shorter side orthonormal (Lezcano-Casado, 2019).

    Args:
        module, name: whose tensor.
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square and complex matrices,
            the last for others.
        use_trivialization: whether the map acts around the present value, so that any orthogonal value can be assigned.

    Raises:
        ValueError: there is no such tensor, it is no matrix, or the map is not one of the three.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ORTHOGONAL_MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module
