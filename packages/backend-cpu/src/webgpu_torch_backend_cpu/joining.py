"""Kernels that put whole operands one after another: of few numbers each, views of them take longer than their bytes do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from webgpu_torch_core.ir.kernels import Pointwise
from webgpu_torch_core.ir.layouts import Shape, contiguous_strides, number_of_elements

from .boxes import Piece

#: operands from which on, and bytes of the output up to which, Python joins them: it copies each byte twice
FEWEST, MOST_BYTES = 3, 1 << 15


def operands_joined(kernel: Pointwise, pieces: Sequence[Piece]) -> list[tuple[int, int]] | None:
    """Return the operands whose elements one after another are the output, and how many bytes these are; None of another kernel."""
    if len(pieces) < FEWEST or len(kernel.outputs) != 1:
        return None
    (output,) = kernel.outputs
    if output.numel * output.dtype.itemsize > MOST_BYTES or output.initial is not None:
        return None
    found: dict[int, tuple[int, int]] = {}
    for shape, stores in pieces:
        store, value, count = stores[0], stores[0].value, number_of_elements(shape)
        if len(stores) != 1 or not store.is_plain or value.step != "load" or value.dtype is not output.dtype:
            return None
        operand, offset, strides = value.payload
        whole = (offset, kernel.operands[operand].numel) == (0, count)
        if not (whole and _is_in_order(shape, strides) and _is_in_order(shape, store.strides)):
            return None
        found[store.offset] = operand, count
    end, joined = 0, []
    for offset, (operand, count) in sorted(found.items()):
        if offset != end:
            return None
        end += count
        joined.append((operand, count * output.dtype.itemsize))
    return joined if end == output.numel else None


def _is_in_order(shape: Shape, strides: Shape) -> bool:
    """Return whether elements lie one after another."""
    together = zip(shape, strides, contiguous_strides(shape), strict=True)
    return all(size == 1 or stride == other for size, stride, other in together)


def join(parts: Sequence[np.ndarray], sizes: Sequence[int], out: np.ndarray) -> None:
    """Write so many bytes of each array one after another."""
    # Arrays are buffers, which NumPy tells type checkers of later versions of Python only.
    buffers: list[Any] = list(parts)
    data, nbytes = b"".join(buffers), sum(sizes)
    if len(data) != nbytes:
        # A buffer may be longer than what is recorded of it.
        buffers = [each.view(np.uint8)[:size] for each, size in zip(parts, sizes, strict=True)]
        data = b"".join(buffers)
    out.view(np.uint8)[:nbytes] = np.frombuffer(data, np.uint8)
