"""Results written into the tensors that callers give as ``out``."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .elementwise_call import finish_out


def into(result: Any, out: Any) -> Any:
    """Return a result (a tensor or several); where ``out`` is given, written into it and resized to fit.

    Raises:
        RuntimeError: the types cannot be cast, gradients are being recorded, or another number of tensors.
    """
    if out is None:
        return result
    if isinstance(result, Tensor):
        return finish_out(result, out)
    targets = tuple(out)
    if len(targets) != len(result):
        raise RuntimeError(f"expected {len(result)} tensors for 'out', but got {len(targets)}")
    for target, each in zip(targets, result, strict=True):
        finish_out(each, target)
    return type(result)(*targets) if hasattr(result, "_fields") else targets
