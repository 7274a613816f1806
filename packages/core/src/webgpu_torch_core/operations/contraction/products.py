"""Products beyond matmul: outer, inner, Kronecker, cross and tensor products, diagonals and distances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import bool_, float32, float64, promote_types
from ...ir.layouts import broadcast_shapes, existing_dimension, wrap_dimension
from ...notices import warn_once
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import (
    attach,
    attach_zeros,
    check_apart,
    dtype_title,
    is_half,
    needs_gradient,
    no_view,
    refuse_halves,
    refuse_types,
    require_same_types,
    row_major,
    type_title,
)
from ..creation.ranges import arange
from ..elementwise.arithmetic import sqrt
from ..elementwise.choosing import where
from ..elementwise.overloads import clamp
from ..movement.joining import cat, place_inside, stack
from ..outputs import into, into_rows
from ..reduction.moments import vector_norm
from .matrix_products import addmm, dot, matmul
from .product_checks import check_dimensions

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


@operation("contraction", title="AddbmmBackward0")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * sum(batch1 @ batch2)`` over a batch; [b, n, m] and [b, m, p] give [n, p].

    Raises:
        RuntimeError: operands that are not three-dimensional or do not fit.
    """
    # The sum is expanded to sizes of both before the product is looked at.
    input.expand((batch1.size(1), batch2.size(2)))
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor" if batch1.ndim != 3 else "batch2 must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.shape[0]} and {batch2.shape[0]}"
        )
    if batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            "Incompatible matrix sizes for bmm ("
            f"{batch1.shape[1]}x{batch1.shape[2]} and {batch2.shape[1]}x{batch2.shape[2]})"
        )
    # The batch joins the summed dimension: one product.
    left = batch1.movedim(0, 1).reshape(batch1.shape[1], batch1.shape[0] * batch1.shape[2])
    right = batch2.reshape(batch2.shape[0] * batch2.shape[1], batch2.shape[2])
    return addmm(input, left, right, beta=beta, alpha=alpha, out=out)


@operation("contraction", title="AddrBackward0")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``.

    Raises:
        RuntimeError: operands that are not vectors, or factors that the result's type does not hold.
    """
    check_dimensions(1, "addr: Expected 1-D argument {}, but got {}-D", vec1=vec1, vec2=vec2)
    input.expand((vec1.shape[0], vec2.shape[0]))
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, complex) and not any(each.dtype.is_complex for each in (input, vec1, vec2)):
            raise RuntimeError(f"value cannot be converted to type {input.dtype!r} without overflow: {name}={factor}")
        if isinstance(factor, bool) and max(each.dtype.category for each in (input, vec1, vec2)):
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if isinstance(factor, float) and max(each.dtype.category for each in (input, vec1, vec2)) < 2:
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    read = (input, vec1, vec2)
    if any(is_half(each) for each in read):
        wide = [each.to(float32) if is_half(each) else each for each in read]
        kind = promote_types(promote_types(input.dtype, vec1.dtype), vec2.dtype)
        return into(addr(wide[0], wide[1], wide[2], beta=beta, alpha=alpha).to(kind), out, read=read)
    # The factor goes first, as in PyTorch's kernel, whose rounding depends on it.
    scaled = vec1 if alpha == 1 or vec1.dtype.category == 0 else vec1 * alpha
    product = scaled.unsqueeze(1) * vec2.unsqueeze(0)
    if product.dtype.category == 0:
        product = product if alpha else product & False
        return into(product if not beta else product | input, out, read=read)
    if beta == 0:
        return into(attach_zeros(product, "AddrBackward0", (input,)), out, read=read)
    return into((input if beta == 1 else input * beta) + product, out, read=read)


@operation("contraction", title="VdotBackward0")
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The dot product of two vectors, the first one conjugated."""
    return into(dot(input.conj() if input.dtype.is_complex else input, other), out, True)


@operation("contraction")
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products summed over the last dimensions: [..., n] and [***, n] give [..., ***].

    Raises:
        RuntimeError: last dimensions of different sizes.
    """
    if input.ndim == 0 or other.ndim == 0:
        return into(input * other, out)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    return into(tensordot(input, other, ([-1], [-1])), out, True)


@operation("contraction", method=False)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Products summed over pairs of dimensions: the last ``dims`` of a with the first of b, or two lists of them.

    Raises:
        RuntimeError: more dimensions than there are, lists of different lengths, or sizes that differ.
    """
    if isinstance(dims, Tensor):
        dims = int(dims) if dims.numel() == 1 else dims.tolist()
    if not isinstance(dims, int | tuple | list):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, but got "
            f"dims={dims!r:.80}"
        )
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(-dims, 0)), list(range(dims))
    else:
        first, second = ([each] if isinstance(each, int) else list(each) for each in dims)
    if len(first) != len(second):
        raise RuntimeError(
            f"both dimension lists should have same length, got {len(first)} and {len(second)} dimensions"
        )
    told = list(zip(first, second, strict=True))
    first = [wrap_dimension(each, a.ndim) for each in first]
    second = [wrap_dimension(each, b.ndim) for each in second]
    for one, other, (given, given_other) in zip(first, second, told, strict=True):
        if a.shape[one] != b.shape[other] and 1 not in (a.shape[one], b.shape[other]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[one]} in dim {given} and second has "
                f"size {b.shape[other]} in dim {given_other}"
            )
        # A summed dimension of size 1 meets the other's sum.
        if a.shape[one] != b.shape[other]:
            a, b = (
                (a, b.sum(other, keepdim=True, dtype=b.dtype))
                if a.shape[one] == 1
                else (a.sum(one, keepdim=True, dtype=a.dtype), b)
            )
    free_a = [each for each in range(a.ndim) if each not in first]
    free_b = [each for each in range(b.ndim) if each not in second]
    size = math.prod(a.shape[each] for each in first)
    left, right = a.permute(*free_a, *first), b.permute(*second, *free_b)
    shape = (*(a.shape[each] for each in free_a), *(b.shape[each] for each in free_b))
    if math.prod(shape) == 1 and a.dtype is bool_ is b.dtype:
        # PyTorch has a product of two vectors of booleans, but none of those that lie in a row.
        if left.is_contiguous() and right.is_contiguous():
            refuse_types("dot", a, 0)
        return into((left.reshape(-1) & right.reshape(-1)).any().view(shape), out, True)
    left = left.reshape(math.prod(a.shape[each] for each in free_a), size)
    right = right.reshape(size, math.prod(b.shape[each] for each in free_b))
    return into((left @ right).view(shape), out, True)


@operation("composite", title="UnsafeViewBackward0")
@remembered
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: ``out[i * n + k, j * m + l] = input[i, j] * other[k, l]``, for any number of dimensions."""
    depth = max(input.ndim, other.ndim)
    left = input.reshape((1,) * (depth - input.ndim) + tuple(input.shape))
    right = other.reshape((1,) * (depth - other.ndim) + tuple(other.shape))
    for number in range(depth):
        left = left.unsqueeze(2 * number + 1)
        right = right.unsqueeze(2 * number)
    shape = tuple(left.shape[2 * number] * right.shape[2 * number + 1] for number in range(depth))
    return into_rows(no_view((left * right).reshape(shape)), out)


@operation("composite", title="TraceBackward0")
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    refuse_types("trace", input, 0)
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return input.diagonal().sum()


@operation("composite")
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the input's elements on a diagonal."""
    return input.reshape(-1).diag(offset)


@operation("composite", title="DiagEmbedBackward0")
@remembered
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension's elements on a diagonal, in two new dimensions."""
    depth = input.ndim + 1
    first, second = wrap_dimension(dim1, depth), wrap_dimension(dim2, depth)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    before = (0,) * (input.ndim - 1) + (max(offset, 0),)
    columns = place_inside(input, before, (*input.shape[:-1], size)).unsqueeze(-2)
    positions = arange(size, device=input.device)
    on = positions - positions.unsqueeze(1) == offset
    matrix = where(on, columns, 0).to(input.dtype)
    return no_view(row_major(matrix.movedim((-2, -1), (first, second))))


@operation("composite", namespace="linalg", method=False, title="LinalgCrossBackward0")
@remembered
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The vector product of vectors of three elements along a dimension.

    Raises:
        RuntimeError: a dimension of another size, or different numbers of dimensions.
    """
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = existing_dimension(dim, input.ndim)
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and {other.shape[axis]}"
        )
    require_same_types(input, other)
    refuse_types("cross", input, 0)
    check_apart(out, input, other)
    a, b = input.unbind(axis), other.unbind(axis)
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return into(stack(parts, axis), out, True)


@operation("composite", name="cross")
def cross_of_torch(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The vector product along a dimension; by default the first one of size 3."""
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or simply use "
            "torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a future release."
        )
        if input.ndim != other.ndim:
            raise RuntimeError(f"inconsistent tensors dimensions input: {input.ndim} other: {other.ndim}")
        dim = next((place for place, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return cross(input, other, dim=dim, out=out)


#: whether a product of matrices gives Euclidean distances; None: where there are many
_COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": True, "donot_use_mm_for_euclid_dist": False,
}  # fmt: skip


@operation("composite", method=False, title="CdistBackward0")
@remembered
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The ``p``-distances between the rows of two matrices: [..., n, d] and [..., m, d] give [..., n, m].

    Euclidean distances of more than 25 rows come from a product of matrices, ``|x|^2 - 2 x y + |y|^2``, which is much quicker and
    loses digits where rows nearly agree; ``compute_mode`` asks for it always or never. 16-bit numbers are always subtracted.

    Raises:
        RuntimeError: fewer than two dimensions, rows of different sizes, or a negative ``p``.
        ValueError: a ``compute_mode`` that there is not.
    """
    if compute_mode not in _COMPUTE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, each in (("X1", x1), ("X2", x2)):
        if not each.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {type_title(each)}")
        if each.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {each.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    require_same_types(x1, x2)
    if x1.numel() and x2.numel():
        refuse_halves("cdist", x1)
    many = max(x1.shape[-2], x2.shape[-2]) > 25
    by_product = _COMPUTE_MODES[compute_mode]
    if p == 2 and (many if by_product is None else by_product) and x1.dtype in (float32, float64):
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        if math.prod((*batch, *x1.shape[-2:], x2.shape[-2])):
            return _euclidean(*(each.expand((*batch, *each.shape[-2:])) for each in (x1, x2)))
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if difference.shape[-1] == 0:
        return difference.new_zeros(difference.shape[:-1])
    return vector_norm(difference, p, -1)


def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    """Return the distances between rows from one product of matrices: [..., n, d] and [..., m, d] give [..., n, m]."""
    left, right = x1.detach(), x2.detach()
    norms = [(each * each).sum(-1, True) for each in (left, right)]
    ones = [each.new_ones(each.shape) for each in norms]
    squares = matmul(cat([left * -2, norms[0], ones[0]], -1), cat([right, ones[1], norms[1]], -1).mT)
    result = sqrt(clamp(squares, min=0))
    if not needs_gradient(x1, x2):
        return result
    saved = x1._save(), x2._save()
    found = result.detach()

    def run_backward(grad: Tensor) -> tuple[Tensor, Tensor]:
        one, other = (each.unpack() for each in saved)
        distances = _euclidean(one, other) if needs_gradient(one, other) else found
        # Rows that agree have a distance without a derivative: PyTorch takes 0.
        ratio = (grad / distances).masked_fill(distances == 0, 0.0)
        return (
            one * ratio.sum(-1, True) - matmul(ratio, other),
            other * ratio.sum(-2).unsqueeze(-1) - matmul(ratio.mT, one),
        )

    return attach(result, "EuclideanDistBackward0", (x1, x2), run_backward)


@operation("composite", namespace="linalg", method=False)
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of several matrices in the cheapest order (Cormen et al., Introduction to Algorithms, 15.2).

    The first and the last may be vectors.

    Raises:
        RuntimeError: fewer than two tensors, or sizes that do not fit.
    """
    if isinstance(tensors, Tensor):
        raise TypeError("linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(chain)}")
    for which, each in (("first", chain[0]), ("last", chain[-1])):
        if each.ndim not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {which} tensor must be 1D or 2D but got {each.ndim}D")
    for number, each in enumerate(chain[1:-1], 1):
        if each.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {number} must be 2D but got {each.ndim}D")
    for number, (left, right) in enumerate(itertools.pairwise(chain)):
        if left.shape[-1] != right.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {number} and {number + 1} with shapes {list(left.shape)} and {list(right.shape)} cannot be multiplied"
            )
    shape = [
        *(() if chain[0].ndim == 1 else (chain[0].shape[0],)),
        *(() if chain[-1].ndim == 1 else (chain[-1].shape[1],)),
    ]
    chain[0] = chain[0].unsqueeze(0) if chain[0].ndim == 1 else chain[0]
    chain[-1] = chain[-1].unsqueeze(1) if chain[-1].ndim == 1 else chain[-1]
    order = _cheapest([each.shape[0] for each in chain] + [chain[-1].shape[1]])

    def product(first: int, last: int) -> Tensor:
        if first == last:
            return chain[first]
        middle = order[first, last]
        return matmul(product(first, middle), product(middle + 1, last))

    return into(product(0, len(chain) - 1).reshape(shape), out, True)


def _cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where to split each run of matrices so that the fewest multiplications are made."""
    count = len(sizes) - 1
    cost = {(each, each): 0 for each in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            options = [
                (cost[first, k] + cost[k + 1, last] + sizes[first] * sizes[k + 1] * sizes[last + 1], k)
                for k in range(first, last)
            ]
            cost[first, last], split[first, last] = min(options)
    return split


@operation("composite", method=False)
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.linalg.multi_dot`."""
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot instead, which "
        "accepts a list of two or more tensors rather than multiple parameters."
    )
    chain = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], list | tuple) else matrices
    for each in chain:
        if each.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {each.ndim}, expected 2 instead.")
    return chain[0] if len(chain) == 1 else multi_dot(chain, out=out)


@operation("composite", namespace="linalg", method=False)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Dot products along a dimension, the first operand conjugated.

    Raises:
        RuntimeError: operands that are not floating-point or complex, of different types, or vectors of different lengths.
    """
    if x.dtype.category < 2:
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {dtype_title(x.dtype)}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {dtype_title(x.dtype)} and y of type "
            f"{dtype_title(y.dtype)} instead"
        )
    if x.ndim == y.ndim == 1:
        return vdot(x, y, out=out)
    left = x.conj() if x.dtype.is_complex else x
    return into((left * y).sum(dim).to(x.dtype), out, True)


@operation("composite", namespace="linalg", method=False)
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The Vandermonde matrix: powers 0, 1, … of the last dimension's elements as columns."""
    if x.dtype.category == 2 and x.dtype.itemsize < 4:
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {dtype_title(x.dtype)}"
        )
    if x.dtype.category == 0:
        raise RuntimeError("linalg.vander: bool is not supported")
    x = x.unsqueeze(-1) if x.ndim == 0 else x
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    ones = x.new_ones((*x.shape, 1))
    if x.dtype.category == 1:
        ones, x = ones.long(), x.long()

    return cat([ones, x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)], -1)


@operation("composite", name="vander", method=False)
def vander_of_torch(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix of a vector, highest power first unless ``increasing``.

    Raises:
        RuntimeError: it is no vector, or ``N`` is negative.
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    x = x.long() if x.dtype.category < 2 else x
    # Products, as PyTorch's: powers of a complex zero or infinity are no numbers.
    columns = [x.new_ones((x.shape[0], min(count, 1))), x.unsqueeze(1).expand(x.shape[0], max(count - 1, 0)).cumprod(1)]
    result = cat(columns, 1)
    return result if increasing else result.flip(1)


@operation("view", namespace="linalg", method=False, name="diagonal")
def diagonal_of_linalg(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices: :func:`torch.diagonal` of the last two dimensions."""
    return A.diagonal(offset, dim1, dim2)
