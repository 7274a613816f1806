"""Results written into the tensors that callers give as ``out``."""

from __future__ import annotations

from typing import Any

from ..dispatch.output_errors import RefusedGradient, RefusedOutputType
from ..ir.dtypes import bool_, dtype
from ..record.grad_mode import no_grad, recording
from ..tensors.tensor import Tensor
from .common import check_apart, require_castable, row_major
from .in_place.writing import check_distinct, mismatch, resize_as_result
from .return_types import make


def computed_in(kind: dtype | None, out: Tensor | None) -> dtype | None:
    """Return the type that a reduction or scan is asked to compute in: the one given, else that of ``out``.

    Raises:
        RuntimeError: both are given and differ.
    """
    if not isinstance(out, Tensor) or kind is out.dtype:
        return kind
    if kind is not None:
        raise RuntimeError(f"Expected out tensor to have dtype {kind.word}, but got {out.dtype.word} instead")
    return out.dtype


def into(result: Any, out: Any, exact: bool = False, read: tuple[object, ...] = ()) -> Any:
    """Return a result (a tensor or several); where ``out`` is given, written into it and resized to fit.

    ``exact``: the operation does not convert between element types. ``read``: tensors that may be ``out``, and no other part of it.

    Raises:
        RuntimeError: the types cannot be cast, or gradients are being recorded.
        TypeError: ``out`` is no tensor, or no tuple of as many tensors as there are results.
    """
    if out is None:
        return result
    if isinstance(result, Tensor):
        return _written(result, out, exact, read)
    if not isinstance(out, tuple | list):
        raise RefusedOutputType(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != len(result):
        raise TypeError(f"expected tuple of {len(result)} elements but got {len(out)}")
    targets = tuple(out)
    for target, each in zip(targets, result, strict=True):
        _written(each, target, exact, read)
    return (
        make(f"{type(result).__name__}_out", **dict(zip(result._fields, targets)))
        if hasattr(result, "_fields")
        else targets
    )


def into_rows(result: Tensor, out: Tensor | None, exact: bool = False) -> Tensor:
    """As :func:`into`, where an ``out`` that is resized becomes row-major, however the result lies."""
    return result if out is None else into(row_major(result), out, exact)


def into_as_many(result: Tensor, out: Tensor) -> Tensor:
    """Return a row of numbers written into ``out``, in its own shape where that has as many elements."""
    fits = isinstance(out, Tensor) and out.numel() == result.numel()
    return into(result.reshape(out.shape) if fits else result, out)


def _written(result: Tensor, out: Tensor, exact: bool, read: tuple[object, ...]) -> Tensor:
    if isinstance(out, Tensor) and (exact or out._layout.shape == result._layout.shape):
        check_distinct(out)
    return finish_out(result, out, read, exact, broadcasts=False)


#: what is said of an ``out`` of another type than the result's where nothing is converted, by most operations and by element-wise ones
_EXPECTED = "Expected out tensor to have dtype {1.word}, but got {0.word} instead"
FOUND = "Found dtype {0.title} but expected {1.title}"


def finish_out(
    result: Tensor,
    out: Tensor | None,
    operands: tuple[object, ...] = (),
    exact: bool = False,
    refusal: str = _EXPECTED,
    broadcasts: bool = True,
) -> Tensor:
    """Return a result; where ``out`` is given, written into it, which is resized and laid out as the result is where it has another
    shape: operands may be ``out`` itself, and no other part of it.

    Raises:
        RuntimeError: the result's type cannot be cast to that of ``out`` (``exact``: is another), or gradients are recorded.
    """
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise RefusedOutputType(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if broadcasts and out._layout.shape != result._layout.shape and any(out is each for each in operands):
        raise mismatch(out, result)
    check_apart(out, *operands, but_same=True)
    if result.dtype is bool_ and out.requires_grad and recording.enabled:
        # What has no derivative for anything is written whatever is recorded.
        with no_grad():
            return finish_out(result, out, operands, exact, refusal, broadcasts)
    if recording.enabled and (out.requires_grad or result.requires_grad):
        raise RefusedGradient(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
        )
    # Magnitudes of complex numbers are converted.
    given = operands[0].dtype if operands and isinstance(operands[0], Tensor) else result.dtype
    converts = given.is_complex and (out.dtype.is_floating_point or out.dtype is given)
    if exact and out.dtype is not result.dtype and not converts:
        raise RuntimeError(refusal.format(out.dtype, result.dtype))
    require_castable(result.dtype, out.dtype)
    if out.device != result.device:
        raise RuntimeError(f"Expected out tensor to be on {result.device}, but it is on {out.device}")
    if out._layout.shape != result._layout.shape:
        resize_as_result(out, result._layout)
    out.copy_(result)
    return out
