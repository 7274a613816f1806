"""What is written in place where examples of batches are involved: what all examples share takes no example's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..tensors.tensor import Tensor
from .batching import BatchedTensor, is_batched, is_in_place, one_by_one
from .rules import rule

_SHARED = (
    "vmap: {0}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more elements "
    "than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please try to "
    "use out-of-place operators instead of {0}. If said operator is being called inside the PyTorch framework, please file a "
    "bug report instead."
)
_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not "
    "batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be False.If you are "
    "using a prebuilt module and do not need eval mode, please see the functorch website for resources on how to patch your "
    "module to work with vmap"
)


def check_written(func: object, level: int, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise a RuntimeError where a call with an example of a level writes into what all examples share, or into a result given."""
    name = getattr(func, "__name__", "")
    if is_in_place(func) and args and isinstance(args[0], Tensor) and not is_batched(args[0], level):
        raise RuntimeError(_SHARED.format("inplace bernoulli" if name == "bernoulli_" else name))
    if name == "embedding" and (kwargs.get("max_norm") or args[3:4] not in ((), (None,))):
        weight = kwargs.get("weight", *args[1:2])
        if not is_batched(weight, level):
            raise RuntimeError(_SHARED.format("aten::embedding_renorm_"))
    if kwargs.get("out") is not None:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{name}.out; the fallback path doesn't work on out= or view ops."
        )


@rule("batch_norm", "instance_norm")
def _normalised(
    func: Callable[..., object], level: int, args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    own = "use_input_stats" if func.__name__ == "instance_norm" else "training"
    names = ("input", "running_mean", "running_var", "weight", "bias", own)
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    shared = any(
        given.get(each) is not None and not is_batched(given[each], level) for each in ("running_mean", "running_var")
    )
    if shared and is_batched(given["input"], level) and given.get(own, own == "use_input_stats"):
        raise RuntimeError(_STATISTICS)
    return one_by_one(func, level, args, kwargs)


@rule("squeeze_", "unsqueeze_", "transpose_", "swapaxes_", "swapdims_", "t_")
def _looked_at_otherwise(
    func: Callable[..., object], level: int, args: Sequence[BatchedTensor], kwargs: Mapping[str, object]
) -> BatchedTensor:
    """What changes an example's shape in place looks at its batch in another way."""
    changed = getattr(args[0], func.__name__[:-1])(*args[1:], **kwargs)
    args[0].batch, args[0]._layout = changed.batch, changed._layout
    return args[0]
