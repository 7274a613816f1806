"""Forward-mode differentiation, as ``torch.autograd.forward_ad``: tensors with tangents, and what becomes of both.

A tangent is found when it is asked for, by differentiating the vector-Jacobian product, which is linear in its vector, once more:
whatever has a backward pass that can be differentiated has a forward mode. So gradients must be recorded between
:func:`make_dual` and :func:`unpack_dual`, and what is computed of dual tensors requires gradients.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from ..operations.common import attach
from ..operations.creation.reading import tangents_told
from ..record.context import handed_on
from ..record.grad_mode import enable_grad
from ..record.node import AccumulateGrad, Node
from ..tensors.tensor import Tensor
from .engine import grad, reachable

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class _Duals:
    """What stands for each dual tensor in the graph, and its tangent, as long as there is the dual tensor or something of it."""

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def add(self, tensor: Tensor, tangent: Tensor) -> Tensor:
        """Return what stands for a tensor with a tangent."""
        stand_in = tensor.detach().requires_grad_()
        key, pairs = id(stand_in), self._pairs
        pairs[key] = weakref.ref(stand_in, lambda _: pairs.pop(key, None)), tangent
        return stand_in

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Return the pairs whose stand-ins there are."""
        found = [(reference(), tangent) for reference, tangent in list(self._pairs.values())]
        return [(stand_in, tangent) for stand_in, tangent in found if stand_in is not None]

    def tangent_of(self, tensor: Tensor) -> Tensor | None:
        """Return the tangent that a tensor was made with, if it is a dual tensor that was not written since."""
        made = tensor.__dict__.get("_made_dual")
        if made is None or made[0] is not tensor._grad_fn or made[2] != tensor._version:
            return None
        found = self._pairs.get(made[1])
        return None if found is None else found[1]


class _Level(threading.local):
    """The dual tensors of this thread's level, None outside of one: what stands for each in the graph, and its tangent."""

    duals: _Duals | None = None
    #: whether tangents are being found: then results of functions that have their own stand for themselves
    unpacking = False


_level = _Level()
handed_on.append(_level)
#: the number of the level that was entered, -1 outside of one
_current_level = -1


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, None where it depends on no dual tensor."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin a level, in which there are dual tensors, and return its number, 0.

    Raises:
        RuntimeError: there is one already.
    """
    if _level.duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    global _current_level
    _level.duals = _Duals()
    _current_level = 0
    tangents_told[:] = [_tangent_text]
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: tensors have no tangents any more.

    Raises:
        RuntimeError: there is none.
    """
    if _level.duals is None or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not entered: call enter_dual_level() first")
    global _current_level
    _level.duals = None
    _current_level = -1
    tangents_told.clear()


def _tangent_text(tensor: Tensor) -> str | None:
    tangent = unpack_dual(tensor).tangent
    return None if tangent is None else repr(tangent)


@contextlib.contextmanager
def dual_level() -> Generator[int]:
    """A level for the time of a ``with`` block, or of each call of a function that it decorates.

    Raises:
        RuntimeError: there is one already.
    """
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor of the same elements that has a tangent of the same shape and type.

    Raises:
        RuntimeError: there is no level, or the tangent has another shape.
        ValueError: elements are neither floating-point nor complex numbers.
    """
    if _level.duals is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, each in (("primal", tensor), ("tangent", tangent)):
        if each.dtype.category < 2:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {each.dtype!r}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            f"Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if _level.duals.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
        )
    if _level.duals.tangent_of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    return _dual(tensor, tangent, lambda gradient: (gradient, gradient))


def _dual(tensor: Tensor, tangent: Tensor, backward: Callable[[Tensor], tuple[Tensor | None, Tensor]]) -> Tensor:
    assert _level.duals is not None
    stand_in = _level.duals.add(tensor, tangent)
    with enable_grad():
        made = attach(tensor.detach(), "MakeDualBackward", (tensor, stand_in), backward)
    return _marked(made, stand_in)


def _marked(made: Tensor, stand_in: Tensor) -> Tensor:
    """Return a dual tensor that knows what stands for it."""
    if not made.is_inference():
        made.__dict__["_made_dual"] = made._grad_fn, id(stand_in), made._version
    return made


def unpacking() -> bool:
    """Return whether this thread finds a tangent at present."""
    return _level.unpacking


def tangents_of(arguments: Sequence[object]) -> tuple[Tensor | None, ...]:
    """Return the tangent of each argument that has one, of its shape; nothing where none has."""
    if _level.duals is None or not _level.duals.pairs():
        return ()
    found = tuple(unpack_dual(each).tangent if isinstance(each, Tensor) else None for each in arguments)
    return found if any(each is not None for each in found) else ()


def with_tangent(result: Tensor, tangent: Tensor) -> Tensor:
    """Return a function's result with the tangent of the same shape that the function says it has, whatever its arguments' are.

    Raises:
        RuntimeError: the tangent has another shape.
    """
    if result.shape != tangent.shape:
        raise RuntimeError(
            f"jvp returned a tangent of shape {tuple(tangent.shape)} for an output of shape {tuple(result.shape)}"
        )
    return _dual(result, tangent, lambda gradient: (None if _level.unpacking else gradient, gradient))


def written_tangent(result: Tensor, tangent: Tensor) -> Tensor:
    """Return an argument that a function has written into, with the tangent of its shape that the function has written into."""
    assert _level.duals is not None
    stand_in = _level.duals.add(result, tangent)
    edges = (result._gradient_edge(), stand_in._gradient_edge())
    node = Node("MakeDualBackward", edges, lambda gradient: (None if _level.unpacking else gradient, gradient))
    result._rebase_history(node)
    return _marked(result, stand_in)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a tensor of any shape and the tangent that it has of the dual tensors it was computed from.

    Raises:
        RuntimeError: an operation between has no derivative.
    """
    duals = [] if _level.duals is None else _level.duals.pairs()
    if not duals or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    own = _level.duals.tangent_of(tensor) if _level.duals is not None else None
    if own is not None:
        return UnpackedDualTensor(_released(tensor, [each for each, _ in duals], "Identity"), own)
    stand_ins = [each for each, _ in duals]
    with enable_grad():
        vector = tensor.detach().new_zeros(tensor.shape).requires_grad_()
        _level.unpacking = True
        try:
            found = grad(tensor, stand_ins, vector, retain_graph=True, create_graph=True, allow_unused=True)
        finally:
            _level.unpacking = False
        pairs = [(one, tangent) for one, (_, tangent) in zip(found, duals, strict=True) if one is not None]
        tracked = [(one, tangent) for one, tangent in pairs if one.requires_grad]
        product = None
        if tracked:
            (product,) = grad(
                [one for one, _ in tracked], [vector], [tangent for _, tangent in tracked],
                retain_graph=True, create_graph=True, allow_unused=True,
            )  # fmt: skip
    if pairs and product is None:
        product = vector.detach()
    tangent = None if product is None else _released(product, [*stand_ins, vector], "ViewBackward0")
    return UnpackedDualTensor(_released(tensor, stand_ins, "Identity"), tangent)


def _released(tensor: Tensor, own: list[Tensor], title: str) -> Tensor:
    """Return a tensor that has no tangent itself: without its graph, where that leads to nothing but this module's own leaves."""
    edge, known = tensor._gradient_edge(), {id(each) for each in own}
    nodes = reachable([edge] if edge else [])
    if not any(isinstance(each, AccumulateGrad) and id(each.variable) not in known for each in nodes):
        return tensor.detach()
    with enable_grad():
        return attach(tensor.detach(), title, (tensor,), lambda gradient: None if _level.unpacking else gradient)
