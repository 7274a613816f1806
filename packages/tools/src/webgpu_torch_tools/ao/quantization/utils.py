"""What the parts of quantisation ask of types, schemes and modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import webgpu_torch_core as torch
from webgpu_torch_nn import Module

Key = TypeVar("Key")
Value = TypeVar("Value")
_PER_CHANNEL = (torch.per_channel_affine, torch.per_channel_symmetric, torch.per_channel_affine_float_qparams)
#: the integers of each type, and those whose highest bit is unused
_RANGES = {
    torch.qint8: ((-128, 127), (-64, 63)), torch.int8: ((-128, 127), (-64, 63)), torch.quint8: ((0, 255), (0, 127)),
    torch.uint8: ((0, 255), (0, 127)), torch.qint32: ((-(2**31), 2**31 - 1),) * 2, torch.int32: ((-(2**31), 2**31 - 1),) * 2,
    torch.int16: ((-(2**15), 2**15 - 1),) * 2, torch.uint16: ((0, 2**16 - 1),) * 2,
}  # fmt: skip


def is_per_tensor(qscheme: torch.qscheme) -> bool:
    """Return whether a scheme has one scale."""
    return qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric)


def is_per_channel(qscheme: torch.qscheme) -> bool:
    """Return whether a scheme has a scale for each position of a dimension."""
    return qscheme in _PER_CHANNEL


def is_symmetric(qscheme: torch.qscheme) -> bool:
    """Return whether zero is in the middle of a scheme's integers."""
    return qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric)


def calculate_qmin_qmax(
    quant_min: int | None, quant_max: int | None, has_customized_qrange: bool, dtype: torch.dtype, reduce_range: bool
) -> tuple[int, int]:
    """Return the least and the greatest integer: those that are given, or a type's; halved where the highest bit is unused.

    Raises:
        AssertionError: a given range is none, or none of the type's.
    """
    if has_customized_qrange:
        least, greatest = int(quant_min or 0), int(quant_max or 0)
        if least > greatest:
            raise AssertionError("qmin must be less than or equal to qmax")
        return (least // 2, greatest // 2) if reduce_range else (least, greatest)
    whole, reduced = _RANGES[dtype]
    return reduced if reduce_range else whole


def weight_is_quantized(qconfig: object) -> bool:
    """Return whether a configuration wants weights as integers."""
    return getattr(qconfig, "weight", None) is not None and weight_dtype(qconfig) in (
        torch.quint8, torch.qint8, torch.float16, torch.int8, torch.uint8,
    )  # fmt: skip


def weight_dtype(qconfig: object) -> torch.dtype:
    """Return the type that a configuration wants weights in."""
    made: Callable[[], object] = qconfig.weight  # type: ignore[attr-defined]
    return made().dtype  # type: ignore[attr-defined]


def activation_dtype(qconfig: object) -> torch.dtype:
    """Return the type that a configuration wants activations in."""
    made: Callable[[], object] = qconfig.activation  # type: ignore[attr-defined]
    return made().dtype  # type: ignore[attr-defined]


def get_combined_dict(default_dict: dict[Key, Value], additional_dict: dict[Key, Value]) -> dict[Key, Value]:
    """Return a copy of a dictionary with the entries of another put over its own."""
    return {**default_dict, **additional_dict}


def check_min_max_valid(min_val: torch.Tensor, max_val: torch.Tensor) -> bool:
    """Return whether anything was observed, that is whether bounds ``[]`` or ``[n]`` are numbers.

    Raises:
        AssertionError: a least number is above the greatest.
    """
    if min_val.numel() == 0 or max_val.numel() == 0:
        return False
    if min_val.numel() == 1 and min_val.item() == float("inf") and max_val.item() == float("-inf"):
        return False
    if not bool((min_val <= max_val).all()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


def has_no_children_ignoring_parametrizations(module: Module) -> bool:
    """Return whether a module holds no others but what parametrises its weights."""
    names = [name for name, _ in module.named_children()]
    return not names or names == ["parametrizations"]
