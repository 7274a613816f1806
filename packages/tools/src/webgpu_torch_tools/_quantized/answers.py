"""What public functions do with quantised tensors: with their integers, or with the numbers that these stand for.

Which functions there are, and what scale a result has, is PyTorch's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import DisableTorchFunctionSubclass
from webgpu_torch_core.ir.layouts import wrap_dimension
from webgpu_torch_core.notices import warn_once
from webgpu_torch_nn import functional

from .arithmetic import centred, rounded
from .schemes import PerChannel, PerTensor, Scheme
from .tensor import QuantizedTensor, refuse_type

Named = dict[str, Any]
#: functions that place integers elsewhere, whatever they stand for; what a scale of each position of a dimension allows is below
_PLACING = frozenset((
    "permute", "transpose", "t", "T", "mT", "swapaxes", "swapdims", "movedim", "moveaxis", "expand", "expand_as", "broadcast_to", "select",
    "narrow", "unfold", "diagonal", "as_strided", "flip", "repeat", "index_select", "masked_select", "roll", "chunk", "split", "unbind",
    "tensor_split", "split_with_sizes", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "take", "rot90", "__getitem__", "fliplr",
    "flipud", "hsplit", "vsplit", "dsplit", "tile", "repeat_interleave", "atleast_1d", "atleast_2d", "atleast_3d",
))  # fmt: skip
#: functions that leave integers in their order
_RESHAPING = frozenset(
    ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "view_as", "reshape_as")
)
_KEEPING = frozenset(
    (
        "clone",
        "contiguous",
        "detach",
        "cpu",
        "webgpu",
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "identity",
        "pin_memory",
    )
)
#: functions of the integers, whose order is that of the numbers
_CHOOSING = frozenset(("max", "min", "amax", "amin", "sort", "topk", "max_pool1d", "max_pool2d", "max_pool3d", "msort"))
#: functions that a positive factor passes through: of the integers, zero being zero, with the scale of the argument
_LINEAR = frozenset((
    "relu", "mean", "std", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d", "interpolate", "upsample", "upsample_nearest", "upsample_bilinear",
))  # fmt: skip
#: functions of the numbers whose results have the scale of the argument
_SAME_SCALE = frozenset((
    "relu6", "hardtanh", "clamp", "clip", "clamp_min", "clamp_max", "threshold", "gelu", "leaky_relu", "masked_fill",
))  # fmt: skip
#: the scales, in units of integers, of functions with bounded results
_BOUNDED = {"sigmoid": 1 / 256, "hardsigmoid": 1 / 256, "tanh": 2 / 256}
_NUMBERS = frozenset(
    (
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "isnan",
        "isinf",
        "isfinite",
    )
)
#: what is asked of the memory, and of where it is
_QUESTIONS = frozenset((
    "stride", "storage_offset", "numel", "nelement", "dim", "ndimension", "size", "is_contiguous", "data_ptr", "untyped_storage", "dim_order",
    "get_device", "is_inference", "is_pinned", "is_shared", "is_floating_point", "is_complex", "element_size", "is_conj", "is_neg",
))  # fmt: skip
_CASTS = frozenset(("float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool", "type_as"))


def refuse(path: str) -> NoReturn:
    """Refuse a call with a quantised tensor.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"{path} does not take quantized tensors, in PyTorch neither: call dequantize() first, or see torch.ops.quantized"
    )


def answer(func: Callable[..., Answer], path: str, args: tuple[Answer, ...], kwargs: Named) -> Answer:
    """Return what a call gives."""
    name = path.rpartition(".")[2].removeprefix("special_")
    own = _ANSWERS.get(name)
    if own is not None:
        return own(*args, **kwargs)
    if name in _NUMBERS:
        return func(*(numbers_of(each) for each in args), **{key: numbers_of(each) for key, each in kwargs.items()})
    if name in _CASTS:
        refuse_type()
    method = _method(name)
    if method is not None:
        with DisableTorchFunctionSubclass():
            return method(*args, **kwargs)
    first = args[0] if args else next(iter(kwargs.values()))
    if not isinstance(first, QuantizedTensor):
        return refuse(path)
    args = args or (first,)
    if name in _QUESTIONS:
        return getattr(first._held, name)(*args[1:], **kwargs)
    rule = _rule(name)
    if rule is not None:
        return rule(func, name, first, args[1:], kwargs)
    in_place = _rule(name[:-1]) if name.endswith("_") and not name.endswith("__") else None
    if in_place is not None and in_place in (_linear, _same_scale):
        result: Answer = in_place(_function(name[:-1]), name[:-1], first, args[1:], kwargs)
        first._held.copy_(result._held)
        return first
    return refuse(path)


def _function(name: str) -> Callable[..., Answer]:
    return getattr(torch, name) if hasattr(torch, name) else getattr(functional, name)


def _rule(name: str) -> Callable[..., Answer] | None:
    for names, rule in _RULES:
        if name in names:
            return rule
    return None


def _method(name: str) -> Callable[..., Answer] | None:
    """Return what the class itself answers under a name."""
    kinds = QuantizedTensor.__mro__
    own = (vars(each).get(name) for each in kinds[: kinds.index(Tensor)])
    return next((each for each in own if callable(each)), None)


def numbers_of(each: Answer) -> Answer:
    """Return the numbers of a quantised tensor, and anything else as it is."""
    return each.dequantize() if isinstance(each, QuantizedTensor) else each


def _plain(each: Answer) -> Answer:
    return each._held if isinstance(each, QuantizedTensor) else each


def _all(found: Answer, wrap: Callable[[Tensor], Answer]) -> Answer:
    """Return results of integers as quantised tensors, one or several."""
    return wrap(found) if isinstance(found, Tensor) else type(found)(wrap(each) for each in found)


# Places


def _placed(
    func: Callable[..., Answer], name: str, input: QuantizedTensor, args: tuple[Answer, ...], named: Named
) -> Answer:
    scheme = input._scheme
    if isinstance(scheme, PerTensor):
        found = func(input._held, *(_plain(each) for each in args), **named)
        return _all(found, input._with)
    if name not in ("__getitem__", "select", "narrow", "chunk", "split", "unbind"):
        raise RuntimeError(f"{name}(): Setting strides is possible only on uniformly quantized tensor")
    return _placed_channels(func, input, scheme, args, named)


def _placed_channels(
    func: Callable[..., Answer], input: QuantizedTensor, scheme: PerChannel, args: tuple[Answer, ...], named: Named
) -> Answer:
    """Return parts of a tensor that has a scale for each position of a dimension, with the scales of these positions."""
    # Where each position goes tells which scale it has.
    where = torch.arange(len(scheme.scales)).reshape([-1 if dim == scheme.axis else 1 for dim in range(input.ndim)])
    places = func(where.expand(input.shape), *args, **named)
    held = func(input._held, *args, **named)
    if isinstance(held, Tensor):
        return input._with(held, _channels_at(scheme, places))
    return type(held)(input._with(each, _channels_at(scheme, place)) for each, place in zip(held, places, strict=True))


def _channels_at(scheme: PerChannel, places: Tensor) -> Scheme:
    """Return the scales of a view, by the number of the scale that each element has."""
    axes = [dim for dim, step in enumerate(places.stride()) if step and places.shape[dim] > 1]
    if not axes:
        found = int(places.flatten()[0]) if places.numel() else 0
        return PerTensor(scheme.scales[found].item(), int(scheme.zero_points[found].item()))
    if len(axes) > 1 or places.ndim == 0:
        raise RuntimeError("parts of a per-channel quantized tensor keep the channels in one dimension")
    line = places.movedim(axes[0], 0).flatten(1)[:, 0] if places.ndim > 1 else places
    return PerChannel(scheme.scales[line], scheme.zero_points[line], axes[0])


def _reshaped(
    func: Callable[..., Answer], name: str, input: QuantizedTensor, args: tuple[Answer, ...], named: Named
) -> Answer:
    held = func(input._held, *(_plain(each) for each in args), **named)
    scheme = input._scheme
    if isinstance(scheme, PerTensor):
        return input._with(held)
    axis, size = scheme.axis, len(scheme.scales)
    behind = input.shape[axis + 1 :].numel()
    # The dimension is the one of its size with as many elements behind it.
    axes = [dim for dim in range(held.ndim) if held.shape[dim] == size and held.shape[dim + 1 :].numel() == behind]
    if not axes:
        raise RuntimeError(f"{name}(): the dimension of a per-channel quantized tensor that has the scales has to stay")
    return input._with(held, scheme.at(axes[0]))


def _kept(
    func: Callable[..., Answer], name: str, input: QuantizedTensor, args: tuple[Answer, ...], named: Named
) -> Answer:
    if "dropout" in name:
        training = named.get("training", args[1] if len(args) > 1 else True)
        if training:
            refuse(f"torch.nn.functional.{name} in training")
        return input
    held = func(input._held, *args, **named)
    return input if held is input._held else input._with(held)


def _to(input: QuantizedTensor, *args: Answer, **named: Answer) -> QuantizedTensor:
    for each in (*args, *named.values()):
        if isinstance(each, torch.dtype) and each is not input.dtype:
            refuse_type()
    kept = tuple(each for each in args if not isinstance(each, torch.dtype))
    held = input._held.to(
        *(_plain(each) for each in kept), **{key: each for key, each in named.items() if key != "dtype"}
    )
    return input if held is input._held else input._with(held, input._scheme.moved(held.device))


# Values


def _chosen(
    func: Callable[..., Answer], name: str, input: QuantizedTensor, args: tuple[Answer, ...], named: Named
) -> Answer:
    _ = input.per_tensor
    found = func(input._held.to(torch.int32), *(_plain(each) for each in args), **named)
    if isinstance(found, Tensor):
        return input._with(found.to(input._held.dtype))
    # Values, and where they were found.
    values, *rest = found
    parts = (input._with(values.to(input._held.dtype)), *rest)
    return type(found)(*parts) if hasattr(found, "_fields") else parts


def _linear(
    func: Callable[..., Answer], name: str, input: QuantizedTensor, args: tuple[Answer, ...], named: Named
) -> Answer:
    scale, zero_point = input.per_tensor
    named.pop("inplace", None)
    found = func(centred(input).to(torch.float32), *args, **named)
    return rounded(found + zero_point, scale, zero_point, input.dtype)


def _same_scale(
    func: Callable[..., Answer], name: str, input: QuantizedTensor, args: tuple[Answer, ...], named: Named
) -> Answer:
    _ = input.per_tensor
    named.pop("inplace", None) if name not in ("threshold",) else None
    result = func(input.dequantize(), *(numbers_of(each) for each in args), **named)
    return input.like(result)


def _bounded(
    func: Callable[..., Answer], name: str, input: QuantizedTensor, args: tuple[Answer, ...], named: Named
) -> Answer:
    _ = input.per_tensor
    named.pop("inplace", None)
    unsigned = input.dtype is torch.quint8
    symmetric = name == "tanh"
    zero = (128 if symmetric else 0) if unsigned else (0 if symmetric else -128)
    result = func(input.dequantize(), *args, **named)
    return QuantizedTensor.of(result, PerTensor(_BOUNDED[name], zero), input.dtype)


def _cat(tensors: Sequence[Answer], dim: int = 0, **named: Answer) -> QuantizedTensor:
    first = tensors[0]
    scheme = joined_scheme(tensors)
    if not all(each._scheme.same(scheme) for each in tensors):
        warn_once(
            "All inputs of this cat operator must share the same quantization parameters. Otherwise large numerical inaccuracies "
            "may occur."
        )
    # Those of the first one's scale are copied, the others' numbers quantised with it.
    parts = [each._held if each._scheme.same(scheme) else first.like(each.dequantize())._held for each in tensors]
    return first._with(torch.cat(parts, dim))


def joined_scheme(tensors: Sequence[Answer]) -> PerTensor:
    """Return the scale of tensors that are put together: that of the first.

    Raises:
        RuntimeError: they are not all quantised, have several types, or a scale for each position of a dimension.
    """
    for each in tensors:
        if not isinstance(each, QuantizedTensor) or each.dtype is not tensors[0].dtype:
            raise RuntimeError("cat(): all tensors have to be quantized, of one type")
        if not isinstance(each._scheme, PerTensor):
            raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    return tensors[0].per_tensor


def _stack(tensors: Sequence[Answer], dim: int = 0) -> QuantizedTensor:
    joined_scheme(tensors)
    place = wrap_dimension(dim, tensors[0].ndim + 1)
    return _cat([each.unsqueeze(place) for each in tensors], place)


def _pad(
    input: QuantizedTensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> QuantizedTensor:
    _ = input.per_tensor
    if mode != "constant":
        return input._with(functional.pad(input._held.to(torch.int32), pad, mode).to(input._held.dtype))
    filled = input.like(torch.tensor(0.0 if value is None else value, device=input.device))._held.item()
    return input._with(functional.pad(input._held, pad, mode, filled))


# In place


def _copy_(input: Answer, src: Answer, non_blocking: bool = False) -> Answer:
    if not isinstance(input, QuantizedTensor):
        raise RuntimeError("Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float Tensor from a quantized Tensor")  # fmt: skip
    if not isinstance(src, QuantizedTensor):
        if src.dtype is not torch.float32:
            raise RuntimeError("Quantized copy only works with kFloat as source Tensor")
        input._held.copy_(input.like(src.to(input.device))._held)
        return input
    if src.dtype is not input.dtype:
        raise RuntimeError("Quantized Copy only works with same quantized dtype")
    if src.qscheme() is not input.qscheme():
        raise RuntimeError("Quantized copy only works with same qscheme")
    input._held.copy_(src._held, non_blocking)
    # Integers are taken with what they stand for.
    vars(input)["_scheme"] = src._scheme
    return input


def _fill_(input: QuantizedTensor, value: Answer) -> QuantizedTensor:
    number = torch.full(tuple(input.shape), float(value), device=input.device)
    input._held.copy_(input.like(number)._held)
    return input


def _setitem(input: Answer, index: Answer, value: Answer) -> None:
    if not isinstance(input, QuantizedTensor):
        return refuse("torch.Tensor.__setitem__")
    part: Answer = input[index]
    if isinstance(value, QuantizedTensor):
        value = value.dequantize()
    held = part.like(torch.as_tensor(value, dtype=torch.float32, device=input.device).expand(part.shape))._held
    input._held[index] = held
    return None


def _equal(input: Answer, other: Answer) -> bool:
    if not (isinstance(input, QuantizedTensor) and isinstance(other, QuantizedTensor)):
        raise RuntimeError("Cannot compare a quantized tensor with another one")
    return (
        input.dtype is other.dtype
        and input.qscheme() is other.qscheme()
        and input._scheme.same(other._scheme)
        and torch.equal(input._held, other._held)
    )


def _empty_like(input: QuantizedTensor, **named: Answer) -> QuantizedTensor:
    return input._with(torch.empty_like(input._held, **{key: each for key, each in named.items() if key != "dtype"}))


def _refused(kind: type[Exception], text: str) -> Callable[..., NoReturn]:
    def apply(*args: Answer, **kwargs: Answer) -> NoReturn:
        raise kind(text)

    return apply


def _allclose(input: Answer, other: Answer, *args: Answer, **named: Answer) -> bool:
    return torch.allclose(numbers_of(input), numbers_of(other), *args, **named)


_RULES: tuple[tuple[Any, Callable[..., Answer]], ...] = (
    (_PLACING, _placed), (_RESHAPING, _reshaped), (_KEEPING, _kept), (_CHOOSING, _chosen), (_LINEAR, _linear), (_SAME_SCALE, _same_scale), (_BOUNDED, _bounded),
)  # fmt: skip
_ANSWERS: dict[str, Callable[..., Answer]] = {
    "to": _to, "cat": _cat, "concat": _cat, "concatenate": _cat, "stack": _stack, "pad": _pad, "constant_pad_nd": lambda input, pad, value=0: _pad(input, pad, "constant", value),
    "copy_": _copy_, "fill_": _fill_, "__setitem__": _setitem, "equal": _equal, "empty_like": _empty_like, "allclose": _allclose,
    "tolist": _refused(RuntimeError, "tolist(): numbers of quantized tensors are told by dequantize().tolist()"),
    "numpy": _refused(TypeError, "numpy(): quantized tensors have no ndarray; dequantize() or int_repr() has"),
    "is_same_size": lambda input, other: input.shape == other.shape, "is_nonzero": bool,
}  # fmt: skip
