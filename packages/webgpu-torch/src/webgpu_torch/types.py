"""Names for annotations, as ``torch.types``."""

from __future__ import annotations

from os import PathLike
from typing import IO, TypeAlias

from webgpu_torch_core import Size, Tensor
from webgpu_torch_core import device as _device_type
from webgpu_torch_core import dtype as _dtype_type

Number: TypeAlias = int | float | bool
Device: TypeAlias = _device_type | str | int | None
FileLike: TypeAlias = str | PathLike[str] | IO[bytes]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_int, _float, _bool = int, float, bool
_dtype, _device = _dtype_type, _device_type
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...]
