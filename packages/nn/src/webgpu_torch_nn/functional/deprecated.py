"""Functions that PyTorch keeps for old programs."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import publish
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.outputs import into, into_as_many


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """``sqrt(sum |x|²)`` over dimensions (one or more; none: all). Deprecated in PyTorch for ``linalg.vector_norm``."""
    return into(torch.linalg.vector_norm(input, 2.0, dim if dim != () else None, keepdim), out)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of a matrix's singular values. Deprecated in PyTorch for ``linalg.matrix_norm``."""
    if isinstance(dim, bool):  # nuclear_norm(input, keepdim)
        dim, keepdim = (-2, -1), dim
    return into(torch.linalg.matrix_norm(input, "nuc", dim, keepdim), out)


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Numbers from ``start`` to ``end``, both included, in steps. Deprecated in PyTorch for ``arange``.

    Raises:
        RuntimeError: a step of zero, or one that leads away from ``end``.
    """
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
    )
    if end is None:
        raise TypeError("range() missing required argument 'end'")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    kind = options.pop("dtype", None) or torch.get_default_dtype()
    out = options.pop("out", None)
    values = torch.arange(count, device=options.pop("device", None), dtype=torch.float32) * step + start
    values = values.to(kind)
    return values.requires_grad_(options.pop("requires_grad", False)) if out is None else into_as_many(values, out)


publish(globals(), "torch")
