"""How functions compute a whole batch at once, by name; what is not listed runs on one example after the other.

A rule takes ``(func, level, args, kwargs)`` and calls ``func`` on batches whose examples lie along the first dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from ..dispatch.overrides import PATHS, DisableTorchFunctionSubclass
from ..dispatch.registry import OPERATIONS
from ..ir.dtypes import promote_types
from ..record.grad_mode import INSIDE_OF_TRANSFORM
from ..tensors.memory_formats import memory_format
from ..tensors.pytree import tree_leaves, tree_map
from ..tensors.tensor import Tensor
from .batching import (
    BatchedTensor,
    batch_size,
    batched,
    held,
    is_batched,
    is_in_place,
    level_of,
    one_by_one,
    randomness,
    rewrap,
)
from .subscripts import get_item, set_item

Rule = Callable[[Any, int, Any, Any], Any]

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Add a rule for functions of some names."""

    def decorate(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return decorate


def rule_for(func: Any) -> Rule:
    """Return the rule of a public function, method or property."""
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):
        return _read_property if name == "__get__" else _write_property
    return _rule_of_path(PATHS.get(func, f"torch.{name}"))


@cache
def _rule_of_path(path: str) -> Rule:
    home, _, name = path.rpartition(".")
    found = RULES.get(f"{home.rpartition('.')[2]}.{name}") or (RULES.get(name) if home in _HOMES else None)
    if found is not None:
        return found
    bare = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return aligned if bare in _elementwise() else one_by_one


_HOMES = ("torch", "torch.Tensor", "torch.nn.functional", "torch.special")


@lru_cache(maxsize=1)
def _elementwise() -> frozenset[str]:
    names = {name for each in OPERATIONS.values() if each.kind == "elementwise" for name in (each.name, *each.aliases)}
    operators = (
        "and", "rand", "iand", "or", "ror", "ior", "xor", "rxor", "ixor", "lshift", "rlshift", "rshift", "rrshift", "eq",
        "rsub", "rdiv", "rmod", "rpow", "floordiv", "rfloordiv", "invert",
    )  # fmt: skip
    functions = (
        "relu6", "gelu", "elu", "celu", "selu", "mish", "softplus", "softsign", "tanhshrink", "hardtanh", "hardswish",
        "hardsigmoid", "hardshrink", "softshrink", "threshold", "leaky_relu", "logsigmoid", "silu", "copy",
    )  # fmt: skip
    return frozenset({*names, *functions, *(f"__{each}__" for each in operators)})


# Elements


def aligned(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    """Element by element: batches get dimensions of one element until all examples have as many."""
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    ndim = max(each.dim() for each in tensors)
    if is_in_place(func) and not (is_batched(args[0], level) and args[0].dim() == ndim):
        raise RuntimeError(
            f"vmap: {func.__name__}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
            "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being "
            f"vmapped over in a vmap. Please try to use out-of-place operators instead of {func.__name__}."
        )
    # Numbers do not widen a tensor's type, nor do 0-d tensors: a batch of them must not, either.
    ranked = any(each.dim() for each in tensors) and any(is_batched(each, level) and not each.dim() for each in tensors)

    def spread(value: Any) -> Any:
        if not is_batched(value, level):
            return value
        whole, missing = value.batch, ndim - value.dim()
        if missing:
            whole = whole.reshape(whole.shape[0], *([1] * missing), *whole.shape[1:])
        return whole.to(_joint_type(value, tensors)) if ranked and not value.dim() else whole

    result = func(*tree_map(spread, args), **tree_map(spread, kwargs))
    return args[0] if is_in_place(func) else rewrap(result, level)


def _joint_type(value: Any, tensors: list[Any]) -> Any:
    """Return the type that a 0-d tensor takes part in beside tensors with dimensions."""
    kinds = [each.dtype for each in tensors if each.dim()]
    widest = kinds[0]
    for each in kinds[1:]:
        widest = promote_types(widest, each)
    return widest if widest.category == value.dtype.category else value.dtype


@rule("masked_fill")
def _filled(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    value, mask, fill = (*args, *kwargs.values())[:3]
    if not is_batched(fill, level):
        return aligned(func, level, args, kwargs)
    if fill.dtype is not value.dtype:
        return one_by_one(func, level, args, kwargs)

    return OPERATIONS["where"].function(mask, fill, value)


@rule("where")
def _where(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    return aligned(func, level, args, kwargs) if len(args) + len(kwargs) > 1 else _refused(func, level, args, kwargs)


@rule(
    "clone", "detach", "contiguous", "to", "type", "type_as", "float", "half", "double", "bfloat16", "int", "long", "short", "char",
    "byte", "bool", "cfloat", "cpu", "webgpu", "zeros_like", "ones_like", "empty_like", "full_like", "tril", "triu",
    "matrix_exp", "linalg.inv", "inverse", "linalg.det", "det", "linalg.slogdet", "slogdet", "logdet", "linalg.cholesky",
    "cholesky", "linalg.qr", "linalg.svd", "linalg.svdvals", "linalg.eigh", "linalg.eigvalsh", "linalg.matrix_exp",
    "view_as_real", "view_as_complex", "one_hot", "pixel_shuffle", "pixel_unshuffle", "conj", "resolve_conj",
    "positive", "real", "imag", "adjoint", "requires_grad_", "retain_grad",
)  # fmt: skip
def _passed(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    """What treats leading dimensions all alike takes the batch as it is."""
    if not is_batched(args[0] if args else None, level):
        return one_by_one(func, level, args, kwargs)
    others = tree_leaves((args[1:], kwargs))
    if any(isinstance(each, memory_format) and each.name.startswith("channels") for each in others):
        # A format is of an example's dimensions.
        return one_by_one(func, level, args, kwargs)
    if any(is_batched(each, level) for each in others) and func.__name__ not in ("to", "type_as"):
        return one_by_one(func, level, args, kwargs)
    return rewrap(func(*held(args, level), **held(kwargs, level)), level)


@rule("pad")
def _padded(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    mode = args[2] if len(args) > 2 else kwargs.get("mode", "constant")
    return (_passed if mode == "constant" else one_by_one)(func, level, args, kwargs)


@rule("zero_", "fill_", "detach_")
def _passed_in_place(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    numbers = [each for each in tree_leaves((args[1:], kwargs)) if is_batched(each, level)]
    if numbers:
        # One for each example, which no call takes as numbers.
        return args[0].copy_(*numbers) if not numbers[0].dim() else one_by_one(func, level, args, kwargs)
    func(args[0].batch, *args[1:], **kwargs)
    return args[0]


@rule(
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "is_floating_point", "is_complex", "is_signed",
    "stride", "is_contiguous", "storage_offset", "get_device", "__len__", "result_type", "can_cast", "is_same_size",
    "is_conj", "is_neg", "is_inference", "new_tensor", "is_pinned", "is_shared", "pin_memory",
)  # fmt: skip
def _asked(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    """What does not look at elements asks the example."""
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


@rule("new_zeros", "new_ones", "new_empty", "new_full")
def _made_like(
    func: Callable[..., Tensor], level: int, args: Sequence[BatchedTensor], kwargs: dict[str, object]
) -> object:
    """What an example makes is written into as an example's: there is one for each."""
    if any(is_batched(each, level) for each in tree_leaves((args[1:], kwargs))):
        return one_by_one(func, level, args, kwargs)
    made = func(args[0].batch, *args[1:], **kwargs)
    return batched(made.unsqueeze(0).expand(batch_size(level), *made.shape).clone(), level)


@rule("requires_grad_")
def _recording(func: object, level: int, args: object, kwargs: object) -> None:
    raise RuntimeError(
        INSIDE_OF_TRANSFORM.format("requires_grad_()", " (or perhaps using torch.autograd.functional.* APIs)")
    )


@rule("__format__")
def _shown(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    return repr(args[0])


# What no rule can do


@rule("fetch")
@rule("item", "tolist", "numpy", "__array__", "__int__", "__float__", "__index__", "__complex__", "equal", "is_nonzero")
def _escaped(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    name = func.__name__
    name = "item" if name in ("__int__", "__float__", "__index__", "__complex__") else name.strip("_")
    raise RuntimeError(
        f"vmap: It looks like you're calling .{name}() on a Tensor. We don't support vmap over calling .{name}() on a Tensor, please "
        "try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please "
        "file a bug report."
    )


@rule("__bool__", "__contains__", "allclose")
def _branched(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    raise RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
        "yet: use torch.where, which computes both branches."
    )


@rule("nonzero", "masked_select", "unique", "unique_consecutive")
def _refused(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    name = func.__name__
    if name == "unique":
        name = "_unique2" if kwargs.get("dim") is None else "unique_dim"
    raise RuntimeError(
        f"vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{name}. Please file an "
        "issue at https://github.com/pytorch/pytorch/issues if you need this feature."
    )


@rule(
    "resize_",
    "resize_as_",
    "as_strided_copy",
    "as_strided_scatter",
    "as_strided_",
    "set_",
    "data_ptr",
    "untyped_storage",
    "storage",
)
def _in_memory(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    raise RuntimeError(f"vmap: {func.__name__} is about a tensor's memory, where an example is a part of its batch")


@rule("as_strided")
def _strided(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = dict(zip(("input", "size", "stride", "storage_offset"), args)) | kwargs
    whole, size, stride = given["input"].batch, tuple(given["size"]), tuple(given["stride"])
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape: size and stride must have the same length")
    first = whole.storage_offset()
    offset = first if given.get("storage_offset") is None else given["storage_offset"]
    own = sum((count - 1) * step for count, step in zip(whole.shape[1:], whole.stride()[1:], strict=True))
    last = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    empty = 0 in size
    if not empty and (0 in whole.shape[1:] or offset < first or last > first + own):
        raise RuntimeError(
            f"vmap: as_strided(size={list(size)}, stride={list(stride)}, storage_offset={offset}) of an example of sizes "
            f"{list(whole.shape[1:])} would reach memory that is not the example's. This is not supported inside of vmap"
        )
    return batched(func(whole, (whole.shape[0], *size), (whole.stride(0), *stride), offset), level)


# Properties


def _read_property(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    value, name = args[0], func.__self__.fget.__name__
    if name in ("T", "mT", "H", "mH"):
        if name in ("T", "H") and value.dim() != 2:
            return value.permute(tuple(range(value.dim()))[::-1])
        return batched(getattr(value.batch, "mT" if name in ("T", "mT") else "mH"), level)
    if name in ("real", "imag", "data"):
        return batched(getattr(value.batch, name), level)
    if name in ("requires_grad", "is_leaf", "grad_fn", "grad", "retains_grad", "output_nr"):
        return getattr(value.batch, name)
    with DisableTorchFunctionSubclass():
        return func(*args)


def _write_property(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    name = func.__self__.fget.__name__
    if name != "requires_grad":
        raise RuntimeError(f"vmap: a tensor's {name} cannot be set on single examples")
    args[0].batch.requires_grad = args[1]


RULES["__getitem__"] = get_item
RULES["__setitem__"] = set_item


def _answer(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Answer a call for all examples of the innermost batch among its arguments."""
    kwargs = kwargs or {}
    level = level_of(args, kwargs)
    if level == 0:
        return func(*args, **kwargs)
    found = rule_for(func)
    # What is drawn is first refused for that.
    if found is not drawing.random_numbers or randomness(level) == "different":
        rules_of_writes.check_written(func, level, args, kwargs)
    return found(func, level, args, kwargs)


BatchedTensor.__torch_function__ = classmethod(_answer)  # type: ignore[assignment]

from . import drawing, rules_of_dimensions, rules_of_products, rules_of_writes  # noqa: E402

__all__ = [
    "RULES",
    "aligned",
    "drawing",
    "rule",
    "rule_for",
    "rules_of_dimensions",
    "rules_of_products",
    "rules_of_writes",
]
