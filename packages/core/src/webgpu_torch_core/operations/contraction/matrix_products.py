"""Sums of products: matmul in all its forms, linear, convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...dispatch.type_rules import with_type_rule
from ...ir import expression as ir
from ...ir.dtypes import bool_, compute_dtype, dtype, float32, int64
from ...ir.kernels import Contraction, Operand, Output, Store
from ...ir.layouts import Layout, broadcast_shapes, contiguous_strides, existing_dimension, number_of_elements
from ...replay.recipes import of_layers, remembered
from ...tensors.tensor import Tensor
from ..common import (
    attach,
    attach_zeros,
    dtype_title,
    is_half,
    kernel_cache,
    needs_gradient,
    no_view,
    record,
    refuse_types,
    require_same_types,
    require_tensor,
    type_title,
)
from ..creation.factories import filled
from ..outputs import finish_out
from ..reduction.reductions import sum_to_size
from .product_checks import check_addmm, check_bmm, check_dimensions, check_mm, check_mv, shape_error

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


def _accumulator(kind: dtype) -> dtype:
    return int64 if kind is int64 else compute_dtype(kind)


@kernel_cache
def product_kernel(
    left: Layout, left_numel: int, right: Layout, right_numel: int, kind: dtype, result: dtype
) -> Contraction:
    """Return the batched product of ``left[batch, m, k]`` and ``right[batch, k, n]`` (any strides, broadcast batch)."""
    batch = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rank = len(batch)
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]

    def batch_strides(source: Layout) -> tuple[int, ...]:
        missing = rank - (source.ndim - 2)
        return (0,) * missing + tuple(
            0 if size == 1 else stride for size, stride in zip(source.shape[:-2], source.strides[:-2], strict=True)
        )

    accumulate = _accumulator(kind)
    left_value = ir.load(0, left.offset, (*batch_strides(left), left.strides[-2], 0, left.strides[-1]), kind)
    right_value = ir.load(1, right.offset, (*batch_strides(right), 0, right.strides[-1], right.strides[-2]), kind)
    shape = (*batch, m, n)
    store = Store(0, 0, contiguous_strides(shape), ir.cast(ir.accumulator(accumulate), result))
    return Contraction(
        (Operand(kind, left_numel), Operand(kind, right_numel)), (Output(result, number_of_elements(shape), None),), (), "matmul",
        batch, (m,), (n,), (k,), ir.cast(left_value, accumulate), ir.cast(right_value, accumulate), accumulate, (store,),
    )  # fmt: skip


def _wide_type(kind: dtype) -> dtype:
    """Return the type of a product that something else is added to before it is rounded to ``kind``."""
    return float32 if kind.category == 2 and kind.itemsize == 2 else kind


def require_factors(left: Tensor, right: Tensor) -> None:
    """Refuse factors of different element types, in PyTorch's words for one product or a batch of them.

    Raises:
        RuntimeError: they are of different types.
    """
    if left.dtype is right.dtype:
        return
    if left.ndim > 2 or right.ndim > 2:
        require_same_types(left, right)
    raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {left.dtype.word} != {right.dtype.word}")


@with_type_rule("product")
def _product(left: Tensor, right: Tensor, title: str, wide: bool = False) -> Tensor:
    """Return the batched matrix product of tensors with at least two dimensions; ``wide`` keeps 16-bit ones in float32."""
    require_factors(left, right)
    kind = left.dtype
    kernel = product_kernel(
        left._layout,
        left._storage.value.numel,
        right._layout,
        right._storage.value.numel,
        kind,
        _wide_type(kind) if wide else kind,
    )
    shape = (*kernel.batch, *kernel.m, *kernel.n)
    if number_of_elements(kernel.k):
        result = record(kernel, (left, right), (), (shape,))
    else:
        # A number that is given at run time: GPUs' compilers take 0 / 0 for 0 where they know one of them.
        result = filled(shape, 0, kernel.outputs[0].dtype, left.device)
    if needs_gradient(left, right):
        # Each is kept for the other's gradient: what nothing needs may be overwritten.
        saved_left = left._save() if right.requires_grad else None
        saved_right = right._save() if left.requires_grad else None
        shapes = left._layout.shape, right._layout.shape

        by_columns = _by_columns(left._layout), _by_columns(right._layout)

        def run_backward(grad: Tensor) -> Any:
            grad = grad.to(kind)
            left_part = right_part = None
            if saved_right is not None:
                other = saved_right.unpack()
                if by_columns[0] and other.ndim == 2:
                    left_part = _product(other, grad.transpose(0, 1), title).transpose(0, 1)
                else:
                    left_part = _summed(grad, other.transpose(-1, -2), title, shapes[0])
            if saved_left is not None:
                right_part = _right_gradient(saved_left.unpack(), shapes[1], grad, title, by_columns[1])
            return left_part, right_part

        attach(result, title, (left, right), run_backward)
    return result


def _summed(left: Tensor, right: Tensor, title: str, shape: tuple[int, ...]) -> Tensor:
    """Return a product summed over the batch dimensions its gradient's operand was broadcast along, rounded once."""
    batch = broadcast_shapes(left._layout.shape[:-2], right._layout.shape[:-2])
    if batch == shape[:-2]:
        return _product(left, right, title)
    return sum_to_size(_product(left, right, title, wide=True), shape).to(left.dtype)


def _by_columns(matrix: Layout) -> bool:
    """Return whether what is multiplied is one matrix that lies in memory column by column: as PyTorch's, its gradient does then."""
    return matrix.ndim == 2 and matrix.strides == (1, matrix.shape[0])


def _right_gradient(a: Tensor, shape: tuple[int, ...], grad: Tensor, title: str, by_columns: bool) -> Tensor:
    if len(shape) == 2:
        # The batch of a shared right operand is part of the summed dimension: one large product instead of many summed.
        rows, seeds = (each.flatten(0, -2) if each.ndim > 2 else each for each in (a, grad))
        if by_columns:
            return _product(seeds.transpose(0, 1), rows, title).transpose(0, 1)
        return _product(rows.transpose(0, 1), seeds, title)
    return _summed(a.transpose(-1, -2), grad, title, shape)


def _of_folded(first: int, second: int) -> str:
    """Return the name of the node of a product of more than matrices, given how many dimensions its factors have."""
    return "SqueezeBackward4" if (first, second) == (1, 2) else "UnsafeViewBackward0"


def _product_title(input: Tensor, other: Tensor) -> str:
    """Return the name of the node of a product, by what PyTorch makes it of."""
    if max(input.ndim, other.ndim) < 3 and (input.ndim, other.ndim) != (1, 2):
        return {1: "DotBackward0", 2: "MvBackward0"}[input.ndim] if other.ndim == 1 else "MmBackward0"
    return (
        "CloneBackward0" if _is_shared(input, other) and needs_gradient(input) else _of_folded(input.ndim, other.ndim)
    )


def _is_shared(input: Tensor, other: Tensor) -> bool:
    """Return whether one matrix is multiplied with each of a batch."""
    return input.ndim == 2 < other.ndim or (input.ndim == other.ndim == 3 and input.shape[0] == 1 != other.shape[0])


@operation("contraction", aliases=("linalg_matmul",))
@remembered
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product, batched and broadcast over leading dimensions; 1-d operands are vectors.

    Raises:
        RuntimeError: the summed sizes differ.
    """
    require_tensor("matmul", "input", 1, input)
    require_tensor("matmul", "other", 2, other)
    result = matrix_product(input, other)
    # Sizes are looked at first.
    if input.dtype is bool_ and ((input.numel() and other.numel()) or input.ndim == other.ndim == 1):
        refuse_types("dot" if input.ndim == other.ndim == 1 else "addmm_impl_cpu_", input, 0)
    if _is_shared(input, other) and needs_gradient(input) and (1 in result.shape[-2:] or not result.numel()):
        # PyTorch folds the batch into columns: a view of the transposed product, not copied where it is row-major.
        result = no_view(result.transpose(-2, -1)).transpose(-2, -1)
    else:
        retitled(result, _product_title(input, other))
    return finish_out(result, out, exact=True)


def matrix_product(input: Tensor, other: Tensor, wide: bool = False) -> Tensor:
    """Return the product of two tensors as :func:`matmul` has it, ``[..., n, k] @ [..., k, m]``, of any types, booleans too.

    ``wide`` keeps sums of 16-bit numbers in float32.

    Raises:
        RuntimeError: one has no dimensions, or their sizes do not fit.
    """
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D"
        )
    left = input.unsqueeze(0) if input.ndim == 1 else input
    right = other.unsqueeze(1) if other.ndim == 1 else other
    if left.shape[-1] != right.shape[-2]:
        if input.ndim == 1 and other.ndim == 1:
            if input.dtype is not other.dtype:
                found = f"{dtype_title(input.dtype)} and {dtype_title(other.dtype)}"
                raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {found}")
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{input.shape[0]}] and src [{other.shape[0]}] to have the same "
                f"number of elements, but got {input.shape[0]} and {other.shape[0]} elements respectively"
            )
        raise shape_error(input, other)
    if left.dtype is not right.dtype and _in_batches(input, other):
        if not (left.numel() and right.numel()):
            # PyTorch looks at the types of batches only where there is something to multiply.
            left = left.to(right.dtype)
        elif left.dtype is bool_:
            refuse_types("bmm", left, 0)
    if left.dtype is not right.dtype and other.ndim == 1:
        one, two = type_title(input), type_title(other)
        if input.ndim == 1:
            raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {one} and {two}")
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {two}, {one}, and {two}")
    require_factors(left, right)
    if right.ndim == 2 and left.ndim > 2:
        # A shared right operand: fold the batch into the rows.
        folded = (
            left.reshape((number_of_elements(left._layout.shape[:-1]), left.shape[-1]))
            if left._layout.is_contiguous
            else None
        )
        result = (
            _product(folded, right, "MmBackward0", wide).reshape((*left.shape[:-1], right.shape[-1]))
            if folded is not None
            else _product(left, right, "MmBackward0", wide)
        )
    else:
        result = _product(left, right, "MmBackward0" if left.ndim == 2 else "BmmBackward0", wide)
    if input.ndim == 1:
        result = result.squeeze(-2)
    if other.ndim == 1:
        result = result.squeeze(-1)
    return no_view(result)


def _in_batches(input: Tensor, other: Tensor) -> bool:
    """Return whether PyTorch multiplies batch by batch, and does not fold the batches into the rows of one matrix.

    As in ``should_fold`` of PyTorch's LinearAlgebra.cpp.
    """
    larger, smaller = (input, other) if input.ndim >= other.ndim else (other.transpose(-1, -2), input)
    if larger.ndim < 3 or (smaller.ndim < 3 and smaller.requires_grad):
        return False
    if smaller.ndim > 2 or input.ndim == 2:
        return True
    shape, strides = larger._layout.shape, larger._layout.strides
    rows = range(larger.ndim - 2)
    return larger.numel() > 0 and any(strides[each] != strides[each + 1] * shape[each + 1] for each in rows)


@operation("contraction")
@remembered
def mm(input: Tensor, mat2: Tensor, out_dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices; computed in ``out_dtype`` if that is given."""
    check_mm(input, mat2)
    if out_dtype is not None:
        input, mat2 = input.to(out_dtype), mat2.to(out_dtype)
    return matmul(input, mat2, out=out)


@operation("contraction")
@remembered
def bmm(input: Tensor, mat2: Tensor, out_dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """The products of two equally long batches of matrices; computed in ``out_dtype`` if that is given."""
    check_bmm(input, mat2)
    if out_dtype is not None:
        input, mat2 = input.to(out_dtype), mat2.to(out_dtype)
    return retitled(matmul(input, mat2, out=out), "BmmBackward0")


@operation("contraction", title="MvBackward0")
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix and a vector."""
    existing_dimension(0, input.ndim)
    check_mv(input, vec)
    return matmul(input, vec, out=out)


@operation("contraction", title="DotBackward0")
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return matmul(input, tensor, out=out)


@operation("contraction", aliases=("ger",))
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""
    check_dimensions(1, "outer: Expected 1-D argument {}, but got {}-D", self=input, vec2=vec2)
    result = input.unsqueeze(1) * vec2.unsqueeze(0)
    return finish_out(result, out)


@operation("contraction", title="AddmmBackward0")
@remembered
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: dtype | None = None, *, beta: Number = 1, alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * (mat1 @ mat2)``; computed in ``out_dtype`` if that is given.

    Raises:
        RuntimeError: sizes that do not fit, or operands of several types.
    """
    check_addmm(mat1, mat2)
    input.expand((mat1.shape[0], mat2.shape[1]))
    if out_dtype is not None:
        input, mat1, mat2 = input.to(out_dtype), mat1.to(out_dtype), mat2.to(out_dtype)
    elif isinstance(input, Tensor) and input.dtype is not mat2.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {dtype_title(input.dtype)} and {dtype_title(mat2.dtype)}"
        )
    return _added(input, mat1, mat2, beta, alpha, out)


@operation("contraction", title="BaddbmmBackward0")
@remembered
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: dtype | None = None, *, beta: Number = 1, alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * (batch1 @ batch2)`` over a batch; computed in ``out_dtype`` if that is given.

    Raises:
        RuntimeError: sizes that do not fit, or operands of several types.
    """
    # The sum is expanded to sizes of both before the product is looked at.
    input.expand((batch1.size(0), batch1.size(1), batch2.size(2)))
    check_bmm(batch1, batch2)
    if out_dtype is not None:
        input, batch1, batch2 = input.to(out_dtype), batch1.to(out_dtype), batch2.to(out_dtype)
    elif isinstance(input, Tensor) and not input.dtype is batch1.dtype is batch2.dtype:
        titles = [dtype_title(each.dtype) for each in (input, batch1, batch2)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {titles[0]}, batch1: {titles[1]}, batch2: {titles[2]}"
        )
    return _added(input, batch1, batch2, beta, alpha, out)


@operation("contraction", title="AddmvBackward0")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``.

    Raises:
        RuntimeError: sizes that do not fit, or operands of several types.
    """
    check_mv(mat, vec, input)
    if not input.dtype is mat.dtype is vec.dtype:
        titles = [dtype_title(each.dtype) for each in (input, mat, vec)]
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {titles[0]}, {titles[1]}, and {titles[2]}"
        )
    return _added(input, mat, vec, beta, alpha, out)


def _added(input: Tensor, left: Tensor, right: Tensor, beta: Any, alpha: Any, out: Any) -> Tensor:
    require_tensor("addmm", "input", 1, input)
    if not left.dtype.is_complex and (isinstance(beta, complex) or isinstance(alpha, complex)):
        raise RuntimeError(
            f"beta={beta} and alpha={alpha} cannot be converted to {left.dtype!r}: complex numbers need complex tensors"
        )
    if left.numel() and right.numel():
        refuse_types("addmm_impl_cpu_", left, 0)
    if left.dtype.category < 2:
        # PyTorch truncates the factors of integer products.
        beta, alpha = int(beta), int(alpha)
    # The sum rounds once, as in PyTorch's kernels: 16-bit products stay in float32 until the input is added.
    if alpha != 1 and is_half(left):
        # So that the gradient's products round once, too, not after each is scaled.
        product = matrix_product(left.to(float32), right.to(float32))
    else:
        product = matrix_product(left, right, wide=True)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        # The input is ignored even where it is NaN.
        result = attach_zeros(scaled.to(left.dtype), "AddmmBackward0", (input,))
    else:
        result = (scaled + (input if beta == 1 else input.to(scaled.dtype) * beta)).to(left.dtype)
    return finish_out(result, out, (input,), exact=True)


@operation("contraction", namespace="functional", method=False)
@of_layers(1)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``; input [..., in], weight [out, in], bias [out].

    Raises:
        RuntimeError: operands of several element types, or sizes that do not fit.
    """
    if input.ndim == 0 or weight.ndim == 0:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and {weight.ndim}D"
        )
    if bias is None:
        return matmul(input, weight.t(), out=out)
    if input.ndim == 2 and weight.ndim != 2:
        raise RuntimeError(f"mat2 must be a matrix, got {weight.ndim}-D tensor")
    folds = input.ndim < 3 or input._layout.is_contiguous
    if input.dtype is not weight.dtype and folds:
        found = f"{type_title(input)} and {type_title(weight)}"
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {found}")
    refuse_types("addmm_impl_cpu_", input, 0)
    result = (matrix_product(input, weight.t(), wide=True) + bias).to(input.dtype)
    retitled(result, "AddmmBackward0" if input.ndim == 2 else "ViewBackward0" if folds else "AddBackward0")
    return finish_out(result, out, exact=True)


def _operator(self: Tensor, other: object) -> object:
    # What is no tensor may know the product itself, as NumPy does for its arrays.
    return self.matmul(other) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__ = _operator  # type: ignore[attr-defined]


def _reflected(self: Tensor, other: object) -> object:
    return matmul(other, self) if isinstance(self, Tensor) and isinstance(other, Tensor) else NotImplemented


Tensor.__rmatmul__ = _reflected  # type: ignore[attr-defined]
