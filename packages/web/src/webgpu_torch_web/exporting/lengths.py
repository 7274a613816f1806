"""Functions of inputs whose lengths differ from call to call: captured once for each of some lengths.

The runner takes the shortest that holds a call's inputs, fills these up with zeros, and cuts the outputs to the length of the
inputs. That is right where what comes behind an element does not change its result: in causal models, and in others that
take a mask, which the zeros fill up, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .capture import Captured, Session, titles
from .errors import ExportError
from .folder import Json

#: names of inputs -> dimension -> its lengths
DynamicShapes = Mapping[str, Mapping[int, Sequence[int]]]


def capture_lengths(
    session: Session,
    name: str,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    dynamic_shapes: DynamicShapes,
) -> Json:
    """Add a function for each length, and return what the runner has to know of them.

    Raises:
        ExportError: the function does what cannot be exported, or an output has another length than the inputs.
        ValueError: ``dynamic_shapes`` names what is no tensor or no dimension of one, or lengths that differ or do not grow.
    """
    lengths = _lengths(dynamic_shapes)
    names = [*titles(function, len(args)), *kwargs]
    given = dict(zip(names, [*args, *kwargs.values()], strict=True))
    dimensions = {each: _dimensions(each, given, wanted) for each, wanted in dynamic_shapes.items()}
    captured: list[Captured] = []
    for length in lengths:
        of_length = {each: _resized(value, dimensions.get(each, ()), length) for each, value in given.items()}
        positional = [of_length[each] for each in names[: len(args)]]
        named = {each: of_length[each] for each in kwargs}
        captured.append(session.capture(f"{name}{length}", function, positional, named))
    return {
        "lengths": lengths,
        "functions": [each.name for each in captured],
        "inputs": dimensions,
        "outputs": _outputs(captured, lengths),
    }


def _lengths(dynamic_shapes: DynamicShapes) -> list[int]:
    """Return the lengths, which all dimensions share."""
    found = {tuple(each) for wanted in dynamic_shapes.values() for each in wanted.values()}
    if len(found) != 1:
        raise ValueError(
            f"dynamic_shapes must give one or more dimensions, all of the same lengths, got {dynamic_shapes}"
        )
    [lengths] = found
    if len(lengths) < 2 or lengths[0] < 1 or [*lengths] != sorted({*lengths}):
        raise ValueError(
            f"dynamic_shapes must give two or more lengths from 1 on, each longer than the last, got {lengths}"
        )
    return [*lengths]


def _dimensions(name: str, given: Mapping[str, object], wanted: Mapping[int, Sequence[int]]) -> list[int]:
    """Return which of an input's dimensions have the length, counted from the first."""
    tensor = given.get(name)
    if not isinstance(tensor, Tensor):
        tensors = ", ".join(each for each, value in given.items() if isinstance(value, Tensor))
        raise ValueError(f"dynamic_shapes names {name!r}; inputs that are tensors: {tensors or 'none'}")
    if any(not -tensor.ndim <= each < tensor.ndim for each in wanted):
        raise ValueError(f"dynamic_shapes gives {name!r} the dimensions {[*wanted]}; it has {tensor.ndim}")
    return sorted({each % tensor.ndim for each in wanted})


def _resized(value: object, dimensions: Sequence[int], length: int) -> object:
    """Return an example of an input of this length; its elements do not matter."""
    if not isinstance(value, Tensor) or not dimensions:
        return value
    shape = [length if at in dimensions else size for at, size in enumerate(value.shape)]
    return torch.zeros(shape, dtype=value.dtype, device=value.device)


def _outputs(captured: Sequence[Captured], lengths: Sequence[int]) -> dict[str, list[int]]:
    """Return which dimensions of each output have the length.

    Raises:
        ExportError: an output depends on the length in another way.
    """
    first = captured[0]
    kinds = [(each.name, each.dtype, len(each.shape)) for each in first.outputs]
    for length, each in zip(lengths, captured, strict=True):
        if [(port.name, port.dtype, len(port.shape)) for port in each.outputs] != kinds:
            raise ExportError(f"the function returns other outputs for inputs of length {length} than of {lengths[0]}")
        if each.values != first.values:
            raise ExportError(
                f"the function returns numbers that depend on the length ({each.values}): a shorter input is filled up, so "
                "that they would be those of the longer one"
            )
    found = {}
    for at, port in enumerate(first.outputs):
        sizes = zip(*[each.outputs[at].shape for each in captured], strict=True)
        found[port.name] = [dimension for dimension, each in enumerate(sizes) if _has_length(port.name, each, lengths)]
    return found


def _has_length(name: str, sizes: Sequence[int], lengths: Sequence[int]) -> bool:
    if [*sizes] != [*lengths] and len({*sizes}) > 1:
        raise ExportError(
            f"output '{name}' has sizes {[*sizes]} for inputs of lengths {[*lengths]}: each of its dimensions must have the "
            "inputs' length or not depend on it"
        )
    return [*sizes] == [*lengths]
