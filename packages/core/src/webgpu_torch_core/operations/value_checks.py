"""Checks of weights, probabilities and deviations on a device whose results are not read back for it."""

from __future__ import annotations

from ..ir.dtypes import float32, int64
from ..record.checks import check_base
from ..record.devices import MetaEngine, on_host
from ..replay.recipes import remembered
from ..tensors.tensor import Tensor
from .elementwise.choosing import where

_BAD_WEIGHTS = (
    "probability tensor contains either `inf`, `nan` or element < 0",
    "invalid multinomial distribution (sum of probabilities <= 0)",
)


def _fail(failed: Tensor) -> None:
    """Have the next reading of results raise where a number says that a check failed."""
    engine = failed._engine
    if engine.recorder.failed is not None:
        before = Tensor._from_value(engine.recorder.failed, failed._layout, int64, failed.device)
        failed = where(before != 0, before, failed)
    engine.recorder.failed = failed._storage.value


def _unchecked(values: Tensor) -> bool:
    """Return whether nothing is checked: there are no values, or they are another call's when a recording is replayed."""
    engine = values._engine
    return isinstance(engine, MetaEngine) or engine.capture is not None or not values.numel()


def require_none(wrong: Tensor, message: str, kind: type[Exception] = RuntimeError) -> None:
    """Have elements checked where they are: the next reading of results raises an error of a type if any is True.

    Replayed recordings do not repeat it.
    """
    if not _unchecked(wrong):
        _fail(_number_of(wrong, check_base((message, kind), lambda found: kind(message))))


@remembered
def _number_of(wrong: Tensor, base: int) -> Tensor:
    """Return the number of a check that failed if any element is True, else 0."""
    return where(wrong.any(), base, 0).to(int64)


def refuse_any(wrong: Tensor, message: str) -> None:
    """Raise a RuntimeError if any element is True: on the host at once, elsewhere as by :func:`require_none`."""
    if not on_host(wrong.device):
        require_none(wrong, message)
    elif not _unchecked(wrong) and bool(wrong.any()):
        raise RuntimeError(message)


def check_weights(weights: Tensor) -> None:
    """Have rows of weights checked, as :func:`require_none`."""
    if _unchecked(weights):
        return
    _fail(_number_of_weights(weights, check_base("weights", lambda found: RuntimeError(_BAD_WEIGHTS[found]))))


@remembered
def _number_of_weights(weights: Tensor, base: int) -> Tensor:
    """Return the number of the check that rows of weights fail, 0 where they are right."""
    wrong = weights.isnan() | weights.isinf() | (weights < 0)
    empty = weights.to(float32).sum(-1) == 0
    return where(wrong.any(), base, where(empty.any(), base + 1, 0)).to(int64)


def check_probabilities(probabilities: Tensor) -> None:
    """Have probabilities checked, as :func:`require_none`."""
    require_none(improbable(probabilities), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


@remembered
def improbable(numbers: Tensor) -> Tensor:
    """Return which elements are no probabilities."""
    # Written so that NaN is none, too.
    return ~((numbers >= 0) & (numbers <= 1))


def check_deviations(std: Tensor | float) -> None:
    """Have standard deviations checked: a number at once, a tensor as by :func:`require_none`.

    Raises:
        RuntimeError: a number is negative.
    """
    if isinstance(std, Tensor):
        # Written so that NaN is refused, too.
        require_none(~(std.detach() >= 0), "normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
