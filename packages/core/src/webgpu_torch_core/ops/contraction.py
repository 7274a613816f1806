"""Sums of products: matmul in all its forms, linear, convolution."""

from __future__ import annotations

import math
from typing import Any

from .. import expression as ir
from ..dtypes import compute_dtype, dtype, float32, int32, int64
from ..kernels import Contraction, Operand, Output, Store
from ..layouts import Layout, broadcast_shapes, contiguous_strides, number_of_elements
from ..tensor import Tensor
from .common import attach, kernel_cache, needs_gradient, record
from .joining import clamped, element_index
from .registry import operation


def _accumulator(kind: dtype) -> dtype:
    return int64 if kind is int64 else compute_dtype(kind)


@kernel_cache
def product_kernel(left: Layout, left_numel: int, right: Layout, right_numel: int, kind: dtype, result: dtype) -> Contraction:
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


def _product(left: Tensor, right: Tensor, title: str, wide: bool = False) -> Tensor:
    """Return the batched matrix product of tensors with at least two dimensions; ``wide`` keeps 16-bit ones in float32."""
    if left.dtype is not right.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {left.dtype.name} != {right.dtype.name}")
    kind = left.dtype
    kernel = product_kernel(
        left._layout, left._storage.value.numel, right._layout, right._storage.value.numel, kind, _wide_type(kind) if wide else kind
    )
    shape = (*kernel.batch, *kernel.m, *kernel.n)
    result = record(kernel, (left, right), (), (shape,))
    if needs_gradient(left, right):
        saved = left._save(), right._save()
        needs = left.requires_grad, right.requires_grad

        def run_backward(grad: Tensor) -> Any:
            a, b = saved[0].unpack(), saved[1].unpack()
            grad = grad.to(kind)
            left_part = _summed(grad, b.transpose(-1, -2), title, a._layout.shape) if needs[0] else None
            right_part = _right_gradient(a, b, grad, title) if needs[1] else None
            return left_part, right_part

        attach(result, title, (left, right), run_backward)
    return result


def _summed(left: Tensor, right: Tensor, title: str, shape: tuple[int, ...]) -> Tensor:
    """Return a product summed over the batch dimensions its gradient's operand was broadcast along, rounded once."""
    from .reduction import sum_to_size

    batch = broadcast_shapes(left._layout.shape[:-2], right._layout.shape[:-2])
    if batch == shape[:-2]:
        return _product(left, right, title)
    return sum_to_size(_product(left, right, title, wide=True), shape).to(left.dtype)


def _right_gradient(a: Tensor, b: Tensor, grad: Tensor, title: str) -> Tensor:
    if b.ndim == 2 and a.ndim > 2:
        # The batch of a shared right operand is part of the summed dimension: one large product instead of many summed.
        return _product(a.flatten(0, -2).transpose(0, 1), grad.flatten(0, -2), title)
    return _summed(a.transpose(-1, -2), grad, title, b._layout.shape)


def _shape_error(left: Tensor, right: Tensor) -> RuntimeError:
    a, b = left._layout.shape, right._layout.shape
    rows = (number_of_elements(a[:-1]), a[-1])
    columns = (b[-2], b[-1]) if len(b) > 1 else (b[0], 1)
    return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows[0]}x{rows[1]} and {columns[0]}x{columns[1]})")


@operation("contraction", aliases=("linalg_matmul",))
def matmul(input, other, *, out=None):
    """The matrix product, batched and broadcast over leading dimensions; 1-d operands are vectors.

    Raises:
        RuntimeError: the summed sizes differ.
    """
    result = _matmul(input, other)
    return result if out is None else _into(result, out)


def _matmul(input: Tensor, other: Tensor, wide: bool = False) -> Tensor:
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D")
    left = input.unsqueeze(0) if input.ndim == 1 else input
    right = other.unsqueeze(1) if other.ndim == 1 else other
    if left.shape[-1] != right.shape[-2]:
        if input.ndim == 1 and other.ndim == 1:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{input.shape[0]}] and src [{other.shape[0]}] to have the same "
                f"number of elements, but got {input.shape[0]} and {other.shape[0]} elements respectively"
            )
        raise _shape_error(left, right)
    if right.ndim == 2 and left.ndim > 2:
        # A shared right operand: fold the batch into the rows.
        folded = left.reshape((-1, left.shape[-1])) if left._layout.is_contiguous else None
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
    return result


def _into(result: Tensor, out: Tensor) -> Tensor:
    from .elementwise_call import finish_out

    return finish_out(result, out)


def _expect(name: str, value: Tensor, ndim: int, position: str) -> None:
    if value.ndim != ndim:
        raise RuntimeError(f"{name}: {position} must be {'a matrix' if ndim == 2 else f'a {ndim}D tensor'}, got {value.ndim}-D tensor")


@operation("contraction")
def mm(input, mat2, *, out=None):
    """The product of two matrices."""
    _check_mm(input, mat2)
    return matmul(input, mat2, out=out)


def _check_mm(input: Tensor, mat2: Tensor) -> None:
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"{'self' if input.ndim != 2 else 'mat2'} must be a matrix")


@operation("contraction")
def bmm(input, mat2, *, out=None):
    """The products of two equally long batches of matrices."""
    _check_bmm(input, mat2)
    return matmul(input, mat2, out=out)


def _check_bmm(input: Tensor, mat2: Tensor) -> None:
    _expect("batch1", input, 3, "batch1")
    _expect("batch2", mat2, 3, "batch2")
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] but got: "
            f"[{mat2.shape[0]}, {mat2.shape[1]}]."
        )


@operation("contraction")
def mv(input, vec, *, out=None):
    """The product of a matrix and a vector."""
    _check_mv(input, vec)
    return matmul(input, vec, out=out)


def _check_mv(input: Tensor, vec: Tensor) -> None:
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {vec.ndim}")
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({input.shape[0]}), mat ({input.shape[0]}x{input.shape[1]}), vec ({vec.shape[0]})")


@operation("contraction")
def dot(input, tensor, *, out=None):
    """The inner product of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    return matmul(input, tensor, out=out)


@operation("contraction")
def outer(input, vec2, *, out=None):
    """The outer product of two vectors."""
    result = input.unsqueeze(1) * vec2.unsqueeze(0)
    return result if out is None else _into(result, out)


@operation("contraction")
def addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat1 @ mat2)``."""
    _check_mm(mat1, mat2)
    return _added(input, mat1, mat2, beta, alpha, out)


@operation("contraction")
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (batch1 @ batch2)`` over a batch."""
    _check_bmm(batch1, batch2)
    return _added(input, batch1, batch2, beta, alpha, out)


@operation("contraction")
def addmv(input, mat, vec, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat @ vec)``."""
    _check_mv(mat, vec)
    return _added(input, mat, vec, beta, alpha, out)


def _added(input: Tensor, left: Tensor, right: Tensor, beta: Any, alpha: Any, out: Any) -> Tensor:
    # The sum rounds once, as in PyTorch's kernels: 16-bit products stay in float32 until the input is added.
    product = _matmul(left, right, wide=True)
    scaled = product if alpha == 1 else product * alpha
    # beta = 0 ignores the input even where it is NaN.
    result = scaled if beta == 0 else scaled + (input if beta == 1 else input.to(scaled.dtype) * beta)
    result = result.to(left.dtype)
    return result if out is None else _into(result, out)


@operation("contraction", namespace="functional", method=False)
def linear(input, weight, bias=None):
    """``input @ weight.T + bias``; input [..., in], weight [out, in], bias [out]."""
    if bias is None:
        return matmul(input, weight.t())
    return (_matmul(input, weight.t(), wide=True) + bias).to(input.dtype)


# Convolution as an implicit matrix product (Chellapilla et al., 2006): rows are output channels, columns are output
# positions, the summed dimension is the input patch; the patch matrix is never stored.


class Window:
    """Sizes of a convolution over any number of spatial dimensions."""

    __slots__ = ("dilation", "groups", "output", "padding", "stride")

    def __init__(self, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], groups: int, output: tuple[int, ...]):
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.output = output

    def key(self) -> tuple[Any, ...]:
        """Return a hashable form."""
        return self.stride, self.padding, self.dilation, self.groups, self.output


def _patch(source: Layout, batch: Any, channel: Any, centers: list[Any], taps: list[Any], window: Any, operand: int, kind: dtype) -> Any:
    """Return the input element under kernel tap ``taps`` at output position ``centers``, 0 in the padding."""
    stride, padding, dilation, _, _ = window
    inside: Any = None
    coordinates: list[Any] = [batch, channel]
    for axis, (center, tap) in enumerate(zip(centers, taps, strict=True)):
        size = source.shape[2 + axis]
        position = center * stride[axis] + tap * dilation[axis] - padding[axis] if padding[axis] else center * stride[axis] + tap * dilation[axis]
        if padding[axis]:
            test = ir.constant(0, int32) <= position
            test = test & (position < size)
            inside = test if inside is None else inside & test
            position = clamped(position, size)
        coordinates.append(position)
    element = ir.load_at(operand, element_index(source, coordinates), kind)
    return element if inside is None else ir.select(inside, element, ir.constant(0, kind))


@kernel_cache
def convolution_kernel(source: Layout, numel: int, weight: Layout, weight_numel: int, kind: dtype, window: Any, result: dtype) -> Contraction:
    """Return ``output[n, g, o, positions] = sum over (c, taps) of weight[g, o, c, taps] * patch[n, g, c, positions, taps]``."""
    _, _, _, groups, positions = window
    spatial = len(positions)
    images = source.shape[0]
    out_channels, in_channels = weight.shape[0] // groups, weight.shape[1]
    taps = weight.shape[2:]
    # Dimensions: batch (group), m (output channel), n (image, positions…), k (input channel, taps…).
    first_n, first_k = 2, 3 + spatial
    accumulate = _accumulator(kind)
    weight_strides = (
        weight.strides[0] * out_channels, weight.strides[0], *(0,) * (1 + spatial), weight.strides[1], *weight.strides[2:],
    )  # fmt: skip
    left = ir.load(1, weight.offset, weight_strides, kind)
    channel = ir.coordinate(0) * in_channels + ir.coordinate(first_k) if groups > 1 else ir.coordinate(first_k)
    right = _patch(
        source, ir.coordinate(first_n), channel, [ir.coordinate(first_n + 1 + axis) for axis in range(spatial)],
        [ir.coordinate(first_k + 1 + axis) for axis in range(spatial)], window, 0, kind,
    )  # fmt: skip
    shape = (images, weight.shape[0], *positions)
    dense = contiguous_strides(shape)
    store_strides = (dense[1] * out_channels, dense[1], dense[0], *dense[2:])
    store = Store(0, 0, store_strides, ir.cast(ir.accumulator(accumulate), result))
    return Contraction(
        (Operand(kind, numel), Operand(kind, weight_numel)), (Output(result, number_of_elements(shape), None),), (), "convolution",
        (groups,), (out_channels,), (images, *positions), (in_channels, *taps), ir.cast(left, accumulate), ir.cast(right, accumulate),
        accumulate, (store,),
    )  # fmt: skip


@kernel_cache
def weight_gradient_kernel(source: Layout, numel: int, grad: Layout, grad_numel: int, taps: tuple[int, ...], kind: dtype, window: Any) -> Contraction:
    """Return ``weight_grad[g, o, c, taps] = sum over (n, positions) of grad[n, g, o, positions] * patch[...]``."""
    _, _, _, groups, positions = window
    spatial = len(positions)
    out_channels, in_channels = grad.shape[1] // groups, source.shape[1] // groups
    # Dimensions: batch (group), m (output channel), n (input channel, taps…), k (image, positions…).
    first_n, first_k = 2, 3 + spatial
    accumulate = _accumulator(kind)
    left_strides = (grad.strides[1] * out_channels, grad.strides[1], *(0,) * (1 + spatial), grad.strides[0], *grad.strides[2:])
    left = ir.load(1, grad.offset, left_strides, kind)
    channel = ir.coordinate(0) * in_channels + ir.coordinate(first_n) if groups > 1 else ir.coordinate(first_n)
    right = _patch(
        source, ir.coordinate(first_k), channel, [ir.coordinate(first_k + 1 + axis) for axis in range(spatial)],
        [ir.coordinate(first_n + 1 + axis) for axis in range(spatial)], window, 0, kind,
    )  # fmt: skip
    shape = (grad.shape[1], in_channels, *taps)
    dense = contiguous_strides(shape)
    store = Store(0, 0, (dense[0] * out_channels, dense[0], *dense[1:]), ir.cast(ir.accumulator(accumulate), kind))
    return Contraction(
        (Operand(kind, numel), Operand(kind, grad_numel)), (Output(kind, number_of_elements(shape), None),), (),
        "convolution_weight_gradient", (groups,), (out_channels,), (in_channels, *taps), (grad.shape[0], *positions),
        ir.cast(left, accumulate), ir.cast(right, accumulate), accumulate, (store,),
    )  # fmt: skip


def convolve(input: Tensor, weight: Tensor, window: Window, wide: bool = False) -> Tensor:
    """Return the convolution of [n, c, positions…] with [o, c / groups, taps…], differentiable any number of times."""
    kind = input.dtype
    kernel = convolution_kernel(
        input._layout, input._storage.value.numel, weight._layout, weight._storage.value.numel, kind, window.key(),
        _wide_type(kind) if wide else kind,
    )  # fmt: skip
    result = record(kernel, (input, weight), (), ((input.shape[0], weight.shape[0], *window.output),))
    if needs_gradient(input, weight):
        saved = input._save(), weight._save()
        needs = input.requires_grad, weight.requires_grad

        def run_backward(grad: Tensor) -> Any:
            source, kernel_ = saved[0].unpack(), saved[1].unpack()
            grad = grad.to(kind)
            return (
                input_gradient(grad, kernel_, window, tuple(source._layout.shape)) if needs[0] else None,
                _weight_gradient(source, grad, tuple(kernel_._layout.shape), window) if needs[1] else None,
            )

        attach(result, "ConvolutionBackward0", (input, weight), run_backward)
    return result


def input_gradient(grad: Tensor, weight: Tensor, window: Window, shape: tuple[int, ...]) -> Tensor:
    """Return the transposed convolution: the gradient spread by the stride, convolved with the flipped weight."""
    from .joining import flip, place_inside

    spatial = len(shape) - 2
    taps = weight._layout.shape[2:]
    reach = [window.dilation[axis] * (taps[axis] - 1) for axis in range(spatial)]
    before = (0, 0, *(reach[axis] - window.padding[axis] for axis in range(spatial)))
    total = (*grad._layout.shape[:2], *(shape[2 + axis] + reach[axis] for axis in range(spatial)))
    spread = place_inside(grad, before, total, 0, (1, 1, *window.stride))
    groups = window.groups
    out_channels, in_channels = weight._layout.shape[:2]
    flipped = flip(weight, list(range(2, 2 + spatial))) if math.prod(taps) > 1 else weight
    grouped = flipped.reshape((groups, out_channels // groups, in_channels, *taps)).transpose(1, 2)
    turned = grouped.reshape((groups * in_channels, out_channels // groups, *taps))
    plain = Window((1,) * spatial, (0,) * spatial, window.dilation, groups, shape[2:])
    return convolve(spread, turned, plain)


def _weight_gradient(source: Tensor, grad: Tensor, shape: tuple[int, ...], window: Window) -> Tensor:
    kernel = weight_gradient_kernel(
        source._layout, source._storage.value.numel, grad._layout, grad._storage.value.numel, shape[2:], source.dtype, window.key()
    )
    result = record(kernel, (source, grad), (), (shape,))
    if needs_gradient(source, grad):
        saved = source._save(), grad._save()

        def run_backward(second: Tensor) -> Any:
            original, upstream = saved[0].unpack(), saved[1].unpack()
            return (
                input_gradient(upstream, second, window, tuple(original._layout.shape)),
                convolve(original, second, window),
            )

        attach(result, "ConvolutionBackwardBackward0", (source, grad), run_backward)
    return result


def _spread(value: Any, count: int, name: str) -> tuple[int, ...]:
    sizes = (value,) * count if isinstance(value, int) else tuple(int(each) for each in value)
    sizes = sizes * count if len(sizes) == 1 else sizes
    if len(sizes) != count:
        raise RuntimeError(f"expected {name} to be a single integer value or a list of {count} values to match the convolution dimensions, but got {name}={list(sizes)}")
    return sizes


def _same_padding(taps: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    pairs = []
    for size, spread in zip(taps, dilation, strict=True):
        total = spread * (size - 1)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


def _convolution(input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, spatial: int) -> Tensor:
    name = f"conv{spatial}d"
    if input.ndim == spatial + 1:
        return _convolution(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups, spatial).squeeze(0)
    if input.ndim != spatial + 2 or weight.ndim != spatial + 2:
        raise RuntimeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}"
        )
    if input.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[1] * groups} channels, but got {input.shape[1]} channels instead"
        )
    steps, spreads = _spread(stride, spatial, "stride"), _spread(dilation, spatial, "dilation")
    taps = tuple(weight._layout.shape[2:])
    if padding == "same":
        from .joining import place_inside

        pairs = _same_padding(taps, spreads)
        before = (0, 0, *(low for low, _ in pairs))
        input = place_inside(input, before, (*input.shape[:2], *(size + low + high for size, (low, high) in zip(input.shape[2:], pairs, strict=True))))
        padding = 0
    pads = _spread(0 if padding == "valid" else padding, spatial, "padding")
    output = tuple(
        (input.shape[2 + axis] + 2 * pads[axis] - spreads[axis] * (taps[axis] - 1) - 1) // steps[axis] + 1 for axis in range(spatial)
    )
    if any(size <= 0 for size in output):
        padded = [input.shape[2 + axis] + 2 * pads[axis] for axis in range(spatial)]
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, taps))}). Kernel size can't be greater than actual input size"
        )
    window = Window(steps, pads, spreads, groups, output)
    if bias is None:
        return convolve(input, weight, window)
    return (convolve(input, weight, window, wide=True) + bias.reshape((-1,) + (1,) * spatial)).to(input.dtype)


@operation("contraction", method=False)
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """1-d convolution of [n, c, length] with [o, c / groups, taps]."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 1)


@operation("contraction", method=False)
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """2-d convolution of [n, c, height, width] with [o, c / groups, taps, taps]."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 2)


@operation("contraction", method=False)
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """3-d convolution of [n, c, depth, height, width] with [o, c / groups, taps, taps, taps]."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, 3)


Tensor.__matmul__ = lambda self, other: matmul(self, other)  # type: ignore[attr-defined]
Tensor.__rmatmul__ = lambda self, other: matmul(other, self)  # type: ignore[attr-defined]
