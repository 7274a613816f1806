"""What products of matrices refuse, in PyTorch's words."""

from __future__ import annotations

from ...ir.layouts import broadcast_shapes, existing_dimension, number_of_elements
from ...tensors.tensor import Tensor


def shape_error(left: Tensor, right: Tensor) -> RuntimeError:
    """Return what is raised for two factors of a product whose sizes do not fit, one of which may be a vector."""
    a, b = left._layout.shape, right._layout.shape
    rows, columns = b[0], b[-1]
    if len(b) == 1:
        return _vector_error((number_of_elements(a[:-1]),), (number_of_elements(a[:-1]), a[-1]), b[0])
    if len(b) > 2:
        batch = number_of_elements(broadcast_shapes(a[:-2], b[:-2]))
        return _batch_error((batch, a[-1]), (batch, b[-2]))
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({number_of_elements(a[:-1])}x{a[-1]} and {rows}x{columns})"
    )


def _vector_error(sum: tuple[int, ...], matrix: tuple[int, ...], vector: int) -> RuntimeError:
    sizes = ", ".join(map(str, sum))
    return RuntimeError(f"size mismatch, got input ({sizes}), mat ({matrix[0]}x{matrix[1]}), vec ({vector})")


def _batch_error(wanted: tuple[int, int], found: tuple[int, int]) -> RuntimeError:
    return RuntimeError(
        f"Expected size for first two dimensions of batch2 tensor to be: {list(wanted)} but got: {list(found)}."
    )


def check_dimensions(count: int, words: str, **factors: Tensor) -> None:
    """Refuse factors that have not so many dimensions, in words about a factor's name and how many it has.

    Raises:
        RuntimeError: another number of dimensions.
    """
    for name, each in factors.items():
        if each.ndim != count:
            raise RuntimeError(words.format(name, each.ndim))


def check_mm(input: Tensor, mat2: Tensor) -> None:
    """Refuse what are no two matrices.

    Raises:
        RuntimeError: another number of dimensions.
    """
    check_dimensions(2, "{} must be a matrix", self=input, mat2=mat2)


def check_addmm(mat1: Tensor, mat2: Tensor) -> None:
    """Refuse what are no two matrices that can be multiplied.

    Raises:
        RuntimeError: another number of dimensions, or sizes that do not fit.
    """
    check_dimensions(2, "{} must be a matrix, got {}-D tensor", mat1=mat1, mat2=mat2)
    if mat1.shape[1] != mat2.shape[0]:
        raise shape_error(mat1, mat2)


def check_bmm(input: Tensor, mat2: Tensor) -> None:
    """Refuse what are no two batches of matrices that can be multiplied.

    Raises:
        RuntimeError: another number of dimensions, or sizes that do not fit.
    """
    check_dimensions(3, "{} must be a 3D tensor", batch1=input, batch2=mat2)
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise _batch_error((input.shape[0], input.shape[2]), (mat2.shape[0], mat2.shape[1]))


def check_mv(matrix: Tensor, vector: Tensor, sum: Tensor | None = None) -> None:
    """Refuse what are no matrix and vector that can be multiplied, and a sum that is none of such products.

    Raises:
        RuntimeError: another number of dimensions, or sizes that do not fit.
    """
    if matrix.ndim != 2 or vector.ndim != 1 or (sum is not None and sum.ndim > 1):
        dimensions = 1 if sum is None else sum.ndim
        raise RuntimeError(f"vector + matrix @ vector expected, got {dimensions}, {matrix.ndim}, {vector.ndim}")
    rows = matrix.shape[0]
    sizes = (rows,) if sum is None else tuple(sum.shape)
    if matrix.shape[1] != vector.shape[0] or (sizes and sizes[0] not in (1, rows)):
        # Of a sum without dimensions PyTorch asks for the size that it would tell.
        existing_dimension(0, len(sizes))
        raise _vector_error(sizes, tuple(matrix.shape), vector.shape[0])
