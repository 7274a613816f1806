"""Weights of a few bits: encoded once, decoded by the products that read them."""

from __future__ import annotations

import itertools
from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import dtype, float32, uint8
from ...ir.encodings import ENCODINGS, Encoding, codes
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import contiguous_strides
from ...tensors.tensor import Tensor
from ..common import kernel_cache, record
from ..creation.factories import tensor
from ..sorting.searching import bucketize
from .matrix_products import matmul


def _known(encoding: str | Encoding) -> Encoding:
    if isinstance(encoding, Encoding):
        return encoding
    if encoding not in ENCODINGS:
        raise ValueError(f"there is no encoding '{encoding}'; there are {', '.join(ENCODINGS)}")
    return ENCODINGS[encoding]


def _check_groups(found: Encoding, columns: int, group: int) -> None:
    if group <= 0 or columns % group or group % found.lanes:
        raise ValueError(
            f"rows of {columns} numbers in groups of {group}: groups must divide the rows and hold whole bytes of "
            f"{found.lanes} numbers ('{found.name}')"
        )


def encode_weight(weight: Tensor, encoding: str | Encoding, group: int | None = None) -> tuple[Tensor, Tensor]:
    """Return a weight's nearest encoded numbers and their scales.

    Args:
        weight: float tensor of shape (rows, columns).
        encoding: a name in :data:`~webgpu_torch_core.ir.encodings.ENCODINGS`, or an encoding.
        group: how many neighbours of a row share a scale; by default all of them.

    Returns:
        uint8 bytes of shape (rows, columns * bits / 8) and float32 scales of shape (rows, columns / group): the greatest
        magnitude of each group over the greatest that the encoding has on both sides of zero.

    Raises:
        ValueError: there is no such encoding, or the groups do not fit.
    """
    found = _known(encoding)
    rows, columns = weight.shape
    group = columns if group is None else group
    _check_groups(found, columns, group)
    numbers = codes(found)
    finite = [each for each in numbers if each == each and each != float("inf")]
    reach = min(max(finite), -min(finite)) if min(finite) < 0 else max(finite)
    grouped = weight.detach().to(float32).reshape(rows, columns // group, group)
    scales = grouped.abs().amax(-1) / reach
    # Of a group of zeros every number is zero, whatever divides it.
    scaled = grouped / scales.masked_fill(scales == 0, 1.0).unsqueeze(-1)
    # The nearest number: those in order, and what lies halfway between neighbours.
    order = sorted((bits for bits, each in enumerate(numbers) if each != float("inf")), key=lambda bits: numbers[bits])
    bounds = [(numbers[one] + numbers[other]) / 2 for one, other in itertools.pairwise(order)]
    nearest = bucketize(scaled, tensor(bounds, device=weight.device))
    bits = tensor(order, device=weight.device)[nearest].reshape(rows, columns // found.lanes, found.lanes)
    places = tensor([1 << (lane * found.bits) for lane in range(found.lanes)], device=weight.device)
    return (bits * places).sum(-1).to(uint8), scales


@kernel_cache
def _decoding_kernel(found: Encoding, rows: int, columns: int, group: int, kind: dtype) -> Pointwise:
    groups, words = columns // group, group // found.lanes
    shape = (rows, groups, words, found.lanes)
    word = ir.load(0, 0, (columns // found.lanes, words, 1, 0), uint8)
    scale = ir.cast(ir.load(1, 0, (groups, 1, 0, 0), float32), float32)
    value = found.unpack(word, ir.coordinate(3) if found.lanes > 1 else 0) * scale
    return Pointwise(
        (Operand(uint8, rows * columns // found.lanes), Operand(float32, rows * groups)),
        (Output(kind, rows * columns, None),), (), f"decode_{found.name}", shape,
        (Store(0, 0, contiguous_strides(shape), ir.cast(value, kind)),),
    )  # fmt: skip


def decode_weight(packed: Tensor, scales: Tensor, encoding: str | Encoding, dtype: dtype = float32) -> Tensor:
    """Return the weight that :func:`encode_weight` encoded, of a float type; a product that reads it decodes it on the way.

    Args:
        packed: uint8 of shape (rows, columns * bits / 8).
        scales: float32 of shape (rows, columns / group).

    Raises:
        ValueError: there is no such encoding, or the shapes do not fit.
    """
    found = _known(encoding)
    rows, columns = packed.shape[0], packed.shape[1] * found.lanes
    if scales.ndim != 2 or scales.shape[0] != rows or not scales.shape[1] or columns % scales.shape[1]:
        raise ValueError(f"scales of shape {tuple(scales.shape)} do not fit {rows} rows of {columns} numbers")
    group = columns // scales.shape[1]
    _check_groups(found, columns, group)
    kernel = _decoding_kernel(found, rows, columns, group, dtype)
    return record(kernel, (packed.contiguous(), scales.to(float32).contiguous()), (), ((rows, columns),))


def encoded_linear(input: Tensor, packed: Tensor, scales: Tensor, encoding: str | Encoding) -> Any:
    """Return ``input @ decode_weight(packed, scales, encoding).T``: [..., columns] gives [..., rows]."""
    return matmul(input, decode_weight(packed, scales, encoding, input.dtype).t())
