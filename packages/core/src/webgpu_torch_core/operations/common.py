"""What the op families share: recording a kernel as a tensor, attaching a gradient, reading arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, SupportsIndex

from ..dispatch.argument_types import is_whole
from ..ir.dtypes import bfloat16, complex64, dtype, float16, float32, float64
from ..ir.layouts import (
    Layout,
    broadcast_strides,
    channels_last_strides,
    contiguous_layout,
    dense_strides,
    is_dense,
    layout,
    same_places,
    wrap_dimension,
)
from ..record.devices import MetaEngine, on_host
from ..record.grad_mode import recording
from ..record.node import Node
from ..tensors.kinds import layout as memory_layout
from ..tensors.kinds import strided
from ..tensors.memory_formats import as_image, contiguous_format, memory_format, suggested_format
from ..tensors.storage import require_differentiable
from ..tensors.tensor import MetaValue, Tensor, check_supported, new_storage, new_tensor

kernel_cache = lru_cache(maxsize=4096)
#: what a function is given one by one, or together
Values = tuple[Any, ...]
#: the largest number of elements or bytes that there can be
LARGEST_SIZE = 2**63 - 1


def record(kernel: Any, inputs: Sequence[Tensor], parameters: Sequence[Any] = (), shapes: Sequence[Any] = ()) -> Any:
    """Record a kernel over tensors and return its outputs as tensors: contiguous of given shapes, or of given layouts.

    Returns one tensor for one output, else a tuple.
    """
    first = inputs[0]
    engine = first._storage.value.engine
    layouts = [each if each.__class__ is Layout else contiguous_layout(tuple(each)) for each in shapes]
    return record_on(engine, first.device, kernel, [each._storage.value for each in inputs], parameters, layouts)


def record_on(
    engine: Any, place: Any, kernel: Any, values: Sequence[Any], parameters: Sequence[Any], layouts: Sequence[Layout]
) -> Any:
    """Record a kernel over values and return its outputs as tensors with the given layouts."""
    for each in (*kernel.operands, *kernel.outputs):
        kind = each.dtype
        if kind.stored is not kind:
            raise NotImplementedError(f"\"{kernel.name}\" not implemented for '{kind.title}'")
    for each in values:
        if each.engine is not engine:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {_title(engine)} and "
                f"{_title(each.engine)}!"
            )
    outputs = kernel.outputs
    if isinstance(engine, MetaEngine):
        results: Any = [MetaValue(engine, each.dtype, each.numel) for each in outputs]
    else:
        for output in outputs:
            if output.dtype not in engine.device.dtypes:
                check_supported(engine, output.dtype)
        results = engine.record(kernel, values, parameters)
    if len(outputs) == 1:
        return new_tensor(new_storage(results[0]), layouts[0], outputs[0].dtype, place)
    return tuple([
        new_tensor(new_storage(value), layout, output.dtype, place)
        for value, layout, output in zip(results, layouts, outputs, strict=True)
    ])  # fmt: skip


def _title(engine: Any) -> str:
    return engine.name if isinstance(engine, MetaEngine) else engine.device.name


def needs_gradient(*tensors: Any) -> bool:
    """Return whether an operation on these must record a gradient."""
    if recording.enabled:
        for each in tensors:
            if isinstance(each, Tensor) and each.requires_grad:
                return True
    return False


def attach(
    result: Any,
    title: str,
    inputs: Sequence[Any],
    backward: Callable[..., Any],
    differentiable: Sequence[int] | None = None,
) -> Any:
    """Give results (one tensor or a tuple) a node whose ``backward`` returns one gradient per input.

    ``differentiable`` lists the outputs that have a gradient (all floating-point ones by default).
    """
    if not needs_gradient(*inputs):
        return result
    edges = tuple([each._gradient_edge() if isinstance(each, Tensor) else None for each in inputs])
    outputs = result if isinstance(result, tuple) else (result,)
    node = Node(title, edges, backward, len(outputs))
    for number, each in enumerate(outputs):
        # A result is no view of what it was made through: writing into it starts from this node.
        each._base = None
        if each.dtype.category >= 2 and (differentiable is None or number in differentiable):
            each._set_gradient(node, number)
    return result


def no_view(result: Any) -> Any:
    """Return a result that was made by way of a view of something nobody else sees: it is a tensor of its own."""
    result._base = None
    return result


def as_dimensions(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return reduced dimensions, non-negative and sorted; None or an empty tuple means all.

    Raises:
        RuntimeError: a dimension appears twice, or there are more than 64.
        IndexError: one is out of range.
    """
    if ndim > 64:
        raise RuntimeError("only tensors with up to 64 dims are supported")
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return tuple(range(ndim))
    given = dim if isinstance(dim, tuple | list) else (dim,)
    chosen = [wrap_dimension(as_dimension(each, not place), ndim) for place, each in enumerate(given)]
    if len(set(chosen)) != len(chosen):
        repeated = next(each for each in chosen if chosen.count(each) > 1)
        raise RuntimeError(f"dim {repeated} appears multiple times in the list of dims")
    return tuple(sorted(chosen)) if ndim else ()


def as_dimension(dim: SupportsIndex, first: bool = True) -> int:
    """Return a dimension as an integer; after the ``first`` of several, truth values are some.

    Raises:
        TypeError: it is none.
    """
    if dim.__class__ is int or is_whole(dim, first):
        return int(dim)
    raise TypeError(f"argument 'dim' must be tuple of ints, not {type(dim).__name__}: {dim!r:.80}")


def as_leaf(result: Tensor, requires_grad: bool) -> Tensor:
    """Return a tensor that was made, of any shape, as a leaf whose gradient is wanted where that is asked for.

    Raises:
        RuntimeError: its type has no gradient.
    """
    if requires_grad:
        require_differentiable(result.dtype, True, "Only Tensors of floating point and complex dtype")
        result.requires_grad_()
    return result


def dtype_title(kind: dtype) -> str:
    """Return what PyTorch's errors call an element type."""
    return kind.title


def type_title(tensor: Tensor) -> str:
    """Return what PyTorch's errors call the element type of a tensor."""
    return dtype_title(tensor.dtype)


#: types whose tensors had a class of their own in PyTorch's early days
_CLASSES = ("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double")


def kind_title(tensor: Tensor) -> str:
    """Return what PyTorch's errors call the kind of a tensor: ``torch.FloatTensor``, ``CPUBoolType``."""
    title, device = type_title(tensor), tensor.device.type
    if title not in _CLASSES:
        return f"{device.upper()}{title}Type"
    return f"torch.{'' if device == 'cpu' else device + '.'}{title}Tensor"


def refuse_fewer_sizes(tensor: Tensor, sizes: Sequence[int]) -> None:
    """Refuse to expand a tensor to fewer dimensions than it has.

    Raises:
        RuntimeError: they are fewer.
    """
    if len(sizes) < tensor.ndim:
        shown = f"{kind_title(tensor)}{{{list(tensor.shape)}}}, size={list(sizes)}"
        raise RuntimeError(
            f"expand({shown}): the number of sizes provided ({len(sizes)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({tensor.ndim})"
        )


def refuse_types(kernel: str, input: Tensor, *categories: int) -> None:
    """Refuse element types of some categories (0 bool, 1 integral, 3 complex) in the words of a kernel of PyTorch's.

    Raises:
        NotImplementedError: the tensor is of such a type.
    """
    if input.dtype.category in categories:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_title(input)}'")


def refuse_halves(kernel: str, input: Tensor) -> None:
    """Refuse floats of 16 bits in the words of a kernel of PyTorch's.

    Raises:
        NotImplementedError: the tensor is of such.
    """
    if is_half(input):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_title(input)}'")


def require_same_types(first: Tensor, *others: Tensor | None) -> None:
    """Refuse operands of other element types than the first one's.

    Raises:
        RuntimeError: there are any.
    """
    for each in others:
        if each is not None and each.dtype is not first.dtype:
            raise RuntimeError(f"expected scalar type {type_title(first)} but found {type_title(each)}")


def require_parameter_types(input: Tensor, *parameters: Tensor | None) -> None:
    """Refuse parameters of a normalisation that are neither of the input's type nor of float32 beside 16-bit numbers.

    Raises:
        RuntimeError: they are of another, or of several types.
    """
    given = [each for each in parameters if each is not None]
    if not given:
        return
    if given[0].dtype is not input.dtype:
        if given[0].dtype is not float32:
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if input.dtype not in (float16, bfloat16):
            raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    require_same_types(*given)


def require_castable(found: dtype, wanted: dtype) -> None:
    """Refuse results that PyTorch does not store in elements of a type.

    Raises:
        RuntimeError: complex numbers among real ones, floating-point ones among integers, numbers among truth values.
    """
    if found.category > wanted.category:
        raise RuntimeError(f"result type {found.title} can't be cast to the desired output type {wanted.title}")


def attach_zeros(result: Tensor, title: str, ignored: Sequence[Tensor]) -> Tensor:
    """Return a result that inputs of any shapes took part in without a word in its values: their gradients are zeros, not missing."""
    ignored = [each for each in ignored if needs_gradient(each)]
    if not ignored:
        return result
    shapes = [each.shape for each in ignored]
    same = Tensor._from_storage(result._storage, result._layout, result.dtype, result.device)
    return attach(same, title, (result, *ignored), lambda grad: (grad, *(grad.new_zeros(shape) for shape in shapes)))


_INTEGERS = frozenset((int,))


def sizes_from(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Return sizes given as separate integers (0-d tensors among them), one tuple, or one Size.

    Raises:
        TypeError: there are none, or one of them is no integer.
    """
    if not sizes:
        raise TypeError("missing 1 required positional arguments: the sizes")
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = sizes[0]
    if _INTEGERS.issuperset(map(type, sizes)):
        found = tuple(sizes)
        if not found or (-LARGEST_SIZE <= min(found) and max(found) <= LARGEST_SIZE):
            return found
    for position, each in enumerate(sizes, 1):
        if each.__class__ is not int and not is_whole(each, position == 1):
            raise TypeError(
                f"argument 'size' (position {position}) must be tuple of ints, not {type(each).__name__}: {each!r:.80}"
            )
    found = tuple(map(int, sizes))
    if any(abs(each) > LARGEST_SIZE for each in found):
        raise TypeError(f"argument 'size' must be tuple of 64-bit ints, got {max(found, key=abs)}")
    return found


def one_or_named(function: str, values: Values, named: dict[str, object], name: str) -> Values:
    """Return sizes or dimensions that are given one by one, together, or together by name.

    Raises:
        TypeError: they are given in two ways, or something has another name.
    """
    if not named:
        return values
    for each in named:
        if each != name:
            raise TypeError(f"{function}() got an unexpected keyword argument '{each}'")
    if values:
        raise TypeError(f"{function}() got multiple values for argument '{name}'")
    return (named[name],)


def one_tuple_of_sizes(function: str, size: object, position: int) -> tuple[int, ...]:
    """Return sizes that have to be given as one tuple.

    Raises:
        TypeError: they are anything else.
    """
    if is_whole(size):
        raise TypeError(f"{function}(): argument 'size' (position {position}) must be tuple of ints, not int")
    return sizes_from((size,))


def result_layout(operands: tuple[object, ...], shape: tuple[int, ...], numbers_apart: bool = False) -> Layout:
    """Return the layout of a result: dimensions in the order that they have in the operands, without gaps.

    A number counts as a tensor without dimensions, unless ``numbers_apart``; dimensions of one element tell that.
    """
    found = [each._layout for each in operands if isinstance(each, Tensor)]
    alone = numbers_apart or len(found) == len(operands)
    if alone and all(each.shape == shape for each in found):
        if all(each.is_contiguous for each in found):
            return contiguous_layout(shape)
        if len(shape) == 4:
            last = layout(shape, channels_last_strides(shape))
            if all(same_places(each, last) for each in found):
                return last
        if is_dense(found[0]) and all(each.strides == found[0].strides for each in found):
            return layout(shape, found[0].strides)
    return layout(shape, dense_strides(shape, *(broadcast_strides(each, shape) for each in found)))


def laid_out(result: Tensor, wanted: Layout) -> Tensor:
    """Return equal or undefined elements in another dense order in memory."""
    if wanted.strides == result._layout.strides:
        return result
    return Tensor._from_storage(result._storage, wanted, result.dtype, result.device)


def image_order(*sources: Tensor, rows: bool = False) -> memory_format:
    """Return the order in memory of images or volumes ``[n, c, sizes…]`` that are computed from others: channels last if one has them so.

    ``rows``: lines ``[n, c, length]`` are looked at, too, as images of one row, which they are to windows that slide over them.
    """
    for each in sources:
        found = as_image(each._layout) if rows and each.ndim == 3 else each._layout
        if (order := suggested_format(found)) is not contiguous_format:
            return order
    return contiguous_format


def in_order(result: Tensor, order: memory_format) -> Tensor:
    """Return equal elements in a named order in memory, with the strides that it gives dimensions of one element, too."""
    shape = result._layout.shape
    strides = contiguous_layout(shape).strides if order is contiguous_format else channels_last_strides(shape)
    if strides == result._layout.strides:
        return result
    wanted = layout(shape, strides)
    if not same_places(result._layout, wanted) and result._layout.numel:
        if len(shape) == 3:
            return result.unsqueeze(2).contiguous(memory_format=order).squeeze(2)
        return result.contiguous(memory_format=order)
    shown = layout(shape, strides, result._layout.offset)
    same = Tensor._from_storage(result._storage, shown, result.dtype, result.device)
    return attach(same, "CloneBackward0", (result,), lambda grad: grad)


def ordered_as(result: Tensor, *sources: Tensor, rows: bool = False) -> Tensor:
    """Return images or volumes ``[n, c, sizes…]`` with channels last in memory if those that they were computed from have them so."""
    order = image_order(*sources, rows=rows)
    return result if order is contiguous_format else in_order(result, order)


def with_ordered_gradient(input: Tensor, *sources: Tensor, rows: bool = False) -> Tensor:
    """Return images ``[n, c, sizes…]`` whose gradient comes back with channels last in memory if they, or the sources given, have them so."""
    order = image_order(*(sources or (input,)), rows=rows)
    return input if order is contiguous_format else with_gradient_in(input, order)


def with_gradient_in(input: Tensor, order: memory_format) -> Tensor:
    """Return a tensor of equal elements whose gradient comes back in a named order in memory."""
    if not needs_gradient(input):
        return input
    same = Tensor._from_storage(input._storage, input._layout, input.dtype, input.device)
    return attach(same, "CloneBackward0", (input,), lambda grad: in_order(grad, order))


def row_major(input: Tensor) -> Tensor:
    """Return a tensor with the strides of row-major memory, also one without elements, which ``contiguous`` takes as it is."""
    return input.contiguous() if input._layout.numel else in_order(input, contiguous_format)


def reduced_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    """Return a shape with dimensions reduced."""
    if keepdim:
        return tuple(1 if index in dims else size for index, size in enumerate(shape))
    return tuple(size for index, size in enumerate(shape) if index not in dims)


def require_layout(given: object, *_: object) -> None:
    """Raise where an argument is no memory layout (TypeError), or another than dense (NotImplementedError)."""
    if given is None or given is strided:
        return
    if not isinstance(given, memory_layout):
        raise TypeError(f"argument 'layout' must be torch.layout, not {type(given).__name__}")
    raise NotImplementedError(
        f"layout={given} is not implemented here, only torch.strided: make the tensor dense, and convert it with to_sparse"
    )


def require_tensor(function: str, name: str, position: int, value: Any) -> None:
    """Raise PyTorch's TypeError where an argument is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type(value).__name__}"
        )


def is_half(value: Any) -> bool:
    """Return whether a value is a tensor of a 16-bit floating-point type, whose results are computed in float32 and rounded once."""
    return isinstance(value, Tensor) and value.dtype.category == 2 and value.dtype.itemsize == 2


def wide(value: Tensor) -> Tensor:
    """Return a tensor in at least float32, for what must round once."""
    return value.to(float32) if is_half(value) else value


def same_device(name: str, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands on one device: 0-d CPU tensors become numbers, as PyTorch allows.

    Raises:
        RuntimeError: tensors with dimensions are on different devices.
    """
    places = {str(each.device): each for each in operands if isinstance(each, Tensor) and each._layout.ndim}
    if len(places) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {' and '.join(sorted(places))}! "
            f"(when computing {name})"
        )
    # Not `or` between tensors: that would ask for the truth of one.
    numbers = [each for each in operands if isinstance(each, Tensor)]
    elsewhere = (each for each in numbers if not on_host(each.device))
    target = next(iter(places.values())) if places else next(elsewhere, numbers[0])
    return tuple(
        _moved(each, target) if isinstance(each, Tensor) and each.device != target.device else each for each in operands
    )


def _moved(number: Tensor, target: Tensor) -> Tensor:
    """Return a 0-d tensor on another's device.

    Beside real numbers with dimensions its own precision does not show in the result's type, so that a device without
    float64 takes it as float32.
    """
    if number.dtype.to_real() is float64 and target._layout.ndim and target.dtype.category >= 2:
        number = number.to(complex64 if number.dtype.is_complex else float32)
    return number.to(target.device)


def check_apart(target: Tensor | None, *sources: object, but_same: bool = False) -> None:
    """Raise where a tensor that is to be written lies in memory that is read for it; ``but_same``: only where in a part of it.

    As in PyTorch, tensors with gaps are not looked at.
    """
    for each in sources:
        if (
            target is not None
            and isinstance(each, Tensor)
            and each._storage.number == target._storage.number
            and _lies_across(each, target, but_same)
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )


def _lies_across(source: Tensor, target: Tensor, but_same: bool) -> bool:
    """Return whether two tensors of one storage, both without gaps, share memory."""
    (first, start, end), (second, begin, stop) = _span(source), _span(target)
    if but_same and (start, end, first.strides) == (begin, stop, second.strides):
        return False
    return max(start, begin) < min(end, stop) and is_dense(first) and is_dense(second)


def _span(tensor: Tensor) -> tuple[Layout, int, int]:
    found, width = tensor._layout, tensor.dtype.itemsize
    return found, found.offset * width, (found.offset + found.numel) * width
