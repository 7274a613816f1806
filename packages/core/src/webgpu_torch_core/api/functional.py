"""The operations PyTorch keeps in ``torch.nn.functional``, by the names they have there."""

# The names are found in the registry when this is imported.
# pyright: reportUnsupportedDunderAll=false
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import operations as ops
from ..dispatch.registry import OPERATIONS, functions

if TYPE_CHECKING:
    from .typed.functional import *  # noqa: F403

_SHARED = (
    "relu", "softmax", "log_softmax", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid", "tanh",
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
