"""Rules of the operations that PyTorch has for 8-bit floats: movement acts on their bits, the rest on decoded numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...dispatch.torch_dispatch import Value
from ...ir.dtypes import FLOAT8, bool_, dtype, float8_e5m2, float32
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import as_leaf, needs_gradient
from ..creation.factories import asked
from ..elementwise.call import default_float
from ..outputs import into
from .bits import bits_alias, float8_alias


def _is_float8(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype in FLOAT8


def _changed(change: Callable[[Value], Value], value: Value) -> Value:
    """Return an argument with 8-bit floats changed, also those in a sequence."""
    if value.__class__ in (list, tuple) and any(map(_is_float8, value)):
        return value.__class__([_changed(change, one) for one in value])
    return change(value) if _is_float8(value) else value


def _numbers(value: Tensor) -> Tensor:
    return value.to(float32)


def _tensors(values: tuple[Value, ...]) -> list[Tensor]:
    flat = [one for each in values for one in (each if each.__class__ in (list, tuple) else (each,))]
    return [each for each in flat if isinstance(each, Tensor)]


def _kind(values: tuple[Value, ...]) -> dtype:
    return next(each.dtype for each in _tensors(values) if each.dtype in FLOAT8)


def _refused(name: str, values: tuple[Value, ...]) -> NotImplementedError:
    return NotImplementedError(f"\"{name}\" not implemented for '{_kind(values).title}'")


def _moving(function: Value, *args: Value, **kwargs: Value) -> Tensor:
    """Return what a function that moves elements makes of their bits; through numbers where gradients are recorded."""
    kind = _kind(args)
    if needs_gradient(*_tensors(args)):
        return function(*(_changed(_numbers, each) for each in args), **kwargs).to(kind)
    return float8_alias(function(*(_changed(bits_alias, each) for each in args), **kwargs), kind)


def _filling(
    function: Value, input: Tensor, before: Value, shape: Value, value: Value, steps: Value, ordered: Value
) -> Tensor:
    """Return elements placed inside of others, which are a number."""
    if not value:
        return _moving(function, input, before, shape, 0, steps, ordered)
    return function(_numbers(input), before, shape, value, steps, ordered).to(input.dtype)


def _writing(function: Value, *args: Value, **kwargs: Value) -> Tensor:
    """Return elements written over others, or added to them."""
    if "sum" in (*args, *kwargs.values()):
        return _computing(function, *args, **kwargs)
    return _moving(function, *args, **kwargs)


def _computing(function: Value, *args: Value, **kwargs: Value) -> Tensor:
    """Return what a function computes of decoded numbers, in the operands' type if it is a number."""
    kind = _kind(args)
    result = function(*(_changed(_numbers, each) for each in args), **kwargs)
    return result if result.dtype is bool_ else result.to(kind)


def _reducing(name: str, function: Value, input: Tensor, *args: Value, **kwargs: Value) -> Tensor:
    """Return a reduction of elements that are converted before.

    Raises:
        NotImplementedError: the type is to stay.
    """
    kind = kwargs.get("dtype")
    if kind is None or kind in FLOAT8:
        raise _refused(f"{name}_cpu", (input,))
    return function(input.to(kind), *args, **kwargs)


def _elementwise(name: str, of_numbers: bool, function: Value, *operands: Value) -> Tensor:
    """Return an element-wise operation's result; ``of_numbers`` says whether numbers may take part, as elements of the type."""
    first = next(filter(_is_float8, operands))
    if not of_numbers and not all(map(_is_float8, operands)):
        raise _refused(f"{name}_cpu_reduced_float", operands)
    rounded = [first.new_tensor(each) if isinstance(each, bool | int | float) else each for each in operands]
    return _computing(getattr(e, name), *rounded)


def _asking_of_infinity(name: str, function: Value, input: Tensor) -> Tensor:
    """Return which elements are infinite, or finite; most types have no infinity, and no such operation.

    Raises:
        NotImplementedError: the type has no infinity.
    """
    if input.dtype is not float8_e5m2:
        raise _refused(name, (input,))
    return _elementwise(name, True, function, input)


def _eye(
    function: Value, *args: Value, dtype: Value = None, out: Value = None, requires_grad: bool = False, **named: Value
) -> Tensor:
    kind, named["device"] = asked(dtype, named.get("device"), out, default_float[0])
    result = function(*args, dtype=float32, **named).to(kind)
    if out is not None:
        return into(result, out)
    return as_leaf(result, requires_grad)


#: by an operation's name what computes it, given the function for other types and the arguments
RULES: dict[str, Callable[..., Tensor]] = {
    **dict.fromkeys(("join_pieces", "flip", "roll", "take_positions"), _moving),
    **{name: partial(_reducing, name) for name in ("sum", "prod", "cumsum", "cumprod")},
    **{name: partial(_elementwise, name, name != "mul") for name in ("eq", "ne", "isnan", "abs", "mul", "select_")},
    **{name: partial(_asking_of_infinity, name) for name in ("isinf", "isfinite")},
    "write_slices": _writing,
    "place_inside": _filling,
    "product": _computing,
    "any": _computing,
    "all": _computing,
    "eye": _eye,
}
