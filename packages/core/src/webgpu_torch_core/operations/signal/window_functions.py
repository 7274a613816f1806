"""Window functions: ``torch.hann_window`` and its relatives, and those of ``torch.signal.windows``, computed in double precision."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...bounded import Bounded
from ...dispatch.registry import operation
from ...ir.dtypes import dtype, float32, float64
from ...ir.host_bytes import pack
from ...tensors.kinds import strided
from ...tensors.tensor import Tensor
from ..common import require_layout
from ..creation.factories import as_dtype, from_bytes, place_of
from ..elementwise.call import default_float

#: a window's numbers at ``count`` positions of one with ``points``, and its own options
Formula = Callable[..., list[float]]
#: the bytes of windows up to some length: programs ask for the same one at every spectrogram
_known: Bounded[tuple[object, ...], object] = Bounded(64)
_LONGEST = 1 << 13
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
    if points < 2:
        return [1.0] * count
    step = 2.0 * math.pi / (points - 1)
    signed = [(-1) ** index * weight for index, weight in enumerate(weights)]
    if len(signed) == 2:
        mean, wave = signed
        return [mean + wave * math.cos(step * k) for k in range(count)]
    return [sum(each * math.cos(step * index * k) for index, each in enumerate(signed)) for k in range(count)]


def _triangle(count: int, points: int) -> list[float]:
    return [1.0 - abs(2.0 * k / (points - 1) - 1.0) for k in range(count)] if points > 1 else [1.0] * count


def _kaiser(count: int, points: int, beta: float) -> list[float]:
    if points < 2:
        return [1.0] * count
    top = bessel_i0(beta)
    place = [2.0 * k / (points - 1) - 1.0 for k in range(count)]
    return [bessel_i0(beta * math.sqrt(max(1.0 - each * each, 0.0))) / top for each in place]


def _numbers(formula: Formula, count: int, points: int, options: Mapping[str, object], kind: dtype) -> object:
    """Return a window's numbers as host bytes of a type."""
    # What is equal to an option need not be the same: 1 and True, and the two zeros.
    key = formula, count, points, kind, repr(options)
    plain = count <= _LONGEST and all(type(each) in (int, float) for each in options.values())
    found = _known.get(key) if plain else None
    if found is None:
        found = pack(formula(count, points, **options), kind)
        if plain:
            _known[key] = found
    return found


def _own_parameters(formula: Formula) -> list[inspect.Parameter]:
    own = list(inspect.signature(formula).parameters.values())[2:]
    return [each for each in own if each.name != "sym"]


def _parameter(name: str, annotation: str, default: Any, keyword: bool = True) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


_TYPE, _LAYOUT = _parameter("dtype", "dtype | None", None), _parameter("layout", "Any", None)
_DEVICE, _GRADIENT = _parameter("device", "DeviceLike", None), _parameter("requires_grad", "bool", False)
_PINNED, _NOTHING = _parameter("pin_memory", "bool", False), inspect.Parameter.empty


def _declare(
    formula: Formula, namespace: str, parameters: list[inspect.Parameter], refuse: Callable[..., None]
) -> None:
    """Declare a window whose length and symmetry are the first of its parameters and ``sym`` or ``periodic``.

    ``refuse`` raises for a (name, length, type, layout) that PyTorch's function does not take.
    """
    signature = inspect.Signature(parameters, return_annotation="Tensor")
    length_name, own = parameters[0].name, {each.name for each in _own_parameters(formula)}
    told = "sym" in inspect.signature(formula).parameters

    def window(*args: Any, **kwargs: Any) -> Tensor:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        options = given.arguments
        length, wanted = operator.index(options[length_name]), options["dtype"]
        refuse(formula.__name__, length, default_float[0] if wanted is None else wanted, options["layout"])
        kind: dtype = as_dtype(wanted) or default_float[0]
        symmetric = (length < 1 and not told) or bool(options["sym"] if "sym" in options else not options["periodic"])
        more = {name: options[name] for name in own} | ({"sym": symmetric} if told else {})
        # A periodic window is the longer symmetric one without its last number.
        points = length if symmetric or length < 2 else length + 1
        result = from_bytes(_numbers(formula, length, points, more, kind), (length,), kind, place_of(options["device"]))
        wanted = options["requires_grad"]
        return result.requires_grad_(False if wanted is None else wanted)

    window.__name__ = window.__qualname__ = formula.__name__
    window.__doc__ = formula.__doc__
    window.__signature__ = signature  # type: ignore[attr-defined]
    operation("creation", namespace=namespace, method=False)(window)


def _refuse_general(name: str, length: int, kind: object, layout: object) -> None:
    require_layout(layout)
    found = as_dtype(kind)
    if found is None or found.category != 2:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind!r}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")


def _refuse_signal(name: str, length: int, kind: object, layout: object) -> None:
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    if kind is not float32 and kind is not float64:
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind!r}")


def _general(formula: Formula) -> Formula:
    """Declare ``torch.*_window``: periodic by default.

    It raises RuntimeError for a negative length, or a type that is not floating-point.
    """
    lead = [_parameter("window_length", "int", _NOTHING, False), _parameter("periodic", "bool", True, False)]
    tail = [_TYPE, _LAYOUT, _DEVICE, _PINNED, _GRADIENT]
    _declare(formula, "torch", [*lead, *_own_parameters(formula), *tail], _refuse_general)
    return formula


def _signal(formula: Formula) -> Formula:
    """Declare one of ``torch.signal.windows``: symmetric by default.

    It raises ValueError for a negative length, a type that is neither float32 nor float64, or another layout than dense.
    """
    lead, tail = (
        [_parameter("M", "int", _NOTHING, False)],
        [_parameter("sym", "bool", True), _TYPE, _LAYOUT.replace(default=strided), _DEVICE, _GRADIENT],
    )
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _own_parameters(formula)]
    _declare(formula, "signal.windows", [*lead, *own, *tail], _refuse_signal)
    return formula


@_general
def hann_window(count: int, points: int) -> list[float]:
    """``(1 - cos(2 pi k / (N - 1))) / 2``."""
    return _cosines(count, points, (0.5, 0.5))


@_general
def hamming_window(count: int, points: int, alpha: float = 0.54, beta: float = 0.46) -> list[float]:
    """``alpha - beta * cos(2 pi k / (N - 1))``."""
    return _cosines(count, points, (alpha, beta))


@_general
def blackman_window(count: int, points: int) -> list[float]:
    """``0.42 - 0.5 cos(2 pi k / (N - 1)) + 0.08 cos(4 pi k / (N - 1))``."""
    return _cosines(count, points, (0.42, 0.5, 0.08))


@_general
def bartlett_window(count: int, points: int) -> list[float]:
    """``1 - |2 k / (N - 1) - 1|``: a triangle."""
    return _triangle(count, points)


@_general
def kaiser_window(count: int, points: int, beta: float = 12.0) -> list[float]:
    """``I0(beta sqrt(1 - (2 k / (N - 1) - 1)^2)) / I0(beta)`` with the modified Bessel function of order 0."""
    return _kaiser(count, points, beta)


@_signal
def general_cosine(count: int, points: int, a: Iterable[float]) -> list[float]:
    """``sum_i (-1)^i a[i] cos(2 pi i k / (M - 1))``.

    Raises:
        TypeError, ValueError: the weights are no sequence, or an empty one.
    """
    if points > 1 and not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if points > 1 and not a:
        raise ValueError("Coefficients cannot be empty")
    return _cosines(count, points, a)


@_signal
def hann(count: int, points: int) -> list[float]:
    """``(1 - cos(2 pi k / (M - 1))) / 2``."""
    return _cosines(count, points, (0.5, 0.5))


@_signal
def hamming(count: int, points: int) -> list[float]:
    """``0.54 - 0.46 cos(2 pi k / (M - 1))``."""
    return _cosines(count, points, (0.54, 0.46))


@_signal
def blackman(count: int, points: int) -> list[float]:
    """``0.42 - 0.5 cos(2 pi k / (M - 1)) + 0.08 cos(4 pi k / (M - 1))``."""
    return _cosines(count, points, (0.42, 0.5, 0.08))


@_signal
def nuttall(count: int, points: int) -> list[float]:
    """A sum of four cosines with low side lobes (Nuttall, 1981)."""
    return _cosines(count, points, NUTTALL)


@_signal
def general_hamming(count: int, points: int, alpha: float = 0.54) -> list[float]:
    """``alpha - (1 - alpha) cos(2 pi k / (M - 1))``."""
    return _cosines(count, points, (alpha, 1.0 - alpha))


@_signal
def bartlett(count: int, points: int) -> list[float]:
    """``1 - |2 k / (M - 1) - 1|``: a triangle."""
    return _triangle(count, points)


@_signal
def cosine(count: int, points: int) -> list[float]:
    """``sin(pi (k + 1/2) / M)``."""
    return [math.sin(math.pi * (k + 0.5) / points) for k in range(count)]


@_signal
def exponential(
    count: int, points: int, center: float | None = None, tau: float = 1.0, sym: bool = True
) -> list[float]:
    """``exp(-|k - center| / tau)``.

    Raises:
        ValueError: ``tau`` is not positive, or a center is given for a symmetric window.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (points - 1) / 2.0 if center is None else center
    return [math.exp(-abs(k - middle) / tau) for k in range(count)]


@_signal
def gaussian(count: int, points: int, std: float = 1.0) -> list[float]:
    """``exp(-((k - middle) / std)^2 / 2)``.

    Raises:
        ValueError: ``std`` is not positive.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (points - 1) / 2.0
    return [math.exp(-0.5 * ((k - middle) / std) ** 2) for k in range(count)]


@_signal
def kaiser(count: int, points: int, beta: float = 12.0) -> list[float]:
    """``I0(beta sqrt(1 - (2 k / (M - 1) - 1)^2)) / I0(beta)``.

    Raises:
        ValueError: ``beta`` is negative.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _kaiser(count, points, beta)
