"""Transforms whose values are vectors, matrices, or made of several parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Size, Tensor

from webgpu_torch_nn import functional

from . import constraints
from .elementwise_transforms import clipped_sigmoid
from .transform_base import Plain, Transform, sum_rightmost
from .utils import tril_matrix_to_vec, vec_to_tril_matrix

_MATRIX = constraints.independent(constraints.real, 2)


class ReshapeTransform(Transform):
    """Another shape of the last dimensions.

    Raises:
        ValueError: the shapes have different numbers of elements.
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """Blocks of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        """Blocks of the second shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return 0."""
        return torch.zeros(x.shape[: x.dim() - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return a shape that ends in the second."""
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """Return a shape that ends in the first."""
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Sequence[int], old: Size, new: Size) -> Size:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    kept = len(shape) - len(old)
    if Size(shape[kept:]) != old:
        raise ValueError(f"Shape mismatch: expected {shape[kept:]} but got {old}")
    return Size((*shape[:kept], *new))


class _OfVectors(Plain):
    """A transform of vectors, the values being longer by some numbers."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    _longer = 0

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the values' shape."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + self._longer))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """Return the arguments' shape."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - self._longer))


class SoftmaxTransform(_OfVectors):
    """The exponentials' shares; logarithms are taken for the inverse, though others have the same shares."""

    def _call(self, x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(_OfVectors):
    """Shares of one: each number says, by its sigmoid, how much of what the ones before it left it takes.

    The rest is the last share. Numbers are shifted so that zeros give equal shares.
    """

    bijective = True
    _longer = 1

    def _shift(self, like: Tensor, count: int) -> Tensor:
        return torch.arange(count, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Tensor) -> Tensor:
        taken = clipped_sigmoid(x - self._shift(x, x.shape[-1]))
        left = (1 - taken).cumprod(-1)
        return functional.pad(taken, [0, 1], value=1.0) * functional.pad(left, [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        left = (1 - shares.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return shares.log() - left.log() + self._shift(y, shares.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of ``log(y (1 - sigmoid))``."""
        shifted = x - self._shift(x, x.shape[-1])
        return (functional.logsigmoid(-shifted) + y[..., :-1].log()).sum(-1)


class LowerCholeskyTransform(Plain):
    """Lower triangles whose diagonal is the exponential of the argument's."""

    domain = _MATRIX
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Plain):
    """``L L^T`` of :class:`LowerCholeskyTransform`'s L."""

    domain = _MATRIX
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Cholesky factors of correlations of ``d (d - 1) / 2`` numbers.

    A number's hyperbolic tangent is a partial correlation: what it takes of what is left of its row's length 1
    (D. Lewandowski, D. Kurowicka, H. Joe, "Generating random correlation matrices based on vines and extended onion
    method", 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        limit = 1 - torch.finfo(x.dtype).eps
        square = vec_to_tril_matrix(x.tanh().clamp(-limit, limit), -1)
        left = (1 - square * square).sqrt().cumprod(-1)
        square = square + torch.eye(square.shape[-1], dtype=x.dtype, device=x.device)
        return square * functional.pad(left[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = functional.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1.0)
        return torch.atanh(tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt())

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the hyperbolic tangents' and the lengths'."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        of_tangents = -2 * (x + functional.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + of_tangents

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of the squares.

        Raises:
            ValueError: no square's triangle has so many numbers.
        """
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of the triangles' numbers.

        Raises:
            ValueError: the shape is not of squares.
        """
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _OfParts(Transform):
    """Transforms of the parts of a tensor along a dimension."""

    _join: Callable[..., Tensor]

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(each, Transform) for each in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size)
        self.transforms = [each.with_cache(cache_size) for each in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all are."""
        return all(each.bijective for each in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of cache, and its parts, too."""
        made: Any = super().with_cache(cache_size)
        if made is not self:
            made.transforms = [each.with_cache(cache_size) for each in self.transforms]
        return made

    def _check(self, value: Tensor, length: int) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {value.dim()} dimensions")
        if value.size(self.dim) != length:
            raise AssertionError(f"x.size({self.dim}) = {value.size(self.dim)} must equal length {length}")

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(x), strict=True)
        return self._join([each(part) for each, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return self._join([each._inv_call(part) for each, part in parts], self.dim)


class CatTransform(_OfParts):
    """Transforms of neighbouring parts of a tensor, as ``torch.cat`` puts them together."""

    _join = staticmethod(torch.cat)

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @property
    def event_dim(self) -> int:
        """The most of any part."""
        return max(each.event_dim for each in self.transforms)

    @property
    def length(self) -> int:
        """The length of all parts."""
        return sum(self.lengths)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The parts' arguments."""
        return constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        """The parts' values."""
        return constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        self._check(value, self.length)
        return value.split(self.lengths, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the parts', put together, or their sum where the dimension belongs to the value."""
        found = []
        for each, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            one = each.log_abs_det_jacobian(before, after)
            found.append(sum_rightmost(one, max(self.event_dim - each.event_dim, 0)))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return torch.cat(found, dim)
        total = found[0]
        for one in found[1:]:
            total = total + one
        return total


class StackTransform(_OfParts):
    """Transforms of the slices of a tensor, as ``torch.stack`` puts them together."""

    _join = staticmethod(torch.stack)

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The slices' arguments."""
        return constraints.stack([each.domain for each in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        """The slices' values."""
        return constraints.stack([each.codomain for each in self.transforms], self.dim)

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        self._check(value, len(self.transforms))
        return value.unbind(self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the slices', put together."""
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return torch.stack([each.log_abs_det_jacobian(before, after) for each, before, after in parts], self.dim)
