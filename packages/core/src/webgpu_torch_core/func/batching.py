"""Batches that a function sees one example of: the tensors of ``vmap``, and how calls with them are answered.

A :class:`BatchedTensor` has the shape of one example and holds the whole batch, batch dimension first. Calls with such
tensors arrive through the protocol of ``__torch_function__``; a rule of :mod:`.rules` computes the whole batch at once, or,
where there is none, the function runs on one example after the other. Batches of batches are BatchedTensors that hold
BatchedTensors: a rule for the inner level calls the function on what it holds, and the outer level answers that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..dispatch.overrides import PATHS, DisableTorchFunctionSubclass, count_modes, disabled_implementation
from ..dispatch.registry import OPERATIONS
from ..ir.layouts import Layout, layout
from ..record.context import context, handed_on
from ..record.devices import meta_engine
from ..tensors.pytree import tree_leaves, tree_map
from ..tensors.storage import MetaValue, new_storage
from ..tensors.tensor import Tensor


class _Levels(threading.local):
    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.randomness: list[str] = []


_levels = _Levels()
handed_on.append(_levels)
RANDOM_REFUSED = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
    "flags on vmap or perform the randomness operation out of vmap"
)


class BatchedTensor(Tensor):
    """One example of a batch.

    Attributes:
        batch: the whole batch, its examples along the first dimension.
        level: which of the nested calls of ``vmap`` the batch belongs to, from 1.
    """

    # Replaced below: the class overrides only while a call of vmap runs.
    __torch_function__ = disabled_implementation  # type: ignore[assignment]
    batch: Any
    level: int

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        inner = repr(self.batch).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={self.level}, bdim=0, value=\n    {inner}\n)"


def batched(batch: Any, level: int) -> BatchedTensor:
    """Return one example of a batch, whose first dimension counts examples."""
    whole: Layout = batch._layout
    example = layout(whole.shape[1:], whole.strides[1:], whole.offset)
    # Whatever reads the example's own storage, past all rules, finds no data there rather than one example's.
    storage = new_storage(MetaValue(meta_engine, batch.dtype, whole.numel))
    with DisableTorchFunctionSubclass():
        result: Any = BatchedTensor._from_storage(storage, example, batch.dtype, batch.device)
    result.batch, result.level = batch, level
    return result


class BatchRegion:
    """A region in which functions see single examples of batches of one size."""

    def __init__(self, size: int, randomness: str) -> None:
        self.size, self.randomness = size, randomness
        self._before: str | None = None

    def __enter__(self) -> int:
        count_modes(1)
        context.transforms += 1
        self._before = context.refuses_random
        context.refuses_random = RANDOM_REFUSED if self.randomness == "error" else None
        _levels.sizes.append(self.size)
        _levels.randomness.append(self.randomness)
        return len(_levels.sizes)

    def __exit__(self, *_: object) -> None:
        _levels.sizes.pop()
        _levels.randomness.pop()
        context.refuses_random = self._before
        context.transforms -= 1
        count_modes(-1)


def batch_size(level: int) -> int:
    """Return how many examples a level has."""
    return _levels.sizes[level - 1]


def randomness(level: int) -> str:
    """Return what random functions are to do: ``error``, ``same`` or ``different``."""
    return _levels.randomness[level - 1]


def current_level() -> int:
    """Return how many calls of ``vmap`` are running."""
    return len(_levels.sizes)


def is_batched(value: Any, level: int | None = None) -> bool:
    """Return whether a value is an example of a batch (of a level)."""
    return type(value) is BatchedTensor and (level is None or value.level == level)


def level_of(args: Any, kwargs: Any) -> int:
    """Return the innermost level among arguments, 0 if none is batched."""
    return max((each.level for each in tree_leaves((args, kwargs)) if type(each) is BatchedTensor), default=0)


def rewrap(result: Any, level: int) -> Any:
    """Return a result whose tensors are batches as single examples of them."""
    return tree_map(lambda each: batched(each, level) if isinstance(each, Tensor) else each, result)


def held(value: Any, level: int) -> Any:
    """Return an argument with the batches of a level in the place of their examples."""
    return tree_map(lambda each: each.batch if is_batched(each, level) else each, value)


def example_of(value: Any, level: int, index: int) -> Any:
    """Return an argument with one real example of each batch of a level."""
    return tree_map(lambda each: each.batch.select(0, index) if is_batched(each, level) else each, value)


def unwrap(value: Any, level: int) -> Any:
    """Return the batch of a value: of what is the same for all examples, a view that repeats it."""
    if is_batched(value, level):
        return value.batch
    return value.unsqueeze(0).expand(batch_size(level), *([-1] * value.dim()))


def one_by_one(func: Callable[..., Any], level: int, args: Any, kwargs: Any) -> Any:
    """Call a function on one example after the other and return the batch of its results."""
    count = batch_size(level)
    if count == 0:
        raise RuntimeError(f"vmap: {_title(func)} has no rule for batches, and there is no example to call it on")
    results = [func(*example_of(args, level, each), **example_of(kwargs, level, each)) for each in range(count)]
    if is_in_place(func):
        # Every example is a view of its batch, which has been written into.
        return args[0]
    stack = OPERATIONS["stack"].function
    return tree_map(
        lambda *each: batched(stack(list(each)), level) if isinstance(each[0], Tensor) else each[0], *results
    )


def named_after(func: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a function another's name and documentation."""
    return wraps(func) if hasattr(func, "__name__") else lambda function: function


def is_in_place(func: Any) -> bool:
    """Return whether a function writes into its first argument and returns it."""
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or (
        name.startswith("__i") and name not in ("__int__", "__index__", "__invert__", "__iter__")
    )


def _title(func: Any) -> str:
    return PATHS.get(func) or getattr(func, "__name__", str(func))
