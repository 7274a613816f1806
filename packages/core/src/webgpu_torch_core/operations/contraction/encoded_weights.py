"""Weights of a few bits: encoded once, decoded by the products that read them."""

from __future__ import annotations

import itertools
from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import bfloat16, dtype, float16, float32, uint8
from ...ir.encodings import ENCODINGS, Encoding, codes
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import contiguous_strides
from ...tensors.tensor import Tensor
from ..common import kernel_cache, record
from ..creation.factories import tensor, zeros_like
from ..elementwise.choosing import where
from ..movement.joining import cat, stack
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


#: shares of a group's reach that are tried for its scale, where an encoding has few numbers
_SHARES = (1.0, 0.92, 0.84)
#: shares of a group's reach that are cut off at either end, where it has an offset
_CUTS = (0.0, 0.04, 0.08)
#: how many times scales and offsets are fitted to the nearest numbers under those before
_FITS = 2
#: what scales and offsets are kept as: half of float32's bytes, with its range
_KEPT = bfloat16
#: zero points are told in so small parts of the distance of numbers, up to what a byte holds
_FINE, _MOST_FINE = 16, 255
#: up to how many rows a product reads its weights once and rounds none of them
_FEW = 8
#: how many numbers are looked at together in all tries
_MOST_TRIED = 1 << 25


class _Codebook:
    """An encoding's numbers in order, what lies halfway between neighbours, and which bits they have."""

    def __init__(self, found: Encoding, device: Any) -> None:
        numbers = codes(found)
        order = sorted(
            (bits for bits, each in enumerate(numbers) if each != float("inf")), key=lambda bits: numbers[bits]
        )
        ascending = [numbers[bits] for bits in order]
        self.least, self.greatest = ascending[0], ascending[-1]
        self.values = tensor(ascending, device=device)
        self.bounds = tensor([(one + other) / 2 for one, other in itertools.pairwise(ascending)], device=device)
        self.order = tensor(order, device=device)

    def places(self, scaled: Tensor) -> Tensor:
        """Return the places, in order, of the nearest numbers."""
        return bucketize(scaled, self.bounds)


def _divided(grouped: Tensor, scales: Tensor) -> Tensor:
    # Of a group of zeros every number is zero, whatever divides it.
    return grouped / scales.masked_fill(scales == 0, 1.0).unsqueeze(-1)


def _fitted(grouped: Tensor, numbers: Tensor, centred: bool) -> tuple[Tensor, Tensor]:
    """Return the scales and offsets (zero unless ``centred``) with which numbers come closest to groups, by least squares.

    Numbers are [..., rows, groups, group], groups [rows, groups, group].
    """
    middle, given = numbers.mean(-1, keepdim=True), grouped.mean(-1, keepdim=True)
    if not centred:
        middle, given = zeros_like(middle), zeros_like(given)
    inner, around = numbers - middle, grouped - given
    squares = (inner * inner).sum(-1)
    scales = (inner * around).sum(-1) / squares.masked_fill(squares == 0, 1.0)
    return scales, (given - scales.unsqueeze(-1) * middle).squeeze(-1)


def _starts(grouped: Tensor, book: _Codebook, centred: bool, zero_point: bool) -> tuple[Tensor, Tensor]:
    """Return the scales and offsets that are tried, each [tries, rows, groups]."""
    least, greatest = grouped.amin(-1), grouped.amax(-1)
    if zero_point:
        # Zero is among what numbers reach.
        least, greatest = least.clamp(max=0.0), greatest.clamp(min=0.0)
    if centred:
        # What lies far out at one end need not be as far at the other: each is cut by itself.
        reach, span = greatest - least, book.greatest - book.least
        scales = stack([reach * ((1 - low - high) / span) for low in _CUTS for high in _CUTS])
        lowest = stack([least + reach * low for low in _CUTS for _ in _CUTS])
        return scales, lowest - scales * book.least
    if book.least < 0:
        # Either sign of the scale: the number that is farther from zero is for the farther end.
        largest = where(greatest > -least, greatest, least)
        whole = [largest.abs() / min(book.greatest, -book.least), largest / book.least]
    else:
        whole = [greatest.abs() / book.greatest]
    scales = stack([scale * share for scale in whole for share in _SHARES])
    return scales, zeros_like(scales)


def _searched(grouped: Tensor, book: _Codebook, centred: bool, zero_point: bool) -> tuple[Tensor, Tensor]:
    """Return the best found scales and offsets of groups, as llama.cpp's encoders search them."""

    def fitted(scales: Tensor, offsets: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        numbers = book.values[book.places(_divided(grouped - offsets.unsqueeze(-1), scales))]
        return numbers, _fitted(grouped, numbers, centred)

    numbers, tried = fitted(*_starts(grouped, book, centred, zero_point))
    away = grouped - tried[0].unsqueeze(-1) * numbers - tried[1].unsqueeze(-1)
    best = away.square().sum(-1).argmin(0).unsqueeze(0)  # (1, rows, groups)
    scales, offsets = (each.gather(0, best).squeeze(0) for each in tried)
    for _ in range(_FITS):
        _, (scales, offsets) = fitted(scales, offsets)
    return scales, offsets


def encode_weight(
    weight: Tensor,
    encoding: str | Encoding,
    group: int | None = None,
    offset: bool = False,
    zero_point: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return a weight's encoded numbers, their scales, and what is added to them.

    Encodings of eight bits take the nearest numbers under the scale that reaches a group's greatest magnitude. For fewer bits
    scales (of either sign) and offsets are searched: several are tried, each fitted by least squares to the numbers that are
    nearest under it.

    Args:
        weight: float tensor of shape (rows, columns).
        encoding: a name in :data:`~webgpu_torch_core.ir.encodings.ENCODINGS`, or an encoding.
        group: how many neighbours of a row share a scale; by default all of them.
        offset: whether each group has an offset.
        zero_point: whether that is kept in a byte: which number stands for zero, in sixteenths of the distance of two numbers.

    Returns:
        uint8 bytes of shape (rows, columns * bits / 8), bfloat16 scales of shape (rows, columns / group), and offsets of that shape,
        bfloat16 or as zero points uint8, or None.

    Raises:
        ValueError: there is no such encoding, the groups do not fit, or no byte holds an encoding's zero points.
    """
    found = _known(encoding)
    rows, columns = weight.shape
    group = columns if group is None else group
    _check_groups(found, columns, group)
    book = _Codebook(found, weight.device)
    if zero_point and not (book.least == 0 and book.greatest * _FINE <= _MOST_FINE):
        raise ValueError(
            f"zero points are for numbers from 0 to at most {_MOST_FINE // _FINE}; '{found.name}' has {book.least:g} to {book.greatest:g}"
        )
    offset = offset or zero_point
    grouped = weight.detach().to(float32).reshape(rows, columns // group, group)
    if found.bits < 8 or offset:
        step = max(1, _MOST_TRIED // (max(2 * len(_SHARES), len(_CUTS) ** 2) * columns))
        parts = [_searched(grouped[at : at + step], book, offset, zero_point) for at in range(0, rows, step)]
        scales, offsets = (cat(each) for each in zip(*parts, strict=True))
    else:
        reach = min(book.greatest, -book.least) if book.least < 0 else book.greatest
        scales = grouped.abs().amax(-1) / reach
        offsets = zeros_like(scales)
    # The numbers are the nearest under what is kept of scales and offsets.
    scales = scales.to(_KEPT)
    if zero_point:
        zeros = (_divided(-offsets.unsqueeze(-1), scales.float()).squeeze(-1) * _FINE).round().clamp(0, _MOST_FINE)
        offsets, added = zeros.to(uint8), zeros * (-1 / _FINE) * scales.float()
    else:
        offsets = offsets.to(_KEPT)
        added = offsets.float()
    places = book.places(_divided(grouped - added.unsqueeze(-1), scales.float()))
    return pack_bits(book.order[places].reshape(rows, columns), found), scales, offsets if offset else None


def pack_bits(bits: Tensor, encoding: str | Encoding) -> Tensor:
    """Return the bits of numbers, integers of shape (rows, columns), packed into uint8 of shape (rows, columns * bits / 8)."""
    found = _known(encoding)
    rows, columns = bits.shape
    places = tensor([1 << (lane * found.bits) for lane in range(found.lanes)], device=bits.device)
    return (bits.reshape(rows, columns // found.lanes, found.lanes) * places).sum(-1).to(uint8)


@kernel_cache
def _decoding_kernel(
    found: Encoding, rows: int, columns: int, group: int, kind: dtype, operands: tuple[Operand, ...],
    starts: tuple[int, ...],
) -> Pointwise:  # fmt: skip
    """Return the kernel; operands are the numbers, scales and, where there are any, offsets, each from its start on."""
    groups, words = columns // group, group // found.lanes
    shape = (rows, groups, words, found.lanes)
    word = ir.load(0, starts[0], (columns // found.lanes, words, 1, 0), uint8)
    scale, *offsets = [
        ir.cast(ir.load(at, starts[at], (groups, 1, 0, 0), operands[at].dtype), float32)
        for at in range(1, len(operands))
    ]
    value = found.unpack(word, ir.coordinate(3) if found.lanes > 1 else 0)
    if len(operands) > 2 and operands[2].dtype is uint8:
        value = (value - offsets[0] * (1 / _FINE)) * scale
    else:
        value = value * scale
        for each in offsets:
            value = value + each
    return Pointwise(
        operands, (Output(kind, rows * columns, None),), (), f"decode_{found.name}", shape,
        (Store(0, 0, contiguous_strides(shape), ir.cast(value, kind)),),
    )  # fmt: skip


def decode_weight(
    packed: Tensor, scales: Tensor, encoding: str | Encoding, dtype: dtype = float32, offsets: Tensor | None = None
) -> Tensor:
    """Return the weight that :func:`encode_weight` encoded, of a float type; a product that reads it decodes it on the way.

    Args:
        packed: uint8 of shape (rows, columns * bits / 8).
        scales: of a float type, of shape (rows, columns / group).
        encoding: as :func:`encode_weight`'s.
        dtype: of the result.
        offsets: of the scales' shape: of a float type, added after scaling; or uint8 zero points, subtracted before, in
            sixteenths; None adds nothing.

    Raises:
        ValueError: there is no such encoding, or the shapes do not fit.
    """
    found = _known(encoding)
    rows, columns = packed.shape[0], packed.shape[1] * found.lanes
    if scales.ndim != 2 or scales.shape[0] != rows or not scales.shape[1] or columns % scales.shape[1]:
        raise ValueError(f"scales of shape {tuple(scales.shape)} do not fit {rows} rows of {columns} numbers")
    if offsets is not None and offsets.shape != scales.shape:
        raise ValueError(f"offsets of shape {tuple(offsets.shape)} do not fit scales of shape {tuple(scales.shape)}")
    group = columns // scales.shape[1]
    _check_groups(found, columns, group)
    given = [each.contiguous() for each in (packed, scales, offsets) if each is not None]
    operands = tuple(Operand(each.dtype, each._storage.value.numel) for each in given)
    kernel = _decoding_kernel(
        found, rows, columns, group, dtype, operands, tuple(each.storage_offset() for each in given)
    )
    return record(kernel, tuple(given), (), ((rows, columns),))


def encoded_linear(
    input: Tensor, packed: Tensor, scales: Tensor, encoding: str | Encoding, offsets: Tensor | None = None
) -> Tensor:
    """Return ``input @ decode_weight(packed, scales, encoding, offsets=offsets).T``: [..., columns] gives [..., rows].

    Weights are decoded to float16 for many rows of float16, which matrix units multiply; else to float32, as sums are.
    """
    kind = input.dtype
    if kind is not float16 or input.numel() <= _FEW * input.shape[-1]:
        input = input.to(float32)
    return matmul(input, decode_weight(packed, scales, encoding, input.dtype, offsets).t()).to(kind)
