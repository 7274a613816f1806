"""Making nested tensors: of lists, of values and offsets, of parts of a dense tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor, dtype
from webgpu_torch_core import layout as Layout

from .layouts import jagged

if TYPE_CHECKING:
    from .strided import StridedNestedTensor
    from .tensor import NestedTensor

Value: TypeAlias = Any


def _is_jagged(layout: Layout | None) -> bool:
    """Return whether a layout is the one with one ragged size; the other lets components differ in all of them.

    Raises:
        RuntimeError: a layout that nested tensors do not have.
    """
    if layout is not None and layout is not torch.strided and layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout is jagged


def made(values: Tensor, offsets: Tensor, lengths: Tensor | None = None, ragged: int = 1) -> NestedTensor:
    """Return the nested tensor of values, in which dimension ``ragged`` is cut at offsets."""
    # The class: from now on calls look for it.
    from .tensor import NestedTensor, Structure

    return NestedTensor._made(values, _structure=Structure.of(offsets, lengths), _ragged=ragged)


def _offsets_of(sizes: Sequence[int], place: Value) -> Tensor:
    ends = [0]
    for each in sizes:
        ends.append(ends[-1] + each)
    return torch.tensor(ends, dtype=torch.int64, device=place)


def _joined(parts: list[Tensor], kind: dtype | None, place: Value) -> NestedTensor:
    """Return the nested tensor of components, with their gradients.

    Raises:
        RuntimeError: no components, numbers, or components that differ in more than one size.
    """
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if any(each.dim() == 0 for each in parts):
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    if len({each.dim() for each in parts}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dim")
    if len({each.dtype for each in parts}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dtype")
    if len({each.device for each in parts}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must be on the same device")
    differing = [dim for dim in range(parts[0].dim()) if len({each.shape[dim] for each in parts}) > 1]
    if len(differing) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only allows "
            f"for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim. Got {len(differing)} ragged dims"
        )
    dim = differing[0] if differing else 0
    parts = [each.to(device=place, dtype=kind or each.dtype) for each in parts]
    offsets = _offsets_of([each.shape[dim] for each in parts], parts[0].device)
    return made(torch.cat(parts, dim), offsets, None, dim + 1)


def _beside(parts: list[Tensor], kind: dtype | None, place: Value) -> StridedNestedTensor:
    """Return the nested tensor of the strided layout of components, with their gradients.

    Raises:
        RuntimeError: components that differ in their number of dimensions.
    """
    # The class: from now on calls look for it.
    from .strided import StridedNestedTensor

    for number, each in enumerate(parts):
        if each.dim() != parts[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. "
                f"Found dimension {each.dim()} for Tensor at index {number} and dimension {parts[0].dim()} for Tensor at index 0."
            )
    kind = kind or (parts[0].dtype if parts else None)
    moved = [each.to(device=place, dtype=kind) for each in parts]
    return StridedNestedTensor.of(moved, torch.empty(0, dtype=kind, device=place))


def nested_tensor(
    tensor_list: Sequence[Value], *, dtype: dtype | None = None, layout: Layout | None = None, device: Value = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> NestedTensor | StridedNestedTensor:  # fmt: skip
    """Return a leaf that holds copies of tensors, or of nested sequences, which differ in sizes.

    Args:
        tensor_list: the components, all of as many dimensions.
        dtype, device: of the result; by default the first component's.
        layout: ``torch.jagged``, in which components differ in one size, or ``torch.strided``, in which they may in all.
        requires_grad: whether gradients are recorded.

    Raises:
        RuntimeError: tensors of different numbers of dimensions; in the layout ``torch.jagged`` also no tensors, numbers, or
            tensors that differ in more than one size, in type or device.
    """
    parts = [torch.as_tensor(each, dtype=dtype) for each in tensor_list]
    place = device if device is not None else parts[0].device if parts else None
    result = (_joined if _is_jagged(layout) else _beside)([each.detach() for each in parts], dtype, place)
    return result.requires_grad_() if requires_grad else result


def as_nested_tensor(
    ts: Value, dtype: dtype | None = None, device: Value = None, layout: Layout | None = None
) -> NestedTensor | StridedNestedTensor:
    """Return a nested tensor of tensors, which gradients flow back to, or of the rows of one tensor.

    Args:
        ts: the components, all of as many dimensions.
        dtype, device: of the result; by default the first component's.
        layout: ``torch.jagged``, in which components differ in one size, or ``torch.strided``, in which they may in all.

    Raises:
        RuntimeError: tensors of different numbers of dimensions, or a nested tensor of another layout; in the layout
            ``torch.jagged`` also no tensors, numbers, or tensors that differ in more than one size, in type or device.
    """
    if getattr(ts, "is_nested", False):
        if layout is not None and layout is not ts.layout:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(dtype=dtype or ts.dtype, device=ts.device if device is None else device)
    joined = _joined if _is_jagged(layout) else _beside
    if joined is _joined and isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
        ts = ts.to(dtype=dtype or ts.dtype, device=ts.device if device is None else device)
        return made(ts.flatten(0, 1), _offsets_of([ts.shape[1]] * ts.shape[0], ts.device))
    parts = [each if isinstance(each, Tensor) else torch.as_tensor(each, dtype=dtype) for each in ts]
    return joined(parts, dtype, device if device is not None else parts[0].device if parts else None)


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None, jagged_dim: int | None = None,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> NestedTensor:  # fmt: skip
    """Return a view of values as a nested tensor: component ``i`` begins at ``offsets[i]`` of the ragged dimension.

    It ends where the next begins, or after ``lengths[i]`` elements.

    Args:
        values: the components, one after another.
        offsets: where they begin, and the end of the last: [components + 1].
        lengths: their lengths, [components]; one of both is needed.
        jagged_dim: the ragged dimension of the result, 1 by default.

    Raises:
        RuntimeError: neither offsets nor lengths.
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        lengths = None
    return made(values.view(values.shape), offsets, lengths, 1 if jagged_dim is None else jagged_dim)


def narrow(
    tensor: Tensor, dim: int, start: Value, length: Value, layout: Layout = torch.strided
) -> NestedTensor | StridedNestedTensor:
    """Return the rows of a dense tensor from ``start`` on, ``length`` elements of each: a view in the layout ``torch.jagged``.

    Args:
        tensor: rows, [rows, elements, ...].
        dim: the dimension that is narrowed: 1.
        start, length: one for each row, or one number for all.

    Raises:
        RuntimeError: another dimension.
    """
    if not _is_jagged(layout):
        starts, lengths = (
            each.tolist() if isinstance(each, Tensor) else [each] * tensor.shape[0] for each in (start, length)
        )
        parts = [row.narrow(dim - 1, *each) for row, *each in zip(tensor.unbind(), starts, lengths, strict=True)]
        return _beside(parts, tensor.dtype, tensor.device)
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    rows, size = tensor.shape[0], tensor.shape[1]

    def each_row(value: Value) -> Tensor:
        given = value if isinstance(value, Tensor) else torch.full((rows,), value, dtype=torch.int64)
        return given.to(tensor.device, torch.int64).expand(rows)

    starts = each_row(start) + torch.arange(rows, device=tensor.device) * size
    lengths = each_row(length)
    # The last offset only ends the list: where components end is said by their lengths.
    offsets = torch.cat([starts, starts[-1:] + lengths[-1:]])
    return made(tensor.flatten(0, 1), offsets, lengths)


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """Return the elements of each row of a matrix at which a mask is true, as a nested tensor.

    Raises:
        RuntimeError: ``tensor`` is no matrix.
    """
    if tensor.layout is not torch.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}")
    mask = mask.expand(tensor.shape)
    if tensor.dim() != 2:
        raise RuntimeError("masked_select() takes a matrix")
    lengths = mask.sum(-1)
    return made(tensor.masked_select(mask), torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]))


def to_padded_tensor(
    input: NestedTensor | StridedNestedTensor,
    padding: float,
    output_size: Sequence[int] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return a dense tensor in which shorter components are filled up with ``padding``: to the longest one, or to a size."""
    result = input.to_padded_tensor(padding, output_size)
    return result if out is None else out.copy_(result)


def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Return whether the rows [n, l, ...] that count by a mask [n, l] are the first ones of each element of a batch."""
    if t.shape[:2] != mask.shape:
        raise RuntimeError(f"expected a mask of shape {tuple(t.shape[:2])}, not {tuple(mask.shape)}")
    mask = mask.bool()
    return not bool((mask[:, 1:] & ~mask[:, :-1]).any())


def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> StridedNestedTensor:
    """Return the first rows of each element of a batch [n, l, e], as many as count by a mask [n, l].

    Raises:
        RuntimeError: rows that count after some that do not.
    """
    if mask_check and not _nested_tensor_from_mask_left_aligned(t, mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    parts = [row[:count] for row, count in zip(t.unbind(), mask.bool().sum(-1).tolist(), strict=True)]
    return _beside(parts, t.dtype, t.device)
