"""Matrices taken apart into elements or blocks, line after line, and put together again."""

from __future__ import annotations

import math

from webgpu_torch_core import Tensor


def somewhere(parts: Tensor) -> Tensor:
    """Return which parts of the first dimension are true anywhere."""
    return parts.reshape((len(parts), math.prod(parts.shape[1:]))).any(1)


def apart(dense: Tensor, batch: tuple[int, ...], block: tuple[int, int], by_rows: bool, blocked: bool) -> Tensor:
    """Return a dense tensor's elements or blocks, line after line, ``[places, *block, *dense]``."""
    start = len(batch)
    height, width = block
    down, right = dense.shape[start] // height, dense.shape[start + 1] // width
    inner = tuple(dense.shape[start + 2 :])
    number = math.prod(batch)
    parts = dense.reshape((number, down, height, right, width, *inner)).transpose(2, 3)
    parts = parts if by_rows else parts.transpose(1, 2)
    return parts.reshape((number * down * right, *(block if blocked else ()), *inner))


def joined(
    parts: Tensor, batch: tuple[int, ...], counts: tuple[int, int], block: tuple[int, int], by_rows: bool, blocked: bool
) -> Tensor:
    """Return the dense tensor, the batch in one dimension, of which :func:`apart` returns the parts."""
    inner = tuple(parts.shape[3 if blocked else 1 :])
    parts = parts.reshape((math.prod(batch), *counts, *block, *inner))
    return (parts if by_rows else parts.transpose(1, 2)).transpose(2, 3)
