"""What a kind of calls of an element-wise operation records."""

from __future__ import annotations

from ...ir.dtypes import dtype
from ...ir.kernels import Pointwise
from ...ir.layouts import Layout, Shape
from ...record.lone import Lone
from .backward import Gradient


class Resolution:
    """A recorded form of an operation: its kernel and what comes out.

    Attributes:
        alone: how the kernel ran last time if it ran at once, else None.
        is_plain: whether nothing depends on operands' elements, and all of them begin where their memory does.
        gradients: by which operands a gradient flows to, what computes it, and the operands that this needs.
        kinds: the shape and the type of each operand, None for numbers; empty until a gradient flows to one.
    """

    __slots__ = ("alone", "divides", "dtype", "gradients", "is_plain", "kernel", "kinds", "layout")

    def __init__(self, kernel: Pointwise, result: Layout, dtype: dtype, divides: bool, begins: bool) -> None:
        self.kernel = kernel
        self.alone: Lone | None = None
        self.layout = result
        self.dtype = dtype
        self.divides = divides
        self.is_plain = begins and not divides
        self.gradients: dict[tuple[bool, ...], tuple[list[Gradient], list[int]]] = {}
        self.kinds: list[tuple[Shape, dtype] | None] = []
