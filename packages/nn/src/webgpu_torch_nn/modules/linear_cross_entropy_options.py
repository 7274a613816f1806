"""How PyTorch cuts a linear map followed by cross entropy into pieces."""

from __future__ import annotations

import dataclasses
from typing import Any

import webgpu_torch_core as torch

_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Options of :func:`~webgpu_torch_nn.functional.linear_cross_entropy`, checked and kept as PyTorch's are.

    They say how PyTorch divides the batch to need less memory. Results do not depend on them, and the kernels here are
    divided by their own rules, so that they change nothing.

    Args:
        allow_retain_graph: whether a second backward pass is possible.
        batch_chunk_size: rows per piece, more than 0.
        chunking_method: None, "auto", "aspect_ratio" or "aspect_ratio:n".
        acc_policy: "auto", "accurate", "balanced" or "compact".
        acc_dtype: type of the sums: float16, bfloat16, float32 or float64.

    Raises:
        ValueError: any other value.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}; it is one of {_POLICIES}")
        if self.chunking_method not in (None, "auto", "aspect_ratio"):
            name, _, factor = str(self.chunking_method).partition(":")
            if name != "aspect_ratio" or not factor.isdigit() or int(factor) == 0:
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise ValueError(
                "acc_dtype must be one of None, torch.float16, torch.bfloat16, torch.float32 and torch.float64, "
                f"got {self.acc_dtype!r}"
            )
