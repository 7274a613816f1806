"""Checks of sampling weights on a device whose results are not read back for it."""

from __future__ import annotations

from ...ir.dtypes import float32, int32
from ...record.devices import MetaEngine
from ...tensors.tensor import Tensor
from ..elementwise.overloads import where

_BAD_WEIGHTS = (
    "probability tensor contains either `inf`, `nan` or element < 0",
    "invalid multinomial distribution (sum of probabilities <= 0)",
)


def check_weights(weights: Tensor) -> None:
    """Have rows of weights checked where they are: the next reading of results raises. Replayed recordings do not repeat it."""
    engine = weights._engine
    if isinstance(engine, MetaEngine) or engine.capture is not None:
        return
    wrong = weights.isnan() | weights.isinf() | (weights < 0)
    empty = weights.to(float32).sum(-1) == 0
    failed = where(wrong.any(), 1, where(empty.any(), 2, 0)).to(int32)
    before = engine.checks.get(_BAD_WEIGHTS)
    if before is not None:
        failed = failed.maximum(Tensor._from_value(before, failed._layout, int32, weights.device))
    engine.checks[_BAD_WEIGHTS] = failed._storage.value
