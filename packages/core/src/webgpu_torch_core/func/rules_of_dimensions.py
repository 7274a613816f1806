"""Batches of functions that name dimensions or sizes: those of an example lie one further in its batch."""

from __future__ import annotations

from typing import Any

from ..dispatch.numpy_names import NAMES, parameter_names
from ..dispatch.registry import OPERATIONS
from ..ir.layouts import wrap_dimension
from ..operations.common import sizes_from
from ..tensors.pytree import tree_leaves
from ..tensors.tensor import Tensor
from .batching import batched, is_batched, is_in_place, one_by_one, rewrap, unwrap
from .rules import aligned, rule

_DIMENSIONS = frozenset(
    ("dim", "dims", "dim0", "dim1", "axis0", "axis1", "start_dim", "end_dim", "source", "destination", "dimension")
)
_OF_ALL = frozenset(
    (
        "sum", "nansum", "mean", "nanmean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "std", "var",
        "std_mean", "var_mean", "median", "nanmedian", "norm", "count_nonzero", "aminmax", "logsumexp",
    )
)  # fmt: skip


def moved(dim: Any, ndim: int, new: int = 0) -> Any:
    """Return a dimension of an example as the batch has it; negative ones count from the end, where nothing changes."""
    if isinstance(dim, tuple | list):
        return type(dim)(moved(each, ndim, new) for each in dim)
    if not -(ndim + new) <= dim < ndim + new:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-(ndim + new)}, {ndim + new - 1}], but got {dim})"
        )
    return dim + 1 if dim >= 0 else dim


def _bound(func: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """Return arguments by name, None where they cannot be told."""
    names = parameter_names(func)
    if len(args) > len(names):
        return None
    found: dict[str, Any] = dict(zip(names, args))
    for name, value in kwargs.items():
        found[name if name in names else NAMES.get(name) or name] = value
    return found


@rule(
    "sum", "nansum", "mean", "nanmean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "std", "var",
    "std_mean", "var_mean", "median", "nanmedian", "norm", "count_nonzero", "aminmax", "logsumexp", "softmax",
    "log_softmax", "softmin", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "argsort", "topk", "kthvalue",
    "mode", "unsqueeze", "squeeze", "flip", "roll", "unbind", "select", "narrow", "split", "chunk", "tensor_split",
    "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "flatten", "unflatten", "diff", "gather", "take_along_dim",
    "normalize", "glu", "unfold", "quantile", "nanquantile",
)  # fmt: skip
def _along(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs)
    first: Any = next(iter(given.values())) if given else None
    if given is None or not is_batched(first, level) or (first.dim() == 0 and func.__name__ != "unsqueeze"):
        return one_by_one(func, level, args, kwargs)
    ndim, name = first.dim(), func.__name__
    if isinstance(given.get("other"), Tensor) or isinstance(given.get("dim"), Tensor):
        return aligned(func, level, args, kwargs)
    whole = dict(given)
    named = [each for each in whole if each in _DIMENSIONS and whole[each] is not None]
    if (
        (name == "unfold" and "input" in whole)
        or isinstance(whole.get("dim"), bool)
        or isinstance(whole.get("p"), str)
        or any(isinstance(each, Tensor) for key, each in list(whole.items())[1:] if key not in ("index", "indices"))
    ):
        return one_by_one(func, level, args, kwargs)
    if not named:
        if name in _OF_ALL:
            return _over_all(func, level, given)
        default = _defaults(func).get("dim", _defaults(func).get("start_dim"))
        if default is None or name in ("squeeze", "flip", "roll", "quantile", "nanquantile"):
            return one_by_one(func, level, args, kwargs)
        if name == "flatten":
            whole["end_dim"] = -1
            default = 0
        whole["start_dim" if name == "flatten" else "dim"] = moved(default, ndim)
        named = []
    for each in named:
        whole[each] = moved(whole[each], ndim, 1 if name == "unsqueeze" else 0)
    if name == "flatten" and "start_dim" not in given:
        whole["start_dim"] = 1
    for key, value in whole.items():
        if is_batched(value, level):
            whole[key] = value.batch
        elif isinstance(value, Tensor) and key in ("index", "indices"):
            whole[key] = unwrap(value, level)
    result = func(next(iter(whole.values())), **dict(list(whole.items())[1:]))
    return first if is_in_place(func) else rewrap(result, level)


def _defaults(func: Any) -> dict[str, Any]:
    while hasattr(func, "__wrapped__"):
        func = func.__wrapped__
    names = func.__code__.co_varnames[: func.__code__.co_argcount]
    values = func.__defaults__ or ()
    return dict(zip(names[len(names) - len(values) :], values)) | (func.__kwdefaults__ or {})


def _over_all(func: Any, level: int, given: dict[str, Any]) -> Any:
    """Reduce all dimensions of each example."""
    whole = dict(given)
    name, value = next(iter(whole.items()))
    if whole.pop("keepdim", False):
        return one_by_one(func, level, (), given)
    whole.pop("dim", None)
    whole[name] = value.batch.reshape(value.batch.shape[0], -1)
    if func.__name__ in ("max", "min", "median", "nanmedian"):
        # With a dimension these return positions, too.
        return batched(func(whole[name], dim=1).values, level)
    first = whole.pop(name)
    return rewrap(func(first, **whole, dim=1), level)


# Sizes


@rule("view", "reshape")
def _reshaped(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    value, sizes = args[0], args[1:]
    if kwargs or not is_batched(value, level) or (sizes and not isinstance(sizes[0], int | tuple | list)):
        return one_by_one(func, level, args, kwargs)
    return batched(func(value.batch, value.batch.shape[0], *_sizes(value, sizes_from(sizes))), level)


def _sizes(value: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return sizes without -1, which the batch could not tell from its own."""
    if -1 not in sizes:
        return sizes
    known = 1
    for each in sizes:
        known *= each if each != -1 else 1
    return tuple(value.numel() // max(known, 1) if each == -1 else each for each in sizes)


@rule("view_as", "reshape_as")
def _reshaped_as(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    return getattr(args[0], func.__name__.removesuffix("_as"))(tuple(args[1].shape))


@rule("expand", "broadcast_to")
def _expanded(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    value, sizes = args[0], sizes_from(args[1:])
    if kwargs or not is_batched(value, level):
        return one_by_one(func, level, args, kwargs)
    missing = len(sizes) - value.dim()
    if missing < 0:
        raise RuntimeError(
            f"expand: the requested shape has too few dimensions ({len(sizes)} for an example of {value.dim()})"
        )
    whole = value.batch.reshape(value.batch.shape[0], *([1] * missing), *value.shape)
    return batched(whole.expand(-1, *sizes), level)


@rule("expand_as")
def _expanded_as(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    return args[0].expand(tuple(args[1].shape))


@rule("repeat", "tile")
def _repeated(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    value, counts = args[0], sizes_from(args[1:])
    if kwargs or not is_batched(value, level) or len(counts) < value.dim():
        return one_by_one(func, level, args, kwargs)
    whole = value.batch.reshape(value.batch.shape[0], *([1] * (len(counts) - value.dim())), *value.shape)
    return batched(whole.repeat(1, *counts), level)


@rule("permute")
def _permuted(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    order = sizes_from((kwargs["dims"],) if "dims" in kwargs else args[1:])
    count = args[0].dim()
    return batched(args[0].batch.permute(0, *(wrap_dimension(each, count) + 1 for each in order)), level)


@rule("t")
def _turned(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    return args[0].transpose(0, 1) if args[0].dim() == 2 else args[0]


@rule("cat", "concat", "concatenate", "stack")
def _joined(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    tensors = list(next(iter(given.values())))
    dim = given.get("dim", 0)
    if "out" in given or (any(each.dim() == 0 for each in tensors) and func.__name__ != "stack"):
        return one_by_one(func, level, args, kwargs)
    place = moved(dim, tensors[0].dim(), 1 if func.__name__ == "stack" else 0)
    return batched(func([unwrap(each, level) for each in tensors], dim=place), level)


@rule("index_select")
def _index_selected(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    value, dim, index = list(given.values())[:3]
    if is_batched(index, level) or not is_batched(value, level) or value.dim() == 0:
        return one_by_one(func, level, args, kwargs)
    return batched(func(value.batch, moved(dim, value.dim()), index), level)


@rule("scatter", "scatter_add", "scatter_", "scatter_add_")
def _scattered(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    # The in-place forms take what these take.
    given = _bound(OPERATIONS[func.__name__.rstrip("_")].function, args, kwargs) or {}
    value, dim = list(given.values())[:2]
    if value.dim() == 0:
        return one_by_one(func, level, args, kwargs)
    rest = [unwrap(each, level) if isinstance(each, Tensor) else each for each in list(given.values())[2:]]
    names = list(given)[2:]
    result = func(unwrap(value, level), moved(dim, value.dim()), **dict(zip(names, rest, strict=True)))
    return value if is_in_place(func) else batched(result, level)


@rule("diagonal", "diag_embed")
def _diagonal(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    value = next(iter(given.values()))
    if not is_batched(value, level) or tree_leaves([value, given.get("offset", 0)])[0] is not value:
        return one_by_one(func, level, args, kwargs)
    usual = (0, 1) if func.__name__ == "diagonal" else (-2, -1)
    new = 1 if func.__name__ == "diag_embed" else 0
    places = [moved(given.get(name, default), value.dim(), new) for name, default in zip(("dim1", "dim2"), usual)]
    return batched(func(value.batch, given.get("offset", 0), *places), level)
