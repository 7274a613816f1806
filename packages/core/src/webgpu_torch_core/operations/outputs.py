"""Results written into the tensors that callers give as ``out``."""

from __future__ import annotations

from typing import Any

from ..ir.dtypes import dtype
from ..tensors.tensor import Tensor
from .common import row_major
from .elementwise.functions import finish_out
from .in_place.writing import check_distinct
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
    if not isinstance(out, tuple | list) or len(out) != len(result):
        raise TypeError(f"argument 'out' must be tuple of {len(result)} Tensors, got {type(out).__name__} {out!r:.80}")
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
    if exact or out._layout.shape == result._layout.shape:
        check_distinct(out)
    return finish_out(result, out, read, exact)
