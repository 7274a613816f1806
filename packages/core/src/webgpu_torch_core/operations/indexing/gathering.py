"""Reading and writing at positions that tensors list: gather, scatter and their relatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import by_value
from ...dispatch.type_rules import with_type_rule
from ...ir import expression as ir
from ...ir.dtypes import compute_dtype, dtype, int32, int64, uint8
from ...ir.host_bytes import check_number
from ...ir.kernels import Operand, Output, Pointwise, Scatter, Store
from ...ir.layouts import (
    Layout,
    broadcast_shapes,
    contiguous_layout,
    contiguous_strides,
    existing_dimension,
    layout,
    wrap_dimension,
)
from ...ir.monoids import monoid
from ...notices import warn_once
from ...replay.recipes import remembered
from ...tensors.memory_formats import contiguous_format
from ...tensors.tensor import Tensor
from ..common import attach, attach_zeros, check_apart, kernel_cache, needs_gradient, no_view, record
from ..creation.factories import number_of
from ..elementwise.choosing import where
from ..movement.joining import element_index, place_inside
from ..outputs import into
from .index_checks import (
    Report,
    check_positions,
    check_selected,
    check_source,
    check_written,
    reporting,
    wrapped_position,
)

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


def _check_index(name: str, index: Tensor) -> None:
    if index.dtype not in (int64, int32, uint8):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")


@kernel_cache
def gather_kernel(
    source: Layout, numel: int, kind: dtype, index: Layout, index_numel: int, index_kind: dtype, dim: int,
    wraps: bool | None,
) -> Pointwise:  # fmt: skip
    """Return the kernel reading ``source`` where ``index`` replaces the coordinate along ``dim``, reporting what is outside."""
    given = ir.load(1, index.offset, index.strides, index_kind)
    position = wrapped_position(given, source.shape[dim])
    coordinates: list[Any] = [ir.coordinate(each) for each in range(index.ndim)]
    coordinates[dim] = position
    value = ir.load_at(0, element_index(source, coordinates), kind)
    value = reporting(value, given, position, source.shape[dim], wraps)
    return Pointwise(
        (Operand(kind, numel), Operand(index_kind, index_numel)), (Output(kind, index.numel, None),),
        () if wraps is None else (int32,), "gather", index.shape, (Store(0, 0, contiguous_strides(index.shape), value),),
    )  # fmt: skip


@operation("indexed")
@remembered
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """``input`` read at ``index`` along a dimension; the result has the index's shape."""
    wrap_dimension(dim, input.ndim)
    if index.numel():
        _check_index("gather", index)
    check_apart(out, input, index)
    if index.numel() == 0:
        return into(gather_known(input if input.ndim else input.reshape(1), 0, index), out, True)
    if max(input.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if not input.ndim or not index.ndim:
        # What has no dimensions counts as a row of one element.
        row = gather(input.reshape(-1), 0, index.reshape(-1))
        return into(no_view(row.reshape(index.shape)), out, True)
    axis = wrap_dimension(dim, input.ndim)
    for each, (have, size) in enumerate(zip(index._layout.shape, input._layout.shape, strict=True)):
        if each != axis and have > size:
            raise RuntimeError(
                f"Size does not match at dimension {each} expected index {list(index.shape)} to be no larger than self "
                f"{list(input.shape)} apart from dimension {axis}"
            )
    report = check_positions("gather", index, input.shape[axis], axis, by_reader=input.numel() > 0)
    return into(gather_known(input, axis, index, report), out, True)


def gather_known(input: Tensor, axis: int, index: Tensor, report: Report | None = None, wraps: bool = False) -> Tensor:
    """Return :func:`gather` at positions that are right by construction, or that the kernel itself looks at.

    ``wraps``: some may count from the end.
    """
    if not index.numel():
        return attach_zeros(input.new_zeros(index.shape), "GatherBackward0", (input,))
    kernel = gather_kernel(
        input._layout,
        input._storage.value.numel,
        input.dtype,
        index._layout,
        index._storage.value.numel,
        index.dtype,
        axis,
        report and report.wraps,
    )
    result = record(kernel, (input, index), () if report is None else (report.code,), (index._layout.shape,))
    if needs_gradient(input):
        shape, saved = input._layout.shape, index._save()

        def run_backward(grad: Tensor) -> tuple[Tensor | None, ...]:
            chosen = saved.unpack()
            chosen = chosen.where(chosen >= 0, chosen + shape[axis]) if wraps else chosen
            return grad.new_zeros(shape).scatter_add(axis, chosen, grad), None

        attach(result, "GatherBackward0", (input, index), run_backward)
    return result


@operation("composite")
@remembered
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input`` read at ``indices`` along a dimension, both broadcast; flattened without one.

    Raises:
        RuntimeError: the positions are not int64.
    """
    check_apart(out, input, indices)
    if indices.dtype is not int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype!r}")
    if dim is None:
        return into(gather(input.reshape(-1), 0, indices.reshape(-1)), out, True)
    if indices.ndim != input.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    axis = existing_dimension(dim, input.ndim)
    shape = broadcast_shapes(
        tuple(1 if each == axis else size for each, size in enumerate(input._layout.shape)),
        tuple(1 if each == axis else size for each, size in enumerate(indices._layout.shape)),
    )
    size = input.shape[axis]
    report = check_positions("take_along_dim", indices, size, axis, wraps=True, by_reader=input.numel() > 0)
    source = input.expand(tuple(input.shape[axis] if each == axis else size for each, size in enumerate(shape)))
    chosen = indices.expand(tuple(indices.shape[axis] if each == axis else size for each, size in enumerate(shape)))
    if input.dtype.is_complex:
        # gather refuses positions that count from the end.
        return into(gather(source, axis, chosen.where(chosen >= 0, chosen + size)), out, True)
    return into(gather_known(source, axis, chosen, report, wraps=True), out, True)


@operation("composite")
@remembered
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The positions of a dimension that a 1-d index lists."""
    axis = wrap_dimension(dim, input.ndim)
    check_apart(out, input, index)
    _check_index("index_select", index)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if input.ndim == 0:
        if index.numel() != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)")
        row = input.reshape(1)
        report = check_selected("index_select", row, 0, index)
        picked = take_positions(row, 0, index.reshape(-1), "IndexSelectBackward0", report=report)
        return into(no_view(picked.reshape(())), out, True)
    report = check_selected("index_select", input, axis, index)
    return into(take_positions(input, axis, index.reshape(-1), "IndexSelectBackward0", report=report), out, True)


@kernel_cache
def positions_kernel(
    source: Layout,
    numel: int,
    kind: dtype,
    index: Layout,
    index_numel: int,
    index_kind: dtype,
    dim: int,
    target: Layout,
    wraps: bool | None,
) -> Pointwise:
    """Return the kernel reading slices of ``source`` at the positions an n-d ``index`` lists along ``dim``.

    Where ``wraps`` is a boolean, it reports those outside.
    """
    strides = (0,) * dim + index.strides + (0,) * (source.ndim - dim - 1)
    given = ir.load(1, index.offset, strides, index_kind)
    position = wrapped_position(given, source.shape[dim])
    before = [ir.coordinate(each) for each in range(dim)]
    after = [ir.coordinate(dim + index.ndim + each) for each in range(source.ndim - dim - 1)]
    value = ir.load_at(0, element_index(source, [*before, position, *after]), kind)
    value = reporting(value, given, position, source.shape[dim], wraps)
    return Pointwise(
        (Operand(kind, numel), Operand(index_kind, index_numel)), (Output(kind, target.numel, None),),
        () if wraps is None else (int32,), "index_select", target.shape, (Store(0, 0, target.strides, value),),
    )  # fmt: skip


@with_type_rule("take_positions")
def take_positions(
    input: Tensor, dim: int, index: Tensor, title: str, strides: tuple[int, ...] | None = None,
    report: Report | None = None,
) -> Tensor:  # fmt: skip
    """Return slices of ``input`` along ``dim`` at every position of an n-d index, whose dimensions replace ``dim``.

    ``strides``: those of the result, row-major by default; ``report``: what the kernel itself looks at.
    """
    source = input._layout.shape
    shape = (*source[:dim], *index._layout.shape, *source[dim + 1 :])
    target = contiguous_layout(shape) if strides is None else layout(shape, strides)
    kernel = positions_kernel(
        input._layout,
        input._storage.value.numel,
        input.dtype,
        index._layout,
        index._storage.value.numel,
        index.dtype,
        dim,
        target,
        report and report.wraps,
    )
    result = record(kernel, (input, index), () if report is None else (report.code,), (target,))
    if needs_gradient(input):
        shape, saved, dims = input._layout.shape, index._save(), index.ndim

        def run_backward(grad: Tensor) -> tuple[Tensor | None, ...]:
            if not grad.numel():
                # Nothing was read: positions may be outside.
                return grad.new_zeros(shape), None
            rows = grad.flatten(dim, dim + dims - 1) if dims else grad.unsqueeze(dim)
            return write_slices(grad.new_zeros(shape), dim, saved.unpack().reshape(-1), rows, "sum", "index_put"), None

        attach(result, title, (input, index), run_backward)
    return result


# Scatter


@kernel_cache
def _known(kernel: Scatter) -> Scatter:
    """Return the first kernel equal to this one: plans are found by the kernels' identity."""
    return kernel


def scatter_elements(
    input: Tensor,
    lanes: tuple[int, ...],
    entries: tuple[int, ...],
    index: Any,
    value: Any,
    kind: str | None,
    operands: tuple[Tensor, ...],
    name: str,
    report: Report | None = None,
) -> Tensor:
    """Record a scatter of values, numbered by coordinates of the shapes ``lanes`` and ``entries``, into a contiguous copy of
    ``input``; operand 0 is the base; ``report``: what the index reports."""
    total_type = compute_dtype(input.dtype)
    if kind in ("sum", "product") and total_type is not input.dtype and input.dtype.category == 2:
        # Sums of 16-bit floats are rounded once, at the end.
        base = input.detach().to(total_type)
        total = scatter_elements(base, lanes, entries, index, ir.cast(value, total_type), kind, operands, name, report)
        return total.to(input.dtype)
    base = input.contiguous()
    if not (base._layout.offset == 0 and base._storage.value.numel == base.numel()):
        base = base.clone()
    if 0 in lanes or 0 in entries:
        return base.clone()
    described = (
        Operand(base.dtype, base.numel()),
        *(Operand(each.dtype, each._storage.value.numel) for each in operands),
    )
    combined = None if kind is None else monoid(kind, total_type)
    output, types = Output(base.dtype, base.numel(), 0), () if report is None else (int32,)
    kernel = _known(Scatter(described, (output,), types, name, lanes, entries, index, value, combined))
    return record(kernel, (base, *operands), () if report is None else (report.code,), (base._layout.shape,))


REDUCE = {
    "sum": "sum", "add": "sum", "prod": "product", "multiply": "product", "amax": "maximum", "amin": "minimum",
}  # fmt: skip


def scatter_along(input: Tensor, dim: int, index: Tensor, source: Tensor, kind: str | None, name: str) -> Tensor:
    axis = wrap_dimension(dim, input.ndim)
    if index.numel():
        _check_index(name, index)
    if index.numel() == 0:
        return input.clone(memory_format=contiguous_format)
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if not input.ndim or not index.ndim:
        # What has no dimensions counts as a row of one element.
        flat = scatter_along(input.reshape(-1), 0, index.reshape(-1), source, kind, name)
        return no_view(flat.reshape(input._layout.shape))
    shape = index._layout.shape
    short = 0 < source.ndim < index.ndim
    source = source if source.ndim else source.reshape(1)
    if source.ndim != index.ndim:
        error = IndexError if short else RuntimeError
        raise error("Index tensor must have the same number of dimensions as src tensor")
    for each in range(input.ndim):
        if (each != axis and shape[each] > input.shape[each]) or shape[each] > source.shape[each]:
            raise RuntimeError(
                f"Expected index {list(shape)} to be no larger than self {list(input.shape)} apart from dimension {axis} and to "
                f"be no larger size than src {list(source.shape)}"
            )
    report = check_positions(name, index, input.shape[axis], axis, by_reader=input.numel() > 0)
    source = source if source.dtype is input.dtype else source.to(input.dtype)
    order = [each for each in range(input.ndim) if each != axis] + [axis]
    lanes = tuple(shape[each] for each in order[:-1])
    index_strides = tuple(index._layout.strides[each] for each in order)
    source_strides = tuple(source._layout.strides[each] for each in order)
    given = ir.load(1, index._layout.offset, index_strides, index.dtype)
    position = wrapped_position(given, input.shape[axis])
    target = contiguous_layout(input._layout.shape)
    coordinates: list[Any] = [None] * input.ndim
    for number, each in enumerate(order[:-1]):
        coordinates[each] = ir.coordinate(number)
    coordinates[axis] = position
    value = ir.load(2, source._layout.offset, source_strides, source.dtype)
    place = reporting(element_index(target, coordinates), given, position, input.shape[axis], report and report.wraps)
    return scatter_elements(input, lanes, (shape[axis],), place, value, kind, (index, source), name, report)


@operation("scatter")
@remembered
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input`` with ``src`` added at ``index`` along a dimension."""
    wrap_dimension(dim, input.ndim)
    check_apart(out, index, src)
    if src.dtype is not input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    result = scatter_along(input, dim, index, src.detach(), "sum", "scatter_add")
    return into(attach_scatter(result, input, dim, index, src, "sum", "ScatterAddBackward0"), out, True, (input,))


def attach_scatter(
    result: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, kind: str | None, title: str
) -> Tensor:
    """Give a scatter that sets or adds its gradient."""
    if not needs_gradient(input, src):
        return result
    saved, shape = index._save(), src._layout.shape

    def run_backward(grad: Tensor) -> tuple[Tensor | None, ...]:
        chosen = saved.unpack()
        kept = grad if kind == "sum" else scatter(grad, dim, chosen, 0)
        part = gather(grad, dim, chosen)
        if part._layout.shape != shape:
            part = place_inside(part, (0,) * len(shape), shape)
        return kept, None, part

    return attach(result, title, (input, index, src), run_backward)


@operation("scatter")
@remembered
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` with ``src`` (a tensor or number) written at ``index`` along a dimension."""
    source = value if src is None else src
    check_apart(out, index, source)
    wrap_dimension(dim, input.ndim)
    if isinstance(source, Tensor) and source.dtype is not input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if reduce is not None and isinstance(source, Tensor):
        warn_once(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch release. "
            "Use torch.scatter_reduce instead for more reduction options."
        )
    if source is None:
        raise TypeError("scatter() received neither a source nor a value")
    if not isinstance(source, Tensor):
        source = number_of(input, source).expand(index._layout.shape)
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r:.80}")
    kind = None if reduce is None else REDUCE[reduce]
    result = scatter_along(input, dim, index, source.detach(), kind, "scatter")
    return into(attach_scatter(result, input, dim, index, source, kind, "ScatterBackward0"), out, True, (input,))


@operation("scatter")
@remembered
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """``input`` with slices of ``source`` added at the positions a 1-d index lists."""
    check_apart(out, index, source)
    check_number(alpha, input.dtype)
    scaled = source if alpha == 1 else (source * alpha).to(source.dtype)
    return into(_index_write(input, dim, index, scaled, "sum", "index_add"), out, True, (input,))


@operation("scatter")
@remembered
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input`` with slices of ``source`` written at the positions a 1-d index lists."""
    return into(_index_write(input, dim, index, source, None, "index_copy"), out, True, (input,))


@operation("scatter", title=by_value("IndexFill", 3))
@remembered
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """``input`` with one number written at the positions a 1-d index lists.

    Raises:
        RuntimeError: a value of more than zero dimensions.
    """
    if index.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    wrap_dimension(dim, input.ndim)
    if index.ndim > 1:
        raise RuntimeError(f"index_fill_(): Index has to be a vector/scalar, got {index.ndim} dimensions")
    if not input.numel():
        return input.clone()
    if input.ndim == 0:
        return no_view(index_fill(input.reshape(1), 0, index.reshape(-1), value).reshape(()))
    axis = wrap_dimension(dim, input.ndim)
    marks = input.detach().new_zeros(input.shape[axis], dtype=int32)
    # Once per position, however often the index lists it: the value's gradient counts it once.
    marked = _index_write(marks, 0, index, marks.new_ones(index.numel()), None, "index_fill") > 0
    shape = tuple(-1 if each == axis else 1 for each in range(input.ndim))
    filled = value.to(input.dtype) if isinstance(value, Tensor) else number_of(input, value)
    return where(marked.reshape(shape), filled, input)


def _index_write(input: Tensor, dim: int, index: Tensor, source: Tensor, kind: str | None, name: str) -> Tensor:
    axis = wrap_dimension(dim, input.ndim)
    check_source(name, input, axis, index, source)
    if input.ndim == 0:
        flat = _index_write(input.reshape(1), 0, index.reshape(-1), source.reshape(-1), kind, name)
        return no_view(flat.reshape(()))
    index = index.reshape(-1)
    report = check_written(name, input, axis, index)
    shape = tuple(index.numel() if each == axis else size for each, size in enumerate(input._layout.shape))
    return write_slices(input, axis, index, source.reshape(shape), kind, name, report)


@with_type_rule("write_slices")
@remembered
def write_slices(
    input: Tensor, axis: int, index: Tensor, source: Tensor, kind: str | None, name: str, report: Report | None = None
) -> Tensor:
    """Return ``input`` [..., M, ...] with the slices of ``source`` [..., N, ...] written, or combined, where ``index`` [N] says.

    ``report``: what the kernel itself looks at.
    """
    result = _write_positions(input, axis, index, source.detach(), kind, name, report)
    if needs_gradient(input, source):
        saved = index._save()

        def run_backward(grad: Tensor) -> tuple[Tensor | None, ...]:
            chosen = saved.unpack()
            kept = grad if kind == "sum" else index_fill(grad, axis, chosen.to(int64), 0)
            return kept, None, take_positions(grad, axis, chosen, "IndexSelectBackward0")

        title = "".join(part.capitalize() for part in name.split("_")) + "Backward0"
        attach(result, title, (input, index, source), run_backward)
    return result


def _write_positions(
    input: Tensor, axis: int, index: Tensor, source: Tensor, kind: str | None, name: str, report: Report | None
) -> Tensor:
    order = [each for each in range(input.ndim) if each != axis] + [axis]
    lanes = tuple(input._layout.shape[each] for each in order[:-1])
    given = ir.load(1, index._layout.offset, (0,) * (input.ndim - 1) + index._layout.strides, index.dtype)
    position = wrapped_position(given, input.shape[axis])
    coordinates: list[Any] = [None] * input.ndim
    for number, each in enumerate(order[:-1]):
        coordinates[each] = ir.coordinate(number)
    coordinates[axis] = position
    value = ir.load(2, source._layout.offset, tuple(source._layout.strides[each] for each in order), source.dtype)
    target = contiguous_layout(input._layout.shape)
    place = reporting(element_index(target, coordinates), given, position, input.shape[axis], report and report.wraps)
    return scatter_elements(input, lanes, (index.numel(),), place, value, kind, (index, source), name, report)
