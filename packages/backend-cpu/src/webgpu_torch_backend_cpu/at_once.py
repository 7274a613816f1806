"""Small element-wise kernels as functions of arrays that return another: views of operands take longer than computing does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from webgpu_torch_core.ir.expression import Expression
from webgpu_torch_core.ir.kernels import Kernel, Operand, Output, Pointwise
from webgpu_torch_core.scheduling.domain import collapse

from .choices import MANY
from .compiler import SCOPE
from .printer import FUNCTIONS, TYPES, Printer
from .writer import parameter_lines


class Whole(NamedTuple):
    """What computes a kernel.

    Fields:
        function: given all elements of its operands and, if there are any, the kernel's parameters, it returns those of the output.
        operands, output: how many bytes and which type its operands have, one or two, and what it returns.
        steps: how many functions of NumPy it calls.
    """

    function: Callable[..., np.ndarray]
    operands: tuple[tuple[int, np.dtype], ...]
    output: tuple[int, np.dtype]
    steps: int


class _Another(Exception):
    """A kernel is of another kind."""


def _kind_of(part: Operand | Output) -> tuple[int, np.dtype]:
    return part.numel * part.dtype.itemsize, np.dtype(TYPES[part.dtype.name])


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
    *operands, result = map(_kind_of, (*kernel.operands, output))
    names, used = [f"v{number}" for number in range(len(operands))], set[str]()

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
        found = printer.value(store.value)
    except _Another:
        return None
    # What an operand holds, or a number, is no new array; and one of the operands is as long as the result.
    if not printer.lines or len(used) < len(names) or used.isdisjoint(printer.names.values()):
        return None
    root = printer.printable(store.value)
    step = FUNCTIONS.get(root.step)
    if step and [printer.names[each] for each in root.arguments] == ["v0", "v1"]:
        function, numbers = getattr(np, step), ()
    else:
        first = f"def kernel({', '.join(names)}, parameters):"
        text = [first, *parameter_lines(kernel), *printer.lines, f"return {found}"]
        scope = {**SCOPE, **printer.constants}
        exec("\n    ".join(text), scope)
        function, numbers = scope["kernel"], ([1] * len(kernel.parameters),)
    # What it returns becomes the output's memory as it is.
    with np.errstate(all="ignore"):
        made = function(*(np.ones(nbytes // kind.itemsize, kind) for nbytes, kind in operands), *numbers)
    return Whole(function, tuple(operands), result, len(printer.lines)) if (made.nbytes, made.dtype) == result else None
