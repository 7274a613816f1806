"""Looking into the gradient graph and at what it saves, as ``torch.autograd.graph``."""

from __future__ import annotations

import threading
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from ..record.grad_mode import recording
from ..record.node import Node as Node
from ..record.node import RemovableHandle, running
from ..tensors import saved_tensors as saved
from ..tensors.tensor import Tensor

# Not typing.NamedTuple: typing is slow to import.
GradientEdge = namedtuple(  # pyright: ignore[reportUntypedNamedTuple]
    "GradientEdge", ("node", "output_nr", "ownership_token"), defaults=(None,)
)
GradientEdge.__doc__ = "Where a gradient flows: into an output (by number) of a node."


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Return where a tensor's gradient flows; ``torch.autograd.grad`` and ``backward`` take it instead of the tensor.

    Raises:
        RuntimeError: the tensor requires no gradient.
    """
    edge = tensor._gradient_edge()
    if edge is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge)


def increment_version(tensor: Any) -> None:
    """Count an in-place change that was made behind the back of autograd, in a tensor or in several.

    Raises:
        RuntimeError: something else than tensors was given.
    """
    if isinstance(tensor, Tensor):
        tensor = (tensor,)
    if not isinstance(tensor, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for each in tensor:
        if not isinstance(each, Tensor):
            raise RuntimeError("increment_version expects each element of the iterable to be a tensor")
        each._storage.version += 1


class saved_tensors_hooks:
    """Pack what is saved for backward inside a ``with`` block: ``unpack_hook(pack_hook(tensor))`` is what backward sees.

    Args:
        pack_hook: called with every tensor that is saved; may return anything.
        unpack_hook: called with that when backward needs it; returns a tensor of the same values.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Any:
        if saved.disabled:
            raise RuntimeError(saved.disabled[-1])
        recording.saved_hooks.append((self.pack_hook, self.unpack_hook))
        return None

    def __exit__(self, *args: object) -> None:
        recording.saved_hooks.pop()


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved for backward in the CPU's memory, and bring it back when backward needs it.

    Args:
        pin_memory: accepted; there is no pinned memory.
        device_type: accepted; tensors return to the device that they come from.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:

        def pack_to_cpu(tensor: Any) -> tuple[Any, Any]:
            return tensor.device, tensor.cpu()

        def unpack_from_cpu(packed: tuple[Any, Any]) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack_to_cpu, unpack_from_cpu)


class disable_saved_tensors_hooks:
    """Refuse hooks on saved tensors with a message, inside a ``with`` block or a decorated function."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        if recording.saved_hooks:
            raise RuntimeError(self.error_message)
        saved.disabled.append(self.error_message)

    def __exit__(self, *args: object) -> None:
        saved.disabled.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function run inside the block."""

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


class _MultiHandle(RemovableHandle):
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks out."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Any, *, mode: str = "all") -> RemovableHandle:
    """Call ``fn`` when the gradients of several tensors are known.

    Args:
        tensors: tensors that require gradients.
        fn: with ``mode="all"`` called with a list of gradients (None for tensors that the backward pass does not reach)
            once all of them are known; with ``mode="any"`` called with the first gradient of a pass.

    Raises:
        ValueError: another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if any(not each.requires_grad for each in tensors):
        raise AssertionError("Expected gradient function to be set")
    watch = _all_known(tensors, fn) if mode == "all" else _first_known(fn)
    return _MultiHandle([each.register_hook(watch(number)) for number, each in enumerate(tensors)])


def _all_known(tensors: Sequence[Any], function: Any) -> Any:
    lock = threading.Lock()
    nodes = [each._gradient_edge()[0] for each in tensors]
    passes: dict[int, list[Any]] = {}

    def watch(number: int) -> Any:
        def hook(gradient: Any) -> None:
            task = running.task
            with lock:
                state = passes.get(task.number)
                if state is None:
                    state = passes[task.number] = [sum(map(task.will_visit, nodes)), [None] * len(nodes)]
                state[0] -= 1
                state[1][number] = gradient
                if state[0]:
                    return
                del passes[task.number]
            function(state[1])

        return hook

    return watch


def _first_known(function: Any) -> Any:
    lock = threading.Lock()

    def watch(number: int) -> Any:

        def hook(gradient: Any) -> None:
            with lock:
                if lock in running.task.told:
                    return
                running.task.told.add(lock)
            function(gradient)

        return hook

    return watch
