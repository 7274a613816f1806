"""The operations PyTorch keeps in ``torch.nn.functional``, by the names they have there."""

from __future__ import annotations

from . import ops
from .ops.registry import OPERATIONS, functions

_SHARED = (
    "relu", "softmax", "log_softmax", "conv1d", "conv2d", "conv3d", "sigmoid", "tanh",
)  # fmt: skip


def _collect() -> dict[str, object]:
    found: dict[str, object] = dict(functions("functional"))
    for name in _SHARED:
        if name in OPERATIONS:
            found[name] = OPERATIONS[name].function
    return found


globals().update(_collect())
__all__ = sorted(_collect())
del ops
