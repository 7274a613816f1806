"""Sums, products and positions of extrema over the last axes of arrays, at once or piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any

#: numbers that are added in single precision before their sums are in double: no sum has more than a few roundings
GROUP = 32
#: elements of a single row up to which NumPy's own sum in double precision is quicker
FEW = 1 << 14
#: elements of rows from which on groups are worth it where rows end with a part of one
LONG = 256
#: parts of rows that are multiplied with each other
PARTS = 16
_ONES = np.ones(GROUP, np.float32)


def total(values: Array, axes: tuple[int, ...], kind: Any) -> Array:
    """Return a sum over the last axes, accumulated in double precision for floats."""
    return added(values, axes, np.float64 if np.dtype(kind).kind == "f" else kind).astype(kind)


def added(values: Array, axes: tuple[int, ...], kind: type) -> Array:
    """Return a sum over the last axes in a type; float32 numbers as products of groups with ones, and these sums as doubles."""
    few = FEW if len(axes) == values.ndim else 2 * GROUP
    if values.dtype != np.float32 or kind is not np.float64 or not axes or values.size < few:
        return np.add.reduce(values, axis=axes, keepdims=True, dtype=kind)
    outer = values.shape[: values.ndim - len(axes)]
    sums = _groups_of_rows(values, len(axes)) if values.strides[-1] == values.itemsize else None
    if sums is None and len(axes) == 1:
        sums = _groups_of_columns(values) if values.shape[-2:-1] >= (GROUP,) else _groups_of_parts(values)
    # What passes beyond single precision on the way need not at the end.
    if sums is None or not np.isfinite(sums).all():
        return np.add.reduce(values, axis=axes, keepdims=True, dtype=np.float64)
    return sums.reshape(outer + (1,) * len(axes))


def _groups_of_rows(values: Array, count: int) -> Array | None:
    """Return sums over the last ``count`` axes where elements of the last one are neighbours; None where groups are no gain."""
    length, joined = values.shape[-1], 1
    while joined < count and values.strides[-joined - 1] == length * values.itemsize:
        joined += 1
        length *= values.shape[-joined]
    outer, rows = values.shape[: values.ndim - count], (*values.shape[: values.ndim - joined], length)
    whole = length // GROUP * GROUP
    if 1 < length <= GROUP and values.flags.c_contiguous:
        return (values.reshape(-1, length) @ _ONES[:length]).astype(np.float64).reshape(*outer, -1).sum(-1)
    if whole == length and values.flags.c_contiguous:
        sums = values.reshape(-1, GROUP) @ _ONES
    elif length >= LONG:
        values = values.reshape(rows)
        sums = np.matmul(values[..., :whole].reshape(*rows[:-1], -1, GROUP), _ONES)
    else:
        return _short_rows(values.reshape(rows)) if joined == count else None
    found = _doubles(sums.reshape(*outer, -1))
    if whole < length:
        rest = np.add.reduce(values[..., whole:], axis=-1, dtype=np.float64)
        found += np.add.reduce(rest.reshape(*outer, -1), axis=-1)
    return found


def _doubles(sums: Array) -> Array:
    """Return the sums of rows in double precision."""
    length = sums.shape[-1]
    return (
        sums.astype(np.float64) @ np.ones(length)
        if length <= 2 * GROUP
        else np.add.reduce(sums, axis=-1, dtype=np.float64)
    )


def _groups_of_columns(values: Array) -> Array | None:
    """Return sums over the last axis where elements of the one before are neighbours; None where there are too few."""
    if (
        values.ndim < 2
        or values.strides[-2] != values.itemsize
        or values.shape[-1] < 2 * GROUP
        or values.shape[-2] < GROUP
    ):
        return None
    columns = values.swapaxes(-1, -2)
    *outer, length, width = columns.shape
    whole = length // GROUP * GROUP
    sums = np.matmul(_ONES, columns[..., :whole, :].reshape(*outer, -1, GROUP, width))
    found = np.add.reduce(sums, axis=-2, dtype=np.float64)
    if whole < length:
        found += np.add.reduce(columns[..., whole:, :], axis=-2, dtype=np.float64)
    return found


def _groups_of_parts(values: Array) -> Array | None:
    """Return the same where few of the axis before lie between one element and the next, as the parts of complex numbers do."""
    if (
        values.ndim < 2
        or values.shape[-1] < 2 * GROUP
        or values.strides[-2:]
        != (
            values.itemsize,
            values.shape[-2] * values.itemsize,
        )
    ):
        return None
    *outer, width, length = values.shape
    whole = length // GROUP * GROUP
    rows = values.swapaxes(-1, -2)
    groups = rows[..., :whole, :].reshape(*outer, -1, GROUP * width)
    found = np.add.reduce(groups @ np.tile(np.eye(width, dtype=np.float32), (GROUP, 1)), axis=-2, dtype=np.float64)
    if whole < length:
        found += np.add.reduce(rows[..., whole:, :], axis=-2, dtype=np.float64)
    return found


#: elements of rows that are short, and of those that are added at a time: their doubles stay in memory that is already mapped
_SHORT, _TOGETHER = 64, 1 << 13


def _short_rows(values: Array) -> Array | None:
    """Return the sums of short rows as products with ones, which BLAS adds many of at once; None where rows are longer."""
    length = values.shape[-1]
    row = values[:1].size if values.ndim > 1 and 0 < length <= _SHORT else 0
    if not 0 < row <= _TOGETHER:
        return None
    found, ones = np.empty((*values.shape[:-1], 1)), np.ones((length, 1))
    step = _TOGETHER // row
    for start in range(0, len(values), step):
        np.matmul(values[start : start + step].astype(np.float64), ones, out=found[start : start + step])
    return found


def product(values: Array, axes: tuple[int, ...], kind: Any) -> Array:
    """Return a product over the last axes, of floats in double precision."""
    return multiplied(values, axes, np.float64 if np.dtype(kind).kind == "f" else kind).astype(kind)


def multiplied(values: Array, axes: tuple[int, ...], kind: type) -> Array:
    """Return a product over the last axes in a type; along long ones parts times parts first: in order each waits for the one before."""
    while len(axes) == 1 and values.shape[-1] >= LONG and values.strides[-1] == values.itemsize:
        part = values.shape[-1] // PARTS
        rest, parts = values[..., PARTS * part :], values[..., : PARTS * part]
        values = np.multiply.reduce(parts.reshape(*parts.shape[:-1], PARTS, part), axis=-2, dtype=kind)
        values[..., : rest.shape[-1]] *= rest
    return np.multiply.reduce(values, axis=axes, keepdims=True, dtype=kind)


def position(values: Array, count: int, largest: bool) -> Array:
    """Return the row-major position of the first extremum over the last ``count`` axes; NaN counts as the extremum."""
    kept = values.shape[: values.ndim - count]
    rows = np.ascontiguousarray(values).reshape((*kept, -1))
    if rows.dtype.kind == "b":
        rows = rows.astype(np.uint8)
    found = np.argmax(rows, -1) if largest else np.argmin(rows, -1)
    return found.astype(np.int64).reshape(kept + (1,) * count)


_JOINED = {
    "sum": np.add, "product": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "any": np.logical_or,
    "all": np.logical_and,
}  # fmt: skip


def further(found: Any, kind: str, values: Array, axes: tuple[int, ...], of: Any, start: int) -> Any:
    """Return what a reduction has found with one more piece of its rows, whose first element is number ``start``.

    Sums and products stay in double precision; positions keep the extremum beside its place.
    """
    if kind.startswith("arg"):
        place = position(values, len(axes), kind == "argmaximum")
        reduce = np.maximum.reduce if kind == "argmaximum" else np.minimum.reduce
        best = reduce(values, axis=axes, keepdims=True)
        if found is None:
            return best, place + start
        better = best > found[0] if kind == "argmaximum" else best < found[0]
        if best.dtype.kind == "f":
            better = better | (np.isnan(best) & ~np.isnan(found[0]))
        return np.where(better, best, found[0]), np.where(better, place + start, found[1])
    ufunc = _JOINED[kind]
    wide = np.float64 if kind in ("sum", "product") and np.dtype(of).kind == "f" else None
    if wide is not None:
        piece = (added if kind == "sum" else multiplied)(values, axes, wide)
    else:
        piece = ufunc.reduce(values, axis=axes, keepdims=True)
    return piece if found is None else ufunc(found, piece)


def finished(found: Any, kind: str, of: Any) -> Array:
    """Return the result of a reduction in pieces."""
    return found[1] if kind.startswith("arg") else found.astype(of, copy=False)
