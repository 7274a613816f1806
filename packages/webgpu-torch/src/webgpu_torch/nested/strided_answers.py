"""What public functions do with nested tensors of the strided layout: on all elements at once, or component by component."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api import functional as F

from .._holding import Answer
from .answers import Forms, Named
from .making import made as jagged_of
from .strided import StridedNestedTensor as Nested

#: functions of each component that take a dimension, and where among their arguments it stands
_OF_DIMENSION = {
    "softmax": 1, "log_softmax": 1, "narrow": 1, "select": 1, "unsqueeze": 1, "squeeze": 1, "unflatten": 1, "chunk": 2, "split": 2,
}  # fmt: skip


def _each(function: Callable[..., Answer], *given: Nested) -> Answer:
    """Return what a function makes of each component: a nested tensor, or several."""
    found = [function(*parts) for parts in zip(*(each.unbind() for each in given), strict=True)]
    if not found or isinstance(found[0], Tensor):
        return Nested.of(found, given[0]._held)
    return tuple(Nested.of(each) for each in zip(*found, strict=True))


def _of_values(func: Callable[..., Answer], path: str, args: tuple[Answer, ...], kwargs: Named) -> Answer:
    """Return an element-wise function of nested tensors of the same sizes, and numbers."""
    first = next(each for each in (*args, *kwargs.values()) if isinstance(each, Nested))

    def value(each: Answer) -> Answer:
        if isinstance(each, Nested):
            if each._components != first._components:
                raise RuntimeError(
                    f"{func.__name__} does not support nested tensors of different sizes: components of {first._components} and of "
                    f"{each._components}"
                )
            return each._held
        if isinstance(each, Tensor) and each.dim():
            raise RuntimeError(
                "Expected both self and other to be nested, but got a nested self and non-nested other"
                f" of shape {tuple(each.shape)}"
            )
        return each

    result = func(*(value(each) for each in args), **{name: value(each) for name, each in kwargs.items()})
    if not isinstance(result, Tensor):
        return result
    if isinstance(args[0], Nested) and result is args[0]._held:
        return args[0]
    if result.numel() != first._held.numel():
        # Gated linear units halve a dimension.
        return _each(lambda part: func(part, *args[1:], **kwargs), first)
    return first._with(result)


def _of_features(func: Callable[..., Answer], args: tuple[Answer, ...], kwargs: Named) -> Nested:
    """Return a function over the last dimensions, which components have in common: of all their rows at once."""
    first = next(each for each in (*args, *kwargs.values()) if isinstance(each, Nested))
    if func.__name__ in ("embedding", "one_hot"):
        rows, kept = first._held, first._components
    else:
        shape = () if func.__name__ == "linear" else kwargs.get("normalized_shape") or args[1]
        last = len((shape,) if isinstance(shape, int) else shape) or 1
        if any(each[-last:] != first._components[0][-last:] for each in first._components):
            raise RuntimeError(
                f"{func.__name__}(): normalized_shape extends into irregular dimensions for the nested tensor: components of "
                f"{first._components}"
            )
        rows = first._held.view(-1, *first._components[0][-last:]) if first._components else first._held
        kept = tuple(each[:-last] for each in first._components)
    given = [rows if each is first else each for each in args]
    found = func(*given, **{name: rows if each is first else each for name, each in kwargs.items()})
    inner = tuple(found.shape[1:])
    return first._with(found.reshape(-1), tuple((*each, *inner) for each in kept))


def _inside(input: Nested, name: str, dim: int) -> int:
    """Return a dimension of components for one that is not the batch's.

    Raises:
        RuntimeError: it is the batch's.
    """
    found = input._dimension(dim)
    if found == 0:
        raise RuntimeError(f"{name}(): not supported for nested tensors of the strided layout along dimension 0")
    return found - 1


def _along(name: str, *given: Answer, dim: Answer = None, **named: Answer) -> Answer:
    """Return a function of each component along one of its dimensions."""
    input, *others = given
    place = _OF_DIMENSION[name] - 1
    if dim is None:
        if len(others) <= place:
            raise RuntimeError(f"{name}(): for nested tensors, {name} without the dim argument is not supported")
        dim = others.pop(place)
    if name == "unsqueeze":
        inside = dim % (input.dim() + 1) - 1
    elif name == "select" and input._dimension(dim) == 0:
        return input.unbind()[others[0]]
    else:
        inside = _inside(input, name, dim)
    if name == "narrow" or name == "select":
        return _each(lambda part: getattr(torch, name)(part, inside, *others, **named), input)
    if name in ("chunk", "split"):
        return _each(lambda part: tuple(getattr(torch, name)(part, *others, dim=inside, **named)), input)
    return _each(lambda part: getattr(part, name)(inside, *others, **named), input)


def _reduce(
    func: Callable[..., Answer], name: str, input: Nested, dim: Answer = None, keepdim: bool = False, **named: Answer
) -> Answer:
    if isinstance(dim, Tensor) and name in ("max", "min"):
        return _of_values(func, name, (input, dim), named)
    if dim is None:
        return func(input._held, **named)
    given: Answer = dim
    several = isinstance(dim, Sequence)
    inside = [_inside(input, name, each) for each in given] if several else _inside(input, name, given)
    return _each(lambda part: func(part, inside, keepdim, **named), input)


def _transpose(input: Nested, dim0: int, dim1: int) -> Nested:
    first, second = _inside(input, "transpose", dim0), _inside(input, "transpose", dim1)
    return _each(lambda part: part.transpose(first, second), input)


def _permute(input: Nested, *dims: Answer) -> Nested:
    given = dims[0] if len(dims) == 1 else dims
    if input._dimension(given[0]) != 0:
        raise RuntimeError("permute(): not supported for NestedTensor on dim=0")
    return _each(lambda part: part.permute([input._dimension(each) - 1 for each in given[1:]]), input)


def _view(input: Nested, *shape: Answer) -> Nested:
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        return input._with(input._held.view(shape[0]))
    batch, *sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    if batch != len(input):
        raise RuntimeError(
            f"view: For now nested view cannot change or infer the implicit batch dimension, {len(input)}"
        )

    def apply(part: Tensor) -> Tensor:
        open_places = [place for place, each in enumerate(sizes) if each == -1]
        wanted = list(sizes)
        # Sizes that are left open are the component's own, but for the last one, which the others decide.
        for place in open_places[:-1]:
            wanted[place] = part.shape[place]
        return part.reshape(wanted)

    return _each(apply, input)


def _flatten(input: Nested, start_dim: int = 0, end_dim: int = -1) -> Nested:
    start, end = _inside(input, "flatten", start_dim), _inside(input, "flatten", end_dim)
    return _each(lambda part: part.flatten(start, end), input)


def _cat(tensors: Sequence[Answer], dim: int = 0) -> Nested:
    first = next(each for each in tensors if isinstance(each, Nested))
    if first._dimension(dim) == 0:
        return Nested.of([part for each in tensors for part in each.unbind()])
    if not all(isinstance(each, Nested) for each in tensors):
        raise RuntimeError("cat(): expected each tensor in given list to be nested.")
    inside = _inside(first, "cat", dim)
    return _each(lambda *parts: torch.cat(parts, inside), *tensors)


def _getitem(input: Nested, index: Answer) -> Answer:
    given = index if isinstance(index, tuple) else (index,)
    first = given[0] if given else slice(None)
    if isinstance(first, int):
        component = input.unbind()[first]
        return component[given[1:]] if len(given) > 1 else component
    if first is Ellipsis:
        return _each(lambda part: part[given], input)
    if first != slice(None):
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    return _each(lambda part: part[given[1:]], input) if len(given) > 1 else input


def _matmul(input: Answer, other: Answer) -> Nested:
    if isinstance(input, Nested) and isinstance(other, Nested):
        return _each(torch.matmul, input, other)
    shown = ("a nested" if isinstance(each, Nested) else "non-nested" for each in (input, other))
    raise RuntimeError("Expected both to be nested, but got {} self and {} other".format(*shown))


def _same_size(input: Answer, other: Answer) -> bool:
    if not (isinstance(input, Nested) and isinstance(other, Nested)):
        one, two = ("nested" if isinstance(each, Nested) else "not nested" for each in (input, other))
        raise RuntimeError(f"Expected both self and other to be nested tensors. Self is {one}. While Other is {two}.")
    return input._components == other._components


def _attention(query: Answer, key: Answer, value: Answer, *args: Answer, **kwargs: Answer) -> Nested:
    """Return attention within components, [heads, l, e] each."""
    given = query, key, value
    if not all(isinstance(each, Nested) for each in given):
        raise ValueError("Expected query, key, value to all be nested tensors")
    if (args and args[0] is not None) or kwargs.get("attn_mask") is not None:
        raise RuntimeError("scaled_dot_product_attention(): attn_mask is not supported with nested tensors")
    same = all(len({(each[:-2], each[-1]) for each in one._components}) == 1 for one in given)
    if not same or query.dim() != 4 or len(key._components) != len(query._components):
        return _each(lambda *parts: F.scaled_dot_product_attention(*parts, *args, **kwargs), *given)
    # All at once, filled up: in the layout in which one size differs.
    offsets: dict[tuple[int, ...], Tensor] = {}
    ragged = []
    for one in given:
        lengths = tuple(each[1] for each in one._components)
        if lengths not in offsets:
            counts = torch.tensor([0, *lengths], dtype=torch.int64, device=one.device)
            offsets[lengths] = counts.cumsum(0)
        ragged.append(jagged_of(torch.cat(one.unbind(), 1), offsets[lengths], None, 2))
    return Nested.of(F.scaled_dot_product_attention(*ragged, *args, **kwargs).unbind())


def _unsupported(name: str) -> Callable[..., NoReturn]:
    def apply(*args: Answer, **kwargs: Answer) -> NoReturn:
        raise RuntimeError(f".{name}() is not supported for nested tensors: call to_padded_tensor() or unbind() first")

    return apply


def _item(input: Nested) -> Answer:
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return input._held.item()


def _truth(input: Nested) -> bool:
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(input._held.item())


_ANSWERS: dict[str, Callable[..., Answer]] = {
    "transpose": _transpose, "swapaxes": _transpose, "permute": _permute, "view": _view, "reshape": _view, "flatten": _flatten,
    "cat": _cat, "__getitem__": _getitem, "matmul": _matmul, "bmm": _matmul, "mm": _matmul,
    "scaled_dot_product_attention": _attention, "contiguous": lambda input, **_: input, "__bool__": _truth, "item": _item,
    "is_same_size": _same_size,
    "numpy": _unsupported("numpy"), "tolist": _unsupported("tolist"),
    **{name: partial(_along, name) for name in _OF_DIMENSION},
}  # fmt: skip
answer = Forms(Nested, _ANSWERS, _reduce, _of_values, _of_features).answer
