"""Python's and NumPy's numbers as operands and options of element-wise operations."""

from __future__ import annotations

from typing import Any

from ...ir import expression as ir
from ...ir.dtypes import bool_, dtype
from ...tensors.tensor import Tensor


def _numbers_as_tensors(name: str, taken: bool, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    # A circle: that module imports this one.
    from ..creation.factories import tensor

    if not taken or not isinstance(operands[0], int | float | complex):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(operands[0]).__name__}")
    return (tensor(operands[0]), *operands[1:])


def is_array(value: object) -> bool:
    """Return whether a value is an array of NumPy's."""
    return hasattr(value, "__array_finalize__")


def is_numpy_number(value: object) -> bool:
    """Return whether a value is a number of NumPy's, which is no array of one."""
    return type(value).__module__ == "numpy" and hasattr(value, "item") and not is_array(value)


def python_number(value: Any) -> Any:
    """Return NumPy's number as Python's; its truth values count as floating-point numbers, as they do for PyTorch."""
    number = value.item()
    return float(number) if isinstance(number, bool) else number


def plain(name: str, taken: bool, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands with NumPy's numbers as Python's, and a tensor among them.

    Raises:
        TypeError: an array of NumPy's, or no tensor where there has to be one.
    """
    for position, each in enumerate(operands):
        if is_array(each):
            given = type(each)
            which = "input" if not position else "other"
            raise TypeError(
                f"{name}(): argument '{which}' (position {position + 1}) must be Tensor, not {given.__module__}.{given.__name__}"
            )
    numbers = tuple(python_number(each) if is_numpy_number(each) else each for each in operands)
    return numbers if any(isinstance(each, Tensor) for each in numbers) else _numbers_as_tensors(name, taken, numbers)


def varies(option: object, default: object) -> bool:
    """Return whether an option is a number given at run time: one that is not the default, which 0.0 is not for -0.0."""
    if option.__class__ is not float and option.__class__ is not int:
        return False
    return (
        option != default or option.__class__ is not default.__class__ or (not option and str(option) != str(default))
    )


def number_leaf(value: Any, promoted: dtype, compute: dtype, parameter_types: list[dtype]) -> ir.Expression:
    """Return a run-time parameter for a Python number, in the type it takes part in."""
    own = compute
    if isinstance(value, bool):
        own = bool_
    parameter_types.append(own)
    leaf = ir.parameter(len(parameter_types) - 1, own)
    if promoted.category == 1:
        # Small integer types wrap a number before computing with it: -1 takes part as 255 in uint8.
        leaf = ir.cast(leaf, promoted)
    return ir.cast(leaf, compute)
