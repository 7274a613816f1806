"""``torch.utils._python_dispatch``: modes that answer operations, and what classes that do are asked."""

from __future__ import annotations

from collections.abc import Callable

from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import count_modes as _count_modes
from webgpu_torch_core.dispatch.torch_dispatch import Value
from webgpu_torch_core.dispatch.torch_dispatch import dispatch_modes as _get_current_dispatch_mode_stack
from webgpu_torch_core.dispatch.torch_dispatch import pop_mode as _pop_mode
from webgpu_torch_core.dispatch.torch_dispatch import push_mode as _push_mode


class TorchDispatchMode:
    """A region in which every operation goes to :meth:`__torch_dispatch__`, whatever its arguments.

    Inside its own handler a mode is closed, so that the handler may call the operation it was given.
    """

    def __torch_dispatch__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Answer an operation.

        Raises:
            NotImplementedError: the subclass does not define it.
        """
        raise NotImplementedError

    def __enter__(self) -> Value:
        _count_modes(1)
        _push_mode(self)
        return self

    def __exit__(self, *_: object) -> None:
        _pop_mode()
        _count_modes(-1)

    @classmethod
    def push(cls, *args: Value, **kwargs: Value) -> Value:
        """Return a mode, for ``with``."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that lets every operation through."""

    def __torch_dispatch__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Call the operation."""
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode() -> Value:
    """Return the innermost open mode, None if there is none."""
    return (_get_current_dispatch_mode_stack() or [None])[-1]


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether a value is a tensor of a class that says how it is taken apart into other tensors."""
    return _takes_apart(type(t)) and isinstance(t, Tensor)


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether a class of tensors says how they are taken apart into others."""
    return _takes_apart(t) and issubclass(t, Tensor)


def _takes_apart(kind: type) -> bool:
    return callable(_declared(kind, "__tensor_flatten__")) and callable(_declared(kind, "__tensor_unflatten__"))


def _declared(kind: type, name: str) -> object:
    found = getattr(kind, name, None)
    return None if getattr(found, "is_stub", False) else found


def transform_subclass(
    t: Value, callback: Callable[[str, Value], Value], outer_size: Value = None, outer_stride: Value = None
) -> Value:
    """Return a tensor of the same class made of what ``callback(name, inner)`` makes of the tensors it is taken apart into."""
    names, context = t.__tensor_flatten__()
    made = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(made, context, size, stride)


def return_and_correct_aliasing(func: Value, args: Value, kwargs: Value, out: Value) -> Value:
    """Return a handler's result; of an operation that writes into an argument, that argument."""
    for argument, value in zip(func._schema.arguments, args, strict=False):
        if argument.is_write and len(func._schema.returns) == 1:
            return value
    return kwargs["out"] if kwargs and "out" in kwargs else out
