"""Matrices of numbers of a few bits: which part of a side's expression is such a number, and what the rest does to it."""

from __future__ import annotations

from functools import lru_cache

from webgpu_torch_core.ir.dtypes import float32, uint8
from webgpu_torch_core.ir.expression import Expression, constant, topological
from webgpu_torch_core.ir.kernels import Contraction
from webgpu_torch_core.ir.layouts import number_of_elements
from webgpu_torch_core.ir.records import Record

from .contraction import VECTOR_BYTES, Side, flat_stride
from .packed_numbers import plain_numbers, turning

#: bits of a byte, and numbers of a byte that are signed
_BYTE, _SIGNED = 8, 128
#: numbers that are multiplied together: a group with a scale of its own holds a multiple of them
PIECE = 16


class PackedSide(Record):
    """A side whose elements are ``number * scale + offset``, integers of a few bits with scales and offsets by group along k.

    Fields:
        load: of the bytes, which are neighbours along k.
        bits: how many a number takes.
        turned: the word that words are turned by, so that their parts are what is multiplied: bytes with a sign, or numbers of
            fewer bits without.
        beyond: what a number is more than that.
        scale, offset: of a group, float32; an offset may be None.
        group: how many neighbours along k share them.
    """

    __slots__ = fields = ("load", "bits", "turned", "beyond", "scale", "offset", "group")
    load: Expression
    bits: int
    turned: int
    beyond: int
    scale: Expression
    offset: Expression | None
    group: int

    @property
    def folds(self) -> int:
        """How many numbers a byte holds."""
        return _BYTE // self.bits

    @property
    def run(self) -> int:
        """How many numbers are loaded at once."""
        return VECTOR_BYTES * self.folds


@lru_cache(256)
def packed_side(kernel: Contraction, group: str) -> PackedSide | None:
    """Return what a side's numbers are, or None where they are no such numbers."""
    value = kernel.right if group == "n" else kernel.left
    side = Side(kernel, value, group)
    side.fold(VECTOR_BYTES)
    if kernel.dtype is not float32 or side.axis != "k" or not kernel.k or "load_at" in _steps(value):
        return None
    first, sizes = side.spans["k"]
    # Zero points are bytes, too, which neighbours share.
    loads = [node for node in side.loads if node.dtype is uint8 and _shared([node], first, sizes) < PIECE]
    if len(loads) != 1:
        return None
    (load,) = loads
    places = [node.payload for node in topological(value) if node.step == "coordinate"]
    last = first + len(sizes) - 1
    # What is printed, or decides how a kernel is written, is no size.
    folds = int(sizes[-1]) if places == [last] and load.payload[2][last] == 0 else 1
    found = plain_numbers(value, load, last if folds > 1 else None, folds) if folds in (1, 2, 4) else None
    if found is None or (folds == 1 and places) or not _together(load, first, sizes, folds):
        return None
    number, turned = found
    parts = _affine(value, number)
    if parts is None or parts[0] is None:
        return None
    scale, offset = parts
    shared = int(_shared([node for node in side.loads if node is not load], first, sizes))
    if any("coordinate" in _steps(each) for each in parts if each is not None) or shared % PIECE:
        return None
    bits = _BYTE // folds
    # Bytes are multiplied with their sign; fewer bits without it.
    words, beyond = (_SIGNED - turned, _SIGNED - turned) if folds == 1 else (turned, -turned)
    packed = PackedSide(load, bits, turning(bits, words) if words else 0, beyond, scale, offset, shared)
    return packed if number_of_elements(kernel.k) % packed.run == 0 else None


def _steps(value: Expression) -> set[str]:
    return {node.step for node in topological(value)}


def _together(load: Expression, first: int, sizes: tuple[int, ...], folds: int) -> bool:
    """Return whether bytes are neighbours along k, and rows of them begin where they can be loaded together."""
    _, offset, strides = load.payload
    count = len(sizes) - (folds > 1)
    others = strides[:first]
    aligned = offset % VECTOR_BYTES == 0 and all(each % VECTOR_BYTES == 0 for each in others)
    return aligned and flat_stride(sizes[:count], strides[first : first + count]) == 1


def _shared(loads: list[Expression], first: int, sizes: tuple[int, ...]) -> int:
    """Return how many neighbours along k, counted by its last dimensions, loads give one value for."""
    count = 1
    for at in reversed(range(len(sizes))):
        if sizes[at] > 1 and any(node.payload[2][first + at] for node in loads):
            break
        count *= sizes[at]
    return count


def _affine(root: Expression, number: Expression) -> tuple[Expression | None, Expression | None] | None:
    """Return (factor, addend) of ``root = number * factor + addend``, None for no such term; None where it is nothing like it."""
    if root is number:
        return constant(1.0, float32), None
    if number not in topological(root):
        return None, root
    if root.step not in ("add", "subtract", "multiply") or root.dtype is not float32:
        return None
    parts = [_affine(each, number) for each in root.arguments]
    left, right = parts
    if left is None or right is None:
        return None
    if root.step == "multiply":
        if left[0] is not None and right[0] is not None:
            return None
        (factor, addend), (_, by) = (left, right) if left[0] is not None else (right, left)
        assert factor is not None and by is not None
        return (
            by if factor.step == "constant" and factor.payload == 1 else factor * by,
            None if addend is None else addend * by,
        )
    if root.step == "subtract":
        right = tuple(None if each is None else -each for each in right)
    return _sum(left[0], right[0]), _sum(left[1], right[1])


def _sum(left: Expression | None, right: Expression | None) -> Expression | None:
    return right if left is None else left if right is None else left + right
