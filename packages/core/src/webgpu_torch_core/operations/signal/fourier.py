"""``torch.fft``: transforms over one or several dimensions, their frequencies, and shifts of the origin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import bfloat16, dtype, float16
from ...ir.layouts import existing_dimension
from ...tensors.tensor import Tensor
from ..common import as_leaf, dtype_title, require_layout, row_major
from ..creation.ranges import arange
from ..elementwise.call import default_float
from ..movement.joining import place_inside, roll
from ..outputs import finish_out
from .fourier_transforms import half_transform, hermitian_transform, transform

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike, Dimensions

FORWARD, INVERSE = -1, 1


def _promoted(input: Tensor, complex_input: bool = False) -> Tensor:
    """Return the input as floats or complex numbers, integers in the default type.

    Raises:
        RuntimeError: a 16-bit type.
    """
    source = input if input.dtype.category >= 2 else input.to(default_float[0])
    if source.dtype.to_real() in (float16, bfloat16):
        raise RuntimeError(f"Unsupported dtype {dtype_title(source.dtype)}")
    return source.to(source.dtype.to_complex()) if complex_input else source


def _real(name: str, input: Tensor) -> Tensor:
    if input.dtype.is_complex:
        found = dtype_title(input.dtype)
        if name == "ihfftn":
            raise RuntimeError(f"Only supports floating-point dtypes, but found: {found}")
        kind = "real-valued" if name == "rfftn" else "real"
        raise RuntimeError(f"{name} expects a {kind} input tensor, but got {found}")
    return _promoted(input)


def _scale(norm: str | None, count: int, sign: int) -> float:
    """Return the factor of a transform over ``count`` elements."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1.0 / math.sqrt(count)
    return 1.0 / count if (norm == "forward") == (sign == FORWARD) else 1.0


def _resized(input: Tensor, dim: int, size: int) -> Tensor:
    """Return the input cut or padded with zeros to a size."""
    have = input.shape[dim]
    if size < have:
        return input.narrow(dim, 0, size)
    if size == have:
        return input
    shape = list(input._layout.shape)
    shape[dim] = size
    return place_inside(input, (0,) * input.ndim, tuple(shape))


def _into(name: str, result: Tensor, out: Tensor | None, exact: bool = False) -> Tensor:
    if out is None:
        return result
    if isinstance(out, Tensor) and result.dtype.category != out.dtype.category:
        what = "complex" if result.dtype.is_complex else "floating point"
        raise RuntimeError(f"{name} expects a {what} output tensor, but got {out.dtype.title}")
    if isinstance(out, Tensor) and out.shape != result.shape:
        result = row_major(result)
    # Real results are converted between floating-point types, complex ones between theirs.
    return finish_out(result, out, exact=exact)


def _points(n: int | None, input: Tensor, dim: int, default: int | None = None) -> int:
    have = input.shape[dim] if default is None else default
    points = have if n is None else n
    if points < 1:
        raise RuntimeError(f"Invalid number of data points ({points}) specified")
    return points


# One dimension


def _complex_transform(input: Tensor, n: int | None, dim: int, norm: str | None, sign: int) -> Tensor:
    axis = existing_dimension(dim, input.ndim)
    points = _points(n, input, axis)
    return transform(_resized(_promoted(input), axis, points), (axis,), sign, _scale(norm, points, sign))


def _half(name: str, input: Tensor, n: int | None, dim: int, norm: str | None, sign: int) -> Tensor:
    source = _real(name, input)
    axis = existing_dimension(dim, source.ndim)
    points = _points(n, source, axis)
    return half_transform(_resized(source, axis, points), (axis,), sign, _scale(norm, points, sign))


def _hermitian(input: Tensor, n: int | None, dim: int, norm: str | None, sign: int) -> Tensor:
    axis = existing_dimension(dim, input.ndim)
    points = _points(n, input, axis, 2 * (input.shape[axis] - 1))
    source = _resized(_promoted(input, True), axis, points // 2 + 1)
    return hermitian_transform(source, (axis,), points, sign, _scale(norm, points, sign))


@operation("composite", namespace="fft", method=False)
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``sum_j input[j] exp(-2 pi i j k / n)`` along a dimension, cut or padded to ``n``; norm backward, ortho or forward."""
    return _into("fft", _complex_transform(input, n, dim, norm, FORWARD), out)


@operation("composite", namespace="fft", method=False)
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`fft`."""
    return _into("ifft", _complex_transform(input, n, dim, norm, INVERSE), out, not input.dtype.is_complex)


@operation("composite", namespace="fft", method=False)
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The first ``n // 2 + 1`` numbers of the transform of a real input; the others are their conjugates.

    Raises:
        RuntimeError: the input is complex.
    """
    return _into("rfft", _half("rfft", input, n, dim, norm, FORWARD), out)


@operation("composite", namespace="fft", method=False)
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`rfft`: ``n`` real numbers, ``2 * (size - 1)`` by default."""
    return _into("irfft", _hermitian(input, n, dim, norm, INVERSE), out)


@operation("composite", namespace="fft", method=False)
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The real transform of a sequence that is Hermitian in time, given by its first half."""
    return _into("hfft", _hermitian(input, n, dim, norm, FORWARD), out)


@operation("composite", namespace="fft", method=False)
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`hfft`.

    Raises:
        RuntimeError: the input is complex.
    """
    return _into("ihfft", _half("ihfft", input, n, dim, norm, INVERSE), out, True)


# Several dimensions


def _axes(input: Tensor, s: Dimensions, dim: Dimensions) -> tuple[list[int], list[int | None]]:
    """Return the transformed dimensions and their requested sizes (None: as they are).

    Raises:
        RuntimeError: a dimension twice, or sizes and dimensions that differ in number.
    """
    sizes = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is None:
        count = input.ndim if sizes is None else len(sizes)
        if count > input.ndim:
            raise RuntimeError(f"Got shape with {count} values but input tensor only has {input.ndim} dimensions.")
        axes = list(range(input.ndim - count, input.ndim))
    else:
        axes = [existing_dimension(each, input.ndim) for each in ([dim] if isinstance(dim, int) else dim)]
    if len(set(axes)) != len(axes):
        raise RuntimeError("FFT dims must be unique")
    if sizes is None:
        return axes, [None] * len(axes)
    if len(sizes) != len(axes):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    return axes, [None if each == -1 else each for each in sizes]


def _cut(input: Tensor, axes: list[int], sizes: list[int | None]) -> tuple[Tensor, int]:
    """Return the input cut or padded to sizes, and how many elements are transformed together."""
    count = 1
    for axis, size in zip(axes, sizes, strict=True):
        points = _points(size, input, axis)
        input = _resized(input, axis, points)
        count *= points
    return input, count


def _many_complex(input: Tensor, s: Any, dim: Dimensions, norm: str | None, sign: int) -> Tensor:
    axes, sizes = _axes(input, s, dim)
    source, count = _cut(_promoted(input, True), axes, sizes)
    factor = _scale(norm, count, sign)
    return transform(source, axes, sign, factor) if axes else source.clone()


def _many_half(name: str, input: Tensor, s: Any, dim: Dimensions, norm: str | None, sign: int) -> Tensor:
    axes, sizes = _axes(input, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    source, count = _cut(_real(name, input), axes, sizes)
    factor = _scale(norm, count, sign)
    if sign == FORWARD:
        return half_transform(source, axes, sign, factor)
    half = half_transform(source, axes[-1:], sign, factor)
    return transform(half, axes[:-1], sign, 1.0) if len(axes) > 1 else half


def _many_hermitian(name: str, input: Tensor, s: Any, dim: Dimensions, norm: str | None, sign: int) -> Tensor:
    axes, sizes = _axes(input, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    *others, last = axes
    points = _points(sizes[-1], input, last, 2 * (input.shape[last] - 1))
    source, count = _cut(_resized(_promoted(input, True), last, points // 2 + 1), others, sizes[:-1])
    if others and sign == FORWARD:
        source, others, count = transform(source, others, sign, _scale(norm, count, sign)), [], 1
    return hermitian_transform(source, [*others, last], points, sign, _scale(norm, count * points, sign))


def _both(name: str, compute: Any, doc: str) -> None:
    """Register the n-dimensional transform and the two-dimensional one of the same name."""

    def transformed(input: Tensor, s: Dimensions, dim: Dimensions, norm: str | None, out: Tensor | None) -> Tensor:
        # Along one dimension it is :func:`ihfft`.
        return _into(
            "fftn" if name == "ifft" else f"{name}n",
            compute(input, s, dim, norm),
            out,
            name == "ihfft" and len(_axes(input, s, dim)[0]) == 1,
        )

    def n_dimensional(
        input: Tensor,
        s: Dimensions = None,
        dim: Dimensions = None,
        norm: str | None = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        return transformed(input, s, dim, norm, out)

    def two_dimensional(
        input: Tensor,
        s: Dimensions = None,
        dim: Dimensions = (-2, -1),
        norm: str | None = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        return transformed(input, s, dim, norm, out)

    for suffix, function, where in (
        ("n", n_dimensional, "all dimensions by default"),
        ("2", two_dimensional, "the last two"),
    ):
        function.__name__ = function.__qualname__ = f"{name}{suffix}"
        function.__doc__ = f"{doc} over several dimensions, {where}."
        operation("composite", namespace="fft", method=False)(function)


_both("fft", lambda x, s, d, n: _many_complex(x, s, d, n, FORWARD), "The transform :func:`fft`")
_both("ifft", lambda x, s, d, n: _many_complex(x, s, d, n, INVERSE), "The inverse transform :func:`ifft`")
_both("rfft", lambda x, s, d, n: _many_half("rfftn", x, s, d, n, FORWARD), "The transform :func:`rfft` of real numbers")
_both("irfft", lambda x, s, d, n: _many_hermitian("irfftn", x, s, d, n, INVERSE), "The inverse transform :func:`irfft`")
_both("hfft", lambda x, s, d, n: _many_hermitian("hfftn", x, s, d, n, FORWARD), "The transform :func:`hfft`")
_both("ihfft", lambda x, s, d, n: _many_half("ihfftn", x, s, d, n, INVERSE), "The inverse transform :func:`ihfft`")


# Frequencies and shifts


def _frequencies(
    name: str, positions: Tensor, n: int, d: float, kind: dtype | None, out: Tensor | None, requires_grad: bool
) -> Tensor:
    kind = kind or (default_float[0] if out is None else out.dtype)
    if kind.category < 2:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if kind.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype_title(kind)}'")
    result = positions.to(kind) * (1.0 / (n * d) if n * d else math.inf)
    if out is not None:
        return out.resize_(result.shape).copy_(result)
    return as_leaf(result, requires_grad)


@operation("creation", namespace="fft", method=False)
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies ``[0, 1, …, (n - 1) // 2, -(n // 2), …, -1] / (n * d)`` of :func:`fft`'s result."""
    require_layout(layout)
    positions = arange(n, device=device)
    half = (n - 1) // 2 + 1
    return _frequencies(
        "fftfreq", (positions + n // 2) % n - n // 2 if half else positions, n, d, dtype, out, requires_grad
    )


@operation("creation", namespace="fft", method=False)
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies ``[0, 1, …, n // 2] / (n * d)`` of :func:`rfft`'s result."""
    require_layout(layout)
    return _frequencies("rfftfreq", arange(n // 2 + 1, device=device), n, d, dtype, out, requires_grad)


def _shift(input: Tensor, dim: Dimensions, forward: bool) -> Tensor:
    if dim is None:
        axes = list(range(input.ndim))
    else:
        axes = [existing_dimension(each, input.ndim) for each in ([dim] if isinstance(dim, int) else dim)]
    sizes = [input.shape[each] for each in axes]
    return roll(input, [size // 2 if forward else (size + 1) // 2 for size in sizes], axes)


@operation("composite", namespace="fft", method=False)
def fftshift(input: Tensor, dim: Dimensions = None) -> Tensor:
    """Frequency zero moved to the middle of dimensions (all by default)."""
    return _shift(input, dim, True)


@operation("composite", namespace="fft", method=False)
def ifftshift(input: Tensor, dim: Dimensions = None) -> Tensor:
    """The inverse of :func:`fftshift`."""
    return _shift(input, dim, False)
