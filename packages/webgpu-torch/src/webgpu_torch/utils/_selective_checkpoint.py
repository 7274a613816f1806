"""Checkpoints that keep the results of some operations: ``create_selective_checkpoint_contexts``."""

from __future__ import annotations

import enum
import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from webgpu_torch_core import Tensor

from .._ops import OpOverload
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map

Value: TypeAlias = Any
#: marks of calls whose results are not there: they are computed again, or were taken already
_AGAIN, _TAKEN = object(), object()
_CHANGED = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that changed "
    "between forward and backward."
)


class CheckpointPolicy(enum.Enum):
    """What becomes of an operation's result until the backward pass.

    ``SAVE`` keeps it and ``RECOMPUTE`` computes it again. ``CPU_OFFLOAD`` asks in PyTorch for a compiler that moves it to the CPU and
    back; without that, which is how it is here, it is computed again. ``MUST`` and ``PREFER`` are the same.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told beside the operation and its arguments.

    Attributes:
        is_recompute: False: policies are asked in the forward pass only.
        op_output: what the operation returned.
    """

    def __init__(self, *, is_recompute: bool, op_output: Value = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """A tensor that must not be written until it is taken, or any other value."""

    def __init__(self, value: Value) -> None:
        self.value = value.detach() if isinstance(value, Tensor) else value
        self.version = self.value._version if isinstance(value, Tensor) else None

    def take(self, written: bool) -> Value:
        if self.version is not None and not written and self.value._version != self.version:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.value


class _Keeping(TorchDispatchMode):
    """The forward pass: results are kept as the policy says."""

    def __init__(self, policy: Callable[..., Value], results: dict[Value, list[Value]]) -> None:
        super().__init__()
        self.policy, self.results = policy, results

    def __torch_dispatch__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Compute an operation, and ask what becomes of its result."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if _is_ignored(func):
            return result
        asked = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        found = self.policy(asked, func, *args, **kwargs)
        kept = found in (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        self.results[func].append(tree_map(_Kept, result) if kept else _AGAIN)
        return result


class _Taking(TorchDispatchMode):
    """The repetition: what was kept is not computed again."""

    def __init__(self, results: dict[Value, list[Value]], written: bool) -> None:
        super().__init__()
        self.results, self.written = results, written
        self.calls: dict[Value, int] = {}

    def __enter__(self) -> Value:
        self.calls = defaultdict(int)
        return super().__enter__()

    def __torch_dispatch__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Return what an operation returned before, or compute it."""
        if _is_ignored(func):
            return func(*args, **(kwargs or {}))
        place = self.calls[func]
        self.calls[func] += 1
        if func not in self.results:
            raise RuntimeError(f"{func} encountered during backward but not found in storage. {_CHANGED}")
        if place >= len(self.results[func]):
            raise RuntimeError(
                f"{func} invocation index {place} encountered during backward but not found in storage. {_CHANGED}"
            )
        found = self.results[func][place]
        if found is _AGAIN:
            return func(*args, **(kwargs or {}))
        if found is _TAKEN:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under selective "
                "activation checkpoint."
            )
        self.results[func][place] = _TAKEN
        return tree_map(lambda each: each.take(self.written), found)


def _is_ignored(func: Value) -> bool:
    # The two passes detach as often as they please.
    return func.overloadpacket.__name__ == "detach"


def _listed(kept: list[OpOverload], context: object, op: OpOverload, *_: Value, **__: Value) -> bool:
    return op in kept


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Value] | Sequence[OpOverload], allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """Return the contexts of a checkpoint that keeps the results of some operations: what ``context_fn`` of ``checkpoint`` returns.

    Args:
        policy_fn_or_list: the operations whose results are kept; or what is called with a context, an operation of
            ``torch.ops`` and its arguments, and returns a :class:`CheckpointPolicy` or whether the result is kept.
        allow_cache_entry_mutation: let what is kept be written.

    Raises:
        TypeError: neither a function nor a list.
        ValueError: a list of something else than overloads such as ``torch.ops.aten.mm.default``.
    """
    if isinstance(policy_fn_or_list, list):
        for each in policy_fn_or_list:
            if not isinstance(each, OpOverload):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload, such as torch.ops.aten.mm.default, but got: {each} of type "
                    f"{type(each)}."
                )
        policy = functools.partial(_listed, policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    results: dict[Value, list[Value]] = defaultdict(list)
    return _Keeping(policy, results), _Taking(results, allow_cache_entry_mutation)
