"""What public functions do with nested tensors: on their values, dimension by dimension, or on what they are filled up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api import functional as F
from webgpu_torch_core.dispatch.overrides import DisableTorchFunctionSubclass
from webgpu_torch_core.dispatch.registry import OPERATIONS
from webgpu_torch_core.ir.layouts import wrap_dimension

from .._holding import Answer
from .base import AnyNested, method_of
from .tensor import NestedInt, NestedTensor

Named = dict[str, Any]
#: functions of each element, and of the values as they lie
_OF_VALUES = frozenset(
    each.name for each in OPERATIONS.values() if each.kind == "elementwise"
) | frozenset((
    "nan_to_num", "elu", "softplus", "gelu", "clone", "to", "half", "bfloat16", "float", "double", "bool", "byte", "char", "short",
    "int", "long", "cpu", "type", "detach", "contiguous", "dropout", "alpha_dropout", "zeros_like", "ones_like", "full_like",
    "empty_like", "rand_like", "randn_like", "randint_like", "bernoulli", "copy_", "fill_", "zero_", "glu", "requires_grad_",
    "relu_", "hardswish", "hardsigmoid", "relu6", "mish", "celu", "selu", "softsign", "tanhshrink", "threshold", "hardtanh",
    "type_as", "webgpu", "cuda",
))  # fmt: skip
#: functions over the last dimensions of the values, whatever the others are
_OF_FEATURES = frozenset(("linear", "layer_norm", "rms_norm", "embedding", "one_hot"))
_QUESTIONS = frozenset(("is_floating_point", "is_complex", "is_signed", "is_inference", "element_size", "get_device"))
#: reductions, and what they find where nothing is
_EMPTY: dict[str, float] = {
    "sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": float("-inf"), "amin": float("inf"), "any": 0.0, "all": 1.0, "max": float("-inf"),
    "min": float("inf"), "argmax": float("-inf"), "argmin": float("inf"), "logsumexp": float("-inf"), "count_nonzero": 0.0,
    "nansum": 0.0,
}  # fmt: skip


#: what operators and other names stand for
_NAMES = {
    "special_softmax": "softmax", "special_log_softmax": "log_softmax", "absolute": "abs", "__rmatmul__": "matmul", "__matmul__": "matmul",
    **{f"__{each}__": each for each in (
        "eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "pow", "neg", "abs", "and", "or", "xor", "invert", "mod", "radd", "rsub",
        "rmul", "rpow", "truediv", "rtruediv", "floordiv", "rfloordiv", "div", "rdiv", "iadd", "isub", "imul", "itruediv", "rmod",
    )},
}  # fmt: skip
_OPERATORS = frozenset(_NAMES.values())


def refuse(path: str) -> NoReturn:
    """Refuse a call with a nested tensor.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"{path} does not take nested tensors here: call to_padded_tensor() first, or work with values() and offsets()"
    )


class Forms(NamedTuple):
    """How a layout answers functions of the forms that nested tensors know."""

    kind: type[AnyNested]
    answers: dict[str, Callable[..., Answer]]
    reduce: Callable[..., Answer]
    of_values: Callable[[Callable[..., Answer], str, tuple[Answer, ...], Named], Answer]
    of_features: Callable[[Callable[..., Answer], tuple[Answer, ...], Named], Answer]

    def answer(self, func: Callable[..., Answer], path: str, args: tuple[Answer, ...], kwargs: Named) -> Answer:
        """Return what a call gives."""
        called = path.rpartition(".")[2]
        name = _NAMES.get(called, called)
        own = self.answers.get(name)
        if own is not None:
            return own(*args, **kwargs)
        if name in _EMPTY:
            return self.reduce(func, name, *args, **kwargs)
        if name in _OF_VALUES or name in _OPERATORS or (name.endswith("_") and name[:-1] in _OF_VALUES):
            return self.of_values(func, path, args, kwargs)
        if name in _OF_FEATURES:
            return self.of_features(func, args, kwargs)
        if name in _QUESTIONS:
            return getattr(args[0]._held, name)()
        method = method_of(self.kind, name)
        if method is not None:
            with DisableTorchFunctionSubclass():
                return method(*args, **kwargs)
        return refuse(path)


def _of_values(func: Callable[..., Answer], path: str, args: tuple[Answer, ...], kwargs: Named) -> Answer:
    """Return an element-wise function: of nested tensors of one structure, dense ones that stand beside them, and numbers."""
    nested = [each for each in (*args, *kwargs.values()) if isinstance(each, NestedTensor)]
    first = nested[0]
    for each in nested[1:]:
        if each._structure.number != first._structure.number or each._ragged != first._ragged:
            raise RuntimeError(
                f"cannot call binary pointwise function {path.rpartition('.')[2]} with inputs of shapes {tuple(first.shape)} and "
                f"{tuple(each.shape)}"
            )
    if any(each._structure is not first._structure for each in nested):
        args = tuple(each._packed() if isinstance(each, NestedTensor) else each for each in args)
        first = first._packed()
    result = func(
        *(_value_of(first, each) for each in args), **{name: _value_of(first, each) for name, each in kwargs.items()}
    )
    if not isinstance(result, Tensor):
        return result
    return args[0] if isinstance(args[0], NestedTensor) and result is args[0]._held else first._with(result)


def _value_of(first: NestedTensor, each: Answer) -> Answer:
    if isinstance(each, NestedTensor):
        return each._held
    if isinstance(each, Tensor) and each.dim():
        return first._aligned(each)
    return each


def _of_features(func: Callable[..., Answer], args: tuple[Answer, ...], kwargs: Named) -> NestedTensor:
    first = next(each for each in (*args, *kwargs.values()) if isinstance(each, NestedTensor))
    if first._ragged == len(first._held.shape) and func.__name__ not in ("embedding", "one_hot"):
        raise RuntimeError(f"{func.__name__}(): not supported where the last dimension is the ragged one")
    args = tuple(each._held if isinstance(each, NestedTensor) else each for each in args)
    kwargs = {name: each._held if isinstance(each, NestedTensor) else each for name, each in kwargs.items()}
    return first._with(func(*args, **kwargs))


def _inside(input: NestedTensor, name: str, dim: int) -> int:
    """Return a dimension of the values for one that is not the batch's.

    Raises:
        RuntimeError: it is the batch's.
    """
    found = input._dimension(dim)
    if found == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return found - 1


# Reductions


def _reduce(
    func: Callable[..., Answer],
    name: str,
    input: NestedTensor,
    dim: Answer = None,
    keepdim: bool = False,
    **named: Answer,
) -> Answer:
    if isinstance(dim, Tensor) and name in ("max", "min"):
        return _of_values(func, name, (input, dim), named)
    packed = input._packed()
    if dim is None:
        return func(packed._held, **named)
    given: Answer = dim if isinstance(dim, Sequence) else (dim,)
    dims = [input._dimension(each) for each in given]
    if 0 in dims and input._ragged not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
        )
    if 0 in dims:
        return _over_all(func, packed, dims, keepdim, named)
    if input._ragged in dims:
        return _over_ragged(func, name, packed, dims, keepdim, named)
    inside = [each - 1 for each in dims]
    result = func(packed._held, inside if isinstance(dim, Sequence) else inside[0], keepdim, **named)
    ragged = packed._ragged - (0 if keepdim else sum(each < packed._ragged for each in dims))
    if isinstance(result, Tensor):
        return packed._with(result, ragged)
    return type(result)(packed._with(each, ragged) for each in result)


def _over_all(
    func: Callable[..., Answer], packed: NestedTensor, dims: list[int], keepdim: bool, named: Named
) -> Tensor:
    result = func(packed._held, [each - 1 for each in dims if each], keepdim, **named)
    return result.unsqueeze(0) if keepdim else result


def _over_ragged(
    func: Callable[..., Answer], name: str, packed: NestedTensor, dims: list[int], keepdim: bool, named: Named
) -> Answer:
    """Return a reduction over the ragged dimension, of components that are filled up with what changes nothing."""
    empty = _EMPTY[name]
    if not packed._held.is_floating_point() and abs(empty) == float("inf"):
        limits = torch.iinfo(packed._held.dtype)
        empty = limits.min if empty < 0 else limits.max
    padded = packed._padded(empty)
    over: Answer = dims if len(dims) > 1 else dims[0]
    if name != "mean":
        return func(padded, over, keepdim, **named)
    total = torch.sum(padded, over, keepdim, **named)
    counts = torch.tensor(packed._structure.sizes, device=total.device, dtype=total.dtype)
    for each in dims:
        counts = counts if each == packed._ragged else counts * padded.shape[each]
    return total / counts.view(-1, *(1,) * (total.dim() - 1))


def _softmax(function: Callable[..., Tensor]) -> Callable[..., NestedTensor]:
    def apply(input: NestedTensor, dim: int, dtype: Answer = None, **_: Answer) -> NestedTensor:
        inside, packed = _inside(input, function.__name__, dim), input._packed()
        if inside != packed._ragged - 1:
            return packed._with(function(packed._held, inside, dtype=dtype))
        return packed._unpadded(function(packed._padded(float("-inf")), packed._ragged, dtype=dtype))

    return apply


# Shapes


def _transpose(input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    order = list(range(len(input.shape)))
    first, second = input._dimension(dim0), input._dimension(dim1)
    order[first], order[second] = second, first
    return _permute(input, order)


def _permute(input: NestedTensor, *dims: Answer) -> NestedTensor:
    given = dims[0] if len(dims) == 1 else dims
    order = [input._dimension(each) for each in given]
    if order[0] != 0:
        raise RuntimeError("permute(): not supported for NestedTensor on dim=0")
    return input._with(input._held.permute([each - 1 for each in order[1:]]), order.index(input._ragged))


def _view(input: NestedTensor, *shape: Answer) -> NestedTensor:
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        return input._with(input._held.view(shape[0]))
    sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape)
    if sizes[0] not in (len(input), -1):
        raise RuntimeError(f"view(): cannot view shape {tuple(input.shape)} as {tuple(sizes)}")
    places = [place for place, each in enumerate(sizes) if isinstance(each, NestedInt)]
    places = places or [place for place, each in enumerate(sizes) if place and each == -1]
    if len(places) != 1 or (isinstance(sizes[places[0]], NestedInt) and sizes[places[0]] != input.shape[input._ragged]):
        raise RuntimeError(f"view(): cannot view shape {tuple(input.shape)} as {tuple(sizes)}")
    sizes[places[0]] = input._held.shape[input._ragged - 1]
    return input._with(input._held.reshape(sizes[1:]), places[0])


def _unflatten(input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    inside = _inside(input, "unflatten", dim)
    if inside == input._ragged - 1:
        raise RuntimeError("unflatten(): not supported for the ragged dimension")
    ragged = input._ragged + (len(sizes) - 1 if inside < input._ragged - 1 else 0)
    return input._with(input._held.unflatten(inside, sizes), ragged)


def _flatten(input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Answer:
    start, end = input._dimension(start_dim), input._dimension(end_dim)
    if start == end:
        return input
    if start == 0 or start <= input._ragged <= end:
        raise RuntimeError("flatten(): not supported for the batch or the ragged dimension")
    ragged = input._ragged - (end - start if end < input._ragged else 0)
    return input._with(input._held.flatten(start - 1, end - 1), ragged)


def _unsqueeze(input: NestedTensor, dim: int) -> NestedTensor:
    count = len(input.shape) + 1
    place = wrap_dimension(dim, count)
    if place == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return input._with(input._held.unsqueeze(place - 1), input._ragged + (place <= input._ragged))


def _squeeze(input: NestedTensor, dim: int) -> NestedTensor:
    inside = _inside(input, "squeeze", dim)
    if inside == input._ragged - 1 or input._held.shape[inside] != 1:
        return input
    return input._with(input._held.squeeze(inside), input._ragged - (inside < input._ragged - 1))


def _on_part(name: str) -> Callable[..., Answer]:
    """Return a function that cuts a dimension of the values other than the ragged one."""

    def apply(input: NestedTensor, *args: Answer, **kwargs: Answer) -> Answer:
        given = list(args)
        place = 0 if name in ("narrow", "select") else 1
        dim = kwargs.pop("dim") if "dim" in kwargs else given.pop(place) if len(given) > place else 0
        inside = _inside(input, name, dim)
        if inside == input._ragged - 1:
            raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
        order = (inside, *given) if place == 0 else (*given, inside)
        found = getattr(torch, name)(input._held, *order, **kwargs)
        ragged = input._ragged - (1 if name == "select" and inside < input._ragged - 1 else 0)
        return input._with(found, ragged) if isinstance(found, Tensor) else tuple(input._with(each) for each in found)

    return apply


def _cat(tensors: Sequence[Answer], dim: int = 0) -> NestedTensor:
    first = next(each for each in tensors if isinstance(each, NestedTensor))
    inside = _inside(first, "cat", dim)
    if inside == first._ragged - 1:
        raise RuntimeError("cat(): not supported for NestedTensor on ragged dim")
    parts = [
        each._packed()._held if isinstance(each, NestedTensor) else first._packed()._aligned(each) for each in tensors
    ]
    if any(isinstance(each, NestedTensor) and each._structure.number != first._structure.number for each in tensors):
        raise RuntimeError(
            "cat(): expected all nested tensors to have matching ragged shapes outside of the concatenated dim"
        )
    return first._packed()._with(torch.cat(parts, inside))


def _getitem(input: NestedTensor, index: Answer) -> Answer:
    given = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [each for each in given if not isinstance(each, Tensor)]:
        place = next(number for number, each in enumerate(given) if each is Ellipsis)
        missing = len(input.shape) - sum(each is not None for each in given) + 1
        given[place : place + 1] = [slice(None)] * missing
    first = given[0] if given else slice(None)
    if isinstance(first, int):
        component = input.unbind()[first]
        return component[tuple(given[1:])] if len(given) > 1 else component
    if first != slice(None):
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    inside = given[1:]
    if None in inside or (len(inside) >= input._ragged and inside[input._ragged - 1] != slice(None)):
        raise RuntimeError("slice(): not supported for NestedTensor on ragged dim")
    fewer = sum(isinstance(each, int) for each in inside[: input._ragged - 1])
    return input._with(input._held[tuple(inside)], input._ragged - fewer) if inside else input


def _setitem(input: NestedTensor, index: Answer, value: Answer) -> None:
    found = _getitem(input, index)
    if isinstance(found, NestedTensor):
        found._held.copy_(value._held if isinstance(value, NestedTensor) else found._aligned(torch.as_tensor(value)))
    else:
        found.copy_(torch.as_tensor(value))


# Products


def _matmul(input: Answer, other: Answer) -> NestedTensor:
    if isinstance(input, NestedTensor) and not isinstance(other, NestedTensor):
        features = input._ragged < len(input._held.shape)
        if other.dim() <= 2 and features:
            return input._with(input._held @ other)
        if features:
            return input._unpadded(input._packed()._padded(0.0) @ other)
    shapes = " and ".join(str(tuple(each.shape)) for each in (input, other))
    raise RuntimeError(f"matmul(): not supported between inputs of shapes {shapes}")


def _attention(
    query: Answer, key: Answer, value: Answer, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> NestedTensor:  # fmt: skip
    """Return attention within components: keys that are not there are not attended to."""
    if not all(isinstance(each, NestedTensor) for each in (query, key, value)):
        raise ValueError("Expected query, key, value to all be nested tensors")
    if attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention(): attn_mask is not supported with nested tensors")
    if query._ragged != 2 or key._ragged != 2 or key._structure.number != value._structure.number:
        raise RuntimeError(
            "scaled_dot_product_attention(): nested tensors of shape (batch, heads, ragged, features) with keys and values of the "
            "same lengths"
        )
    longest = key._structure.longest
    there = key._structure.inside(longest)[:, None, None, :]
    if is_causal:
        there = there & torch.ones(query._structure.longest, longest, dtype=torch.bool, device=query.device).tril()
    padded = [each._packed()._padded(0.0) for each in (query, key, value)]
    # Rows of queries that are not there have something to attend to: what they find is not picked.
    found = F.scaled_dot_product_attention(
        padded[0], padded[1], padded[2], attn_mask=there, dropout_p=dropout_p, scale=scale, enable_gqa=enable_gqa
    )
    return query._unpadded(found)


def _unsupported(name: str) -> Callable[..., NoReturn]:
    def apply(*args: Answer, **kwargs: Answer) -> NoReturn:
        raise RuntimeError(f".{name}() is not supported for nested tensors: call to_padded_tensor() or unbind() first")

    return apply


def _single(input: NestedTensor) -> Answer:
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return input._packed()._held.item()


def _item(input: NestedTensor) -> Answer:
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return input._packed()._held.item()


def _contiguous(input: NestedTensor, **named: Answer) -> NestedTensor:
    packed = input._packed()
    return packed if packed.is_contiguous() else packed._with(packed._held.contiguous(**named))


def _same_size(input: Answer, other: Answer) -> bool:
    for called, each in (("self", input), ("other", other)):
        if not isinstance(each, NestedTensor):
            raise ValueError(
                f"NestedTensor is_same_size_default(self: jt_all, other: jt_all): expected {called} to be a jagged layout NestedTensor"
            )
    return tuple(input.shape) == tuple(other.shape)


_ANSWERS: dict[str, Callable[..., Answer]] = {
    "softmax": _softmax(torch.softmax), "log_softmax": _softmax(torch.log_softmax), "transpose": _transpose, "permute": _permute,
    "swapaxes": _transpose, "view": _view, "reshape": _view, "unflatten": _unflatten, "flatten": _flatten,
    "unsqueeze": _unsqueeze, "squeeze": _squeeze, "cat": _cat, "__getitem__": _getitem, "__setitem__": _setitem,
    "matmul": _matmul, "bmm": _matmul, "mm": _matmul, "scaled_dot_product_attention": _attention, "is_same_size": _same_size, "contiguous": _contiguous,
    "__bool__": lambda input: bool(_single(input)), "item": _item, "numpy": _unsupported("numpy"), "tolist": _unsupported("tolist"),
    **{each: _on_part(each) for each in ("chunk", "split", "narrow", "select")},
}  # fmt: skip
answer = Forms(NestedTensor, _ANSWERS, _reduce, _of_values, _of_features).answer
