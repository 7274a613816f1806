"""Small element-wise kernels as functions of arrays that return another: views of operands take longer than computing does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Kernel, Pointwise
from webgpu_torch_core.scheduling.domain import collapse

from .choices import MANY
from .compiler import SCOPE
from .printer import FUNCTIONS, TYPES, Printer
from .writer import parameter_lines


class Whole(NamedTuple):
    """What computes a kernel.

    Fields:
        function: given all elements of its operands and, if there are any, the kernel's parameters, it returns those of the output.
        types: those of its operands, one or two.
        steps: how many functions of NumPy it calls.
    """

    function: Callable[..., np.ndarray]
    types: tuple[np.dtype, ...]
    steps: int


class _Another(Exception):
    """A kernel is of another kind."""


def whole(kernel: Kernel) -> Whole | None:
    """Return a kernel as a function of one or two whole arrays, None where it reads or writes otherwise than in their order."""
    if not isinstance(kernel, Pointwise) or kernel.elements() >= MANY or len(kernel.stores) != 1:
        return None
    kernel = collapse(kernel)
    (store,), (output,), shape = kernel.stores, kernel.outputs, kernel.shape
    in_order = store.is_plain and not store.offset and store.strides in ((1,), ()) and len(shape) == len(store.strides)
    if (
        not in_order
        or output.initial is not None
        or output.numel != kernel.elements()
        or len(kernel.operands) not in (1, 2)
    ):
        return None
    types = {f"v{number}": np.dtype(TYPES[each.dtype.name]) for number, each in enumerate(kernel.operands)}
    used: set[str] = set()

    def leaf(node: Expression, _: str | None) -> str:
        if node.step != "load" or node.payload[1] or node.dtype is not kernel.operands[node.payload[0]].dtype:
            raise _Another
        number, _, strides = node.payload
        numel, name = kernel.operands[number].numel, f"v{number}"
        used.add(name)
        if numel == output.numel and strides == store.strides:
            return name
        if numel != 1:
            raise _Another
        return f"{name}[:1]"

    printer = Printer(leaf, itertools.count(), False, shape)
    try:
        result = printer.value(store.value)
    except _Another:
        return None
    # What an operand holds, or a number, is no new array; and one of the operands is as long as the result.
    if not printer.lines or used != types.keys() or used.isdisjoint(printer.names.values()):
        return None
    root = printer.printable(store.value)
    step, names = FUNCTIONS.get(root.step), [printer.names[each] for each in root.arguments]
    if step and names == ["v0", "v1"]:
        function = getattr(np, step)
    else:
        first = f"def kernel({', '.join(types)}, parameters):"
        text = [first, *parameter_lines(kernel), *printer.lines, f"return {result}"]
        scope = {**SCOPE, **printer.constants}
        exec("\n    ".join(text), scope)
        function = scope["kernel"]
    return Whole(function, tuple(types.values()), len(printer.lines))
