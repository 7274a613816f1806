"""Calls in forms that PyTorch deprecated and still takes: numbers among the operands, ``p.add_(-rate, gradient)``."""

from __future__ import annotations

from collections.abc import Iterable

from ..notices import warn_once
from ..tensors.tensor import Tensor

_PRODUCTS = {
    "addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "addr": ("vec1", "vec2"),
    "addbmm": ("batch1", "batch2"), "baddbmm": ("batch1", "batch2"),
}  # fmt: skip
#: the orders of arguments of each function (PyTorch's ``tools/autograd/deprecated.yaml``); a method's first one is its tensor
_ORDERS = {
    **dict.fromkeys(("add", "sub"), (("input", "alpha", "other"),)),
    **dict.fromkeys(("addcmul", "addcdiv"), (("input", "value", "tensor1", "tensor2"),)),
    **{
        name: tuple(
            (*first, *rest, *operands)
            for first, rest in (
                (("beta", "input"), ("alpha",)), (("beta", "input"), ()), (("input", "beta"), ("alpha",)), (("input", "beta"), ()),
            )
        )
        for name, operands in _PRODUCTS.items()
    },
}  # fmt: skip
_NUMBERS = frozenset(("alpha", "beta", "value"))


def _fits(name: str, value: object) -> bool:
    return isinstance(value, int | float | complex) if name in _NUMBERS else isinstance(value, Tensor)


def _described(names: Iterable[str]) -> str:
    return ", ".join(f"{'Number' if each in _NUMBERS else 'Tensor'} {each}" for each in names)


def modern_arguments(
    function: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]] | None:
    """Return the arguments of a call in a deprecated form as the function takes them today, None where it has no such form.

    A warning names the form to use; tensors may have any shape.
    """
    for order in _ORDERS.get(function.removesuffix("_"), ()):
        given = dict(zip(order, args, strict=False))
        rest = {name: value for name, value in kwargs.items() if name not in order}
        given.update((name, value) for name, value in kwargs.items() if name in order)
        if (
            len(args) > len(order)
            or len(given) + len(rest) < len(args) + len(kwargs)
            or len(given) < len(order)
            or not all(_fits(name, value) for name, value in given.items())
        ):
            continue
        operands = [each for each in order if each not in _NUMBERS]
        numbers = [each for each in order if each in _NUMBERS]
        defaults = ", ".join(f"Number {each} = 1" for each in numbers)
        warn_once(
            f"This overload of {function} is deprecated:\n\t{function}({_described(order)})\nConsider using one of the following "
            f"signatures instead:\n\t{function}({_described(operands)}, *, {defaults})",
        )
        return tuple(given[each] for each in operands), {**rest, **{each: given[each] for each in numbers}}
    return None
