"""Matrix norms and condition numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.layouts import wrap_dimension
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import type_title
from ..outputs import into
from ..reduction.moments import vector_norm
from .common import require_matrix, require_square
from .eigenvalues import svdvals
from .solving import inv_ex

if TYPE_CHECKING:
    from ...ir.dtypes import dtype
    from ...tensors.type_aliases import Dimensions, Number


@operation("composite", namespace="linalg", method=False)
@remembered
def matrix_norm(
    A: Tensor,
    ord: Number | str = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Norms of matrices: ``fro``, ``nuc``, ±1 and ±inf (column and row sums), ±2 (singular values).

    Raises:
        RuntimeError: another order, or dimensions that are not two different ones.
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    dim = (dim,) if isinstance(dim, int) else dim
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    dims = [wrap_dimension(each, A.ndim) for each in dim]
    if dims[0] == dims[1]:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if A.dtype.category < 2:
        raise RuntimeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {type_title(A)}"
        )
    matrix = (A if dtype is None else A.to(dtype)).movedim(dims, (-2, -1))
    result = _matrix_norm(matrix, ord)
    if keepdim:
        first, second = sorted(dims)
        result = result.unsqueeze(first).unsqueeze(second)
    return into(result, out, True)


def _matrix_norm(matrix: Tensor, ord: Any) -> Tensor:
    if ord == "fro":
        return vector_norm(matrix, 2, (-2, -1))
    if ord == "nuc":
        return svdvals(matrix).sum(-1)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if abs(ord) == 2:
        return _extreme(svdvals(matrix), ord)
    if abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return _extreme(matrix.abs().sum(-2 if abs(ord) == 1 else -1), ord)


def _extreme(values: Tensor, ord: float) -> Tensor:
    """Return the largest of values that are not negative, 0 of none, or the smallest for a negative order."""
    if ord < 0:
        return values.amin(-1)
    return values.amax(-1) if values.shape[-1] else values.sum(-1)


@operation("composite", namespace="linalg", method=False)
def norm(
    input: Tensor,
    ord: Number | str | None = None,
    dim: Dimensions = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
) -> Tensor:
    """A matrix norm where ``ord`` and two dimensions say so, else a vector norm.

    Raises:
        RuntimeError: ``ord`` without dimensions for a tensor that is neither vector nor matrix.
    """
    dims = [dim] if isinstance(dim, int) else None if dim is None else list(dim)
    if ord is not None and dims is None and input.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.ndim}D."
        )
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dims}")
    if isinstance(ord, str) or (ord is not None and (len(dims) == 2 if dims is not None else input.ndim == 2)):
        return matrix_norm(input, ord, dims or (0, 1), keepdim, dtype=dtype, out=out)
    if ord is None and dims is None:
        flat = vector_norm(input.reshape(-1), 2, None, False, dtype=dtype)
        return into(flat.reshape((1,) * input.ndim) if keepdim else flat, out, True)
    return into(
        vector_norm(input, 2 if ord is None else ord, None if dims is None else tuple(dims), keepdim, dtype=dtype),
        out,
        True,
    )


@operation("composite", namespace="linalg", method=False)
def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Condition numbers: the ratio of the extreme singular values, or a norm times the inverse's.

    Raises:
        RuntimeError: a matrix that is not square where an inverse is needed, or another norm.
    """
    title = f"linalg.cond(ord={p if isinstance(p, str) or p is None else format(p, 'g')})"
    if A.ndim < 2:
        which = f"{title}: The input tensor A" if isinstance(p, str) else "linalg.cond: The input tensor"
        raise RuntimeError(f"{which} must have at least 2 dimensions.")
    whole = p in (None, 2, -2, "nuc")
    require_matrix("linalg.svd" if whole else "linalg.inv", A)
    if isinstance(p, str):
        require_square(title, A)
    if p not in (None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if A.numel() == 0:
        return into(A.new_zeros(A.shape[:-2], dtype=A.dtype.to_real()), out)
    if p in (None, 2, -2):
        values = svdvals(A)
        largest, smallest = values[..., 0], values[..., -1]
        return into(smallest / largest if p == -2 else largest / smallest, out)
    require_square(title, A)
    if p == "nuc":
        values = svdvals(A)
        return into(values.sum(-1) * values.reciprocal().sum(-1), out)
    inverse, info = inv_ex(A)
    # As in PyTorch: the inverse of a singular matrix is infinite, also beside a norm of zero.
    inverse = inverse.masked_fill((info > 0)[..., None, None], math.inf)
    found = matrix_norm(A, p) * matrix_norm(inverse, p)
    return into(found.masked_fill(found.isnan(), math.inf), out)
