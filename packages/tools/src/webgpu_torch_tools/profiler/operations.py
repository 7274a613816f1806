"""What profiles call the operations, and how many floating-point operations some of them take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from webgpu_torch_core.dispatch.overrides import PATHS

#: questions about tensors, which compute nothing
_QUESTIONS = frozenset((
    "__len__", "can_cast", "data_ptr", "dense_dim", "dim", "element_size", "get_device", "is_coalesced", "is_complex",
    "is_conj", "is_contiguous", "is_distributed", "is_floating_point", "is_inference", "is_neg", "is_pinned",
    "is_same_size", "is_set_to", "is_shared", "is_signed", "numel", "pin_memory", "register_hook", "requires_grad_",
    "result_type", "retain_grad", "share_memory_", "size", "sparse_dim", "storage_offset", "stride", "untyped_storage",
))  # fmt: skip
#: methods of Python's protocols, by the operation that PyTorch records for them
_PROTOCOLS = {
    "__eq__": "eq", "__invert__": "bitwise_not", "__floordiv__": "floor_divide", "__rfloordiv__": "floor_divide",
    "__rdiv__": "div", "__rmatmul__": "matmul", "__rmod__": "remainder", "__rpow__": "pow", "__rsub__": "rsub",
    "__rand__": "__and__", "__ror__": "__or__", "__rxor__": "__xor__", "__rlshift__": "__lshift__",
    "__rrshift__": "__rshift__", "__float__": "item", "__int__": "item", "__index__": "item", "__complex__": "item",
    "__bool__": "is_nonzero",
}  # fmt: skip
_OPERATORS = frozenset(f"__{name}__" for name in ("and", "or", "xor", "lshift", "rshift")) | frozenset(
    f"__i{name}__" for name in ("and", "or", "xor", "lshift", "rshift")
)
#: methods that are no operations of PyTorch's either
_METHODS = frozenset(("backward", "numpy", "tolist"))
_MOVES = frozenset(("cpu", "cuda", "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "type"))
_PREFIXED = ("linalg", "special", "fft")


def operation_name(function: Any) -> str | None:
    """Return what profiles call a public function, ``aten::add`` for instance; None if it computes nothing."""
    path = PATHS.get(function)
    if path is None:
        return None
    family, _, name = path.rpartition(".")
    family = family.rpartition(".")[2]
    if name in _QUESTIONS:
        return None
    if family == "Tensor":
        if name in _MOVES:
            return "aten::to"
        plain = _PROTOCOLS.get(name, name)
        is_method = plain in _METHODS or (plain.startswith("__") and plain not in _OPERATORS)
        return f"Tensor.{name}" if is_method else f"aten::{plain}"
    return f"aten::{family}_{name}" if family in _PREFIXED else f"aten::{name}"


def _product(shapes: list[list[int]]) -> int:
    first, second = shapes[0], shapes[1]
    inner = first[-1]
    columns = second[-1] if len(second) > 1 else 1
    return 2 * math.prod(first[:-1] or [1]) * inner * columns * _batches(first, second)


def _batches(first: list[int], second: list[int]) -> int:
    """Return how often a batch of the second operand repeats the first."""
    ours, theirs = first[:-2], second[:-2]
    total = 1
    for place in range(1, len(theirs) + 1):
        mine = ours[-place] if place <= len(ours) else 1
        total *= theirs[-place] if mine == 1 else 1
    return total


def _linear(shapes: list[list[int]]) -> int:
    return 2 * math.prod(shapes[0]) * math.prod(shapes[1][:-1])


def _convolution(shapes: list[list[int]], output: list[int]) -> int:
    return 2 * math.prod(output) * math.prod(shapes[1][1:])


def _each(shapes: list[list[int]]) -> int:
    return math.prod(shapes[0])


_FORMULAS: dict[str, Callable[[list[list[int]]], int]] = {
    "aten::mm": _product,
    "aten::bmm": _product,
    "aten::matmul": _product,
    "aten::linear": _linear,
    "aten::addmm": lambda shapes: _product(shapes[1:]),
    "aten::baddbmm": lambda shapes: _product(shapes[1:]),
    "aten::add": _each,
    "aten::mul": _each,
}


def flops(name: str, shapes: list[list[int]], result: Any) -> int:
    """Return the floating-point operations of a call by PyTorch's formulas; 0 where there is none.

    Matrix products (a multiplication and an addition count two), ``linear``, ``conv2d``, ``add`` and ``mul``.
    """
    try:
        if name == "aten::conv2d":
            return _convolution(shapes, list(result.shape))
        formula = _FORMULAS.get(name)
        return 0 if formula is None else formula(shapes)
    except (IndexError, AttributeError):
        # Operands given by name or as numbers: not known.
        return 0
