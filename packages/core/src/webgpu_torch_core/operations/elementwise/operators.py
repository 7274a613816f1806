"""The operators of Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.direct import DIRECT, OPERATORS, Direct
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..creation.factories import as_tensor
from .overloads import positive, pow
from .python_numbers import is_array, is_numpy_number, python_number


def _operator(name: str, function: Any, reflected: Any = None, in_place: str | None = None) -> None:
    def forward(self: Tensor, other: Any) -> Any:
        if not isinstance(other, Tensor | int | float | complex):
            if name in ("eq", "ne") and is_array(other) and other.dtype.kind in "biufc":
                return function(self, as_tensor(other, device=self.device))
            # NumPy itself answers for its arrays, where it can.
            return function(self, python_number(other)) if is_numpy_number(other) else NotImplemented
        return function(self, other)

    forward.__name__ = f"__{name}__"
    setattr(Tensor, f"__{name}__", forward)
    _record_directly(forward, function)
    if reflected is not None:

        def backward(self: Tensor, other: Any) -> Any:
            if not isinstance(self, Tensor) and name != "truediv":
                # PyTorch defines these in C.
                if name in ("add", "mul", "and", "or", "xor"):
                    raise TypeError(
                        f"descriptor '__r{name}__' for 'torch._C.TensorBase' objects doesn't apply to a '{type(self).__name__}' object"
                    )
                # The others only hand their arguments on, the other way round.
                return NotImplemented if name in ("sub", "matmul") else reflected(self, other)
            if not isinstance(other, int | float | complex | Tensor):
                if is_numpy_number(other):
                    return reflected(self, python_number(other))
                # PyTorch writes this one in Python: as a product, whose right side is an array.
                return reflected(self, other) if name == "truediv" and is_array(other) else NotImplemented
            return reflected(self, other)

        _record_directly(backward, reflected)
        setattr(Tensor, f"__r{name}__", backward)
    if in_place is not None:
        method = getattr(Tensor, in_place)

        def change(self: Tensor, other: Any) -> Any:
            return NotImplemented if is_array(other) else method(self, other)

        setattr(Tensor, f"__i{name}__", change)


def _record_directly(operator: Callable[..., object], function: Callable[..., object]) -> None:
    """Let calls of an operator over plain tensors and numbers record what a function of two operands does, without a call of either."""
    found = DIRECT.get(function)
    elementwise = getattr(found and found.record, "__self__", None)
    if found is None or elementwise is None:
        return
    OPERATORS[operator] = found
    direct = elementwise.operator(operator)
    DIRECT[operator] = Direct(lambda args: direct(*args), 2)


_operator("add", e.add, e.add, "add_")
_operator("sub", e.sub, lambda a, b: e.sub(b, a), "sub_")
_operator("mul", e.mul, e.mul, "mul_")
_operator(
    "truediv",
    e.true_divide_,
    lambda a, b: e.reciprocal(a) * b,
    "div_",
)
_operator("floordiv", e.floor_divide, lambda a, b: e.floor_divide(b, a), "floor_divide_")
_operator("mod", e.remainder, lambda a, b: e.remainder(b, a), "remainder_")
_operator("pow", lambda a, b: a.pow(b), lambda a, b: pow(b, a), "pow_")
_operator("and", e.bitwise_and, e.bitwise_and, "bitwise_and_")
_operator("or", e.bitwise_or, e.bitwise_or, "bitwise_or_")
_operator("xor", e.bitwise_xor, e.bitwise_xor, "bitwise_xor_")
_operator("lshift", e.bitwise_left_shift, lambda a, b: e.bitwise_left_shift(b, a), "bitwise_left_shift_")
_operator("rshift", e.bitwise_right_shift, lambda a, b: e.bitwise_right_shift(b, a), "bitwise_right_shift_")
for _name, _function in {"eq": e.eq, "ne": e.ne, "lt": e.lt, "le": e.le, "gt": e.gt, "ge": e.ge}.items():
    _operator(_name, _function)
Tensor.__rdiv__ = Tensor.__rtruediv__  # type: ignore[attr-defined]
Tensor.__neg__ = lambda self: e.neg(self)  # type: ignore[attr-defined]
Tensor.__pos__ = lambda self: positive(self)  # type: ignore[attr-defined]
Tensor.__abs__ = lambda self: e.abs(self)  # type: ignore[attr-defined]


def _invert(self: Tensor) -> Tensor:
    """``~self``.

    Raises:
        TypeError: a type without bits.
    """
    if self.dtype.category > 1:
        raise TypeError(
            f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, got {self.dtype!r}"
        )
    return e.bitwise_not(self)


Tensor.__invert__ = _invert  # type: ignore[attr-defined]
Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
