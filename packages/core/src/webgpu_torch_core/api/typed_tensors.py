"""PyTorch's older names of tensors of one element type: ``torch.FloatTensor`` and its kin."""

from __future__ import annotations

from typing import Any

from ..ir.dtypes import bfloat16, bool_, dtype, float16, float32, float64, int8, int16, int32, int64, uint8
from ..notices import refuse_place_of_copy
from ..operations.creation.factories import empty, tensor
from ..tensors.kinds import strided
from ..tensors.tensor import Size, Tensor

TYPES = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "BFloat16Tensor": bfloat16,
    "ByteTensor": uint8,
    "CharTensor": int8,
    "ShortTensor": int16,
    "IntTensor": int32,
    "LongTensor": int64,
    "BoolTensor": bool_,
}


class TypedTensorType(type):
    """The type of these names: tensors of the element type on the CPU are their instances."""

    dtype: dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        ours = isinstance(instance, Tensor) and instance.layout is strided and instance.device.type == "cpu"
        return ours and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a tensor from sizes or from data, as PyTorch's legacy constructors."""
        place = kwargs.get("device", "cpu")
        if len(args) == 1 and isinstance(args[0], Tensor):
            refuse_place_of_copy("constructor of the form torch.Tensor", kwargs.get("device"))
            return args[0].to(cls.dtype)
        if len(args) == 1 and isinstance(args[0], Size):
            return empty(args[0], dtype=cls.dtype, device=place)
        if len(args) == 1 and not isinstance(args[0], int):
            return tensor(args[0], dtype=cls.dtype, device=place)
        return empty(*(args or (0,)), dtype=cls.dtype, device=place)


def typed_tensor(name: str) -> TypedTensorType:
    """Return the class that goes by one of :data:`TYPES`' names."""
    made = TypedTensorType(name, (), {"dtype": TYPES[name], "__module__": "torch"})
    made.__doc__ = f"A tensor of ``{TYPES[name].name}`` on the CPU."
    return made


FloatTensor = typed_tensor("FloatTensor")
DoubleTensor = typed_tensor("DoubleTensor")
HalfTensor = typed_tensor("HalfTensor")
BFloat16Tensor = typed_tensor("BFloat16Tensor")
ByteTensor = typed_tensor("ByteTensor")
CharTensor = typed_tensor("CharTensor")
ShortTensor = typed_tensor("ShortTensor")
IntTensor = typed_tensor("IntTensor")
LongTensor = typed_tensor("LongTensor")
BoolTensor = typed_tensor("BoolTensor")
