"""A mode of PyTorch's tracing compiler."""

from __future__ import annotations

import contextlib


class TransformGetItemToIndex(contextlib.nullcontext[None]):
    """Changes nothing: indexing with tensors works under :func:`torch.vmap` as it is."""
