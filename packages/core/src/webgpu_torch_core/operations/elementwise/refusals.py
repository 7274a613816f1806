"""Element types that element-wise operations could compute on but PyTorch, for good reasons, refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.dtypes import bool_, dtype

Refusal = Callable[[tuple[Any, ...], dtype], None]
_MASK = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
_NAMES = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}


def _subtraction(operands: tuple[Any, ...], promoted: dtype) -> None:
    del promoted
    flags = [each.__class__ is bool or getattr(each, "dtype", None) is bool_ for each in operands]
    if all(flags):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
            "instead."
        )
    if any(flags):
        raise RuntimeError(f"Subtraction, the `-` operator, with a bool tensor is not supported. {_MASK}")


def _negation(operands: tuple[Any, ...], promoted: dtype) -> None:
    del operands
    if promoted is bool_:
        raise RuntimeError(f"Negation, the `-` operator, on a bool tensor is not supported. {_MASK}")


def _relu(operands: tuple[Any, ...], promoted: dtype) -> None:
    del operands
    if promoted is bool_:
        raise RuntimeError("Boolean inputs not supported for relu")


def _not_implemented(kernel: str, refused: Callable[[dtype], bool]) -> Refusal:
    """Return a refusal in the words of PyTorch's kernel of a name."""

    def refuse(operands: tuple[Any, ...], promoted: dtype) -> None:
        del operands
        if refused(promoted):
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{_NAMES[promoted.name]}'")

    return refuse


def _whole(kind: dtype) -> bool:
    return kind.category < 2


def _flag(kind: dtype) -> bool:
    return kind is bool_


def _integer_division(operands: tuple[Any, ...], promoted: dtype) -> None:
    if all(each.dtype.category < 2 for each in operands[1:3]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: use (self + value * torch.trunc(tensor1 / tensor2)) "
            f"or (self + value * tensor1 / tensor2) in a floating-point type, not {promoted!r}"
        )


def _power(operands: tuple[Any, ...], promoted: dtype) -> None:
    if promoted is bool_ and not any(each.__class__ is bool for each in operands):
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")


#: what PyTorch computes of floating-point (and complex) numbers only, and the name of its kernel
_OF_FLOATS = {
    "frac": "frac", "silu": "silu", "softplus_": "softplus", "hypot": "hypot", "logaddexp": "logaddexp", "logaddexp2": "logaddexp2",
    "nextafter": "nextafter", "leaky_relu": "leaky_relu", "logsigmoid": "log_sigmoid", "round_decimals_": "round",
}  # fmt: skip
#: what PyTorch computes of anything but booleans
_OF_NUMBERS = {
    "bitwise_left_shift": "lshift_cpu", "bitwise_right_shift": "rshift_cpu", "floor_divide": "div_floor_cpu",
    "divide_floor": "div_floor_cpu", "divide_trunc": "div_trunc_cpu", "fmod": "fmod_cpu", "remainder": "remainder_cpu",
    "abs": "abs_cpu", "ceil": "ceil_vml_cpu", "floor": "floor_vml_cpu", "round_": "round_vml_cpu",
    "trunc": "trunc_vml_cpu",
}  # fmt: skip
#: operation -> a function of its operands and their promoted type that raises where PyTorch does
REFUSALS: dict[str, Refusal] = {
    "sub": _subtraction,
    "neg": _negation,
    "relu": _relu,
    "addcdiv": _integer_division,
    "power_": _power,
    **{name: _not_implemented(f"{kernel}_cpu", _whole) for name, kernel in _OF_FLOATS.items()},
    **{name: _not_implemented(kernel, _flag) for name, kernel in _OF_NUMBERS.items()},
    **dict.fromkeys(("gelu_erf", "gelu_tanh"), _not_implemented("GeluKernelImpl", _whole)),
}
