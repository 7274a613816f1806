"""Tensors with a region replaced: the out-of-place counterparts of writing through a view, and scatters that reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.registry import operation
from ...ir.layouts import is_dense, layout, wrap_dimension
from ...notices import alert_not_deterministic
from ...replay.recipes import remembered
from ...tensors.memory_formats import contiguous_format
from ...tensors.tensor import Tensor, storage_size
from ..common import attach, no_view, refuse_types, row_major, sizes_from, type_title, wide
from ..creation.ranges import arange
from ..in_place.writing import make_in_place, refuse_gradient
from ..movement.views import as_strided, diagonal, select_dimension
from ..outputs import into, into_rows
from ..reduction.moments import vector_norm
from ..reduction.reductions import sum_to_size as summed_to
from .scatter_reductions import scatter_reduce


def _clone_in_place(input: Tensor) -> Tensor:
    """Return a copy with the input's strides and offset, gaps included; a plain one where a dimension has no stride."""
    found = input._layout
    if any(stride == 0 and size > 1 for size, stride in zip(found.shape, found.strides, strict=True)):
        return input.clone()
    if is_dense(found) and not found.offset:
        return input.clone()
    size = storage_size(input)
    whole = Tensor._from_storage(input._storage, layout((size,), (1,)), input.dtype, input.device).clone()
    result = Tensor._from_storage(whole._storage, input._layout, input.dtype, input.device)
    return attach(result, "CloneBackward0", (input,), lambda grad: grad)


def _written(input: Tensor, src: Tensor, view: Any, what: str) -> Tensor:
    result = _clone_in_place(input)
    target = view(result)
    if target.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the {what} of self. src size = {list(src.shape)}, {what} size = "
            f"{list(target.shape)}"
        )
    target.copy_(src)
    return result


def _written_apart(input: Tensor, src: Tensor, view: Callable[[Tensor], Tensor], title: str) -> Tensor:
    """As :func:`_written`; each element has a gradient of its own, also of an input whose elements share memory."""
    result = _written(input.detach(), src.detach(), view, "slice")
    kind = src.dtype

    def run_backward(grad: Tensor) -> tuple[Tensor, Tensor]:
        kept = grad.clone(memory_format=contiguous_format)
        view(kept).zero_()
        return kept, view(grad.contiguous()).to(kind)

    return attach(result, title, (input, src), run_backward)


@operation("composite")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """``input`` with ``src`` at one position of a dimension."""
    chosen = lambda each: select_dimension(each, dim, index)  # noqa: E731
    return _written_apart(input, src, chosen, "SelectScatterBackward0")


@operation("composite")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``input`` with ``src`` at a slice of a dimension."""
    axis = wrap_dimension(dim, input.ndim)
    chosen = (slice(None),) * axis + (slice(start, end, step),)
    return into_rows(_written_apart(input, src, lambda each: each[chosen], "SliceScatterBackward0"), out, True)


@operation("composite")
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``input`` with ``src`` on a diagonal."""
    chosen = lambda each: diagonal(each, offset, dim1, dim2)  # noqa: E731
    return _written_apart(input, src, chosen, "DiagonalScatterBackward0")


@operation("composite")
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """``input`` with ``src`` where a strided view of it lies."""
    return _written_apart(
        input, src, lambda each: as_strided(each, size, stride, storage_offset), "AsStridedScatterBackward0"
    )


@operation("composite", title="IndexReduceBackward0")
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` combined with slices of ``source`` at the positions a 1-d index lists, by prod, mean, amax or amin.

    Raises:
        RuntimeError: another ``reduce``, other types, or sizes that do not fit.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    refuse_types("index_func_", input, 0, 3)
    wrap_dimension(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError("index_reduce(): Index is supposed to be a vector")
    if index.dtype.name not in ("int64", "int32"):
        raise RuntimeError(f"index_reduce_(): Expected dtype int32/int64 for index but got: {type_title(index)}")
    if source.dtype is not input.dtype:
        raise RuntimeError("index_reduce(): Expected self and source to have the same scalar type")
    if input.ndim == 0:
        flat = index_reduce(
            input.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self
        )
        return into(flat.reshape(()), out, True)
    axis = wrap_dimension(dim, input.ndim)
    if index.numel() != source.shape[axis]:
        raise RuntimeError(
            f"index_reduce(): Number of indices ({index.numel()}) should be equal to source.size(dim) "
            f"({source.shape[axis]})"
        )
    shape = tuple(-1 if place == axis else 1 for place in range(input.ndim))
    spread = index.reshape(shape).expand(source.shape).long()
    result = scatter_reduce(input, axis, spread, source, reduce, include_self=include_self)
    return into(result, out, True, (input, index, source))


@operation("composite", title="PutBackward0")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """``input`` with ``source`` written (or added) at flat positions."""
    if index.dtype.name != "int64":
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype!r}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = {input.dtype!r} and "
            f"source.dtype = {source.dtype!r}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    if input.numel() == 0 and index.numel():
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    if not accumulate:
        alert_not_deterministic("put_")
    return no_view(
        input.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate).reshape(input.shape)
    )


def put_repeated(
    view: Tensor, shown: Tensor, indices: Sequence[Tensor | None], value: Tensor, accumulate: bool
) -> None:
    """Write into a view that shows elements of ``shown`` several times: of an element's values the last one in the order of rows stays."""
    numbers = arange(shown.numel(), device=view.device).reshape(shown.shape).expand(view.shape)
    places = numbers[tuple(slice(None) if each is None else each for each in indices)].reshape(-1)
    elements = shown.reshape(-1).index_put((places,), value.reshape(-1), accumulate)
    shown.copy_(elements.reshape(shown.shape))
    refuse_gradient(view, shown)


@operation("composite", namespace="method")
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The tensor summed to a shape that broadcasts to its own.

    Raises:
        RuntimeError: the shape does not.
    """
    shape = sizes_from(size)
    padded = (1,) * (self.ndim - len(shape)) + shape
    if len(shape) > self.ndim or any(
        have not in (want, 0) and want != 1 for want, have in zip(padded, self.shape, strict=True)
    ):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.")
    return summed_to(self, shape) if shape else self.sum()


@operation("composite", title="RenormBackward0")
@remembered
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """Slices along a dimension scaled down so that none has a ``p``-norm above ``maxnorm``.

    Raises:
        RuntimeError: a norm order that is not positive, a negative limit, or fewer than two dimensions.
    """
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p = {p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    axis = wrap_dimension(dim, input.ndim)
    source = wide(input)
    size = vector_norm(source, p, tuple(each for each in range(input.ndim) if each != axis), True)
    # The small number is PyTorch's, so that gradients at the limit agree.
    factor = (maxnorm / (size + 1e-7)).where(size > maxnorm, 1.0)
    return into(row_major(source * factor).to(input.dtype), out, True, (input,))


for _function in (index_reduce, put, renorm):
    setattr(Tensor, f"{_function.__name__}_", make_in_place(_function, f"{_function.__name__}_", _function, apart=True))
