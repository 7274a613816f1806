"""Window functions: ``torch.hann_window`` and its relatives, and those of ``torch.signal.windows``, computed in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import dtype, float32, float64
from ...ir.host_bytes import pack
from ...tensors.tensor import Tensor
from ..creation.factories import as_dtype, from_bytes, place_of
from ..elementwise.call import default_float

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike

NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def bessel_i0(x: float) -> float:
    """Return the modified Bessel function of the first kind and order 0, by its power series."""
    total = term = 1.0
    index = 0
    while term > total * 1e-18:
        index += 1
        term *= (x / (2.0 * index)) ** 2
        total += term
    return total


def _cosines(count: int, points: int, weights: Iterable[float]) -> list[float]:
    """Return ``sum_i (-1)^i weights[i] cos(2 pi i k / (points - 1))`` for ``count`` positions."""
    step = 2.0 * math.pi / max(points - 1, 1)
    signed = [(-1) ** index * weight for index, weight in enumerate(weights)]
    return [sum(each * math.cos(step * index * k) for index, each in enumerate(signed)) for k in range(count)]


def _triangle(count: int, points: int) -> list[float]:
    return [1.0 - abs(2.0 * k / (points - 1) - 1.0) for k in range(count)]


def _kaiser(count: int, points: int, beta: float) -> list[float]:
    top = bessel_i0(beta)
    place = [2.0 * k / (points - 1) - 1.0 for k in range(count)]
    return [bessel_i0(beta * math.sqrt(max(1.0 - each * each, 0.0))) / top for each in place]


def _made(values: list[float], kind: dtype, device: Any, requires_grad: bool) -> Tensor:
    result = from_bytes(pack(values, kind), (len(values),), kind, place_of(device))
    return result.requires_grad_() if requires_grad else result


# torch.*_window: periodic by default


def _window(
    name: str,
    length: int,
    periodic: bool,
    compute: Callable[[int, int], list[float]],
    kind: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """Return a window of a length; a periodic one is the longer symmetric one without its last number.

    Raises:
        RuntimeError: a negative length, or a type that is not floating-point.
    """
    kind = as_dtype(kind) or default_float[0]
    if kind.category != 2:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind!r}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    values = [1.0] * length if length < 2 else compute(length, length + 1 if periodic else length)
    return _made(values, kind, device, requires_grad)


@operation("creation", method=False)
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``(1 - cos(2 pi k / (N - 1))) / 2``."""
    del layout, pin_memory
    return _general("hann_window", window_length, periodic, 0.5, 0.5, dtype, device, requires_grad)


def _general(
    name: str, length: int, periodic: bool, alpha: float, beta: float, kind: Any, device: Any, requires_grad: bool
) -> Tensor:
    return _window(name, length, periodic, lambda c, n: _cosines(c, n, (alpha, beta)), kind, device, requires_grad)


@operation("creation", method=False)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha - beta * cos(2 pi k / (N - 1))``."""
    del layout, pin_memory
    return _general("hamming_window", window_length, periodic, alpha, beta, dtype, device, requires_grad)


@operation("creation", method=False)
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``0.42 - 0.5 cos(2 pi k / (N - 1)) + 0.08 cos(4 pi k / (N - 1))``."""
    del layout, pin_memory
    weights = (0.42, 0.5, 0.08)
    compute = lambda count, points: _cosines(count, points, weights)  # noqa: E731
    return _window("blackman_window", window_length, periodic, compute, dtype, device, requires_grad)


@operation("creation", method=False)
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``1 - |2 k / (N - 1) - 1|``: a triangle."""
    del layout, pin_memory
    return _window("bartlett_window", window_length, periodic, _triangle, dtype, device, requires_grad)


@operation("creation", method=False)
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """``I0(beta sqrt(1 - (2 k / (N - 1) - 1)^2)) / I0(beta)`` with the modified Bessel function of order 0."""
    del layout, pin_memory
    compute = lambda count, points: _kaiser(count, points, beta)  # noqa: E731
    return _window("kaiser_window", window_length, periodic, compute, dtype, device, requires_grad)


# torch.signal.windows: symmetric by default


def _signal(
    name: str, M: int, kind: Any, device: Any, requires_grad: bool, compute: Callable[[], list[float]]
) -> Tensor:
    """Return a window of M numbers.

    Raises:
        ValueError: a negative length, or neither float32 nor float64.
    """
    kind = as_dtype(kind) or default_float[0]
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if kind not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind!r}")
    return _made(compute() if M else [], kind, device, requires_grad)


def _points(M: int, sym: bool) -> int:
    return M if sym or M < 2 else M + 1


@operation("creation", namespace="signal.windows", method=False)
def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """``sum_i (-1)^i a[i] cos(2 pi i k / (M - 1))``.

    Raises:
        TypeError, ValueError: the weights are no sequence, or an empty one.
    """
    del layout

    def compute() -> list[float]:
        if M == 1:
            return [1.0]
        if not isinstance(a, Iterable):
            raise TypeError("Coefficients must be a list/tuple")
        if not a:
            raise ValueError("Coefficients cannot be empty")
        return _cosines(M, _points(M, sym), tuple(a))

    return _signal("general_cosine", M, dtype, device, requires_grad, compute)


def _weighted(name: str, doc: str, weights: tuple[float, ...]) -> None:
    def function(
        M: int,
        *,
        sym: bool = True,
        dtype: dtype | None = None,
        layout: Any = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
    ) -> Tensor:
        del layout
        compute = lambda: [1.0] if M == 1 else _cosines(M, _points(M, sym), weights)  # noqa: E731
        return _signal(name, M, dtype, device, requires_grad, compute)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    operation("creation", namespace="signal.windows", method=False)(function)


_weighted("hann", "``(1 - cos(2 pi k / (M - 1))) / 2``.", (0.5, 0.5))
_weighted("hamming", "``0.54 - 0.46 cos(2 pi k / (M - 1))``.", (0.54, 0.46))
_weighted("blackman", "``0.42 - 0.5 cos(2 pi k / (M - 1)) + 0.08 cos(4 pi k / (M - 1))``.", (0.42, 0.5, 0.08))
_weighted("nuttall", "A sum of four cosines with low side lobes (Nuttall, 1981).", NUTTALL)


@operation("creation", namespace="signal.windows", method=False)
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha - (1 - alpha) cos(2 pi k / (M - 1))``."""
    weights = [alpha, 1.0 - alpha]
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@operation("creation", namespace="signal.windows", method=False)
def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """``1 - |2 k / (M - 1) - 1|``: a triangle."""
    del layout
    compute = lambda: [1.0] if M == 1 else _triangle(M, _points(M, sym))  # noqa: E731
    return _signal("bartlett", M, dtype, device, requires_grad, compute)


@operation("creation", namespace="signal.windows", method=False)
def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """``sin(pi (k + 1/2) / M)``."""
    del layout
    compute = lambda: [math.sin(math.pi * (k + 0.5) / _points(M, sym)) for k in range(M)]  # noqa: E731
    return _signal("cosine", M, dtype, device, requires_grad, compute)


@operation("creation", namespace="signal.windows", method=False)
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-|k - center| / tau)``.

    Raises:
        ValueError: ``tau`` is not positive, or a center is given for a symmetric window.
    """
    del layout
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (_points(M, sym) - 1) / 2.0 if center is None else center
    compute = lambda: [math.exp(-abs(k - middle) / tau) for k in range(M)]  # noqa: E731
    return _signal("exponential", M, dtype, device, requires_grad, compute)


@operation("creation", namespace="signal.windows", method=False)
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-((k - middle) / std)^2 / 2)``.

    Raises:
        ValueError: ``std`` is not positive.
    """
    del layout
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (_points(M, sym) - 1) / 2.0
    compute = lambda: [math.exp(-0.5 * ((k - middle) / std) ** 2) for k in range(M)]  # noqa: E731
    return _signal("gaussian", M, dtype, device, requires_grad, compute)


@operation("creation", namespace="signal.windows", method=False)
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """``I0(beta sqrt(1 - (2 k / (M - 1) - 1)^2)) / I0(beta)``.

    Raises:
        ValueError: ``beta`` is negative.
    """
    del layout
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    compute = lambda: [1.0] if M == 1 else _kaiser(M, _points(M, sym), beta)  # noqa: E731
    return _signal("kaiser", M, dtype, device, requires_grad, compute)
