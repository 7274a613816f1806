"""Checks of sampling weights on a device whose results are not read back for it."""

from __future__ import annotations

from ...ir.dtypes import float32, int64
from ...record.checks import check_base
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
    base = check_base("weights", lambda found: RuntimeError(_BAD_WEIGHTS[found]))
    failed = where(wrong.any(), base, where(empty.any(), base + 1, 0)).to(int64)
    if engine.failed is not None:
        failed = failed.maximum(Tensor._from_value(engine.failed, failed._layout, int64, weights.device))
    engine.failed = failed._storage.value
