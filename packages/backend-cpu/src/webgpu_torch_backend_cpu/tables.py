"""Functions of one number of 16 bits as a table of what they return for each: NumPy looks a number up sooner than it takes many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from webgpu_torch_core.ir import expression as ir
from webgpu_torch_core.ir.dtypes import bfloat16, dtype, float16, int64, uint16
from webgpu_torch_core.ir.expression import Expression, rewrite, topological
from webgpu_torch_core.ir.kernels import Kernel, Operand, Output, Pointwise, Store

from .printer import CHOICES, STEPS
from .quicker import NUMBERS, quicker

Arrays = Sequence[np.ndarray]
Runs = Callable[[Arrays, Arrays, Sequence[float | int]], None]

#: how many numbers there are, and all of them
_COUNT = 1 << 16
_ALL = np.arange(_COUNT, dtype=np.uint16).view(np.uint8)
#: how many additions of float32 numbers take as long as looking one up, as a conversion, and as a step that is no single instruction
_LOOKED_UP, _INTO, _FROM, _FUNCTION = 12, {float16: 10, bfloat16: 7}, {float16: 5, bfloat16: 2}, 3
_PLAIN = frozenset((
    "add", "subtract", "multiply", "negate", "absolute", "minimum", "maximum", "equal", "not_equal", "less", "less_equal", "bitwise_and",
    "bitwise_or", "bitwise_xor", "floor", "ceil", "truncate", "round", "cast", *CHOICES,
))  # fmt: skip


def tabulated(kernel: Kernel) -> tuple[Pointwise, Pointwise] | None:
    """Return the kernel that computes a table and the one that looks numbers up, None where they would take longer than a kernel does.

    The second one's operands are the kernel's, as words, and the table.
    """
    if not isinstance(kernel, Pointwise) or len(kernel.stores) != 1 or len(kernel.operands) != 1:
        return None
    (store,), (output,), (operand,) = kernel.stores, kernel.outputs, kernel.operands
    is_half = operand.dtype in _FROM and kernel.elements() > 2 * _COUNT
    if not (is_half and store.is_plain and output.initial is None):
        return None
    nodes = topological(quicker(store.value, True))
    leaves = [node for node in nodes if node.step == "load"]
    known = all(node.step in STEPS or node.step in ("load", "cast", *NUMBERS) for node in nodes)
    if not known or len(leaves) != 1 or 0 in leaves[0].payload[2]:
        return None
    steps = sum(map(_steps, nodes))
    if kernel.elements() * _LOOKED_UP >= (kernel.elements() - _COUNT) * steps:
        return None
    _, offset, strides = leaves[0].payload
    every = ir.load(0, 0, (1,), operand.dtype)
    value = rewrite(store.value, lambda node, _: every if node.step == "load" else None, ("load",))
    table = Pointwise(
        (Operand(operand.dtype, _COUNT),), (Output(output.dtype, _COUNT, None),), kernel.parameters, f"table of {kernel.name}",
        (_COUNT,), (Store(0, 0, (1,), value),),
    )  # fmt: skip
    found = ir.load_at(1, ir.cast(ir.load(0, offset, strides, uint16), int64), output.dtype)
    operands = (Operand(uint16, operand.numel), Operand(output.dtype, _COUNT))
    looked_up = Pointwise(
        operands, kernel.outputs, (), kernel.name, kernel.shape, (Store(0, store.offset, store.strides, found),)
    )
    return table, looked_up


def _steps(node: Expression) -> int:
    """Return how many additions of float32 numbers a step takes as long as."""
    if node.step == "cast" and node.dtype in _INTO:
        return _INTO[node.dtype]
    if node.step == "cast" and node.arguments[0].dtype in _FROM:
        return _FROM[node.arguments[0].dtype]
    if not node.arguments:
        return 0
    return 1 if node.step in _PLAIN else _FUNCTION


class Tabulated:
    """A kernel by its table."""

    def __init__(self, table: Runs, looked_up: Runs, kind: dtype) -> None:
        self.table, self.looked_up, self.nbytes = table, looked_up, _COUNT * kind.itemsize

    def __call__(self, operands: Arrays, outputs: Arrays, parameters: Sequence[float | int]) -> None:
        made = np.empty(self.nbytes, np.uint8)
        self.table([_ALL], [made], parameters)
        self.looked_up([*operands, made], outputs, ())
