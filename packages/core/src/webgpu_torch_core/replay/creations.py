"""Remembered creations: what makes a tensor of numbers alone records the same kernel whenever it is given the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..bounded import Bounded
from ..dispatch.direct import DIRECT, Direct
from ..ir.dtypes import dtype
from ..ir.kernels import Kernel
from ..ir.layouts import Layout
from ..record.context import default_float
from ..record.devices import device, engine_for, get_default_device
from ..record.tape import Value
from ..tensors.tensor import Tensor, new_storage, new_tensor
from .recipes import EXACT, describe

#: kinds of calls kept per function
_LIMIT = 4096
Function = TypeVar("Function", bound=Callable[..., Tensor])
#: the kernel without operands that a call recorded, its parameters, and the layout, type and device of the result
_Creation = tuple[Kernel, tuple[float | int, ...], Layout, dtype, device]


def remembered_creation(function: Function) -> Function:
    """Decorate a function that makes a tensor of its numbers alone."""
    return _remembered(function, 0)


def remembered_likeness(function: Function) -> Function:
    """Decorate a function that makes a tensor of its numbers and of the type, sizes and device of its first argument, a tensor."""
    return _remembered(function, 1)


def _remembered(function: Function, tensors: int) -> Function:
    creations: Bounded[tuple[object, ...], _Creation] = Bounded(_LIMIT)

    def record(args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        given = (*args, *kwargs, *kwargs.values()) if kwargs else args
        # Where no device is given, the default one may count.
        place = None if kwargs.get("device") is not None else get_default_device()
        kinds = tuple(map(type, given))
        if EXACT.issuperset(kinds):
            identity: tuple[object, ...] = (default_float[0], place, kinds, given)
        else:
            key: list[Any] = [default_float[0], place]
            values: list[Any] = []
            # Another tensor is a number that is looked at, or written into.
            if not describe(given, key, values, None) or len(values) != tensors:
                return call.__wrapped__(*args, **kwargs)
            identity = tuple(key)
        found = creations.get(identity)
        if found is None:
            made = call.__wrapped__(*args, **kwargs)
            found = _creation(made)
            if found is not None:
                creations[identity] = found
            return made
        kernel, parameters, layout, kind, place = found
        (value,) = engine_for(place).record(kernel, (), parameters)
        return new_tensor(new_storage(value), layout, kind, place)

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        return record(args, kwargs)

    DIRECT[call] = Direct(record)
    return call  # pyright: ignore[reportReturnType]


def _creation(made: Tensor) -> _Creation | None:
    """Return how a tensor was made, if by one kernel without operands that has not run yet; None of other tensors."""
    value = made._storage.value
    if made.__class__ is not Tensor or made._requires_grad or made._base is not None or value.__class__ is not Value:
        return None
    tape, slot = value.place
    entry = tape.entries[-1] if tape is not None and tape.entries else None
    if entry is None or entry.output != slot or entry.operands or len(entry.kernel.outputs) > 1:
        return None
    return entry.kernel, entry.parameters, made._layout, made.dtype, made.device
